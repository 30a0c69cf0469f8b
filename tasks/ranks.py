"""The ranks of a ready-made task: MPI where the task has several, nothing of it where it has one."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import termios
import time
from typing import TYPE_CHECKING, Any, Protocol

from wilkins.tasks.collectives import first_in_trouble
from wilkins.tasks.errors import TaskError, ToldElsewhere

if TYPE_CHECKING:
    from mpi4py import MPI

_ERRORS = 2
"""The descriptor of what a process says of errors."""

_PATIENCE = 1.0
"""Seconds in which what a rank has said is to be fetched, before the rank ends all of them."""

_STARTED_BY_MPI = ("PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE")


class Ranks(Protocol):
    """What the ranks of a task do together; small values only."""

    rank: int
    size: int
    comm: MPI.Intracomm | None
    """Their communicator; None of one rank without MPI."""

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, on every rank."""

    def end(self, code: int) -> None:
        """Ends all ranks, also those that wait for this one."""


class Alone:
    """One rank, without MPI."""

    rank = 0
    size = 1
    comm: MPI.Intracomm | None = None

    def gather(self, value: Any) -> list[Any]:
        """The value."""
        return [value]

    def end(self, code: int) -> None:
        """Ends the process."""
        raise SystemExit(code)


class Several:
    """The ranks of an MPI task."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._world = MPI.COMM_WORLD
        self.comm: MPI.Intracomm | None = self._world
        self.rank = self._world.rank
        self.size = self._world.size

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, on every rank."""
        found: list[Any] = self._world.allgather(value)
        return found

    def end(self, code: int) -> None:
        """Ends all ranks, also those that wait for this one.

        MPICH's mpiexec forgets what still lies in a rank's pipe when the rank aborts (7 of 300 messages, measured), so
        that is waited for.
        """
        until = time.monotonic() + _PATIENCE
        while _unread(_ERRORS) and time.monotonic() < until:
            time.sleep(0.001)
        self._world.Abort(code)


def _unread(descriptor: int) -> bool:
    """Whether a pipe holds what nobody has fetched yet; of anything else, or what is closed: no."""
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return False
        (length,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    except OSError:
        return False
    return bool(length)


def ranks() -> Ranks:
    """The ranks of this task. The launcher tells how many there are; without one, the MPI that started the process."""
    told = os.environ.get("WORLD_SIZE")
    several = int(told) > 1 if told else any(name in os.environ for name in _STARTED_BY_MPI)
    return Several() if several else Alone()


def agree(ranks: Ranks, trouble: str) -> None:
    """Goes on if no rank has trouble; all ranks call this together.

    Raises:
        TaskError: on the first rank that has some, with its own.
        ToldElsewhere: on the others then.
    """
    found = ranks.gather(trouble)
    first = first_in_trouble(found)
    if first is not None:
        raise TaskError(trouble) if first == ranks.rank else ToldElsewhere(f"rank {first} stopped: {found[first]}")
