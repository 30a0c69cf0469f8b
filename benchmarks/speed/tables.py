"""Results as tables of Markdown: goals, steps by size, and where their time goes; ratios first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import others
from .goals import Goal
from .results import Results, Spread, spread
from .scenes import (
    BESIDE,
    CORE,
    CORE_BESIDE,
    CORE_H5PY,
    DISK,
    FOUR_TWO,
    H5PY,
    HAND,
    MEMCPY,
    MPI4PY,
    MPI_C,
    MPIS,
    ONE_ONE,
    SETS,
    SHM,
    SIZES,
    SST,
    STRIDED,
    TWO_ONE,
    VIEWS,
    C,
)
from .times import AGAIN, BLOCKED, FIRST, LATENCY, STREAM

ORDER = (C, H5PY, VIEWS, MPI4PY, MPI_C, HAND, SHM, DISK, SST, CORE, CORE_BESIDE, CORE_H5PY, MEMCPY, BESIDE)
KINDS = (BLOCKED, LATENCY, STREAM)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float) -> str:
    """Three digits, or all of a large number."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ranged(values: Spread | None, unit: str = "") -> str:
    """A median with its range."""
    if values is None:
        return "-"
    word = f" {unit}" if unit else ""
    return f"{number(values.median)}{word} ({number(values.low)} to {number(values.high)})"


def milliseconds(values: Sequence[float]) -> str:
    """The median of some seconds."""
    found = spread(values)
    return number(1e3 * found.median) if found else "-"


def of_goals(goals: Sequence[Goal]) -> str:
    """Each goal, what was measured, and whether it is met."""
    words = {True: "met", False: "**not met**", None: "not measured"}
    return table(
        ["what", "measured", "goal", "", "where the time goes", "what bounds it"],
        [
            [
                goal.what,
                ranged(goal.measured, goal.unit),
                f"{goal.relation} {goal.limit:g} {goal.unit}".strip(),
                words[goal.met],
                goal.where,
                f"{goal.bounded_by}: {ranged(goal.bound, goal.unit)}" if goal.bound else "",
            ]
            for goal in goals
        ],
    )


def sizes_of(results: Results) -> list[str]:
    """The sizes of steps that were measured."""
    return [size for size in SIZES if f"{BLOCKED}, {size}" in results.rows]


def of_steps(results: Results) -> str:
    """Each contestant by size: multiples of what a memcpy takes beside another, and milliseconds."""
    sizes = sizes_of(results)
    rows = [
        [
            name,
            *(
                " / ".join(_ratio(results.ratio(f"{kind}, {size}", name, BESIDE)) for kind in KINDS)
                for size in sizes[1:]
            ),
            *(" / ".join(milliseconds(results.values(f"{kind}, {size}", name)) for kind in KINDS) for size in sizes),
        ]
        for name in ORDER
        if any(results.values(f"{BLOCKED}, {size}", name) for size in sizes)
    ]
    return table(["", *(f"{size}, x" for size in sizes[1:]), *(f"{size}, ms" for size in sizes)], rows)


def _ratio(values: Spread | None) -> str:
    return number(values.median) if values else "-"


def of_parts(results: Results) -> str:
    """Where the time of a paced step goes, in microseconds; the first step in milliseconds."""
    kinds = ("create", "write", "close", "close to open", "read")
    rows = [
        [
            f"{name}, {scene}",
            *(ranged(spread([1e6 * value for value in results.values(f"{kind}, {scene}", name)])) for kind in kinds),
            milliseconds(results.values(f"{FIRST}, {scene}", name)),
            milliseconds(results.values(f"{AGAIN}, {scene}", name)),
        ]
        for scene in (*SIZES, SETS, FOUR_TWO, ONE_ONE, TWO_ONE)
        for name in (C, H5PY, VIEWS, *(f"wilkins, {mpi}" for mpi in MPIS.values()))
        if results.values(f"{FIRST}, {scene}", name)
    ]
    return table(["", *(f"{kind}, us" for kind in kinds), "first step, ms", "run again, ms"], rows)


def of_others(results: Results) -> str:
    """What is no stream: ours and the other's times, and their ratio."""
    pairs = [(row, others.WILKINS, others.HAND) for row in (others.START_C, others.START_H5PY, others.START_MANY)]
    pairs.insert(1, (others.START_C, others.WILKINS, others.IMPORTS))
    pairs += [(row, others.WILKINS, others.WITHOUT) for row in (others.CALL_WRITE, others.CALL_READ)]
    pairs += [(f"{kind}, {SETS}", C, CORE) for kind in (BLOCKED, STREAM)]
    pairs += [
        (f"{kind}, {FOUR_TWO}", f"wilkins, {mpi}", STRIDED) for mpi in MPIS.values() for kind in (BLOCKED, LATENCY)
    ]
    rows = [
        [
            row,
            f"{ours} / {other}",
            ranged(results.ratio(row, ours, other), "x"),
            milliseconds(results.values(row, ours)),
            milliseconds(results.values(row, other)),
        ]
        for row, ours, other in pairs
        if results.values(row, ours)
    ]
    return table(["", "of", "ratio", "ms", "ms"], rows)
