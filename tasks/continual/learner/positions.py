"""The reports of a learner: on a step, on its position in the data, and on the quality of its model."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Step:
    """What a step was like on this rank."""

    number: int
    """Steps made so far, this one included."""
    samples: int
    """New samples."""
    recalled: int
    """Representatives that were mixed in."""
    objective: Tensor
    """This rank's objective: a tensor of one number, on the model's device."""
    outputs: Tensor | None = field(repr=False)
    """What the model gave for the new samples before it was trained on them; None without new samples."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How good a model is on samples of all ranks."""

    samples: int
    loss: float
    """Mean loss; NaN without samples."""
    accuracy: float
    """Share of samples whose class has the greatest output; NaN without samples, and where targets are no classes."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the data a learner is."""

    experience: int = 0
    """Experiences that were finished, which is the number of the current one."""
    epoch: int = 0
    """Epochs of the current experience that were finished."""
    batch: int = 0
    """Batches of the current epoch that were trained on."""

    @property
    def begun(self) -> bool:
        """Whether some of the current experience was trained on."""
        return bool(self.epoch or self.batch)
