"""The timeline of a run as it happened, from the events of its trace.

A rank is *moving* from the creation of a step to its publication, and from its open of a step to its last close of it.
What lies between events is *computing*. What comes before a program's first event is *starting*; if that event is the
creation of a step, the last part of it, as long as the rank usually computes before it creates one, is computing. What
comes after a program's last event is *ending*; if that event was a read, the first part of it, as long as the rank
usually computes after one, is computing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import pairwise
from statistics import median

from wilkins.flow.timeline import (
    Activity,
    Opening,
    RankTimeline,
    Segment,
    StepTimeline,
    TaskTimeline,
    Timeline,
)
from wilkins.flow.trace import Event

Feeds = Mapping[tuple[str, str], AbstractSet[tuple[str, str]]]
"""For the task and pattern of each in-port, those of the out-ports that are joined to it."""

_SECOND = 1e9
_WAITS: dict[str, Activity] = {
    "wait-data": "waiting for data",
    "wait-room": "waiting for room",
    "wait-memory": "waiting for room",
}


def recorded(
    events: Sequence[Event],
    tasks: Sequence[str] = (),
    feeds: Feeds | None = None,
    carriers: AbstractSet[str] = frozenset(),
) -> Timeline:
    """The timeline of a run.

    Args:
        events: in the order of their times.
        tasks: names in the order to be shown in; those that only the events name come after them.
        feeds: tells producers apart that write files of one name.
        carriers: tasks that compute nothing: where they move no step, they wait for one.
    """
    events = [event for event in events if event.event not in ("done", "file", "back")]
    if not events:
        return Timeline(tuple(TaskTimeline(name, None, ()) for name in tasks), ())
    origin, last = events[0].time_ns, events[-1].time_ns
    by_task: dict[str, list[Event]] = {name: [] for name in tasks}
    for event in events:
        by_task.setdefault(event.task, []).append(event)
    lines = [_task(name, own, origin, last) for name, own in by_task.items()]
    lines = [_carrying(line) if line.name in carriers else line for line in lines]
    return Timeline(tuple(lines), tuple(_steps(events, origin, feeds or {})))


def _carrying(line: TaskTimeline) -> TaskTimeline:
    ranks = []
    for rank in line.ranks:
        segments = (
            replace(one, activity="waiting for data") if one.activity == "computing" else one for one in rank.segments
        )
        ranks.append(replace(rank, segments=tuple(segments)))
    return replace(line, ranks=tuple(ranks))


def without_start(timeline: Timeline) -> Timeline:
    """The timeline from the moment at which the first task had started, and without the ending of programs.

    What others still needed to start after that moment stays.
    """
    first = [
        rank.segments[0].end if rank.segments[0].activity == "starting" else rank.segments[0].begin
        for task in timeline.tasks
        for rank in task.ranks
        if rank.segments
    ]
    origin = min(first, default=0.0)
    return Timeline(
        tuple(_cut_task(task, origin) for task in timeline.tasks),
        tuple(
            replace(
                step,
                published=step.published - origin,
                openings=tuple(replace(opening, time=opening.time - origin) for opening in step.openings),
            )
            for step in timeline.steps
        ),
    )


def _cut_task(task: TaskTimeline, origin: float) -> TaskTimeline:
    ranks = []
    for rank in task.ranks:
        kept = [segment for segment in rank.segments if segment.end > origin]
        if kept and kept[-1].activity == "ending":
            kept.pop()
        moved = (replace(one, begin=max(one.begin, origin) - origin, end=one.end - origin) for one in kept)
        ranks.append(replace(rank, segments=tuple(moved)))
    ends = [rank.segments[-1].end for rank in ranks if rank.segments]
    end = None if task.end is None else max(ends, default=max(task.end - origin, 0.0))
    return TaskTimeline(task.name, end, tuple(ranks))


def computing_times(timeline: Timeline) -> dict[str, float]:
    """The median time that a task's ranks compute per step, in seconds: between two openings, else two publications.

    What comes before the first step and after the last one is left out where there are others; tasks without steps are
    left out.
    """
    found = {}
    for task in timeline.tasks:
        times = [time for rank in task.ranks for time in _computing(rank)]
        if times:
            found[task.name] = median(times)
    return found


def steps_written(timeline: Timeline) -> dict[str, int]:
    """How many steps each task published: the most of any of its ranks on any of its ports."""
    counts = Counter((step.task, step.source, step.pattern) for step in timeline.steps)
    written: dict[str, int] = {}
    for (task, _, _), count in counts.items():
        written[task] = max(written.get(task, 0), count)
    return written


def _computing(rank: RankTimeline) -> list[float]:
    """Computing times between a rank's steps: from one arrival at its first port to the next."""
    ports = [segment.what for segment in rank.segments if segment.what]
    if not ports:
        return []
    times: list[float] = []
    spent = 0.0
    before = ""
    for segment in rank.segments:
        if segment.what == ports[0] and before != ports[0]:
            times.append(spent)
            spent = 0.0
        if segment.activity == "computing":
            spent += segment.end - segment.begin
            before = ""
        elif segment.what:
            before = segment.what
    times.append(spent)
    return times[1:-1] or [max(times)]


def _task(name: str, events: Sequence[Event], origin: int, last: int) -> TaskTimeline:
    """One task from its events."""
    whole = [event for event in events if event.rank < 0]
    by_rank: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event.rank >= 0 and event.event not in ("skip", "drop"):
            by_rank[event.rank].append(event)
    if not by_rank and whole:
        by_rank[0] = []
    published: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
    for event in events:
        if event.event in ("publish", "remake"):
            published[event.pattern, event.rank].append(event.time_ns)
            published[event.pattern, None].append(event.time_ns)
    ranks = []
    for rank, own in sorted(by_rank.items()):
        programs = list(_programs([*(event for event in whole if event.event in ("start", "end")), *own], last))
        inner = [event for event in own if event.event not in ("start", "end")]
        segments = tuple(
            Segment(activity, (begin - origin) / _SECOND, (end - origin) / _SECOND, what)
            for activity, begin, end, what in _segments(rank, inner, programs, published)
            if begin < end
        )
        ranks.append(RankTimeline(rank, segments))
    ends = [event.time_ns for event in events if event.event == "end"]
    starts = [event.time_ns for event in events if event.event == "start"]
    ended = ends and (not starts or max(ends) >= max(starts))
    return TaskTimeline(name, (max(ends) - origin) / _SECOND if ended else None, tuple(ranks))


def _programs(events: Sequence[Event], last: int) -> Iterator[tuple[int, int]]:
    """When each program of a rank was started and ended."""
    begun = None
    inner = [event.time_ns for event in events if event.event not in ("start", "end")]
    for event in sorted(events, key=lambda event: event.time_ns):
        if event.event == "start" and begun is None:
            begun = event.time_ns
        elif event.event == "end" and begun is not None:
            yield begun, event.time_ns
            begun = None
    if begun is not None:
        yield begun, last
    elif inner and not any(event.event == "start" for event in events):
        yield min(inner), max(inner)


_Piece = tuple[Activity, int, int, str]

_Published = Mapping[tuple[str, int | None], list[int]]
"""When steps of a task were published, by pattern and rank; None: by any rank."""


def _segments(
    rank: int,
    events: Sequence[Event],
    programs: Sequence[tuple[int, int]],
    published: _Published,
) -> Iterator[_Piece]:
    """A rank's segments: where busy pieces overlap, the wait counts, then the step that was begun first."""
    busy = sorted([*_waits(events), *_moves(rank, events, published)], key=lambda piece: piece[1])
    begins = [piece[1] for piece in busy]
    gaps = [two[1] - one[2] for one, two in pairwise(busy) if two[1] > one[2] and two[3] == busy[0][3]]
    usual = int(median(gaps)) if gaps else None
    opens = {event.time_ns for event in events if event.event == "open"}
    now = None
    for begin, end in programs:
        inside = busy[bisect_left(begins, begin) : bisect_left(begins, end)]
        reads = bool(inside) and (inside[0][0] == "waiting for data" or inside[0][1] in opens)
        started = inside[0][1] if inside else end
        if inside and not reads:
            started = max(begin, started - (usual or 0))
        yield "starting", begin if now is None else now, started, ""
        now = started
        for activity, since, until, what in inside:
            until = min(until, end)
            if until > now:
                yield "computing", now, since, ""
                yield activity, max(since, now), until, what
                now = until
        last = now
        if reads and inside[-1][0] != "waiting for data":
            last = end if usual is None else min(end, now + usual)
        yield "computing", now, last, ""
        yield "ending", last, end, ""
        now = end


def _waits(events: Sequence[Event]) -> Iterator[_Piece]:
    begun: Event | None = None
    for event in events:
        if event.event in _WAITS:
            begun = begun or event
        elif event.event == "go" and begun:
            yield _WAITS[begun.event], begun.time_ns, event.time_ns, begun.pattern
            begun = None
    if begun:
        yield _WAITS[begun.event], begun.time_ns, 2**63, begun.pattern


def _moves(rank: int, events: Sequence[Event], published: _Published) -> Iterator[_Piece]:
    """From creation to publication, and from an open to the last close; a wait in between cuts it."""
    cuts = sorted(event.time_ns for event in events if event.event in _WAITS)
    closed = _last_closes(events)
    for place, event in enumerate(events):
        if event.event == "create":
            times = published.get((event.pattern, rank)) or published.get((event.pattern, None), [])
            found = bisect_left(times, event.time_ns)
            if found < len(times):
                yield from _cut("moving", event.time_ns, times[found], event.pattern, cuts)
        elif event.event == "open" and place in closed:
            yield from _cut("moving", event.time_ns, closed[place], event.pattern, cuts)


def _last_closes(events: Sequence[Event]) -> dict[int, int]:
    """By the place of an open: when its step was closed for the last time before the next open of the pattern."""
    closed: dict[int, int] = {}
    open_now: dict[str, int] = {}
    for place, event in enumerate(events):
        if event.event == "open":
            open_now[event.pattern] = place
        elif event.event == "close" and event.pattern in open_now:
            opened = open_now[event.pattern]
            if events[opened].sequence == event.sequence:
                closed[opened] = event.time_ns
    return closed


def _cut(activity: Activity, begin: int, end: int, what: str, cuts: Sequence[int]) -> Iterator[_Piece]:
    """A piece up to the first wait inside it: a rank that waits does not move."""
    place = bisect_left(cuts, begin)
    yield activity, begin, min([end, *cuts[place : place + 1]]), what


_Reader = tuple[str, int | None]
"""A rank of a task that opens steps; None: the task, for which they are dropped."""


def _steps(events: Sequence[Event], origin: int, feeds: Feeds) -> list[StepTimeline]:
    """The published steps with their openings and droppings."""
    steps: list[StepTimeline] = []
    openings: list[list[Opening]] = []
    dropped: list[list[str]] = []
    for event in events:
        if event.event == "publish":
            published = (event.time_ns - origin) / _SECOND
            steps.append(StepTimeline(event.task, event.rank, event.pattern, event.sequence, published))
            openings.append([])
            dropped.append([])
    named = _Named([event for event in events if event.event == "publish"], feeds)
    # Each reader goes once along the steps that its events may speak of.
    ahead: dict[tuple[_Reader, str, str, int], Iterator[int]] = {}
    taken: set[tuple[_Reader, int]] = set()
    for event in events:
        if event.event not in ("open", "skip", "drop"):
            continue
        reader = event.task, event.rank if event.event == "open" else None
        reference = reader, event.pattern, event.name, event.sequence
        if reference not in ahead:
            ahead[reference] = iter(named.places(event))
        place = next((place for place in ahead[reference] if (reader, place) not in taken), None)
        if place is None:
            continue
        taken.add((reader, place))
        if event.event == "open":
            openings[place].append(Opening(event.task, event.rank, (event.time_ns - origin) / _SECOND))
        else:
            dropped[place].append(event.task)
    return [
        replace(step, openings=tuple(opened), dropped_for=tuple(lost))
        for step, opened, lost in zip(steps, openings, dropped, strict=True)
    ]


class _Named:
    """Published steps, found by what an open or a drop says of them."""

    def __init__(self, published: Sequence[Event], feeds: Feeds) -> None:
        self._feeds = feeds
        self._published = published
        self._named: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._of_port: dict[tuple[tuple[str, str], str, int], list[int]] = defaultdict(list)
        for place, event in enumerate(published):
            self._named[event.name, event.sequence].append(place)
            self._of_port[(event.task, event.pattern), event.name, event.sequence].append(place)

    def places(self, event: Event) -> list[int]:
        """The places of the steps that an event of a reader may speak of, in the order of publication."""
        alike = self._named.get((event.name, event.sequence), [])
        ports = self._feeds.get((event.task, event.pattern))
        if ports is None:
            return alike
        if len(alike) <= len(ports):
            return [place for place in alike if (self._published[place].task, self._published[place].pattern) in ports]
        return sorted(place for port in ports for place in self._of_port.get((port, event.name, event.sequence), []))
