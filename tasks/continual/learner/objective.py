"""The objective of a step: weighted losses of new and recalled samples; each sample of any rank counts the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wilkins.tasks.continual.errors import LearningError
from wilkins.tasks.continual.learner.batches import TARGET, joined
from wilkins.tasks.continual.learner.losses import Loss, squared_error
from wilkins.tasks.continual.learner.strategies import LOGITS, Batch, Portion


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

    def of_step(
        self,
        step: int,
        outputs: Tensor,
        samples: Batch,
        recalled: Batch,
        portions: Sequence[Portion],
        counts: Sequence[float],
    ) -> Tensor:
        """The weighted sum of the portions' losses, such that averaging its gradient over the ranks gives that of the
        mean over the samples of all ranks.

        Args:
            step: for messages.
            outputs: for the new samples, then the recalled ones.
            counts: samples of each portion on all ranks together.

        Raises:
            LearningError: the loss gives something else than one number, or one that is not finite.
        """
        new = len(samples[TARGET])
        parts = [samples[TARGET], recalled[TARGET]] if recalled else [samples[TARGET]]
        targets = joined(parts, self._device)
        terms = []
        for portion, of_all in zip(portions, counts, strict=True):
            if not portion.samples:
                continue
            rows = outputs[portion.begin : portion.end]
            if portion.kept_outputs:
                kept = joined([recalled[LOGITS][portion.begin - new : portion.end - new]], self._device)
                value = squared_error(rows, kept)
            else:
                value = self._loss.function(rows, targets[portion.begin : portion.end])
                if value.numel() != 1:
                    raise LearningError(
                        f"the loss {self._loss.name!r} gives a tensor of shape {tuple(value.shape)}; it must give one "
                        "number, the mean over the samples"
                    )
            terms.append(value.reshape(()) * (portion.weight * portion.samples * self._ranks / of_all))
        objective = torch.stack(terms).sum()
        self._check_finite(objective, step)
        return objective

    def _check_finite(self, objective: Tensor, step: int) -> None:
        """On a CUDA device one step late, so that nothing waits for it."""
        looked_at: Tensor | None = objective.detach()
        if self._device.type == "cuda":
            looked_at, self._unchecked = self._unchecked, objective.detach()
        if looked_at is not None and not torch.isfinite(looked_at):
            raise LearningError(
                f"training, step {step}: the objective is {looked_at.item()}; training has diverged: lower the "
                "learning rate, or scale the inputs"
            )
