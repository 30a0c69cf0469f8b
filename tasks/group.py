"""A group of ranks, as MPI has them: one process, the ranks of an MPI communicator, or those of torch.distributed.

Over MPI, waiting sleeps between two looks, so that a rank that still computes keeps its core to itself; gloo's sockets
sleep by themselves.
"""

from __future__ import annotations

import ctypes
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 20e-6, 1e-3
_SHORT = 1016
"""Bytes of a value that are gathered by one message; longer ones take a second one."""


@contextmanager
def _waiting() -> Iterator[None]:
    """While it lasts, the run knows that this rank waits for others of its task; outside of one, nobody is there to
    know."""
    set_waiting = getattr(ctypes.CDLL(None), "wilkins_ranks_wait", None)
    if set_waiting is None:
        yield
        return
    set_waiting(1)
    try:
        yield
    finally:
        set_waiting(0)


class Group:
    """A group of one process, and what every group can do. All methods are collective but for `exchange` and
    `give_up_after`."""

    rank = 0
    size = 1
    comm: MPI.Intracomm | None = None
    """The group's communicator, if it is one of MPI."""

    def allgather(self, value: T) -> list[T]:
        """The values of all ranks, on every rank; a value is small, and can be pickled."""
        return [value]

    def alltoall(self, numbers: Sequence[int]) -> list[int]:
        """Give each rank its number; the numbers that all ranks have for this one."""
        return list(numbers)

    def exchange(self, send: Mapping[int, NDArray[Any]], receive: Mapping[int, NDArray[Any]]) -> None:
        """Send arrays to some ranks and receive some, by rank; returns when all is through.

        Only those ranks take part that are named by each other, at most once each, with arrays of one shape and type.
        """
        assert not send and not receive

    def give_up_after(self, seconds: float) -> None:
        """From now on no wait over MPI lasts longer than until then; `TimeoutError` ends it."""

    def dup(self) -> Group:
        """The same ranks, whose messages never meet those of this group."""
        return self

    def free(self) -> None:
        """Free the group. Collective."""


class MPIGroup(Group):
    """The ranks of an mpi4py communicator. It is duplicated: messages never meet those of the program."""

    comm: MPI.Intracomm

    def __init__(self, comm: MPI.Intracomm) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self.comm = comm.Dup()
        self.rank, self.size = self.comm.rank, self.comm.size
        self._deadline = float("inf")

    def allgather(self, value: T) -> list[T]:
        mine = np.frombuffer(pickle.dumps(value), np.uint8)
        head = np.zeros(8 + _SHORT, np.uint8)
        head[:8].view(np.int64)[0] = len(mine)
        head[8 : 8 + len(mine)] = mine[:_SHORT]
        heads = np.empty((self.size, len(head)), np.uint8)
        self._wait([self.comm.Iallgather(head, heads)])
        lengths = heads[:, :8].copy().view(np.int64)[:, 0]
        if lengths.max() <= _SHORT:
            parts = [one[8 : 8 + length] for one, length in zip(heads, lengths, strict=True)]
        else:
            every, ends, kind = np.empty(int(lengths.sum()), np.uint8), np.cumsum(lengths), self._mpi.BYTE
            counts, displacements = lengths.tolist(), (ends - lengths).tolist()
            self._wait([self.comm.Iallgatherv([mine, kind], [every, counts, displacements, kind])])
            parts = np.split(every, ends[:-1])
        return [pickle.loads(part.data) for part in parts]

    def alltoall(self, numbers: Sequence[int]) -> list[int]:
        given, got = np.array(numbers, np.int64), np.empty(self.size, np.int64)
        self._wait([self.comm.Ialltoall(given, got)])
        found: list[int] = got.tolist()
        return found

    def exchange(self, send: Mapping[int, NDArray[Any]], receive: Mapping[int, NDArray[Any]]) -> None:
        requests = []
        for arrays, begin in ((receive, self.comm.Irecv), (send, self.comm.Isend)):
            for rank, array in arrays.items():
                # Counted in rows, counts stay small: MPI's are of 32 bits.
                row = self._mpi.BYTE.Create_contiguous(array[:1].nbytes).Commit()
                requests.append(begin([array, len(array), row], rank))
                row.Free()
        self._wait(requests)

    def give_up_after(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def dup(self) -> MPIGroup:
        return MPIGroup(self.comm)

    def free(self) -> None:
        self.comm.Free()

    def _wait(self, requests: list[MPI.Request]) -> None:
        if self._mpi.Request.Testall(requests):
            return
        pause = _FIRST_PAUSE
        with _waiting():
            while not self._mpi.Request.Testall(requests):
                if time.monotonic() > self._deadline:
                    raise TimeoutError("the other ranks did not answer")
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)


class TorchGroup(Group):
    """The ranks of torch.distributed's default group, or of a duplicate of it. Nothing else may use it meanwhile."""

    def __init__(self, group: Any = None) -> None:
        import torch.distributed as dist

        self._dist = dist
        self._group = group
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def allgather(self, value: T) -> list[T]:
        found = [value] * self.size
        with _waiting():
            self._dist.all_gather_object(found, value, self._group)
        return found

    def alltoall(self, numbers: Sequence[int]) -> list[int]:
        import torch

        given = torch.tensor(numbers)
        got = torch.empty_like(given)
        with _waiting():
            self._dist.all_to_all_single(got, given, group=self._group)
        found: list[int] = got.tolist()
        return found

    def exchange(self, send: Mapping[int, NDArray[Any]], receive: Mapping[int, NDArray[Any]]) -> None:
        import torch

        works = [self._dist.irecv(torch.from_numpy(array), rank, self._group) for rank, array in receive.items()]
        works += [self._dist.isend(torch.from_numpy(array), rank, self._group) for rank, array in send.items()]
        with _waiting():
            for work in works:
                assert work is not None  # this rank is in the group
                work.wait()

    def dup(self) -> TorchGroup:
        return TorchGroup(self._dist.new_group(backend="gloo"))

    def free(self) -> None:
        if self._group is not None:
            self._dist.destroy_process_group(self._group)


def first_in_trouble(troubles: Sequence[str]) -> int | None:
    """The first rank that reports trouble; None if all is well."""
    return next((rank for rank, trouble in enumerate(troubles) if trouble), None)


def first_trouble(troubles: Sequence[str]) -> str:
    """The trouble of that rank, with its number if there are several; empty if all is well."""
    rank = first_in_trouble(troubles)
    if rank is None:
        return ""
    return f"rank {rank}: {troubles[rank]}" if len(troubles) > 1 else troubles[rank]
