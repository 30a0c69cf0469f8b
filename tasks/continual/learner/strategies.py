"""The strategies that have names.

`FromScratch` keeps all samples, `Incremental` none; `Rehearsal` mixes samples of the past into every batch
(Bouvier et al. 2024); `DarkReplay` also holds the model to the outputs it once gave for them (DER and DER++; Buzzega,
Boschi, Porrello, Abati, Calderara: Dark Experience for General Continual Learning, NeurIPS 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wilkins.tasks.continual.errors import LearningError
from wilkins.tasks.continual.learner.losses import squared_error
from wilkins.tasks.continual.learner.strategy import LOGITS, Strategy
from wilkins.tasks.continual.learner.terms import Batch, Term
from wilkins.tasks.continual.rehearsal.buffer_options import RehearsalOptions

if TYPE_CHECKING:
    from mpi4py import MPI


class Incremental(Strategy):
    """Train on new samples only: the lower bound, which forgets."""

    name = "incremental"
    buffered = False


class FromScratch(Strategy):
    """Begin anew at every experience and train on all samples so far, which are kept; the cost grows.

    All samples are kept in host memory and saved with the state.
    """

    name = "from-scratch"
    buffered = False
    restarts = True

    def __init__(
        self, options: RehearsalOptions | None = None, comm: MPI.Intracomm | None = None, *, port: str = ""
    ) -> None:
        super().__init__(options, comm, port=port)
        self._past: dict[str, Tensor] = {}

    def begin(self, data: Batch, *, again: bool = False) -> Batch:
        if not again:
            self._past = with_past(self._past, data)
        return dict(self._past)

    def state_dict(self) -> dict[str, Any]:
        return {"past": dict(self._past)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._past = dict(state["past"])


def with_past(past: Batch, data: Batch) -> dict[str, Tensor]:
    """Samples that are kept in host memory, and new ones behind them.

    Raises:
        LearningError: they have other tensors.
    """
    if past and past.keys() != data.keys():
        raise LearningError(
            f"an experience has the tensors {', '.join(sorted(data))}, those before {', '.join(sorted(past))}"
        )
    host = {name: tensor.detach().cpu() for name, tensor in data.items()}
    return {name: torch.cat([past[name], tensor]) if past else tensor.clone() for name, tensor in host.items()}


class Rehearsal(Strategy):
    """Train on every batch together with representatives of all samples so far: b + r samples per step."""

    name = "rehearsal"

    def __init__(self, options: RehearsalOptions | None, comm: MPI.Intracomm | None = None, *, port: str = "") -> None:
        if options is None:
            raise ValueError(f"the strategy {self.name!r} needs a rehearsal buffer: give its options")
        super().__init__(options, comm, port=port)


class DarkReplay(Rehearsal):
    """Dark experience replay: samples are kept with the outputs of the model at that time, which it is held to.

    The objective of a step is the loss of the batch, plus `alpha` times the mean squared difference of outputs and kept
    outputs of r representatives (DER), plus `beta` times the loss of r others (DER++, if `beta` is not 0). The two
    draws of DER++ are the halves of one draw of 2 r samples without replacement, which come in random order. In every
    epoch samples are offered again, with the outputs of that moment, as in the paper.
    """

    name = "der"
    keeps_outputs = True
    keeps_once = False

    def __init__(
        self,
        options: RehearsalOptions | None,
        comm: MPI.Intracomm | None = None,
        *,
        alpha: float = 0.5,
        beta: float = 0.0,
        port: str = "",
    ) -> None:
        if alpha < 0 or beta < 0:
            raise ValueError(f"'alpha' ({alpha}) and 'beta' ({beta}) must not be negative")
        self.alpha, self.beta = alpha, beta
        self.name = "der++" if beta else "der"
        if beta and options is not None:
            options = replace(options, representatives=2 * options.representatives)
        super().__init__(options, comm, port=port)

    def terms(self, new: int, recalled: int) -> tuple[Term, ...]:
        every = new + recalled
        if not self.beta:
            return Term(0, new), Term(new, every, self.alpha, from_kept_outputs)
        middle = new + (recalled + 1) // 2
        return Term(0, new), Term(new, middle, self.alpha, from_kept_outputs), Term(middle, every, self.beta)


def from_kept_outputs(outputs: Tensor, samples: Batch) -> Tensor:
    """The mean squared difference of outputs and those that were kept with the samples."""
    return squared_error(outputs, samples[LOGITS])
