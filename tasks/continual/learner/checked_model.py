"""A model that checks a step's samples: errors name the port, the step and the tensor that do not fit model or loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from wilkins.tasks.continual.errors import BadBatch
from wilkins.tasks.continual.learner.batches import INPUT, TARGET, Checker, as_tensors, in_precision
from wilkins.tasks.continual.learner.losses import Loss, problem_of
from wilkins.tasks.continual.learner.terms import Batch
from wilkins.tasks.continual.rehearsal.arrays import Array


class CheckedModel:
    """A model on a device, with the loss of its outputs."""

    def __init__(self, model: nn.Module, loss: Loss, device: torch.device, checker: Checker) -> None:
        self.model = model
        self._loss = loss
        self._device = device
        self._checker = checker
        self._tried = False

    @property
    def dtype(self) -> torch.dtype:
        """The precision that floating-point inputs are converted to."""
        return next(parameter for parameter in self.model.parameters() if parameter.requires_grad).dtype

    def tensors(self, batch: Mapping[str, Array], step: int) -> dict[str, Tensor]:
        """A batch as tensors.

        Raises:
            BadBatch: an array has a type that torch does not know.
        """
        try:
            return as_tensors(batch)
        except BadBatch as error:
            raise self._checker.error(error.reason, step, error.tensor) from None

    def outputs(self, x: Tensor, step: int, model: Callable[[Tensor], Any] | None = None) -> Tensor:
        """What the model gives for inputs; `model` is called in its place, if it is given.

        Raises:
            BadBatch: it does not take them, or gives something else than a row for each.
        """
        name, x = type(self.model).__name__, in_precision(x, self.dtype)
        try:
            outputs = (model or self.model)(x)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            if self._tried:
                raise
            given = f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape[1:])}"
            raise self._checker.error(
                f"the model ({name}) does not take samples of {given}: {error}", step, INPUT
            ) from None
        if not isinstance(outputs, Tensor) or len(outputs) != len(x):
            what = f"{tuple(outputs.shape)}" if isinstance(outputs, Tensor) else f"a {type(outputs).__name__}"
            raise self._checker.error(
                f"the model ({name}) gives {what} for {len(x)} samples; a tensor with outputs of each sample along the "
                "first axis is needed",
                step,
                INPUT,
            )
        self._tried = True
        return outputs

    def check(self, outputs: Tensor, samples: Batch, step: int) -> None:
        """Compare outputs with the targets of their samples.

        Raises:
            BadBatch: they do not fit each other.
        """
        problem = problem_of(self._loss, outputs, samples[TARGET]) if len(outputs) else ""
        if problem:
            raise self._checker.error(problem, step, TARGET)

    def no_outputs(self, x: Tensor, step: int) -> Tensor:
        """Outputs for no samples, of the shape they would have."""
        training = self.model.training
        self.model.eval()
        with torch.no_grad():
            outputs = self.outputs(x.new_zeros((1, *x.shape[1:])).to(self._device), step)
        self.model.train(training)
        return outputs[:0]
