"""The goals: what each is the ratio of, its limit, and whether a measurement meets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from . import others
from .results import Results, Spread, spread
from .scenes import (
    BESIDE,
    CORE,
    CORE_BESIDE,
    CORE_H5PY,
    FOUR_TWO,
    H5PY,
    HAND,
    MPI4PY,
    MPIS,
    NULL,
    ONE_ONE,
    SETS,
    SHM,
    SST,
    STRIDED,
    TWO_ONE,
    VIEWS,
    C,
)
from .times import AGAIN, BLOCKED, FIRST, LATENCY, STREAM

LARGE = ("16 MiB", "128 MiB", "512 MiB")
TINY = "1 KiB"


@dataclass(frozen=True, slots=True)
class Goal:
    """One comparison: what was measured, and its limit."""

    what: str
    measured: Spread | None
    relation: Literal["<=", ">=", "<"]
    limit: float
    unit: str = "x"
    where: str = ""
    """Where the time goes."""
    bound: Spread | None = None
    """What the same comparison gives for what does the least that anybody could do, in the same turns."""
    bounded_by: str = ""
    """What that is."""

    @property
    def met(self) -> bool | None:
        """Whether the median is within the limit; None where nothing was measured."""
        if self.measured is None:
            return None
        value = self.measured.median
        return {"<=": value <= self.limit, ">=": value >= self.limit, "<": value < self.limit}[self.relation]


def _blocked(results: Results) -> list[Goal]:
    alone = {C: CORE, H5PY: CORE_H5PY, VIEWS: CORE_H5PY}
    small = LARGE[0]  # of larger steps, the core driver's memory is new each time
    return [
        Goal(
            f"producer blocked, {size}: {name} / {BESIDE}",
            results.ratio(f"{BLOCKED}, {size}", name, BESIDE),
            "<=",
            1.0,
            bound=results.ratio(f"{BLOCKED}, {size}", alone[name] if size == small else HAND, BESIDE),
            bounded_by=alone[name] if size == small else HAND,
        )
        for size in LARGE
        for name in (C, H5PY, VIEWS)
    ]


def _views(results: Results) -> list[Goal]:
    return [
        Goal(
            f"create to last read, {size}: {VIEWS} / {MPI4PY}",
            results.ratio(f"{LATENCY}, {size}", VIEWS, MPI4PY),
            "<=",
            1.2,
            bound=results.ratio(f"{BLOCKED}, {size}", CORE_H5PY if size == LARGE[0] else HAND, MPI4PY),
            bounded_by=f"one copy: {CORE_H5PY if size == LARGE[0] else HAND}",
        )
        for size in LARGE
    ]


def _streams(results: Results) -> list[Goal]:
    """Rates, so the other's time by ours."""
    limits = {MPI4PY: {"16 MiB": 1.0, "128 MiB": 1.1, "512 MiB": 1.1}, SHM: dict.fromkeys(LARGE, 5.0)}
    limits[SST] = dict.fromkeys(LARGE, 8.0)
    return [
        Goal(
            f"rate of a long stream, {size}: {name} / {other}",
            results.ratio(f"{STREAM}, {size}", other, name),
            ">=",
            limit,
            bound=results.ratio(f"{STREAM}, {size}", other, HAND),
            bounded_by=f"two copies: {HAND}",
        )
        for other, sizes in limits.items()
        for size, limit in sizes.items()
        for name in (C, H5PY)
    ]


def _first(results: Results) -> list[Goal]:
    return [
        Goal(
            f"{kind} / a warm one, {size}: {name}",
            results.ratio(f"{kind}, {size}", name, name, f"{BLOCKED}, {size}"),
            "<=",
            1.5,
            bound=results.ratio(f"{FIRST}, {size}", HAND, HAND, f"{BLOCKED}, {size}")
            if kind == FIRST
            else _with_first_file(results, size, name, CORE if name == C else CORE_H5PY),
            bounded_by=f"new memory: {HAND}" if kind == FIRST else "a warm one, and HDF5's own first file",
        )
        for kind in (FIRST, AGAIN)
        for size in LARGE
        for name in (C, H5PY)
    ]


def _with_first_file(results: Results, size: str, name: str, alone: str) -> Spread | None:
    """A warm step with what HDF5 takes more for its first file than for others, in warm steps."""
    rows = ((f"{BLOCKED}, {size}", name), (f"{FIRST}, {TINY}", alone), (f"{BLOCKED}, {TINY}", alone))
    turns = zip(*(results.values(row, of) for row, of in rows), strict=False)
    return spread([(warm + first - other) / warm for warm, first, other in turns])


def _sum(results: Results, *terms: tuple[int, str, str]) -> Spread | None:
    """Values with their signs, turn by turn, in microseconds."""
    values = [[sign * value for value in results.values(row, name)] for sign, row, name in terms]
    return spread([1e6 * sum(turn) for turn in zip(*values, strict=False)])


def _tiny(results: Results) -> list[Goal]:
    stream = f"{STREAM}, {TINY}"
    opened = ((1, f"close to open, {TINY}", C), (-1, f"close, {TINY}", CORE), (-1, f"open, {TINY}", SHM))
    return [
        Goal(f"long stream, {TINY}: {C} - {CORE}", _sum(results, (1, stream, C), (-1, stream, CORE)), "<=", 60, "us"),
        Goal(
            f"long stream, {TINY}: {C} / {SHM}",
            results.ratio(stream, C, SHM),
            "<",
            1.0,
            bound=results.ratio(stream, CORE_BESIDE, SHM),
            bounded_by=CORE_BESIDE,
        ),
        Goal(
            f"from close called to open returned, {TINY}, less HDF5's own: {C}", _sum(results, *opened), "<=", 60, "us"
        ),
    ]


def _start(results: Results) -> list[Goal]:
    alone = spread([1e3 * value for value in results.values(others.START_C, others.WILKINS)])
    python = results.values(others.START_C, others.IMPORTS)
    what = f"Python, with {others.IMPORTS}"
    return [
        Goal(
            f"{others.START_C}: wilkins",
            alone,
            "<=",
            80,
            "ms",
            bound=spread([1e3 * value for value in python]),
            bounded_by=what,
        ),
        *(
            Goal(
                f"{row}: wilkins / by hand",
                results.ratio(row, others.WILKINS, others.HAND),
                "<=",
                1.3,
                bound=spread(
                    [
                        (first + hand) / hand
                        for first, hand in zip(python, results.values(row, others.HAND), strict=False)
                    ]
                ),
                bounded_by=f"by hand, after {what}",
            )
            for row in (others.START_H5PY, others.START_MANY)
        ),
    ]


def _parallel(results: Results) -> list[Goal]:
    found = [
        Goal(
            f"producers blocked, {FOUR_TWO}: {name} / {STRIDED}",
            results.ratio(f"{BLOCKED}, {FOUR_TWO}", f"wilkins, {name}", STRIDED),
            "<=",
            {"mpich": 1.5, "openmpi": 1.3}[mpi],
            bound=results.ratio(f"{BLOCKED}, {FOUR_TWO}", NULL[mpi], STRIDED),
            bounded_by=NULL[mpi],
        )
        for mpi, name in MPIS.items()
    ]
    return found + [
        Goal(
            f"create to last read, {TWO_ONE} / {ONE_ONE}: {name}",
            results.ratio(f"{LATENCY}, {TWO_ONE}", name, name, f"{LATENCY}, {ONE_ONE}"),
            "<=",
            1.2,
        )
        for name in (f"wilkins, {mpi}" for mpi in MPIS.values())
    ]


def _sets(results: Results) -> list[Goal]:
    row = f"{BLOCKED}, {SETS}"
    return [
        Goal(
            f"producer {row}: {C} / {CORE}",
            results.ratio(row, C, CORE),
            "<=",
            1.05,
            bound=results.ratio(row, CORE_BESIDE, CORE),
            bounded_by=CORE_BESIDE,
        )
    ]


def _calls(results: Results) -> list[Goal]:
    return [
        Goal(f"{row}: with / without the layer", results.ratio(row, others.WILKINS, others.WITHOUT), "<", 1.01)
        for row in (others.CALL_WRITE, others.CALL_READ)
    ]


def _launcher(results: Results) -> list[Goal]:
    limits = {
        others.LAUNCHER_CPU: (1e3, 0.2, "ms/s"),
        others.LAUNCHER_BYTES: (1e-6, 15, "MB"),
        others.LAUNCHER_COUNT: (1, 1, ""),
    }
    return [
        Goal(f"{row}, while all wait", _scaled(results.values(row, others.WILKINS), scale), "<=", limit, unit)
        for row, (scale, limit, unit) in limits.items()
    ]


def _scaled(values: Sequence[float], scale: float) -> Spread | None:
    return spread([scale * value for value in values])


GROUPS = (
    (_blocked, "one copy into shared memory"),
    (_views, "the copy of publish; a view copies nothing"),
    (_streams, "two copies, at the same time"),
    (_first, "pages of shared memory that are new to the program, and in a virtual machine perhaps to the host"),
    (_tiny, "system calls of create, close and open; a futex"),
    (_start, "imports, most of it"),
    (_parallel, "copies; ranks that share cores, and wait for each other"),
    (_sets, "HDF5's own metadata"),
    (_calls, "a look whether the file is a port's"),
    (_launcher, "a look at the board, every 1 to 5 s; the second process is a guard, and sleeps"),
)


def goals(results: Results) -> list[Goal]:
    """All goals, in the order of the page."""
    return [replace(goal, where=where) for group, where in GROUPS for goal in group(results)]
