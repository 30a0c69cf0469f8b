"""The ranks that write a checkpoint together: one process, or a group over MPI or torch.distributed.

A version is agreed on in the background while the program talks to its own ranks, so a checkpointer has groups of its
own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.group import Group, MPIGroup, TorchGroup, first_trouble


def together(ranks: Group, act: Callable[[], object], named: Callable[[OSError], str]) -> None:
    """Do something on all ranks, and go on when all have done it. Collective.

    Args:
        named: makes the message about an error of the system.

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
    if trouble := first_trouble(ranks.allgather(trouble)):
        raise CheckpointError(trouble)


def make_ranks(ranks: Any) -> Group:
    """From None (one process), an mpi4py communicator, or the word `torch` (torch.distributed, initialised)."""
    if ranks is None:
        return Group()
    if ranks == "torch":
        return TorchGroup().dup()
    if isinstance(ranks, Group):
        return ranks
    if hasattr(ranks, "Iallgather"):
        from mpi4py import MPI

        if ranks.size > 1 and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise CheckpointError(
                "checkpoints are agreed on in the background, but MPI was started without MPI_THREAD_MULTIPLE; set "
                "mpi4py.rc.thread_level = 'multiple' before mpi4py.MPI is imported"
            )
        return MPIGroup(ranks)
    raise CheckpointError(
        f"ranks={ranks!r} says nothing of the ranks; give None (one process), an mpi4py communicator such as "
        "MPI.COMM_WORLD, or 'torch' for those of torch.distributed"
    )
