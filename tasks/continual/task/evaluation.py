"""How good a model is on samples: loss and error, in sums that ranks can add up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from wilkins.tasks.continual.learner.losses import Loss
from wilkins.tasks.group import Group

BATCH = 256
"""Samples that are looked at together."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Sums over samples, from which loss and errors follow."""

    samples: int = 0
    loss: float = 0.0
    wrong: int = 0
    """Samples whose greatest output is not that of their class."""
    squared: float = 0.0
    """Sum of the squared differences of outputs and targets."""
    norm: float = 0.0
    """Sum of the squares of the targets."""
    values: int = 0
    """Numbers that were compared."""

    def __add__(self, other: Measured) -> Measured:
        return Measured(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def mean_loss(self) -> float:
        """Mean loss of a sample; NaN without samples."""
        return self.loss / self.samples if self.samples else math.nan

    def error(self, kind: str) -> float:
        """The error: `wrong`, `rmse`, `relative` or `loss`, as in the options. NaN without samples."""
        if not self.samples:
            return math.nan
        if kind == "wrong":
            return self.wrong / self.samples
        if kind == "rmse":
            return math.sqrt(self.squared / self.values) if self.values else math.nan
        if kind == "relative":
            return math.sqrt(self.squared / self.norm) if self.norm else math.nan
        return self.mean_loss()


def kind_of_error(asked: str | None, loss: str) -> str:
    """The kind of error that goes with a loss, if none is asked for."""
    return asked or {"cross_entropy": "wrong", "mse": "rmse"}.get(loss, "loss")


def measure(
    model: Callable[[Tensor], Tensor], loss: Loss, kind: str, data: Mapping[str, Tensor], device: torch.device
) -> Measured:
    """Loss and error of a model on samples `x` with targets `y`; no gradients are made."""
    total = Measured()
    with torch.no_grad():
        for begin in range(0, len(data["x"]), BATCH):
            x, y = (data[name][begin : begin + BATCH].to(device) for name in ("x", "y"))
            total += _of_batch(model(x), y, loss, kind)
    return total


def _of_batch(outputs: Tensor, targets: Tensor, loss: Loss, kind: str) -> Measured:
    found = Measured(len(targets), float(loss.function(outputs, targets)) * len(targets))
    if kind == "wrong":
        return found + Measured(wrong=int((outputs.argmax(1) != targets).sum()))
    if kind in ("rmse", "relative"):
        wide = targets.to(torch.float64)
        squared = float((outputs.to(torch.float64) - wide).square().sum())
        return found + Measured(squared=squared, norm=float(wide.square().sum()), values=wide.numel())
    return found


def of_all(ranks: Group, measured: Measured) -> Measured:
    """The sum over all ranks."""
    return sum(ranks.allgather(measured), Measured())
