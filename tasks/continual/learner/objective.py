"""The objective of a step: weighted losses of new and recalled samples; each sample of any rank counts the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wilkins.tasks.continual.errors import LearningError
from wilkins.tasks.continual.learner.batches import TARGET
from wilkins.tasks.continual.learner.losses import Loss
from wilkins.tasks.continual.learner.terms import StepSamples, Term


class Objective:
    """What a step minimises, for one loss.

    Args:
        loss: of samples that are compared with their targets.
        device: where outputs are.
        ranks: how many ranks average their gradients.
    """

    def __init__(self, loss: Loss, device: torch.device, ranks: int) -> None:
        self._loss = loss
        self._device = device
        self._ranks = ranks
        self._unchecked: Tensor | None = None

    def of_step(self, outputs: Tensor, samples: StepSamples, terms: Sequence[Term], counts: Sequence[float]) -> Tensor:
        """The weighted sum of the terms' losses, such that averaging its gradient over the ranks gives that of the
        mean over the samples of all ranks.

        Args:
            outputs: for the new samples, then the recalled ones.
            counts: samples of each term on all ranks together.

        Raises:
            LearningError: a term has other rows than there are, or its loss gives something else than one number.
        """
        if not terms:
            raise LearningError(
                "the strategy gives no term, so that nothing would be learned; give one `Term` at least"
            )
        values = []
        for term, of_all in zip(terms, counts, strict=True):
            if not 0 <= term.begin <= term.end <= samples.count:
                raise LearningError(f"a term has the rows {term.begin} to {term.end}, and there are {samples.count}")
            if not term.samples:
                continue
            rows = outputs[term.begin : term.end]
            if term.loss is None:
                value = self._loss.function(rows, samples.cut(TARGET, term.begin, term.end))
                name = self._loss.name
            else:
                value = term.loss(rows, samples.rows(term))
                name = getattr(term.loss, "__qualname__", type(term.loss).__name__)
            if value.numel() != 1:
                raise LearningError(
                    f"the loss {name!r} gives a tensor of shape {tuple(value.shape)}; it must give one "
                    "number, the mean over the samples"
                )
            values.append(value.reshape(()) * (term.weight * term.samples * self._ranks / of_all))
        return torch.stack(values).sum() if values else outputs.sum() * 0

    def check_finite(self, objective: Tensor, step: int) -> None:
        """Compare the objective of a step with numbers; on a CUDA device one step late, so that nothing waits for it.

        Raises:
            LearningError: it is not finite.
        """
        looked_at: Tensor | None = objective.detach()
        if self._device.type == "cuda":
            looked_at, self._unchecked = self._unchecked, objective.detach()
        if looked_at is not None and not torch.isfinite(looked_at):
            raise LearningError(
                f"training, step {step}: the objective is {looked_at.item()}; training has diverged: lower the "
                "learning rate, or scale the inputs"
            )
