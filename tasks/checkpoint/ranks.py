"""The ranks that write a checkpoint together: alone, over MPI, or over torch.distributed. They exchange short texts,
and the nodes' first ranks pieces of data.

A version is agreed on in the background while the program talks to its own ranks, so each `Ranks` has a communicator
of its own, and waiting sleeps rather than spins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.state.sources import Bytes

if TYPE_CHECKING:
    from mpi4py import MPI

_FIRST_PAUSE, _LONGEST_PAUSE = 20e-6, 2e-3


class Ranks(Protocol):
    """What the ranks do together. All methods are collective, but for `exchange`."""

    rank: int
    size: int

    def tell(self, text: str) -> list[str]:
        """Every rank's text, on every rank."""

    def exchange(self, send: Mapping[int, Bytes], receive: Mapping[int, Bytes]) -> None:
        """Send bytes to some ranks and receive from some, by rank; returns when all is through.

        Only those ranks take part that are named by each other, at most once each, with as many bytes on both sides.
        """

    def another(self) -> Ranks:
        """The same ranks with a communicator of its own."""

    def close(self) -> None:
        """Free the communicator."""


class Alone:
    """One process."""

    rank = 0
    size = 1

    def tell(self, text: str) -> list[str]:
        return [text]

    def exchange(self, send: Mapping[int, Bytes], receive: Mapping[int, Bytes]) -> None:
        assert not send and not receive

    def another(self) -> Alone:
        return self

    def close(self) -> None:
        pass


class MPIRanks:
    """The ranks of an mpi4py communicator, which is duplicated."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        from mpi4py import MPI

        if comm.size > 1 and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise CheckpointError(
                "checkpoints are agreed on in the background, but MPI was started without MPI_THREAD_MULTIPLE; set "
                "mpi4py.rc.thread_level = 'multiple' before mpi4py.MPI is imported"
            )
        self._mpi = MPI
        self._comm = comm.Dup()
        self.rank, self.size = self._comm.rank, self._comm.size

    def tell(self, text: str) -> list[str]:
        mine = np.frombuffer(text.encode(), np.uint8)
        lengths = np.empty(self.size, np.int64)
        self._wait(self._comm.Iallgather(np.array([len(mine)], np.int64), lengths))
        ends = np.cumsum(lengths)
        every = np.empty(int(ends[-1]), np.uint8)
        kind = self._mpi.BYTE
        self._wait(
            self._comm.Iallgatherv([mine, kind], [every, lengths.tolist(), (ends - lengths).tolist(), kind]),
        )
        return [part.tobytes().decode() for part in np.split(every, ends[:-1])]

    def _wait(self, request: MPI.Request) -> None:
        pause = _FIRST_PAUSE
        while not request.Test():
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    def exchange(self, send: Mapping[int, Bytes], receive: Mapping[int, Bytes]) -> None:
        kind = self._mpi.BYTE
        requests = [self._comm.Irecv([data, kind], source=rank) for rank, data in receive.items()]
        requests += [self._comm.Isend([data, kind], dest=rank) for rank, data in send.items()]
        pause = _FIRST_PAUSE
        while not self._mpi.Request.Testall(requests):
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    def another(self) -> MPIRanks:
        return MPIRanks(self._comm)

    def close(self) -> None:
        self._comm.Free()


class TorchRanks:
    """The ranks of torch.distributed's default group, over a gloo group of their own: sockets, which sleep."""

    def __init__(self) -> None:
        import torch.distributed as dist

        self._dist = dist
        self._group = dist.new_group(backend="gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def tell(self, text: str) -> list[str]:
        import torch

        mine = torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8)
        length = torch.tensor([len(text.encode())])
        lengths = [torch.zeros_like(length) for _ in range(self.size)]
        self._dist.all_gather(lengths, length, group=self._group)
        longest = max(1, *(int(one) for one in lengths))
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(mine)] = mine[:longest]
        every = [torch.empty_like(padded) for _ in range(self.size)]
        self._dist.all_gather(every, padded, group=self._group)
        return [bytes(one[: int(n)].tolist()).decode() for one, n in zip(every, lengths, strict=True)]

    def exchange(self, send: Mapping[int, Bytes], receive: Mapping[int, Bytes]) -> None:
        import torch

        works = [self._dist.irecv(torch.from_numpy(data), rank, self._group) for rank, data in receive.items()]
        works += [self._dist.isend(torch.from_numpy(data), rank, self._group) for rank, data in send.items()]
        for work in works:
            assert work is not None  # this rank is in the group
            work.wait()

    def another(self) -> TorchRanks:
        return TorchRanks()

    def close(self) -> None:
        self._dist.destroy_process_group(self._group)


class Silent:
    """Ranks that say nothing else to each other until a version is there: what they have to tell texts serves for it.

    They keep no partners.
    """

    def __init__(self, rank: int, size: int, tell: Callable[[str], list[str]]) -> None:
        self.rank, self.size = rank, size
        self._tell = tell

    def tell(self, text: str) -> list[str]:
        return self._tell(text)

    def exchange(self, send: Mapping[int, Bytes], receive: Mapping[int, Bytes]) -> None:
        assert not send and not receive

    def another(self) -> Silent:
        return self

    def close(self) -> None:
        pass


def first_trouble(told: Sequence[str]) -> str:
    """The trouble of the first rank that has any, with its number if there are several; else nothing."""
    found = next(((rank, one) for rank, one in enumerate(told) if one), None)
    if found is None:
        return ""
    return f"rank {found[0]}: {found[1]}" if len(told) > 1 else found[1]


def together(ranks: Ranks, act: Callable[[], object], named: Callable[[OSError], str]) -> None:
    """Do something on all ranks, and go on when all have done it. Collective.

    Args:
        named: what to tell of the system's refusals.

    Raises:
        CheckpointError: it failed on one of them; the same on all.
    """
    trouble = ""
    try:
        act()
    except CheckpointError as error:
        trouble = str(error)
    except OSError as error:
        trouble = named(error)
    if trouble := first_trouble(ranks.tell(trouble)):
        raise CheckpointError(trouble)


def make_ranks(ranks: Any) -> Ranks:
    """From None (one process), an mpi4py communicator, or the word `torch` (torch.distributed, initialised)."""
    if ranks is None:
        return Alone()
    if ranks == "torch":
        return TorchRanks()
    if hasattr(ranks, "Iallgather"):
        return MPIRanks(ranks)
    if hasattr(ranks, "tell"):
        found: Ranks = ranks
        return found
    raise CheckpointError(
        f"ranks={ranks!r} says nothing of the ranks; give None (one process), an mpi4py communicator such as "
        "MPI.COMM_WORLD, or 'torch' for those of torch.distributed"
    )
