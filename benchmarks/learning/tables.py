"""Results as tables of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .results import Results, Row, Spread
from .streams import DIGITS, FADING, MOVING, PTYCHOGRAPHY

Column = tuple[str, Callable[[Row], str]]


def percent(found: Spread) -> str:
    """A mean and its standard deviation."""
    return f"{100 * found.mean:.1f} % +- {100 * found.deviation:.1f}"


def right(found: Spread) -> str:
    """The accuracy of an error."""
    return f"{100 * (1 - found.mean):.1f} % +- {100 * found.deviation:.1f}"


def ranged(found: Spread) -> str:
    """A median, and the smallest and the greatest value."""
    median, low, high = (
        f"{value:.2g}" if value < 10 else f"{value:.0f}" for value in (found.median, found.low, found.high)
    )
    return f"{median} ({low} to {high})"


def size(count: float) -> str:
    """Bytes, for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"


_SETTING: list[Column] = [
    ("strategy", lambda row: f"`{row.setting.strategy}`"),
    ("buffer", lambda row: str(row.setting.buffer or "-")),
    ("recalled", lambda row: str(row.setting.representatives or "-")),
    ("passes", lambda row: str(row.setting.passes)),
    ("samples pushed", lambda row: f"{row.pushed:.1f} x"),
]
_COSTS: list[Column] = [
    ("seconds", lambda row: ranged(row.seconds)),
    ("of processor", lambda row: ranged(row.cpu)),
    ("kept", lambda row: size(row.kept)),
]
_FOLLOWS: list[Column] = [
    ("follows, first step", lambda row: f"{row.rates[0]:,.0f} / s"),
    ("last step", lambda row: f"{row.rates[-1]:,.0f} / s"),
    ("keeps up", lambda row: "yes" if row.keeps_up == len(row.rates) else f"{row.keeps_up} steps"),
]
_PAST_AND_NOW: list[Column] = [
    ("error, past", lambda row: percent(row.past)),
    ("error, last step", lambda row: percent(row.now)),
]
COLUMNS: dict[str, list[Column]] = {
    DIGITS.name: [*_SETTING, ("accuracy", lambda row: right(row.every)), *_COSTS],
    MOVING.name: [*_SETTING, *_PAST_AND_NOW, *_COSTS, *_FOLLOWS],
    FADING.name: [*_SETTING, ("error, last step", lambda row: percent(row.now)), *_COSTS],
    PTYCHOGRAPHY.name: [*_SETTING, *_PAST_AND_NOW, *_COSTS],
}


def table(results: Results, stream: str) -> str:
    """That of a stream."""
    columns = COLUMNS[stream]
    lines = [[name for name, _ in columns], ["---"] * len(columns)]
    lines += [[cell(row) for _, cell in columns] for row in results.rows(stream)]
    return "\n".join(_line(cells) for cells in lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
