"""When a state is saved: every n steps, every t seconds, or as often as a share of the time allows. Pure.

`Schedule` is asked once per step, on one rank; the measured costs of earlier versions tune the share while running.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint.errors import CheckpointError

WEIGHT = 0.3
"""Weight of the latest measurement in the running mean of a version's cost."""


@dataclass(frozen=True, slots=True)
class When:
    """Which steps are saved; several conditions are alternatives, none means every step that is asked for."""

    steps: int | None = None
    """Every n-th step."""
    seconds: float | None = None
    """When this time has passed since the last one began."""
    overhead: float | None = None
    """As often as keeps the time that training is held up below this share of all time, such as 0.02."""

    def __post_init__(self) -> None:
        good = (
            (self.steps is None or self.steps >= 1)
            and (self.seconds is None or self.seconds >= 0)
            and (self.overhead is None or 0 < self.overhead < 1)
        )
        if not good:
            raise CheckpointError(
                f"{self} cannot be followed; give steps of 1 or more, seconds of 0 or more, an overhead between 0 and 1"
            )

    @property
    def by_time(self) -> bool:
        """Whether it depends on time, which ranks must agree on."""
        return self.seconds is not None or self.overhead is not None


def step_number(step: Any) -> int:
    """A step as a plain int, from one of Python's or NumPy's.

    Raises:
        CheckpointError: it is no number of a step.
    """
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or step < 0:
        raise CheckpointError(f"step {step!r} is no number of a step; give 0, 1, ..., as an int of Python or NumPy")
    return int(step)


@dataclass(slots=True)
class Schedule:
    """The state of a `When`: pass it the time, in seconds of a clock that never jumps."""

    when: When
    began: float
    """When the last version was begun, or the program."""
    cost: float | None = field(default=None)
    """Mean delay of training by a version, in seconds: time blocked, and the slowdown of steps meanwhile."""
    saved: int = field(default=0)
    quiet: float | None = field(default=None)
    """Mean time of a step without a version on its way, in seconds."""
    _open: int = field(default=0)
    """Versions whose cost is not known yet."""
    _extra: float = field(default=0.0)
    """What they have cost until now."""

    def due(self, step: int, now: float) -> bool:
        """Whether this step is to be saved."""
        when = self.when
        if when == When():
            return True
        if when.steps is not None and step % when.steps == 0:
            return True
        if when.seconds is not None and now - self.began >= when.seconds:
            return True
        if when.overhead is None or self.quiet is None:
            return False  # what a step takes without a version must be known first, or none would ever seem slower
        if self.saved == 0:
            return True
        if self.cost is None and self._open:
            return False
        cost = max(self.cost or 0.0, self._extra / self._open if self._open else 0.0)
        return (now - self.began) * when.overhead >= cost

    def begin(self, now: float) -> None:
        """A version is begun."""
        self.began = now
        self.saved += 1
        self._open += 1

    def step_took(self, seconds: float, blocked: float, *, busy: bool) -> None:
        """A step took `seconds`, of which it was `blocked`; `busy` if a version is on its way still."""
        if not self._open:
            self.quiet = _mean(self.quiet, seconds)
            return
        self._extra += blocked + (max(0.0, seconds - blocked - self.quiet) if self.quiet is not None else 0.0)
        if not busy:
            self.cost = _mean(self.cost, self._extra / self._open)
            self._open, self._extra = 0, 0.0


def _mean(before: float | None, new: float) -> float:
    return new if before is None else (1 - WEIGHT) * before + WEIGHT * new
