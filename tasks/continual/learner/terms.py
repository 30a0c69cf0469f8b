"""What a step minimises, as a sum of terms, and the samples of a step as the terms see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from wilkins.tasks.continual.learner.batches import INPUT, in_precision, joined

Batch = Mapping[str, Tensor]
"""Samples along the first axis of every tensor; `x` is what the model gets, `y` the targets."""

TermLoss = Callable[[Tensor, Batch], Tensor]
"""Takes outputs and the samples they are for, and gives their mean loss: a tensor of one number."""


class Term(NamedTuple):
    """Rows of a step's batch, new samples first and then recalled ones, that enter the objective with one loss.

    Averaged over all samples of all ranks: each sample counts the same, whichever rank has it.
    """

    begin: int
    end: int
    weight: float = 1.0
    loss: TermLoss | None = None
    """The mean loss of these rows; left out: the learner's loss of outputs and targets."""

    @property
    def samples(self) -> int:
        """How many rows."""
        return self.end - self.begin


class StepSamples:
    """New and recalled samples of a step, on the device; each tensor is moved there when it is first asked for."""

    def __init__(self, new: Batch, recalled: Batch, device: torch.device, dtype: torch.dtype) -> None:
        self._new = new
        self._recalled = recalled
        self._device = device
        self._dtype = dtype
        self._moved: dict[str, Tensor] = {}
        self.count = len(new[INPUT]) + (len(recalled[INPUT]) if recalled else 0)

    def __getitem__(self, name: str) -> Tensor:
        """A tensor of all rows; of the recalled ones, if new samples have none of this name."""
        if name not in self._moved:
            parts = [part[name] for part in (self._new, self._recalled) if name in part]
            if not parts:
                raise KeyError(name)
            moved = joined(parts, self._device)
            self._moved[name] = in_precision(moved, self._dtype) if name == INPUT else moved
        return self._moved[name]

    def rows(self, term: Term) -> Batch:
        """The samples of a term."""
        return _Rows(self, term.begin, term.end)

    def cut(self, name: str, begin: int, end: int) -> Tensor:
        """Some rows of a tensor."""
        before = 0 if name in self._new else len(self._new[INPUT])
        if begin < before:
            raise KeyError(f"{name} (only recalled samples have it)")
        return self[name][begin - before : end - before]

    def names(self) -> Iterator[str]:
        """Names of the tensors that any of the samples have."""
        return iter({**self._new, **self._recalled})


class _Rows(Batch):
    """Some rows of a step's samples."""

    def __init__(self, samples: StepSamples, begin: int, end: int) -> None:
        self._samples = samples
        self._begin = begin
        self._end = end

    def __getitem__(self, name: str) -> Tensor:
        return self._samples.cut(name, self._begin, self._end)

    def __iter__(self) -> Iterator[str]:
        return self._samples.names()

    def __len__(self) -> int:
        return len(list(iter(self)))
