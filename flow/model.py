"""Predicts the timeline of a workflow: a discrete-event simulation on the channels' own state machine, without I/O.

A task repeats one iteration: it opens one step of each of its in-ports, in their order (waiting for data); computes;
then creates, writes and publishes one step on each of its out-ports (waiting for room before it writes). A task with
``steps`` makes that many iterations; one without goes on until one of its in-ports has no more steps, as a program
does whose next open fails. An in-port that several sources feed hands out their steps in the order of publication,
the same to all its ranks. When everything else is equal, what is published at an instant can be opened at that instant.

Time is counted in whole nanoseconds inside, so that equal durations meet exactly.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from wilkins.flow.machine import ChannelQueue, Ended, Kept, Opened, Wait
from wilkins.flow.policy import FlowPolicy
from wilkins.flow.timeline import (
    Activity,
    Blocked,
    Opening,
    RankTimeline,
    Segment,
    StepTimeline,
    TaskTimeline,
    Timeline,
)

_SECOND = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTask:
    """A task instance. Times are in seconds."""

    name: str
    step: float
    """Computing time of each rank per iteration."""
    steps: int | None = None
    """Iterations; None: until an in-port has no more steps."""
    start: float = 0.0
    """From the beginning to the first iteration."""
    ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutPort:
    """What a task writes in each iteration."""

    task: int
    """Index of the task."""
    pattern: str
    size: int = 0
    """Bytes of a step. The ranks of a task share the writing of a parallel file evenly."""
    per_rank: bool = False
    """Each rank writes files of its own and is a source by itself; else one parallel file is the task's."""
    publish_at_next: bool = False
    """A step is published when the next one is begun, or the task ends, instead of at its close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInPort:
    """What a task reads in each iteration."""

    task: int
    pattern: str
    readers: int
    """Ranks that open the steps, the first ones, and share the reading evenly; the others wait for them."""
    first_waits: bool = True
    """False: the first iteration does without a step."""


@dataclass(frozen=True, slots=True)
class ModelChannel:
    """An edge from an out-port to an in-port, by their indices."""

    outport: int
    inport: int
    policy: FlowPolicy


@dataclass(frozen=True, slots=True)
class Model:
    """A workflow with its durations."""

    tasks: tuple[ModelTask, ...]
    outports: tuple[ModelOutPort, ...]
    inports: tuple[ModelInPort, ...]
    channels: tuple[ModelChannel, ...]
    rate: float | None = None
    """Bytes per second that one rank copies; None: copies take no time."""

    def endless(self) -> tuple[str, ...]:
        """Tasks that would go on forever, because neither they nor anything that feeds them says how many steps.

        `simulate` needs a model without any.
        """
        writers: list[set[int]] = [set() for _ in self.inports]
        for channel in self.channels:
            writers[channel.inport].add(self.outports[channel.outport].task)
        ending = {index for index, task in enumerate(self.tasks) if task.steps is not None}
        before = -1
        while len(ending) > before:
            before = len(ending)
            ending |= {port.task for port, fed in zip(self.inports, writers, strict=True) if fed and fed <= ending}
        return tuple(task.name for index, task in enumerate(self.tasks) if index not in ending)


def simulate(model: Model) -> Timeline:
    """The timeline of a model.

    Raises:
        ValueError: a task would go on forever (`Model.endless`).
    """
    if endless := model.endless():
        raise ValueError(f"nothing says how many steps {', '.join(map(repr, endless))} make")
    return _Simulation(model).run()


class _Spend(NamedTuple):
    """The rank is busy for some nanoseconds."""

    activity: Activity
    time: int
    what: str = ""


class _Sleep(NamedTuple):
    """The rank waits until something changes at its port."""

    activity: Activity
    what: str
    on: list[_Rank]
    """Where to be found by what changes it."""
    blockers: Sequence[int]
    """Indices of the tasks that have to act."""


_Steps = Iterator[_Spend | _Sleep | None]
"""Pauses of a rank. None: everything else that ends at this instant happens first."""


class _Rank:
    """A running rank: its program, and what it did so far."""

    def __init__(self, task: int, rank: int, program: _Steps) -> None:
        self.task = task
        self.rank = rank
        self.program = program
        self.asleep: tuple[_Sleep, int] | None = None
        self.segments: list[tuple[Activity, int, int, str]] = []

    def did(self, activity: Activity, begin: int, end: int, what: str) -> None:
        """Note a segment; one that goes on is made longer."""
        if begin == end:
            return
        if self.segments and self.segments[-1][0] == activity and self.segments[-1][3] == what != "":
            begin = self.segments.pop()[1]
        self.segments.append((activity, begin, end, what))


@dataclass(slots=True)
class _Step:
    """A published step, as it goes on."""

    published: int
    order: int
    openings: list[Opening] = field(default_factory=list)
    dropped_for: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Source:
    """One stream of steps: of a task's parallel files, or of one rank's own files."""

    port: ModelOutPort
    rank: int
    ranks: int
    """Ranks that create and close each file together."""
    channels: list[tuple[int, ChannelQueue]] = field(default_factory=list)
    """In-port and queue of each channel."""
    steps: list[_Step] = field(default_factory=list)
    created: dict[int, int] = field(default_factory=dict)
    """Ranks that have come to create, by iteration."""
    closed: int = 0
    """Ranks that have closed the present step."""
    resting: bool = False
    sleepers: list[_Rank] = field(default_factory=list)
    ended: bool = False


@dataclass(slots=True)
class _Inlet:
    """An in-port with all that feeds it."""

    port: ModelInPort
    sources: list[tuple[_Source, ChannelQueue]] = field(default_factory=list)
    log: list[int] = field(default_factory=list)
    """Which of the sources gave each step that was handed out, the same to all ranks."""
    sleepers: list[_Rank] = field(default_factory=list)


class _Simulation:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.now = 0
        self.published = 0
        self.agenda: list[tuple[int, int, int, _Rank]] = []
        self.order = count()
        self.inlets = [_Inlet(port) for port in model.inports]
        self.sources: list[list[_Source]] = []
        for port in model.outports:
            ranks = model.tasks[port.task].ranks
            shared = [_Source(port, 0, ranks)]
            self.sources.append([_Source(port, rank, 1) for rank in range(ranks)] if port.per_rank else shared)
        for channel in model.channels:
            inlet = self.inlets[channel.inport]
            for source in self.sources[channel.outport]:
                queue = ChannelQueue(channel.policy, inlet.port.readers)
                source.channels.append((channel.inport, queue))
                inlet.sources.append((source, queue))
        self.ranks = [
            [_Rank(index, rank, self.program(index, rank)) for rank in range(task.ranks)]
            for index, task in enumerate(model.tasks)
        ]
        self.left = [task.ranks for task in model.tasks]
        self.ends: list[int | None] = [None] * len(model.tasks)

    def run(self) -> Timeline:
        """Until nothing moves any more."""
        for ranks in self.ranks:
            for rank in ranks:
                self.plan(rank, 0)
        while self.agenda:
            self.now, _, _, rank = heapq.heappop(self.agenda)
            self.slept(rank)
            rank.asleep = None
            self.advance(rank)
        for rank in self.stuck():
            self.slept(rank)
        return self.result()

    def stuck(self) -> Iterator[_Rank]:
        """Ranks that still wait."""
        return (rank for ranks in self.ranks for rank in ranks if rank.asleep)

    def slept(self, rank: _Rank) -> None:
        """Note a wait that has lasted until now."""
        if rank.asleep:
            sleep, since = rank.asleep
            rank.did(sleep.activity, since, self.now, sleep.what)

    def plan(self, rank: _Rank, time: int, phase: int = 0) -> None:
        """Let a rank go on at a time. Phase 1 is after all that ends at that instant."""
        heapq.heappush(self.agenda, (time, phase, next(self.order), rank))

    def advance(self, rank: _Rank) -> None:
        """Run a rank's program to its next pause."""
        for pause in rank.program:
            if pause is None:
                self.plan(rank, self.now, 1)
            elif isinstance(pause, _Sleep):
                rank.asleep = (pause, self.now)
                pause.on.append(rank)
            elif pause.time:
                rank.did(pause.activity, self.now, self.now + pause.time, pause.what)
                self.plan(rank, self.now + pause.time)
            else:
                continue
            return
        self.end(rank)

    def wake(self, sleepers: list[_Rank]) -> None:
        """Let all that wait at a place look again."""
        for rank in sleepers:
            self.plan(rank, self.now, 1)
        sleepers.clear()

    def program(self, index: int, rank: int) -> _Steps:
        """What a rank does, pause by pause."""
        task = self.model.tasks[index]
        inlets = [(inlet, self.moving(inlet.port.readers)) for inlet in self.inlets if inlet.port.task == index]
        sources = [
            ports[rank if ports[0].port.per_rank else 0] for ports in self.sources if ports[0].port.task == index
        ]
        yield _Spend("starting", _nanoseconds(task.start))
        for iteration in count() if task.steps is None else range(task.steps):
            for inlet, sharing in inlets:
                if not (iteration or inlet.port.first_waits):
                    continue
                yield None
                number = iteration if inlet.port.first_waits else iteration - 1
                while (source := self.take(inlet, rank, number)) is None:
                    writers = [source.port.task for source, _ in inlet.sources if not source.ended]
                    yield _Sleep("waiting for data", inlet.port.pattern, inlet.sleepers, writers)
                if isinstance(source, Ended):
                    return
                if rank < inlet.port.readers:
                    yield _Spend("moving", sharing(source.port.size), inlet.port.pattern)
            yield _Spend("computing", _nanoseconds(task.step))
            for source in sources:
                yield from self.create(source, iteration)
                yield _Spend("moving", self.moving(source.ranks)(source.port.size), source.port.pattern)
                self.close(source)

    def moving(self, ranks: int) -> _Sharing:
        """How long one of several ranks takes for its share of so many bytes."""
        return _Sharing(ranks, self.model.rate)

    def take(self, inlet: _Inlet, rank: int, number: int) -> _Source | Ended | None:
        """Open a step: the source that gave it, None if there is none yet, or the end."""
        if number == len(inlet.log):
            found = [
                (source.steps[step].order, place)
                for place, (source, queue) in enumerate(inlet.sources)
                if (step := self.offered(queue)) is not None
            ]
            if not found:
                return Ended() if all(source.ended for source, _ in inlet.sources) else None
            if rank >= inlet.port.readers:
                return None
            inlet.log.append(min(found)[1])
            self.wake(inlet.sleepers)
        source, queue = inlet.sources[inlet.log[number]]
        if rank < inlet.port.readers:
            opened = queue.open(rank)
            assert isinstance(opened, Opened), "a step that was handed out is kept for all ranks"
            name = self.model.tasks[inlet.port.task].name
            source.steps[opened.step].openings.append(Opening(name, rank, self.now / _SECOND))
            self.wake(source.sleepers)
        return source

    @staticmethod
    def offered(queue: ChannelQueue) -> int | None:
        """The first step that no rank has opened."""
        place = bisect_left(queue.kept, max(queue.marks))
        return queue.kept[place] if place < len(queue.kept) else None

    def create(self, source: _Source, iteration: int) -> _Steps:
        """Begin a step, together with the other ranks of its file, when every channel has room."""
        arrived = source.created[iteration] = source.created.get(iteration, 0) + 1
        pattern = source.port.pattern
        if arrived == source.ranks:
            self.wake(source.sleepers)
            if source.resting:
                self.publish(source)
        while source.created[iteration] < source.ranks:
            yield _Sleep("moving", pattern, source.sleepers, [source.port.task])
        while full := [
            self.model.inports[inport].task for inport, queue in source.channels if isinstance(queue.create(), Wait)
        ]:
            yield _Sleep("waiting for room", pattern, source.sleepers, full)

    def close(self, source: _Source) -> None:
        """A rank closes the step; the last one publishes it."""
        source.closed += 1
        if source.closed == source.ranks:
            source.closed = 0
            if source.port.publish_at_next:
                source.resting = True
            else:
                self.publish(source)

    def publish(self, source: _Source) -> None:
        source.resting = False
        step = _Step(self.now, self.published)
        self.published += 1
        source.steps.append(step)
        for inport, queue in source.channels:
            reader = self.model.tasks[self.model.inports[inport].task].name
            made = queue.publish()
            if not isinstance(made, Kept):
                step.dropped_for.append(reader)
            elif made.dropped is not None:
                source.steps[made.dropped].dropped_for.append(reader)
            self.wake(self.inlets[inport].sleepers)

    def end(self, rank: _Rank) -> None:
        """A rank's program is over; with the last one the task ends, and lets go of its ports."""
        self.left[rank.task] -= 1
        if self.left[rank.task]:
            return
        self.ends[rank.task] = self.now
        for source in (source for ports in self.sources for source in ports if source.port.task == rank.task):
            if source.resting:
                self.publish(source)
            source.ended = True
            for inport, queue in source.channels:
                queue.end()
                self.wake(self.inlets[inport].sleepers)
        for inlet in (inlet for inlet in self.inlets if inlet.port.task == rank.task):
            for source, queue in inlet.sources:
                queue.leave()
                self.wake(source.sleepers)

    def result(self) -> Timeline:
        """All that happened, in seconds."""
        steps = [
            (step.order, source, number, step)
            for ports in self.sources
            for source in ports
            for number, step in enumerate(source.steps)
        ]
        return Timeline(
            tasks=tuple(
                TaskTimeline(task.name, None if end is None else end / _SECOND, tuple(map(_rank_timeline, ranks)))
                for task, end, ranks in zip(self.model.tasks, self.ends, self.ranks, strict=True)
            ),
            steps=tuple(
                StepTimeline(
                    self.model.tasks[source.port.task].name,
                    source.rank,
                    source.port.pattern,
                    number,
                    step.published / _SECOND,
                    tuple(step.openings),
                    tuple(step.dropped_for),
                )
                for _, source, number, step in sorted(steps, key=lambda entry: entry[0])
            ),
            stuck=tuple(map(self.blocked, self.stuck())),
        )

    def blocked(self, rank: _Rank) -> Blocked:
        """Why a rank does not go on."""
        assert rank.asleep
        sleep, since = rank.asleep
        on = dict.fromkeys(self.model.tasks[index].name for index in sleep.blockers)
        name = self.model.tasks[rank.task].name
        return Blocked(name, rank.rank, since / _SECOND, sleep.activity, sleep.what, tuple(on))


class _Sharing:
    """The time of one rank's share of a transfer."""

    def __init__(self, ranks: int, rate: float | None) -> None:
        self.ranks = ranks
        self.rate = rate

    def __call__(self, size: int) -> int:
        return _nanoseconds(size / self.ranks / self.rate) if self.rate else 0


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _SECOND)


def _rank_timeline(rank: _Rank) -> RankTimeline:
    segments = (Segment(what, begin / _SECOND, end / _SECOND, port) for what, begin, end, port in rank.segments)
    return RankTimeline(rank.rank, tuple(segments))
