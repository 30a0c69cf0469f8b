"""What ranks tell each other: counts, who wants which samples, and the samples, as plain buffers over MPI.

Waiting sleeps between polls, so that a rank that is still training keeps its core to itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.continual.rehearsal.draws import Ints

if TYPE_CHECKING:
    from mpi4py import MPI

HostRows = NDArray[np.uint8]
_FIRST_PAUSE, _LONGEST_PAUSE = 20e-6, 1e-3
_REQUEST, _ROWS = 1, 2
_SHORT = 63


@dataclass(frozen=True, slots=True)
class Fetched:
    """The samples of other ranks, and what it took to get them."""

    rows: dict[int, HostRows]
    """By rank; only ranks that were asked."""
    messages: int = 0
    """Messages with samples that came in: one for each rank asked."""
    sent: int = 0
    """Bytes of samples sent to ranks that asked here."""


class Exchange(Protocol):
    """The ranks that share a buffer. All methods are collective."""

    rank: int
    size: int

    def gather(self, values: Sequence[int]) -> list[Ints]:
        """Every rank's list of numbers; lengths may differ."""

    def tell(self, text: str) -> list[str]:
        """Every rank's text."""

    def fetch(self, wanted: Sequence[Ints], answer: Callable[[Ints], HostRows], row_bytes: int) -> Fetched:
        """Get samples: for each rank the rows of `wanted`, two numbers per sample; `answer` serves the other ranks."""

    def give_up_after(self, seconds: float) -> None:
        """From now on no wait lasts longer than until then; `TimeoutError` ends it."""

    def close(self) -> None:
        """Free what was set up, when all ranks are here."""


class Alone:
    """One process, without MPI."""

    rank = 0
    size = 1

    def gather(self, values: Sequence[int]) -> list[Ints]:
        return [np.array(values, np.int64)]

    def tell(self, text: str) -> list[str]:
        return [text]

    def fetch(self, wanted: Sequence[Ints], answer: Callable[[Ints], HostRows], row_bytes: int) -> Fetched:  # noqa: ARG002
        return Fetched({})

    def give_up_after(self, seconds: float) -> None:
        pass

    def close(self) -> None:
        pass


class Ranks:
    """The ranks of a communicator. It is duplicated: messages of the buffer never meet those of the program."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = comm.Dup()
        self.rank = self._comm.rank
        self.size = self._comm.size
        self._deadline = float("inf")
        self._row_type: MPI.Datatype | None = None
        self._row_bytes = 0

    def gather(self, values: Sequence[int]) -> list[Ints]:
        """One message each for short lists, which also tells that a list is longer; then a second one."""
        mine = np.array(values, np.int64)
        head = np.zeros(1 + _SHORT, np.int64)
        head[0] = len(mine)
        head[1 : 1 + min(len(mine), _SHORT)] = mine[:_SHORT]
        heads = np.empty((self.size, len(head)), np.int64)
        self._wait([self._comm.Iallgather(head, heads)])
        if heads[:, 0].max() <= _SHORT:
            return [one[1 : 1 + one[0]] for one in heads]
        return self._gather(mine, heads[:, 0])

    def tell(self, text: str) -> list[str]:
        mine = np.frombuffer(text.encode(), np.uint8)
        lengths = np.empty(self.size, np.int64)
        self._wait([self._comm.Iallgather(np.array([len(mine)], np.int64), lengths)])
        return [part.tobytes().decode() for part in self._gather(mine, lengths)]

    def _gather(self, mine: NDArray[Any], lengths: Ints) -> list[NDArray[Any]]:
        every = np.empty(int(lengths.sum()), mine.dtype)
        ends = np.cumsum(lengths)
        kind = self._mpi.INT64_T if mine.dtype == np.int64 else self._mpi.BYTE
        self._wait([self._comm.Iallgatherv([mine, kind], [every, lengths.tolist(), (ends - lengths).tolist(), kind])])
        return np.split(every, ends[:-1])

    def fetch(self, wanted: Sequence[Ints], answer: Callable[[Ints], HostRows], row_bytes: int) -> Fetched:
        ask = np.array([0 if rank == self.rank else len(rows) for rank, rows in enumerate(wanted)], np.int64)
        asked = np.empty_like(ask)
        self._wait([self._comm.Ialltoall(ask, asked)])
        owners, askers = np.flatnonzero(ask).tolist(), np.flatnonzero(asked).tolist()
        row = self._row(row_bytes)
        lists = {rank: np.empty((int(asked[rank]), 2), np.int64) for rank in askers}
        rows = {rank: np.empty((int(ask[rank]), row_bytes), np.uint8) for rank in owners}
        coming = [self._comm.Irecv([rows[rank], len(rows[rank]), row], rank, _ROWS) for rank in owners]
        going = [self._comm.Isend(np.ascontiguousarray(wanted[rank]), rank, _REQUEST) for rank in owners]
        self._wait([self._comm.Irecv(lists[rank], rank, _REQUEST) for rank in askers])
        answers = {rank: answer(lists[rank]) for rank in askers}
        going += [self._comm.Isend([answers[rank], len(answers[rank]), row], rank, _ROWS) for rank in askers]
        self._wait([*coming, *going])
        return Fetched(rows, len(owners), sum(part.nbytes for part in answers.values()))

    def _row(self, row_bytes: int) -> MPI.Datatype:
        """One row as a datatype, so that counts are in rows and stay small."""
        if self._row_type is None or self._row_bytes != row_bytes:
            self._row_type = self._mpi.BYTE.Create_contiguous(row_bytes).Commit()
            self._row_bytes = row_bytes
        return self._row_type

    def _wait(self, requests: list[MPI.Request]) -> None:
        pause = _FIRST_PAUSE
        while not self._mpi.Request.Testall(requests):
            if time.monotonic() > self._deadline:
                raise TimeoutError("the other ranks did not answer")
            time.sleep(pause)
            pause = min(3 * pause, _LONGEST_PAUSE)

    def give_up_after(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def close(self) -> None:
        if self._row_type is not None:
            self._row_type.Free()
        self._comm.Free()


def make_exchange(comm: MPI.Intracomm | None, *, threads: bool) -> Exchange:
    """The exchange over a communicator; without one, this process is alone.

    Raises:
        RuntimeError: `threads` is asked for, which the MPI was not started with.
    """
    if comm is None:
        return Alone()
    from mpi4py import MPI

    if threads and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise RuntimeError(
            "the rehearsal buffer exchanges samples in a thread, but MPI was started without MPI_THREAD_MULTIPLE: set "
            "mpi4py.rc.thread_level = 'multiple' before mpi4py.MPI is imported, or the option background=False"
        )
    return Ranks(comm)
