"""The ranks that write a checkpoint together: alone, over MPI, or over torch.distributed. They exchange short texts,
and the nodes' first ranks pieces of data.

A version is agreed on in the background while the program talks to its own ranks, so each `Ranks` has a communicator
of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from wilkins.tasks import collectives
from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.state.sources import Bytes
from wilkins.tasks.collectives import OverMPI, OverTorch, Telling, first_trouble

if TYPE_CHECKING:
    from mpi4py import MPI


class Ranks(Telling, Protocol):
    """What the ranks do together. All methods are collective, but for `exchange`."""

    def exchange(self, send: Mapping[int, Bytes], receive: Mapping[int, Bytes]) -> None:
        """Send bytes to some ranks and receive from some, by rank; returns when all is through.

        Only those ranks take part that are named by each other, at most once each, with as many bytes on both sides.
        """

    def another(self) -> Ranks:
        """The same ranks with a communicator of its own."""

    def close(self) -> None:
        """Free the communicator."""


class Alone(collectives.Alone):
    """One process."""

    def exchange(self, send: Mapping[int, Bytes], receive: Mapping[int, Bytes]) -> None:
        assert not send and not receive

    def another(self) -> Alone:
        return self


class MPIRanks(OverMPI):
    """The ranks of an mpi4py communicator, which is duplicated."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        from mpi4py import MPI

        if comm.size > 1 and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise CheckpointError(
                "checkpoints are agreed on in the background, but MPI was started without MPI_THREAD_MULTIPLE; set "
                "mpi4py.rc.thread_level = 'multiple' before mpi4py.MPI is imported"
            )
        super().__init__(comm)

    def exchange(self, send: Mapping[int, Bytes], receive: Mapping[int, Bytes]) -> None:
        kind = self.mpi.BYTE
        requests = [self.comm.Irecv([data, kind], source=rank) for rank, data in receive.items()]
        requests += [self.comm.Isend([data, kind], dest=rank) for rank, data in send.items()]
        self.wait(requests)

    def another(self) -> MPIRanks:
        return MPIRanks(self.comm)


class TorchRanks(OverTorch):
    """The ranks of torch.distributed's default group, over a gloo group of their own."""

    def __init__(self) -> None:
        import torch.distributed as dist

        super().__init__(dist.new_group(backend="gloo"))

    def exchange(self, send: Mapping[int, Bytes], receive: Mapping[int, Bytes]) -> None:
        import torch

        works = [self.dist.irecv(torch.from_numpy(data), rank, self.group) for rank, data in receive.items()]
        works += [self.dist.isend(torch.from_numpy(data), rank, self.group) for rank, data in send.items()]
        for work in works:
            assert work is not None  # this rank is in the group
            work.wait()

    def another(self) -> TorchRanks:
        return TorchRanks()

    def close(self) -> None:
        self.dist.destroy_process_group(self.group)


class Silent(Alone):
    """Ranks that say nothing else to each other until a version is there: what lets them tell texts serves for it.

    They keep no partners, so that they exchange nothing.
    """

    def __init__(self, ranks: Telling) -> None:
        self.rank, self.size, self._ranks = ranks.rank, ranks.size, ranks

    def tell(self, text: str) -> list[str]:
        return self._ranks.tell(text)


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
