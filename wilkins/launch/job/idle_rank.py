"""An idle rank, for a task that does not know MPI: joins the job's initialisation, sleeps, joins its finalisation.

Run as a script, with the MPI library to use as its argument, and kept asleep by its standard input until that ends.
"""

import ctypes
import sys

_THREAD_MULTIPLE = {"libmpi_abi": 4096}


def main(library: str) -> int:
    """Be a rank of the job until standard input ends."""
    mpi = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    level = next((value for name, value in _THREAD_MULTIPLE.items() if name in library), 3)
    if mpi.MPI_Init_thread(None, None, level, ctypes.byref(ctypes.c_int())):
        return 1
    sys.stdin.buffer.read()
    return 1 if mpi.MPI_Finalize() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
