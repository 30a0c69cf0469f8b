"""From a sheet of times to what it says: what a step cost, and where its time went."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..programs.speed.sheet import BEGIN, COLUMNS, CREATED, OPENED, OPENING, READ, RELEASED, WRITTEN

BLOCKED, LATENCY, STREAM, FIRST = "blocked", "create to last read", "long stream", "first step"
AGAIN = "first step, run again"
PARTS = {
    "create": (BEGIN, CREATED),
    "write": (CREATED, WRITTEN),
    "close": (WRITTEN, RELEASED),
    "close to open": (WRITTEN, OPENED),
    "open": (OPENING, OPENED),
    "read": (OPENED, READ),
}
"""Parts of a step that is made while its consumer waits. `close to open` begins with the call to close."""


@dataclass(frozen=True, slots=True)
class Steps:
    """How many steps of each kind: see `pace` in `sheet.h`."""

    warm: int
    paced: int
    long: int

    @property
    def words(self) -> list[str]:
        """The arguments of a program after the path of its sheet."""
        return [str(self.warm + self.paced + self.long), str(self.warm), str(self.paced)]


def read_sheet(path: Path, steps: Steps) -> dict[str, float]:
    """What a sheet says, in seconds; medians over the paced steps, except of the first step and the long stream.

    Raises:
        RuntimeError: a step was not made.
    """
    return measured(np.fromfile(path).reshape(-1, COLUMNS), steps)


def measured(sheet: np.ndarray[Any, np.dtype[np.float64]], steps: Steps) -> dict[str, float]:
    """What these times say."""
    if not sheet[:, RELEASED].all():
        raise RuntimeError(f"{np.count_nonzero(sheet[:, RELEASED] == 0)} steps were not made")
    found = {FIRST: sheet[0, RELEASED] - sheet[0, BEGIN]}
    paced = sheet[steps.warm : steps.warm + steps.paced]
    kinds = {BLOCKED: (BEGIN, RELEASED), LATENCY: (BEGIN, READ), **PARTS}
    for kind, (begin, end) in kinds.items():
        if paced[:, begin].all() and paced[:, end].all():
            found[kind] = statistics.median(paced[:, end] - paced[:, begin])
    ends = sheet[-steps.long :, READ if sheet[:, READ].all() else RELEASED]
    if len(ends) > 1 and steps.long:
        found[STREAM] = (ends[-1] - ends[0]) / (len(ends) - 1)
    return {kind: float(value) for kind, value in found.items()}
