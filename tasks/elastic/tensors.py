"""What goes between ranks: gradients and buffers in one tensor, and a whole state as bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Contribution:
    """A rank's share of a step, in one tensor: sums over its samples, and their number.

    Parameters' gradients and the model's buffers (running means of BatchNorm) become means over the samples of all
    ranks, so that they are the same on all. A parameter without a gradient on any rank stays without one.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._buffers = [one for one in model.buffers() if one.numel()]
        wide = any(one.dtype == torch.float64 for one in self._parameters)
        sizes = [one.numel() for one in (*self._parameters, *self._buffers)]
        self._sizes = [*sizes, len(self._parameters), 1, 1]
        device = self._parameters[0].device if self._parameters else None
        self.sum = torch.zeros(sum(self._sizes), dtype=torch.float64 if wide else torch.float32, device=device)
        self._before: list[Tensor] = []
        self.value = 0.0
        """Of the last step that was finished: the mean of its ranks' values."""

    def begin(self) -> None:
        """A step begins: note the buffers, and forget the last gradients."""
        self._before = [one.clone() for one in self._buffers]
        for one in self._parameters:
            one.grad = None

    def discard(self) -> None:
        """Make the buffers what they were when the step began, if one has begun."""
        for one, before in zip(self._buffers, self._before, strict=False):
            one.copy_(before)
        self.end()

    def end(self) -> None:
        """The step has been made, or the model has another state now."""
        self._before = []

    def renew(self) -> None:
        """Give up the tensor to an operation that may still write to it."""
        self.sum = torch.zeros_like(self.sum)

    def fill(self, samples: int, value: float = 0.0) -> None:
        """Take this rank's gradients, and a value beside them, which are means over its samples."""
        if not samples:
            self.sum.zero_()
            return
        parts = torch.split(self.sum, self._sizes)
        flags = [0.0 if one.grad is None else 1.0 for one in self._parameters]
        for part, parameter in zip(parts, self._parameters, strict=False):
            part.zero_() if parameter.grad is None else part.copy_(parameter.grad.reshape(-1))
        for part, buffer in zip(parts[len(self._parameters) :], self._buffers, strict=False):
            part.copy_(buffer.reshape(-1))
        parts[-3].copy_(torch.tensor(flags))
        parts[-2].fill_(value)
        parts[-1].fill_(1.0)
        self.sum.mul_(samples)

    def give(self) -> int:
        """Out of the sum over all ranks, set gradients and buffers; how many samples have contributed."""
        samples = float(self.sum[-1])
        if not samples:
            return 0
        mean = self.sum / samples
        parts = torch.split(mean, self._sizes)
        flags = parts[-3].tolist()
        self.value = float(parts[-2])
        for part, parameter, flag in zip(parts, self._parameters, flags, strict=False):
            if not flag:
                parameter.grad = None
            elif parameter.grad is None:
                parameter.grad = part.to(parameter.dtype, copy=True).view_as(parameter)
            else:
                parameter.grad.copy_(part.view_as(parameter))
        for part, buffer in zip(parts[len(self._parameters) :], self._buffers, strict=False):
            whole = not buffer.is_floating_point()
            buffer.copy_((part.round() if whole else part).view_as(buffer))
        return round(samples)


def as_bytes(state: Mapping[str, Any]) -> Tensor:
    """A copy of a state: tensors and plain values."""
    memory = io.BytesIO()
    torch.save(state, memory)
    return torch.frombuffer(memory.getbuffer(), dtype=torch.uint8)


def from_bytes(given: Tensor) -> dict[str, Any]:
    """The state again; nothing in it is executed."""
    state: dict[str, Any] = torch.load(io.BytesIO(given.numpy().tobytes()), weights_only=True)
    return state
