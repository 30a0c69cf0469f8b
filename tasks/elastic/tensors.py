"""What goes between ranks: gradients and buffers in one tensor, and a whole state as bytes."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from wilkins.tasks.elastic.errors import ElasticError

_DIGITS = 3
"""Numbers of single precision that hold one of double precision exactly."""


class Contribution:
    """A rank's share of a step, in one tensor: sums over its samples, and their number.

    Parameters' gradients and the model's buffers (running means of BatchNorm) become means over the samples of all
    ranks, so that they are the same on all. A parameter without a gradient on any rank stays without one, and a buffer
    that no rank has changed stays as it is, to the last bit. Of whole numbers, such as counters, the change is
    averaged: a sum of them could lose digits.

    Args:
        model: as it is trained; its parameters that need a gradient are those of now.
        rates: how many learning rates go beside the gradients.

    Raises:
        ElasticError: a parameter has no shape yet.
    """

    def __init__(self, model: nn.Module, rates: int = 0) -> None:
        self._names = {id(one): name for name, one in model.named_parameters() if one.requires_grad}
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        lazy = [one for one in (*model.parameters(), *model.buffers()) if is_lazy(one)]
        if lazy:
            raise ElasticError(
                f"{type(model).__name__} has {len(lazy)} parameters or buffers without a shape, as lazy layers have "
                "before their first input; call the model with samples once, then make its optimizer and its Elastic"
            )
        self._buffers = [one for one in model.buffers() if one.numel()]
        wide = any(one.dtype in (torch.float64, torch.complex128) for one in self._parameters)
        sizes = [one.numel() * (1 + one.is_complex()) for one in (*self._parameters, *self._buffers)]
        self._sizes = [*sizes, len(self._parameters), len(self._buffers), 1, 1, _DIGITS * rates]
        self.layout = {name: list(one.shape) for name, one in model.named_parameters() if one.requires_grad}
        """What is trained, which is the same on all ranks."""
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

    @contextmanager
    def as_begun(self) -> Iterator[None]:
        """While it lasts, buffers are what they were when the step under way began."""
        now = [one.clone() for one in self._buffers]
        try:
            for one, before in zip(self._buffers, self._before, strict=False):
                one.copy_(before)
            yield
        finally:
            for one, after in zip(self._buffers, now, strict=True):
                one.copy_(after)

    def end(self) -> None:
        """The step has been made, or the model has another state now."""
        self._before = []

    def renew(self) -> None:
        """Give up the tensor to an operation that may still write to it."""
        self.sum = torch.zeros_like(self.sum)

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Look at gradients that this rank is about to contribute.

        Raises:
            ElasticError: a gradient would be left out, or is sparse.
        """
        for group in optimizer.param_groups:
            for one in group["params"]:
                if one.grad is None:
                    continue
                if id(one) not in self._names:
                    raise ElasticError(
                        f"a parameter of shape {list(one.shape)} has a gradient that would differ between ranks, since "
                        "Elastic was made before the parameter was added, or needed one; make Elastic last, with all "
                        "parameters that will ever be trained in the model and needing gradients, and freeze some then"
                    )
                if one.grad.layout != torch.strided:
                    raise ElasticError(
                        f"the parameter {self._names[id(one)]!r} has a sparse gradient, which ranks cannot add up; "
                        "make its layer with sparse=False"
                    )

    def fill(self, samples: int, value: float = 0.0, rates: Sequence[float] = ()) -> None:
        """Take this rank's gradients, and a value beside them, which are means over its samples.

        Args:
            samples: how many; with none, the gradients are left out.
            value: see above.
            rates: learning rates of the rank that says them.
        """
        parts = torch.split(self.sum, self._sizes)
        if samples:
            self._fill_means(parts, value)
            self.sum.mul_(samples)
        else:
            self.sum.zero_()
        if rates:
            parts[-1].copy_(_digits(rates))
        else:
            parts[-1].zero_()

    def _fill_means(self, parts: Sequence[Tensor], value: float) -> None:
        for part, parameter in zip(parts, self._parameters, strict=False):
            part.zero_() if parameter.grad is None else part.copy_(_flat(parameter.grad))
        changed = []
        of_buffers = parts[len(self._parameters) :]
        for part, buffer, before in zip(of_buffers, self._buffers, self._begun_with(), strict=False):
            part.copy_(_flat(buffer if _is_mean(buffer) else buffer.long() - before.long()))
            changed.append((buffer != before).any())
        parts[-5].copy_(torch.tensor([one.grad is not None for one in self._parameters]))
        if changed:
            parts[-4].copy_(torch.stack(changed))
        parts[-3].fill_(value)
        parts[-2].fill_(1.0)
        parts[-1].zero_()

    def give(self) -> int:
        """Out of the sum over all ranks, set gradients and buffers; how many samples have contributed."""
        samples = float(torch.split(self.sum, self._sizes)[-2])
        if not samples:
            self.discard()
            return 0
        mean = self.sum / samples
        parts = torch.split(mean, self._sizes)
        graded, changed = parts[-5].tolist(), parts[-4].tolist()
        self.value = float(parts[-3])
        for part, parameter, flag in zip(parts, self._parameters, graded, strict=False):
            if not flag:
                parameter.grad = None
            elif parameter.grad is None:
                parameter.grad = _shaped(part, parameter).to(parameter.dtype, copy=True)
            else:
                parameter.grad.copy_(_shaped(part, parameter))
        of_buffers = parts[len(self._parameters) :]
        for part, buffer, before, flag in zip(of_buffers, self._buffers, self._begun_with(), changed, strict=False):
            if not flag:
                buffer.copy_(before)
            elif _is_mean(buffer):
                buffer.copy_(_shaped(part, buffer))
            else:
                buffer.copy_(before.long() + _shaped(part, buffer).round().long())
        return round(samples)

    @property
    def rates(self) -> list[float]:
        """Out of the sum over all ranks, the learning rates of the one that has said them."""
        digits = torch.split(self.sum, self._sizes)[-1].double()
        return [float(one) for one in digits.view(_DIGITS, -1).sum(0)]

    def _begun_with(self) -> list[Tensor]:
        """The buffers as they were when the step began; a rank that has not begun it has changed none."""
        return self._before or self._buffers


def _is_mean(buffer: Tensor) -> bool:
    """Whether a buffer is averaged itself, rather than its change."""
    return buffer.is_floating_point() or buffer.is_complex()


def _flat(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).reshape(-1)


def _shaped(part: Tensor, like: Tensor) -> Tensor:
    """What `_flat` made of a tensor of that kind, in its shape."""
    return torch.view_as_complex(part.clone().view(*like.shape, 2)) if like.is_complex() else part.view(like.shape)


def _digits(numbers: Sequence[float]) -> Tensor:
    """Numbers of double precision as sums of three of single precision: first the firsts of all."""
    rest = torch.tensor(numbers, dtype=torch.float64)
    found = []
    for _ in range(_DIGITS):
        found.append(rest.float())
        rest = rest - found[-1].double()
    return torch.cat(found)


def as_bytes(state: Mapping[str, Any]) -> Tensor:
    """A copy of a state: tensors and plain values."""
    memory = io.BytesIO()
    torch.save(state, memory)
    return torch.frombuffer(memory.getbuffer(), dtype=torch.uint8)


def from_bytes(given: Tensor) -> dict[str, Any]:
    """The state again; nothing in it is executed.

    Raises:
        ElasticError: it holds other objects than tensors and plain values.
    """
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(given.numpy().tobytes()), weights_only=True)
    except pickle.UnpicklingError as error:
        what = next((one for one in str(error).splitlines() if "Unsupported" in one or "GLOBAL" in one), "")
        raise ElasticError(
            "the state of another rank holds objects that are not taken over, since they could run code; let the "
            "state_dict() of the model, the optimizer and the schedule hold tensors, numbers, texts and lists and "
            f"dictionaries of them, as with float(x) for a number of NumPy: {what.strip()}"
        ) from None
    return state
