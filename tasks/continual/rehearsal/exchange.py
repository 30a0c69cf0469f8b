"""Samples between ranks: who wants which, and the samples, as plain buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.continual.rehearsal.draws import Ints
from wilkins.tasks.group import Group, MPIGroup

if TYPE_CHECKING:
    from mpi4py import MPI

HostRows = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The samples of other ranks, and what it took to get them."""

    rows: dict[int, HostRows]
    """By rank; only ranks that were asked, each of which has sent one message."""
    sent: int
    """Bytes of samples sent to ranks that asked here."""


def fetch(group: Group, wanted: Sequence[Ints], answer: Callable[[Ints], HostRows], row_bytes: int) -> Fetched:
    """Get samples: for each rank the rows of `wanted`, two numbers per sample; `answer` serves the other ranks.
    Collective."""
    asks = {rank: np.ascontiguousarray(rows) for rank, rows in enumerate(wanted) if rank != group.rank and len(rows)}
    asked = group.alltoall([len(asks.get(rank, ())) for rank in range(group.size)])
    lists = {rank: np.empty((count, 2), np.int64) for rank, count in enumerate(asked) if count}
    group.exchange(asks, lists)
    answers = {rank: answer(rows) for rank, rows in lists.items()}
    rows = {rank: np.empty((len(own), row_bytes), np.uint8) for rank, own in asks.items()}
    group.exchange(answers, rows)
    return Fetched(rows, sum(part.nbytes for part in answers.values()))


def make_group(comm: MPI.Intracomm | None, *, threads: bool) -> Group:
    """The ranks that share a buffer, over a communicator; without one, this process is alone.

    Raises:
        RuntimeError: `threads` is asked for, which the MPI was not started with.
    """
    if comm is None:
        return Group()
    from mpi4py import MPI

    if threads and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise RuntimeError(
            "the rehearsal buffer exchanges samples in a thread, but MPI was started without MPI_THREAD_MULTIPLE: set "
            "mpi4py.rc.thread_level = 'multiple' before mpi4py.MPI is imported, or the option background=False"
        )
    return MPIGroup(comm)
