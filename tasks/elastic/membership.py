"""Who trains together: what the parent of the ranks decides when ranks report, die or are started. Pure.

Ranks train in *groups*, numbered by generation. A rank that leaves its group reports where it is and waits; when all
living ones have reported, the next group is formed of them. So a rank that dies meanwhile changes nothing but who is in
the next group, and forming one may be repeated as often as ranks die.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wilkins.values import dataclass, fields


@dataclass(frozen=True, slots=True)
class Report:
    """Where a rank is that waits for its next group."""

    step: int
    """The number of steps that it has finished."""
    fresh: bool = False
    """It has no state of this training yet, but what it was started with."""
    prepared: bool = False
    """It holds the sum of all gradients of the step that comes next. If any rank has finished that step, all ranks that
    were in its group hold the sum: this is what the second all-reduce of a step is for."""
    pending: int = 0
    """Samples whose gradient it holds for the step that comes next, and would add to another sum (`lossy`)."""
    finished: bool = False
    """It has made all steps that it was asked for."""
    broke: bool = False
    """Its group cannot go on: it has met the death of another rank."""


@dataclass(frozen=True, slots=True)
class Formed:
    """A group, and what its members do first."""

    generation: int
    members: tuple[int, ...]
    step: int
    """Steps that all have finished when they begin: whoever is prepared for that step finishes it, and whoever is not
    takes the state of `source`."""
    source: int
    holders: tuple[int, ...]
    """Members that have that state, or can finish the step."""
    contributors: tuple[int, ...]
    """Members that share the samples of the next step; the others take the state meanwhile."""
    again: bool = False
    """The next step takes the gradients that its members hold already; no samples are shared."""


@dataclass(frozen=True, slots=True)
class Form:
    """Tell the members that they are a group now."""

    group: Formed
    anew: bool = False
    """There were groups before, and nobody is left who has trained in one."""


@dataclass(frozen=True, slots=True)
class Break:
    """Tell ranks that their group cannot go on."""

    generation: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Tell ranks that somebody waits to join: they leave their group together, after a step."""

    generation: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Tell ranks that one of their group has made all steps that it was asked for: none of them can make more."""

    generation: int
    ranks: tuple[int, ...]
    step: int


@dataclass(frozen=True, slots=True)
class End:
    """Tell ranks that all steps have been made."""

    ranks: tuple[int, ...]
    survivors: tuple[int, ...]
    """All that have come to the end; the first of them is the one that prints and saves."""


@dataclass(frozen=True, slots=True)
class Expel:
    """Give up ranks that do not answer."""

    ranks: tuple[int, ...]


Instruction = Form | Break | Wanted | Ended | End | Expel


def agreed(generation: int, reports: Mapping[int, Report]) -> Formed:
    """The group of all ranks that have reported: it begins at the newest step that any of them can finish."""
    members = tuple(sorted(reports))
    having = [rank for rank in members if not reports[rank].fresh]
    step = max(reports[rank].step + reports[rank].prepared for rank in having or members)
    holders = tuple(rank for rank in having or members if reports[rank].step + reports[rank].prepared == step)
    pending = any(reports[rank].pending and not reports[rank].prepared for rank in holders)
    if not having:  # states that nobody has trained may differ, even after equally many steps
        return Formed(generation, members, step, holders[0], holders[:1], members)
    return Formed(generation, members, step, holders[0], holders, holders, again=pending)


class Membership:
    """The ranks of one training, by their numbers. Each method takes an event, and returns what is to be done."""

    def __init__(self, ranks: Iterable[int]) -> None:
        self.generation = 0
        self.survivors: tuple[int, ...] = ()
        """Ranks that have come to the end."""
        self._starting = set(ranks)
        self._ready: dict[int, Report] = {}
        self._training: set[int] = set()
        self._broken = False

    @property
    def ended(self) -> bool:
        """Whether all steps have been made."""
        return bool(self.survivors)

    @property
    def awaited(self) -> tuple[int, ...]:
        """Ranks that the first group waits for, while others wait already."""
        return tuple(sorted(self._starting)) if self.generation == 0 and self._ready else ()

    @property
    def training(self) -> tuple[int, ...]:
        """Members of the present group that have not left it."""
        return tuple(sorted(self._training))

    def started(self, rank: int) -> list[Instruction]:
        """A rank is being started: the first group waits for it, later ones do not."""
        self._starting.add(rank)
        return []

    def ready(self, rank: int, report: Report) -> list[Instruction]:
        """A rank is in no group, or has left its group, and waits for the next."""
        if self.ended:
            return [End((rank,), self.survivors)]
        joins = rank not in self._training
        self._starting.discard(rank)
        self._training.discard(rank)
        self._ready[rank] = report
        if report.broke:
            return [*self._break(), *self._next()]
        if joins and self._training and not self._broken:
            return [Wanted(self.generation, self.training)]
        if report.finished and self._training and not self._broken:
            return [Ended(self.generation, self.training, report.step)]
        return self._next()

    def gone(self, rank: int) -> list[Instruction]:
        """A rank has died, or was given up."""
        self._starting.discard(rank)
        self._ready.pop(rank, None)
        if rank not in self._training:
            return self._next()
        self._training.discard(rank)
        return [*self._break(), *self._next()]

    def overdue(self, generation: int) -> list[Instruction]:
        """The group of that generation was broken long ago; members that have not left it yet are given up."""
        silent = self.training
        if generation != self.generation or not self._broken or not silent:
            return []
        self._training.clear()
        return [Expel(silent), *self._next()]

    def _break(self) -> list[Instruction]:
        if self._broken or not self._training:
            return []
        self._broken = True
        return [Break(self.generation, self.training)]

    def _next(self) -> list[Instruction]:
        """The next group, when all that are to be in it have reported."""
        if self.ended or self._training or not self._ready or (self.generation == 0 and self._starting):
            return []
        if all(report.finished for report in self._ready.values()):
            self.survivors = tuple(sorted(self._ready))
            return [End(self.survivors, self.survivors)]
        self.generation += 1
        group = agreed(self.generation, self._ready)
        anew = self.generation > 1 and all(report.fresh for report in self._ready.values())
        self._training, self._ready, self._broken = set(group.members), {}, False
        return [Form(group, anew)]


def report_of(given: Mapping[str, Any]) -> Report:
    """A report out of a message. Raises ValueError if it is none."""
    known = {one.name: given.get(one.name, one.default) for one in fields(Report)}
    kinds = {"step": int, "pending": int}
    for name, value in known.items():
        if type(value) is not kinds.get(name, bool):
            raise ValueError(f"{name!r} of a report is {value!r}")
    return Report(**known)


def numbers(given: Sequence[Any]) -> tuple[int, ...]:
    """Ranks out of a message."""
    return tuple(int(one) for one in given)
