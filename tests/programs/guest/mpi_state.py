"""Uses files by MPI-IO, and says which calls change the handlers of errors or the signal mask."""

import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI

COMM = MPI.COMM_WORLD
KNOWN = (MPI.ERRORS_RETURN, MPI.ERRORS_ARE_FATAL)
WRITES = sys.argv[1] == "write"
MOVES = "Write_at_all Write_at Write_all Write" if WRITES else "Read_at_all Read_at Read_all Read"
ASKS = "Get_size Get_amode Get_group Get_view Get_position Sync Get_atomicity Get_errhandler"


def state() -> tuple[list[int], list[int]]:
    """Which handler the world, this process and files have; which signals are blocked."""
    handlers = [thing.Get_errhandler() for thing in (COMM, MPI.COMM_SELF, MPI.FILE_NULL)]
    return [KNOWN.index(one) for one in handlers], sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def call(what: str, made: Callable[[], Any]) -> Any:
    """What a call answers; what it changes is told."""
    before = state()
    try:
        return made()
    except MPI.Exception:
        return None
    finally:
        if state() != before:
            print("changed by", what, before, state(), flush=True)


def use(name: str) -> None:
    amode = MPI.MODE_CREATE | MPI.MODE_WRONLY if WRITES else MPI.MODE_RDONLY
    file = call("open", lambda: MPI.File.Open(COMM, name, amode))
    if file is None:
        print("no", name, flush=True)
        return
    data = np.zeros(1000) + COMM.rank
    at = 8000 * COMM.rank
    for what in MOVES.split():
        call(what, partial(getattr(file, what), *((at,) if "_at" in what else ()), data))
    for what in ASKS.split():
        call(what, getattr(file, what))
    call("Set_view", lambda: file.Set_view(at, MPI.DOUBLE))
    call("Set_size", lambda: file.Set_size(16000))
    call("Preallocate", lambda: file.Preallocate(16000))
    call("Seek", lambda: file.Seek(0))
    call("Set_errhandler", lambda: file.Set_errhandler(MPI.ERRORS_RETURN))
    call("Iwrite", lambda: (file.Iwrite(data) if WRITES else file.Iread(data)).Wait())
    call("Close", file.Close)


COMM.Set_errhandler(MPI.ERRORS_RETURN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
for each in ("port0.dat", "port1.dat", "plain0.raw"):
    use(each)
    COMM.Barrier()
call("delete", lambda: MPI.File.Delete("none.dat"))
print("done", flush=True)
