"""The ranks that train together: torch's process group beside the task's MPI, and a model with averaged gradients."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from wilkins.tasks.continual.errors import LearningError
from wilkins.tasks.group import Group, TorchGroup

if TYPE_CHECKING:
    from mpi4py import MPI

PATIENCE = timedelta(days=1)
"""How long a rank waits for the others in a step. A rank that dies is noticed at once; a slow stream is no error."""
_ADDRESS = ("MASTER_ADDR", "MASTER_PORT")


@contextlib.contextmanager
def process_group(comm: MPI.Intracomm | None, device: str | torch.device = "cpu") -> Iterator[None]:
    """Torch's process group of the ranks of a communicator, while the block lasts; with one rank, none is needed.

    Ranks meet at `MASTER_ADDR` and `MASTER_PORT`, which the launcher of a workflow sets; without them rank 0 chooses
    a free port. Tensors in host memory go by gloo; those on CUDA devices by NCCL if each rank has a device of its own,
    which NCCL asks for, and else by gloo.

    Raises:
        LearningError: the ranks do not find each other, or torch was built without what the device needs.
    """
    if comm is None or comm.size == 1:
        yield
        return
    backend = "cpu:gloo,cuda:nccl" if _have_devices_of_their_own(comm, torch.device(device)) else "gloo"
    if backend != "gloo" and not dist.is_nccl_available():
        raise LearningError(f"training on {device} with {comm.size} ranks needs a torch that was built with NCCL")
    address = [os.environ[name] for name in _ADDRESS] if all(name in os.environ for name in _ADDRESS) else None
    host, port = comm.bcast(address or _free_address())
    try:
        dist.init_process_group(
            backend, init_method=f"tcp://{host}:{port}", rank=comm.rank, world_size=comm.size, timeout=PATIENCE
        )
    except (RuntimeError, ValueError) as error:
        raise LearningError(f"the ranks of the task do not find each other at {host}:{port}: {error}") from None
    group = dist.group.WORLD  # held until the end: see Replica.close
    try:
        yield
    finally:
        dist.destroy_process_group()
        del group


def _have_devices_of_their_own(comm: MPI.Intracomm, device: torch.device) -> bool:
    """Whether each rank trains on a CUDA device that no other one trains on."""
    mine = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else ""
    every = comm.allgather(mine)
    return "" not in every and len(set(every)) == comm.size


def _free_address() -> list[str]:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return [socket.gethostname(), str(probe.getsockname()[1])]


def rank_and_size() -> tuple[int, int]:
    """This process's rank, and how many there are; alone without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class Total:
    """The sum of numbers over all ranks, computed while the caller does something else."""

    def __init__(self, numbers: list[float]) -> None:
        self._sum = torch.tensor(numbers, dtype=torch.float64)
        self._work = dist.all_reduce(self._sum, async_op=True) if rank_and_size()[1] > 1 else None

    def result(self) -> list[float]:
        """Wait for it."""
        if self._work is not None:
            self._work.wait()
        values: list[float] = self._sum.tolist()
        return values


def totals(numbers: list[float]) -> list[float]:
    """The sum of numbers over all ranks."""
    return Total(numbers).result()


def add_up(tensors: Iterable[Tensor]) -> None:
    """Make each of some tensors the sum over all ranks, on all of them."""
    if rank_and_size()[1] > 1:
        for tensor in tensors:
            whole = tensor.contiguous()
            dist.all_reduce(whole)
            tensor.copy_(whole)


def as_on_rank_0(tensors: Iterable[Tensor]) -> None:
    """Make some tensors what they are on rank 0, on all ranks."""
    if rank_and_size()[1] > 1:
        for tensor in tensors:
            whole = tensor.contiguous()
            dist.broadcast(whole, 0)
            tensor.copy_(whole)


def greatest(number: int) -> int:
    """The greatest of all ranks' numbers."""
    value = torch.tensor([number])
    if rank_and_size()[1] > 1:
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return int(value)


def group_of_ranks() -> Group:
    """The ranks of the process group, for when nothing else goes between them."""
    return TorchGroup() if rank_and_size()[1] > 1 else Group()


class _OrNothing(nn.Module):
    """A model that also takes part in a step without samples: with gradients that are zero."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor | None) -> Any:
        if x is not None:
            return self.model(x)
        return sum(one.flatten()[:0].sum() for one in self.model.parameters() if one.requires_grad)


class Replica:
    """A model whose gradients are averaged over all ranks as `backward` computes them."""

    def __init__(self, model: nn.Module, device: torch.device, *, find_unused_parameters: bool) -> None:
        self._module: nn.Module | None = _OrNothing(model)
        if rank_and_size()[1] > 1:
            self._module = nn.parallel.DistributedDataParallel(
                self._module,
                device_ids=[device] if device.type == "cuda" else None,
                find_unused_parameters=find_unused_parameters,
                gradient_as_bucket_view=True,
            )

    def __call__(self, x: Tensor | None) -> Tensor:
        """Outputs; without samples a zero whose `backward` takes this rank's part in averaging."""
        if self._module is None:
            raise LearningError("the learner was ended: no more steps can be made")
        outputs: Tensor = self._module(x)
        return outputs

    def close(self) -> None:
        """Give up averaging, while the process group is still there.

        If DDP were the last to let go of the process group, it would join its threads with Python's lock held, for
        which a thread waits that still holds a tensor of the last message: they would wait for each other for ever.
        """
        several = isinstance(self._module, nn.parallel.DistributedDataParallel)
        self._module = None
        if several:
            gc.collect()
