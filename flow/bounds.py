"""What holds a predicted run up: for which part of its time each task, channel between hosts and network is busy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from wilkins.flow.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Load:
    """Something that does one thing at a time, and how busy it is."""

    kind: str
    """Loads that differ in instances or hosts only are of one kind."""
    name: str
    percent: int
    """Percent of the run's time in which it is busy."""
    why: str
    """What it is busy with."""


def loads(timeline: Timeline) -> list[list[Load]]:
    """The busiest first, those of one kind and percentage together; networks before crossings before tasks."""
    end = timeline.end
    found = [*_networks(timeline, end), *_crossings(timeline, end), *_tasks(timeline, end)]
    kinds = {kind: place for place, kind in enumerate(dict.fromkeys(load.kind for load in found))}
    found.sort(key=lambda load: (-load.percent, kinds[load.kind]))
    return [list(same) for (percent, _), same in groupby(found, lambda one: (one.percent, one.kind)) if percent]


def _networks(timeline: Timeline, end: float) -> Iterator[Load]:
    for host in timeline.hosts:
        for what, busy in (("sending", host.sending), ("receiving", host.receiving)):
            yield Load(f"network, {what}", f"network of {host.name}, {what}", _percent(busy, end), "bytes of steps")


def _crossings(timeline: Timeline, end: float) -> Iterator[Load]:
    for one in timeline.crossings:
        readers = one.readers[0] + (f" and {len(one.readers) - 1} more" if len(one.readers) > 1 else "")
        carrying, packing = _percent(one.carrying, one.under_way), _percent(one.packing, one.under_way)
        packed = f"{packing} % packing, " if one.packing else ""
        how = "one step at a time" if one.at_once < 2 else f"up to {one.at_once} steps at once"
        yield Load(
            f"{_base(one.task)} -> {_base(one.readers[0])} {one.pattern}",
            f"{one.task} -> {readers} over {one.writes} -> {one.reads}",
            _percent(one.under_way, end),
            f"{how}: {carrying} % its bytes, {packed}{max(0, 100 - carrying - packing)} % its messages",
        )


def _tasks(timeline: Timeline, end: float) -> Iterator[Load]:
    for task in timeline.tasks:
        computing, moving = task.mean("computing"), task.mean("moving")
        of_that = _percent(computing, computing + moving)
        why = "computing" if of_that == 100 else f"{of_that} % computing, {100 - of_that} % copying steps"
        yield Load(f"task {_base(task.name)}", f"task {task.name}", _percent(computing + moving, end), why)


def _base(name: str) -> str:
    """A task's name without the number of its instance."""
    return name.partition("[")[0]


def _percent(part: float, whole: float) -> int:
    return round(100 * part / whole) if whole else 0
