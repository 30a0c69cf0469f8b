"""Strategies of continual learning: what a step trains on, and what is kept of it. The loop is `training_loop`'s.

`FromScratch` is the upper bound, `Incremental` the lower one; `Rehearsal` mixes samples of the past into every batch
(Bouvier et al. 2024); `DarkReplay` also holds the model to the outputs it once gave for them (DER and DER++; Buzzega,
Boschi, Porrello, Abati, Calderara: Dark Experience for General Continual Learning, NeurIPS 2020).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from wilkins.tasks.continual.errors import CheckpointError, LearningError
from wilkins.tasks.continual.rehearsal.buffer import RehearsalBuffer
from wilkins.tasks.continual.rehearsal.buffer_options import RehearsalOptions
from wilkins.tasks.continual.rehearsal.statistics import Statistics

if TYPE_CHECKING:
    from types import TracebackType

    from mpi4py import MPI

Batch = Mapping[str, Tensor]
"""Samples along the first axis of every tensor; `x` is what the model gets, `y` the targets."""

NAMES = ("from-scratch", "incremental", "rehearsal", "der", "der++")

LOGITS = "logits"
"""The tensor of a kept sample that holds the outputs the model gave for it."""


class Portion(NamedTuple):
    """Rows of a step's joined batch (new samples, then representatives) that enter the objective with one loss."""

    begin: int
    end: int
    kept_outputs: bool = False
    """Compare with the outputs that were kept (squared error) instead of with the targets (the user's loss)."""
    weight: float = 1.0

    @property
    def samples(self) -> int:
        """How many rows."""
        return self.end - self.begin


class Strategy:
    """Incremental learning, and what the others change of it. All ranks make the same strategy together."""

    name = "incremental"
    restarts = False
    """Whether each experience begins with the initial model and optimizer."""
    keeps_outputs = False
    """Whether `remember` wants what the model gave for the new samples."""
    keeps_once = True
    """Whether samples are offered in the first epoch of an experience only, so that none is kept twice."""
    device = "host"
    """Where `remember` wants the samples: `host`, or a torch device."""
    batch: int | None = None
    """Samples per step that the strategy was made for, if it matters."""

    def begin(self, data: Batch, *, again: bool = False) -> Batch:  # noqa: ARG002 - for those that keep data
        """Begin an experience with this rank's samples, or go on with it after a restart; what to train on."""
        return data

    def recall(self) -> Batch:
        """Representatives for this step, in host memory or where the batches are; nothing: an empty mapping."""
        return {}

    def remember(self, samples: Batch) -> None:
        """Offer a batch's samples, maybe none; returns at once."""

    def portions(self, new: int, recalled: int) -> tuple[Portion, ...]:
        """How a step's samples enter the objective. The same number of portions in every step, maybe empty ones."""
        return (Portion(0, new + recalled),)

    def statistics(self) -> Statistics | None:
        """What the rehearsal buffer has done, if there is one."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """What a restart needs besides the buffer: tensors and plain values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""

    def buffer_state(self) -> dict[str, Any] | None:
        """This rank's part of the buffer, all ranks together: arrays and plain values. Without a buffer: None."""
        return None

    def load_buffer_state(self, state: Mapping[str, Any]) -> None:  # noqa: ARG002 - there is no buffer
        """Continue from a `buffer_state`, before the first step.

        Raises:
            CheckpointError: it does not fit.
        """
        raise CheckpointError(f"it was saved with a rehearsal buffer, which the strategy {self.name!r} has not")

    def __enter__(self) -> Strategy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the buffer, all ranks together; with an error, tell the ranks that would wait for this one."""


class Incremental(Strategy):
    """Train on what is new only: the lower bound, which forgets."""


class FromScratch(Strategy):
    """Begin anew at every experience and train on all samples so far: the upper bound, whose cost grows.

    All samples are kept in host memory and saved with the state.
    """

    name = "from-scratch"
    restarts = True

    def __init__(self) -> None:
        self._past: dict[str, Tensor] = {}

    def begin(self, data: Batch, *, again: bool = False) -> Batch:
        if again:
            return dict(self._past)
        if self._past and self._past.keys() != data.keys():
            raise LearningError(
                f"an experience has the tensors {', '.join(sorted(data))}, those before {', '.join(sorted(self._past))}"
            )
        for name, tensor in data.items():
            before = self._past.get(name)
            host = tensor.detach().cpu()
            self._past[name] = host.clone() if before is None else torch.cat([before, host])
        return dict(self._past)

    def state_dict(self) -> dict[str, Any]:
        return {"past": dict(self._past)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._past = dict(state["past"])


class Rehearsal(Strategy):
    """Train on every batch together with representatives of all samples so far: b + r samples per step.

    `options` describe the buffer, of which every rank of `comm` has a part; `port` is where samples come from, for
    messages. The buffer is made and closed by all ranks together.
    """

    name = "rehearsal"

    def __init__(self, options: RehearsalOptions, comm: MPI.Intracomm | None = None, *, port: str = "") -> None:
        self.batch = options.batch
        self.device = options.device
        self.buffer = RehearsalBuffer(options, comm, port=port)

    def recall(self) -> Batch:
        return self.buffer.take()

    def remember(self, samples: Batch) -> None:
        self.buffer.offer(samples)

    def statistics(self) -> Statistics:
        return self.buffer.statistics()

    def buffer_state(self) -> dict[str, Any]:
        return self.buffer.state_dict()

    def load_buffer_state(self, state: Mapping[str, Any]) -> None:
        self.buffer.load_state_dict(state)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.buffer.__exit__(kind, error, trace)


class DarkReplay(Rehearsal):
    """Dark experience replay: samples are kept with the outputs of the model at that time, which it is held to.

    The objective of a step is the loss of the batch, plus `alpha` times the mean squared difference of outputs and kept
    outputs of r representatives (DER), plus `beta` times the loss of r others (DER++, if `beta` is not 0). The two
    draws of DER++ are the halves of one draw of 2 r samples without replacement, which come in random order. In every
    epoch samples are offered again, with the outputs of that moment, as in the paper.
    """

    keeps_outputs = True
    keeps_once = False

    def __init__(
        self,
        options: RehearsalOptions,
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
        draws = 2 if beta else 1
        super().__init__(replace(options, representatives=draws * options.representatives), comm, port=port)

    def portions(self, new: int, recalled: int) -> tuple[Portion, ...]:
        if not self.beta:
            return Portion(0, new), Portion(new, new + recalled, kept_outputs=True, weight=self.alpha)
        middle = new + (recalled + 1) // 2
        return (
            Portion(0, new),
            Portion(new, middle, kept_outputs=True, weight=self.alpha),
            Portion(middle, new + recalled, weight=self.beta),
        )


def make_strategy(
    name: str,
    options: RehearsalOptions | None = None,
    comm: MPI.Intracomm | None = None,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
    port: str = "",
) -> Strategy:
    """The strategy of this name, one of `NAMES`. `options` are those of its buffer, if it has one; `alpha` and `beta`
    weigh the terms of `der` (alpha only) and `der++`.

    Raises:
        ValueError: there is no such strategy, or `options` are missing.
    """
    if name == "from-scratch":
        return FromScratch()
    if name == "incremental":
        return Incremental()
    if name not in NAMES:
        raise ValueError(f"there is no strategy {name!r}; there are {', '.join(NAMES)}")
    if options is None:
        raise ValueError(f"the strategy {name!r} needs a rehearsal buffer: give its options")
    if name == "rehearsal":
        return Rehearsal(options, comm, port=port)
    return DarkReplay(options, comm, alpha=alpha, beta=beta if name == "der++" else 0.0, port=port)
