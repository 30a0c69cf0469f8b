"""What ranks tell each other, over MPI or torch.distributed: every rank's text, on every rank; and who has trouble.

Over MPI, waiting sleeps between two looks, so that a rank that still computes keeps its core to itself; gloo's sockets
sleep by themselves.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mpi4py import MPI

_FIRST_PAUSE, _LONGEST_PAUSE = 20e-6, 1e-3


class Telling(Protocol):
    """Ranks that tell each other texts."""

    rank: int
    size: int

    def tell(self, text: str) -> list[str]:
        """Every rank's text, on every rank. Collective."""


class Alone:
    """One process."""

    rank = 0
    size = 1

    def tell(self, text: str) -> list[str]:
        return [text]

    def close(self) -> None:
        """Nothing was set up."""


class OverMPI:
    """The ranks of an mpi4py communicator. It is duplicated: what is told never meets messages of the program."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        from mpi4py import MPI

        self.mpi = MPI
        self.comm = comm.Dup()
        self.rank, self.size = self.comm.rank, self.comm.size
        self._deadline = float("inf")

    def tell(self, text: str) -> list[str]:
        mine = np.frombuffer(text.encode(), np.uint8)
        lengths = np.empty(self.size, np.int64)
        self.wait([self.comm.Iallgather(np.array([len(mine)], np.int64), lengths)])
        return [part.tobytes().decode() for part in self.parts(mine, lengths)]

    def parts(self, mine: NDArray[Any], lengths: NDArray[np.int64]) -> list[NDArray[Any]]:
        """Every rank's bytes or 64-bit integers, of which there are so many on each."""
        every = np.empty(int(lengths.sum()), mine.dtype)
        ends = np.cumsum(lengths)
        kind = self.mpi.INT64_T if mine.dtype == np.int64 else self.mpi.BYTE
        self.wait([self.comm.Iallgatherv([mine, kind], [every, lengths.tolist(), (ends - lengths).tolist(), kind])])
        return np.split(every, ends[:-1])

    def wait(self, requests: list[MPI.Request]) -> None:
        """Return when all are through.

        Raises:
            TimeoutError: they are not when `give_up_after` says.
        """
        pause = _FIRST_PAUSE
        while not self.mpi.Request.Testall(requests):
            if time.monotonic() > self._deadline:
                raise TimeoutError("the other ranks did not answer")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def give_up_after(self, seconds: float) -> None:
        """From now on no wait lasts longer than until then."""
        self._deadline = time.monotonic() + seconds

    def close(self) -> None:
        """Free the communicator, when all ranks are here."""
        self.comm.Free()


class OverTorch:
    """The ranks of a group of torch.distributed, or of the default one; nothing else goes over it meanwhile."""

    def __init__(self, group: Any = None) -> None:
        import torch.distributed as dist

        self.dist = dist
        self.group = group
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def tell(self, text: str) -> list[str]:
        import torch

        raw = text.encode()
        length = torch.tensor([len(raw)])
        lengths = [torch.zeros_like(length) for _ in range(self.size)]
        self.dist.all_gather(lengths, length, group=self.group)
        padded = torch.zeros(max(1, *map(int, lengths)), dtype=torch.uint8)
        if raw:
            padded[: len(raw)] = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        every = [torch.empty_like(padded) for _ in range(self.size)]
        self.dist.all_gather(every, padded, group=self.group)
        return [bytes(one[: int(n)].tolist()).decode() for one, n in zip(every, lengths, strict=True)]


def first_in_trouble(told: Sequence[str]) -> int | None:
    """The first rank that has told of trouble; None if all is well."""
    return next((rank for rank, trouble in enumerate(told) if trouble), None)


def first_trouble(told: Sequence[str]) -> str:
    """What that rank has told, with its number if there are several; nothing if all is well."""
    rank = first_in_trouble(told)
    if rank is None:
        return ""
    return f"rank {rank}: {told[rank]}" if len(told) > 1 else told[rank]
