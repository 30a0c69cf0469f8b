"""The ranks of a ready-made task: MPI where the task has several, nothing of it where it has one."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import termios
import time

from wilkins.tasks.errors import ReportedElsewhere, TaskError
from wilkins.tasks.group import Group, MPIGroup, first_in_trouble
from wilkins.tasks.started_by import ADDRESS

_ERRORS = 2
"""The descriptor of the error stream."""

_PATIENCE = 1.0
"""Seconds to wait until a rank's messages are read, before the rank aborts all."""

_STARTED_BY_MPI = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE")


def _unread(descriptor: int) -> bool:
    """Whether a pipe holds unread bytes; false for anything else, or a closed descriptor."""
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return False
        (length,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    except OSError:
        return False
    return bool(length)


def ranks() -> Group:
    """The ranks of this task. Their number is the launcher's; without one, that of the MPI that started the process.

    Ranks that go on without each other are no group: each is alone, but for what `wilkins.tasks.elastic` does.
    """
    if ADDRESS in os.environ:
        return Group()
    size = os.environ.get("WORLD_SIZE")
    several = int(size) > 1 if size else any(name in os.environ for name in _STARTED_BY_MPI)
    if not several:
        return Group()
    from mpi4py import MPI

    return MPIGroup(MPI.COMM_WORLD)


def end(ranks: Group, code: int) -> None:
    """End all ranks of the task, also those that wait for this one.

    MPICH's mpiexec forgets what still lies in a rank's pipe when the rank aborts (7 of 300 messages, measured), so
    that is waited for.
    """
    if ranks.comm is None:
        raise SystemExit(code)
    from mpi4py import MPI

    until = time.monotonic() + _PATIENCE
    while _unread(_ERRORS) and time.monotonic() < until:
        time.sleep(0.001)
    MPI.COMM_WORLD.Abort(code)


def agree(ranks: Group, trouble: str) -> None:
    """Goes on if no rank has trouble; all ranks call this together.

    Raises:
        TaskError: on the first rank that has some, with its own.
        ReportedElsewhere: on the others then.
    """
    found = ranks.allgather(trouble)
    first = first_in_trouble(found)
    if first is not None:
        raise TaskError(trouble) if first == ranks.rank else ReportedElsewhere(f"rank {first} stopped: {found[first]}")
