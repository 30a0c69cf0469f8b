"""All ranks ask whether steer.h5 is there and open it together: first_together.py asks|opens.

Run with two ranks, with steer.h5 an in-port whose first open finds nothing.
"""

import sys
import time
from pathlib import Path

from mpi4py import MPI

comm = MPI.COMM_WORLD


def write_sim(step: int) -> None:
    """Write sim.h5 together."""
    file = MPI.File.Open(comm, "sim.h5", MPI.MODE_CREATE | MPI.MODE_WRONLY)
    file.Write_at_all(4 * comm.rank, step.to_bytes(4, "little"))
    file.Close()


for step in range(3):
    if step == 0:
        assert not Path("steer.h5").exists()
        comm.Barrier()
        if sys.argv[1] == "opens":
            try:
                MPI.File.Open(comm, "steer.h5", MPI.MODE_RDONLY)
                sys.exit("took a step")
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_NO_SUCH_FILE
    else:
        limit = time.monotonic() + 10
        while not Path("steer.h5").exists():
            if time.monotonic() > limit:
                print(f"rank {comm.rank} does not see steer.h5 in iteration {step}", file=sys.stderr)
                comm.Abort(3)
            time.sleep(0.01)
        file = MPI.File.Open(comm, "steer.h5", MPI.MODE_RDONLY)
        data = bytearray(4)
        file.Read_at_all(0, data)
        file.Close()
        if comm.rank == 0:
            with Path("got.txt").open("a") as out:
                print([int.from_bytes(data, "little")], file=out)
    write_sim(step)
