"""What ranks tell each other: counts, who wants which samples, and the samples, as plain buffers over MPI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks import collectives
from wilkins.tasks.collectives import OverMPI, Telling
from wilkins.tasks.continual.rehearsal.draws import Ints

if TYPE_CHECKING:
    from mpi4py import MPI

HostRows = NDArray[np.uint8]
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


class Exchange(Telling, Protocol):
    """The ranks that share a buffer. All methods are collective."""

    def gather(self, values: Sequence[int]) -> list[Ints]:
        """Every rank's list of numbers; lengths may differ."""

    def fetch(self, wanted: Sequence[Ints], answer: Callable[[Ints], HostRows], row_bytes: int) -> Fetched:
        """Get samples: for each rank the rows of `wanted`, two numbers per sample; `answer` serves the other ranks."""

    def give_up_after(self, seconds: float) -> None:
        """From now on no wait lasts longer than until then; `TimeoutError` ends it."""

    def close(self) -> None:
        """Free what was set up, when all ranks are here."""


class Alone(collectives.Alone):
    """One process, without MPI."""

    def gather(self, values: Sequence[int]) -> list[Ints]:
        return [np.array(values, np.int64)]

    def fetch(self, wanted: Sequence[Ints], answer: Callable[[Ints], HostRows], row_bytes: int) -> Fetched:  # noqa: ARG002
        return Fetched({})

    def give_up_after(self, seconds: float) -> None:
        pass


class Ranks(OverMPI):
    """The ranks of a communicator."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        super().__init__(comm)
        self._row_type: MPI.Datatype | None = None
        self._row_bytes = 0

    def gather(self, values: Sequence[int]) -> list[Ints]:
        """One message each for short lists, which also tells that a list is longer; then a second one."""
        mine = np.array(values, np.int64)
        head = np.zeros(1 + _SHORT, np.int64)
        head[0] = len(mine)
        head[1 : 1 + min(len(mine), _SHORT)] = mine[:_SHORT]
        heads = np.empty((self.size, len(head)), np.int64)
        self.wait([self.comm.Iallgather(head, heads)])
        if heads[:, 0].max() <= _SHORT:
            return [one[1 : 1 + one[0]] for one in heads]
        return self.parts(mine, heads[:, 0])

    def fetch(self, wanted: Sequence[Ints], answer: Callable[[Ints], HostRows], row_bytes: int) -> Fetched:
        ask = np.array([0 if rank == self.rank else len(rows) for rank, rows in enumerate(wanted)], np.int64)
        asked = np.empty_like(ask)
        self.wait([self.comm.Ialltoall(ask, asked)])
        owners, askers = np.flatnonzero(ask).tolist(), np.flatnonzero(asked).tolist()
        row = self._row(row_bytes)
        lists = {rank: np.empty((int(asked[rank]), 2), np.int64) for rank in askers}
        rows = {rank: np.empty((int(ask[rank]), row_bytes), np.uint8) for rank in owners}
        coming = [self.comm.Irecv([rows[rank], len(rows[rank]), row], rank, _ROWS) for rank in owners]
        going = [self.comm.Isend(np.ascontiguousarray(wanted[rank]), rank, _REQUEST) for rank in owners]
        self.wait([self.comm.Irecv(lists[rank], rank, _REQUEST) for rank in askers])
        answers = {rank: answer(lists[rank]) for rank in askers}
        going += [self.comm.Isend([answers[rank], len(answers[rank]), row], rank, _ROWS) for rank in askers]
        self.wait([*coming, *going])
        return Fetched(rows, len(owners), sum(part.nbytes for part in answers.values()))

    def _row(self, row_bytes: int) -> MPI.Datatype:
        """One row as a datatype, so that counts are in rows and stay small."""
        if self._row_type is None or self._row_bytes != row_bytes:
            self._row_type = self.mpi.BYTE.Create_contiguous(row_bytes).Commit()
            self._row_bytes = row_bytes
        return self._row_type

    def close(self) -> None:
        if self._row_type is not None:
            self._row_type.Free()
        super().close()


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
