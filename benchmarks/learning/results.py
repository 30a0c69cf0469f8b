"""What was measured, as a value: kept in a file, and summed up over the seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .courses import WITH_BUFFER, Course, Made, Setting
from .streams import DIGITS

STRATEGIES = ("incremental", "from-scratch", *WITH_BUFFER)


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of a value over the seeds."""

    mean: float
    deviation: float
    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """The spread of one value or more."""
    return Spread(*(float(of(values)) for of in (np.mean, np.std, np.median, np.min, np.max)))


@dataclass(frozen=True, slots=True)
class Row:
    """What a setting has come to, over all seeds."""

    setting: Setting
    pushed: float
    """Samples that went through the model, by those of the stream."""
    every: Spread
    """Errors on all steps of the stream."""
    past: Spread
    """Errors on all steps but the last."""
    now: Spread
    """Errors on the last step."""
    seconds: Spread
    cpu: Spread
    kept: float
    """Bytes."""
    rates: tuple[float, ...]
    """Samples of each step by the processor time of training on it: how fast a stream may be to be followed."""
    keeps_up: int
    """Steps until training on one takes longer than making it."""


@dataclass(slots=True)
class Results:
    """All that was measured."""

    machine: dict[str, Any]
    made: list[Made]
    courses: list[Course]

    def save(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def rows(self, stream: str) -> list[Row]:
        """One for each setting, by strategies, buffers and passes."""
        settings = {course.setting for course in self.courses if course.stream == stream}
        return [self.row(stream, setting) for setting in sorted(settings, key=_order)]

    def row(self, stream: str, setting: Setting) -> Row:
        """That of a setting."""
        courses = [one for one in self.courses if (one.stream, one.setting) == (stream, setting)]
        counts = self.counts(stream)
        rates = np.median([counts / np.array(one.cpu) for one in courses], 0)
        slow = np.flatnonzero(rates < self.rate(stream))
        every, past, now = (spread([_together(one.errors[part], stream) for one in courses]) for part in _PARTS)
        return Row(
            setting,
            pushed=float(np.mean([sum(one.pushed) for one in courses])) / counts.sum(),
            every=every,
            past=past,
            now=now,
            seconds=spread([sum(one.seconds) for one in courses]),
            cpu=spread([sum(one.cpu) for one in courses]),
            kept=float(np.mean([one.kept for one in courses])),
            rates=tuple(float(rate) for rate in rates),
            keeps_up=int(slow[0]) if len(slow) else len(rates),
        )

    def counts(self, stream: str) -> Any:
        """Samples of each step to train on: the mean over the seeds."""
        return np.mean([one.samples for one in self.made if one.stream == stream], 0)

    def bytes_of(self, stream: str) -> int:
        """Bytes of a sample."""
        return next(one.bytes for one in self.made if one.stream == stream)

    def rate(self, stream: str) -> float:
        """Samples that are made in a second of processor time; 0 if that is not known."""
        made = [one for one in self.made if one.stream == stream]
        rates = [sum(one.samples) / sum(one.cpu) for one in made if all(one.cpu)]
        return float(np.median(rates)) if rates else 0.0


def _order(setting: Setting) -> tuple[int, int, int, int]:
    return STRATEGIES.index(setting.strategy), setting.buffer, setting.representatives, setting.passes


_PARTS = (slice(None), slice(-1), slice(-1, None))


def _together(errors: Sequence[float], stream: str) -> float:
    """The error on several steps: a mean; of norms, the root mean square."""
    return float(np.mean(errors) if stream == DIGITS.name else np.sqrt(np.mean(np.square(errors))))


def load(path: Path) -> Results:
    """What `save` has written."""
    found = json.loads(path.read_text(encoding="utf-8"))
    courses = [Course(**{**one, "setting": Setting(**one["setting"])}) for one in found["courses"]]
    return Results(found["machine"], [Made(**one) for one in found["made"]], courses)
