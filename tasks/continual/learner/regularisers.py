"""Regularisers that have names: they hold a model to what it was after earlier steps of a stream, without samples.

`EWC` holds parameters that mattered where they were (Kirkpatrick et al.: Overcoming catastrophic forgetting in neural
networks, PNAS 114 (2017), arXiv 1612.00796). `LwF` holds outputs to those of the model before (Li, Hoiem: Learning
without Forgetting, ECCV 2016, arXiv 1606.09282).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from wilkins.tasks.continual.learner.batches import INPUT, TARGET, in_precision, joined
from wilkins.tasks.continual.learner.losses import squared_error
from wilkins.tasks.continual.learner.strategy import Regulariser
from wilkins.tasks.continual.learner.terms import Batch, Term
from wilkins.tasks.continual.learner.world import add_up, group_of_ranks, totals


class EWC(Regulariser):
    """Elastic weight consolidation: parameters that mattered to earlier steps of the stream are held where they were.

    After step t of the stream the model has parameters p_t, and F_t is the mean over samples of the squared gradient of
    a sample's loss (the diagonal of the empirical Fisher information, for a loss that is a negative log-likelihood).
    From then on strength / 2 * sum over t of F_t * (p - p_t)^2 is added to the objective (equation 3 of the paper, a
    penalty per task). As a sum of parabolas is a parabola, two numbers per parameter are kept, however long the stream.

    Args:
        strength: lambda.
        samples: how many samples of a step of the stream each rank takes the mean over, spread evenly; all, if there
            are fewer. Each costs a backward pass.
    """

    name = "ewc"

    def __init__(self, strength: float = 1.0, *, samples: int = 200) -> None:
        if strength < 0 or samples < 1:
            raise ValueError(f"'strength' ({strength}) must not be negative, and 'samples' ({samples}) be 1 or more")
        self.strength = strength
        self._samples = samples
        self._importance: dict[str, Tensor] = {}
        self._centre: dict[str, Tensor] = {}
        self._rest = 0.0
        """What the sum of the penalties is at its least: a number that no gradient depends on."""

    def penalty(self) -> Tensor | None:
        if not self._importance:
            return None
        model = dict(self.learner.model.named_parameters())
        parts = [(one * (model[name] - self._centre[name]).square()).sum() for name, one in self._importance.items()]
        return self.strength / 2 * (torch.stack(parts).sum() + self._rest)

    def end(self, data: Batch) -> None:
        model = dict(self.learner.model.named_parameters())
        for name, fisher in self._fisher(data).items():
            parameter = model[name].detach()
            before = self._importance.get(name, torch.zeros_like(parameter))
            centre = self._centre.get(name, torch.zeros_like(parameter))
            both = before + fisher
            share = torch.where(both > 0, fisher / both, 0)
            away = parameter - centre
            self._rest += float((before * share * away.square()).sum())
            self._importance[name], self._centre[name] = both, centre + share * away

    def _fisher(self, data: Batch) -> dict[str, Tensor]:
        """The mean of squared gradients over samples of all ranks, for each parameter that is trained."""
        model, device = self.learner.model, self.learner.device
        trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
        squares = {name: torch.zeros_like(one) for name, one in trained.items()}
        there = len(data[INPUT])
        chosen = torch.arange(min(there, self._samples)) * there // max(1, min(there, self._samples))
        dtype, training = next(iter(trained.values())).dtype, model.training
        model.eval()
        for row in chosen.tolist():
            x, y = (joined([data[name][row : row + 1]], device) for name in (INPUT, TARGET))
            loss = self.learner.loss.function(model(in_precision(x, dtype)), y)
            gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
            for name, one in zip(trained, gradients, strict=True):
                if one is not None:
                    squares[name] += one.square()
        model.train(training)
        (count,) = totals([len(chosen)])
        add_up(squares.values())
        return {name: one / max(1.0, count) for name, one in squares.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"importance": self._importance, "centre": self._centre, "rest": self._rest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        where = self.learner.device
        self._importance = {name: one.to(where) for name, one in state["importance"].items()}
        self._centre = {name: one.to(where) for name, one in state["centre"].items()}
        self._rest = state["rest"]


class LwF(Regulariser):
    """Learning without forgetting: outputs for new samples are held to those of the model before this step.

    For classes, strength * the cross entropy of the outputs for classes seen before, by the softmax of both divided by
    `temperature` (equation 2 of the paper, whose heads of old tasks are here the columns of the classes seen before);
    for other losses, strength * the mean squared difference of all outputs.

    Args:
        strength: lambda_o.
        temperature: T; higher ones give small outputs more weight.
    """

    name = "lwf"

    def __init__(self, strength: float = 1.0, *, temperature: float = 2.0) -> None:
        if strength < 0 or temperature <= 0:
            raise ValueError(f"'strength' ({strength}) must not be negative, and 'temperature' ({temperature}) above 0")
        self.strength = strength
        self._temperature = temperature
        self._before: dict[str, Tensor] = {}
        self._seen: list[int] = []

    def terms(self, new: int, recalled: int) -> tuple[Term, ...]:  # noqa: ARG002 - of new samples only
        return (Term(0, new, self.strength, self._distance),) if self._before else ()

    def _distance(self, outputs: Tensor, samples: Batch) -> Tensor:
        model = self.learner.model
        training = model.training
        model.eval()
        with torch.no_grad():
            old = torch.func.functional_call(model, self._before, (samples[INPUT],))
        model.train(training)
        if not self.learner.loss.classes:
            return squared_error(outputs, old)
        outputs, old = (one[:, self._seen] / self._temperature for one in (outputs, old))
        return functional.cross_entropy(outputs, old.softmax(1))

    def end(self, data: Batch) -> None:
        model = self.learner.model
        every = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self._before = {name: one.detach().clone() for name, one in every.items()}
        if self.learner.loss.classes:
            seen = group_of_ranks().allgather(sorted(set(data[TARGET].tolist())))
            self._seen = sorted({int(one) for part in [self._seen, *seen] for one in part})

    def state_dict(self) -> dict[str, Any]:
        return {"before": self._before, "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._before = {name: one.to(self.learner.device) for name, one in state["before"].items()}
        self._seen = list(state["seen"])
