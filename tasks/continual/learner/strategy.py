"""What a strategy is, and a regulariser: the classes that those by name and one's own derive from.

A strategy says what each optimiser step trains on, what is minimised, and what it keeps. The loop is `training_loop`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from wilkins.tasks.continual.learner.losses import Loss
from wilkins.tasks.continual.learner.terms import Batch, Term
from wilkins.tasks.continual.rehearsal.buffer import RehearsalBuffer
from wilkins.tasks.continual.rehearsal.buffer_options import RehearsalOptions
from wilkins.tasks.continual.rehearsal.statistics import Statistics

if TYPE_CHECKING:
    from mpi4py import MPI

LOGITS = "logits"
"""The tensor of a kept sample that holds the outputs the model gave for it."""


class Training(Protocol):
    """What strategies and regularisers may look at of the `Learner` that they were given to."""

    model: nn.Module
    loss: Loss
    device: torch.device


class Regulariser:
    """Adds to what is minimised, beside any strategy. All ranks make the same one and call it together."""

    name = ""
    """What it is called; left out: as its class."""
    learner: Training
    """Set by the learner that it is given to."""

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def terms(self, new: int, recalled: int) -> tuple[Term, ...]:  # noqa: ARG002 - for those that have some
        """Terms of the objective for a step: the same number of terms on all ranks, some maybe empty."""
        return ()

    def penalty(self) -> Tensor | None:
        """A term that depends on the model's parameters alone, and is the same on all ranks: one number."""
        return None

    def end(self, data: Batch) -> None:
        """A step of the stream is over; `data` is what this rank has trained on in it."""

    def state_dict(self) -> dict[str, Any]:
        """What a restart needs: tensors, arrays and plain values. A regulariser's is that of rank 0 on all ranks."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""


class Strategy(Regulariser):
    """Trains on every new batch and what a buffer gives back, if there is one: the base of all strategies.

    A class of your own changes what it wants to. It is called as this one is, with its own arguments by name.

    Args:
        options: those of the rehearsal buffer, of which every rank of `comm` has a part; left out: there is none. The
            buffer is made and closed by all ranks together, and is saved beside the `state_dict`.
        port: where samples come from, for messages.
    """

    buffered = True
    """Whether there is a buffer if options for it are given."""
    restarts = False
    """Whether each experience begins with the initial model, optimizer and schedule."""
    keeps_outputs = False
    """Whether `remember` wants what the model gave for the new samples, as their tensor `logits`."""
    keeps_once = True
    """Whether samples are offered in the first epoch of an experience only, so that none is kept twice."""
    buffer: RehearsalBuffer | None = None

    def __init__(
        self, options: RehearsalOptions | None = None, comm: MPI.Intracomm | None = None, *, port: str = ""
    ) -> None:
        if options is not None and self.buffered:
            self.buffer = RehearsalBuffer(options, comm, port=port)

    def begin(self, data: Batch, *, again: bool = False) -> Batch:  # noqa: ARG002 - for those that keep data
        """Begin an experience with this rank's samples, or go on with it after a restart; what to train on."""
        return data

    def recall(self) -> Batch:
        """Samples to mix into this step, in host memory or where the batches are; none: an empty mapping."""
        return self.buffer.take() if self.buffer else {}

    def remember(self, samples: Batch) -> None:
        """Offer a batch's samples, maybe none; returns at once."""
        if self.buffer:
            self.buffer.offer(samples)

    def terms(self, new: int, recalled: int) -> tuple[Term, ...]:
        """What a step minimises, new samples before recalled ones: equally many terms on all ranks."""
        return (Term(0, new + recalled),)

    def state_dict(self) -> dict[str, Any]:
        """What a restart needs of this rank besides the buffer: tensors, arrays and plain values."""
        return {}

    def statistics(self) -> Statistics | None:
        """What the rehearsal buffer has done, if there is one."""
        return self.buffer.statistics() if self.buffer else None
