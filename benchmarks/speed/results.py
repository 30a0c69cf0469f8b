"""What was measured: numbers by row and contestant, one for each turn, and their ratios."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the range it is from."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread | None:
    """The spread of some values; None of none."""
    return Spread(statistics.median(values), min(values), max(values)) if values else None


@dataclass(slots=True)
class Results:
    """A measurement as a whole."""

    machine: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By row, by contestant: seconds if the row does not say otherwise, one value per turn."""
    left_out: list[str] = field(default_factory=list)
    """What was not measured, and why."""

    def add(self, row: str, contestant: str, value: float) -> None:
        """One more value, of one more turn."""
        self.rows.setdefault(row, {}).setdefault(contestant, []).append(value)

    def values(self, row: str, contestant: str) -> list[float]:
        """One value per turn; none where that was not measured."""
        return self.rows.get(row, {}).get(contestant, [])

    def ratio(self, row: str, contestant: str, other: str, other_row: str | None = None) -> Spread | None:
        """How many times the other's value a contestant's is, turn by turn; None where one was not measured."""
        pairs = zip(self.values(row, contestant), self.values(other_row or row, other), strict=False)
        return spread([value / reference for value, reference in pairs])

    def save(self, path: Path) -> None:
        """Write all as JSON."""
        record = {"machine": self.machine, "rows": self.rows, "left_out": self.left_out}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> Results:
    """What `save` wrote."""
    return Results(**json.loads(path.read_text(encoding="utf-8")))


def compared(old: Results, new: Results) -> list[str]:
    """A line for each value that both have: old and new medians, the change, and whether the ranges lie apart."""
    lines = []
    for row, contestants in new.rows.items():
        for contestant, values in contestants.items():
            before, after = spread(old.values(row, contestant)), spread(values)
            if not before or not after or not before.median:
                continue
            apart = after.low > before.high or after.high < before.low
            lines.append(
                f"{row:<32} {contestant:<28} {before.median:>12.3g} {after.median:>12.3g}"
                f" {after.median / before.median:>7.2f} x {'ranges apart' if apart else ''}".rstrip()
            )
    return lines
