"""Batches on their way into a step: tensors of any arrays, checked, joined with representatives, on the device."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from wilkins.tasks.continual.errors import BadBatch, BadSample
from wilkins.tasks.continual.rehearsal.arrays import Array, describe, kind_of, nan_rows
from wilkins.tasks.continual.rehearsal.sample_layout import SampleLayout

INPUT, TARGET = "x", "y"


def as_tensors(batch: Mapping[str, Array]) -> dict[str, Tensor]:
    """A batch as tensors that share the arrays' memory where they can; they are only read.

    Raises:
        BadBatch: an array has a type that torch does not know.
    """
    return {name: _as_tensor(name, array) for name, array in batch.items()}


def _as_tensor(name: str, array: Array) -> Tensor:
    if isinstance(array, Tensor):
        return array.detach()
    if kind_of(array).library == "cupy":
        return torch.as_tensor(array)
    given = np.asarray(array)
    try:
        native = np.ascontiguousarray(given.astype(given.dtype.newbyteorder("="), copy=False)).reshape(given.shape)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(native)
    except TypeError:
        raise BadBatch(f"torch knows no type {given.dtype}: give plain numbers", tensor=name) from None


class Checker:
    """Compares each batch with the first one, and looks for NaN."""

    def __init__(self, port: str, *, nan: bool) -> None:
        self._port = port
        self._nan = nan
        self._layout: SampleLayout | None = None

    def check(self, batch: Mapping[str, Tensor], step: int, *, partly: bool = False) -> int:
        """How many samples there are; with `partly`, they may lack tensors that others have.

        Raises:
            BadBatch: the batch lacks `x` or `y`, its samples differ from earlier ones, or hold NaN.
        """
        for name in (INPUT, TARGET):
            if name not in batch:
                there = ", ".join(sorted(batch)) or "nothing"
                raise self.error("is missing: a batch has inputs 'x' and targets 'y', this one " + there, step, name)
        try:
            layout, samples = describe(batch)
        except BadSample as error:
            raise self.error(error.reason, step, error.tensor) from None
        known = self._layout
        if known is not None and partly:
            known = SampleLayout(tuple(one for one in known.tensors if one.name in batch))
        difference = known.difference(layout) if known is not None else None
        if difference is not None:
            raise self.error(difference.reason.replace("the buffer's are", "earlier ones"), step, difference.tensor)
        if not partly:
            self._layout = layout
        if self._nan:
            for name, tensor in batch.items():
                self._check_nan(name, tensor, step)
        return samples

    def _check_nan(self, name: str, tensor: Tensor, step: int) -> None:
        if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
            return
        rows = nan_rows(tensor).nonzero()
        if len(rows):
            raise self.error(f"sample {int(rows[0])} holds NaN: mend the source, or leave such samples out", step, name)

    def error(self, reason: str, step: int, tensor: str = "") -> BadBatch:
        """An error that says where."""
        return BadBatch(reason, port=self._port, step=step, tensor=tensor)


def joined(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    """Tensors one after the other, on a device. What lies in host memory goes to CUDA in one transfer of pinned memory,
    beside what the device computes."""
    filled = [part for part in parts if len(part)] or list(parts[:1])
    if device.type != "cuda":
        return (filled[0] if len(filled) == 1 else torch.cat([part.to(device) for part in filled])).to(device)
    if any(part.device.type != "cpu" for part in filled):
        return torch.cat([part.to(device, non_blocking=True) for part in filled])
    shape = (sum(len(part) for part in filled), *filled[0].shape[1:])
    pinned = torch.empty(shape, dtype=filled[0].dtype, pin_memory=True)
    torch.cat(list(filled), out=pinned)
    return pinned.to(device, non_blocking=True)


def in_precision(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Floating-point numbers in the precision of a model; others as they are."""
    return x.to(dtype) if x.is_floating_point() else x


def orders(samples: int, steps: int, seeds: Sequence[int]) -> Iterator[Tensor]:
    """Which samples each step of an epoch trains on: all of them once, in an order that follows from `seeds`.

    Steps get equal shares, so that ranks with different numbers of samples come to the end together.
    """
    seed = int(np.random.SeedSequence(list(seeds)).generate_state(1, np.uint64)[0] >> np.uint64(1))
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    for step in range(steps):
        yield order[samples * step // steps : samples * (step + 1) // steps]
