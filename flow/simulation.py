"""Predicts the timeline of a workflow: a discrete-event simulation on the channels' own state machine, without I/O.

A task repeats one iteration: it opens one step of each of its in-ports, in their order (waiting for data); computes;
then creates, writes and publishes one step on each of its out-ports (waiting for room before it writes). A task with
``steps`` makes that many iterations; one without goes on until one of its in-ports has no more steps, as a program
does whose next open fails. An in-port that several sources feed hands out their steps in the order of publication,
the same to all its ranks. When everything else is equal, what is published at an instant can be opened at that instant.

To readers on another host a relay carries the steps. Its receiver asks for as many as it has room for, its sender
answers with the next ones, and both hosts' networks carry the bytes of one step after the other. Small steps, and
packed ones, are sent before the last one has come; all others one at a time. A step is packed while the last one is
sent. Readers that leave out steps while they are busy have a relay each, whose receiver asks when one of their ranks
waits.

Time is counted in whole nanoseconds inside, so that equal durations meet exactly.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

from wilkins.flow import relays
from wilkins.flow.machine import ChannelQueue, Ended, Kept, Opened, Wait
from wilkins.flow.model import Model, ModelChannel, ModelInPort, ModelOutPort
from wilkins.flow.network import SECOND, Carried, nanoseconds, network_links
from wilkins.flow.packing import Packing
from wilkins.flow.policy import FlowPolicy
from wilkins.flow.timeline import (
    Activity,
    Blocked,
    Crossing,
    HostUse,
    Opening,
    RankTimeline,
    Segment,
    StepTimeline,
    TaskTimeline,
    Timeline,
)


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
    blockers: Callable[[], list[int]]
    """Indices of the tasks that have to act."""


_Steps = Iterator[_Spend | _Sleep | None]
"""Pauses of a rank. None: everything else that ends at this instant happens first."""


class _Rank:
    """A running rank, or all ranks of a task that do the same: the program, and its past."""

    def __init__(self, task: int, rank: int, ranks: int, program: _Steps) -> None:
        self.task = task
        self.rank = rank
        self.ranks = ranks
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


@dataclass(slots=True, eq=False)
class _Source:
    """One stream of steps: of a task's parallel files, of one rank's own files, or what comes from another host."""

    port: ModelOutPort
    writer: int
    """The task whose steps they are."""
    rank: int
    ranks: int
    """Simulated ranks that create and close each file together."""
    channels: list[tuple[_Inlet, ChannelQueue]] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)
    created: dict[int, int] = field(default_factory=dict)
    """Ranks that have come to create, by iteration."""
    closed: int = 0
    """Ranks that have closed the present step."""
    unpublished: bool = False
    """A step is closed and not yet published."""
    sleepers: list[_Rank] = field(default_factory=list)
    ended: bool = False

    def full(self) -> list[int]:
        """Tasks that have to open a step before the next one can be written."""
        return [task for inlet, queue in self.channels if isinstance(queue.create(), Wait) for task in inlet.readers]


@dataclass(slots=True, eq=False)
class _Inlet:
    """An in-port, or the begin of a relay, with all that feeds it."""

    port: ModelInPort
    readers: tuple[int, ...]
    """The tasks that get the steps."""
    sources: list[tuple[_Source, ChannelQueue]] = field(default_factory=list)
    place_of: dict[_Source, int] = field(default_factory=dict)
    going: int = 0
    """Sources that have not ended."""
    offers: list[tuple[int, int, int]] = field(default_factory=list)
    """A heap of the steps that no rank has opened: their order, source and number. Some may have been dropped."""
    log: list[tuple[int, int]] = field(default_factory=list)
    """Source and number of each step that was handed out, the same to all ranks."""
    sleepers: list[_Rank] = field(default_factory=list)
    relays: list[_Rank] = field(default_factory=list)
    """Relays that wait until a rank asks for a step."""

    def feed(self, source: _Source, policy: FlowPolicy) -> None:
        """Join a source to it."""
        queue = ChannelQueue(policy, self.port.readers)
        source.channels.append((self, queue))
        self.place_of[source] = len(self.sources)
        self.sources.append((source, queue))
        self.going += 1

    def asked(self) -> bool:
        """Whether a rank that reads waits for a step."""
        return any(rank.rank < self.port.readers for rank in self.sleepers)

    def still_to_act(self) -> list[int]:
        """Tasks that may still give it steps."""
        return [source.writer for source, _ in self.sources if not source.ended]

    def offered(self) -> tuple[int, int] | None:
        """Source and number of the first step that no rank has opened."""
        while self.offers:
            _, place, step = self.offers[0]
            kept = self.sources[place][1].kept
            at = bisect_left(kept, step)
            if at < len(kept) and kept[at] == step:
                return place, step
            heapq.heappop(self.offers)
        return None


@dataclass(slots=True)
class _Relay:
    """Carries the steps of an out-port to the readers on another host."""

    inlet: _Inlet
    outlet: _Source
    writes: int
    reads: int
    """The hosts."""
    on_demand: bool = False
    carried: Carried = field(default_factory=Carried)
    asks: deque[tuple[int, int]] = field(default_factory=deque)
    """What the receiver has said and the sender not heard: when that comes, and for how many more steps it asks."""
    asked: int = 0
    """Steps that the sender may send yet."""
    sent: deque[_Crossing | None] = field(default_factory=deque)
    """Steps that have begun to come and were not received. None: no step will come."""
    on_the_way: deque[int] = field(default_factory=deque)
    """Bytes, as they cross, of each step of which the sender has not heard that it has come."""
    sender: list[_Rank] = field(default_factory=list)
    receiver: list[_Rank] = field(default_factory=list)
    """Asleep until the other one says something."""

    def hear(self, now: int) -> None:
        """The sender hears what has come by now: but for the first time, also that a step is there."""
        while self.asks and self.asks[0][0] <= now:
            self.asked += self.asks.popleft()[1]
            if self.on_the_way:
                self.on_the_way.popleft()

    def may_send(self) -> bool:
        """Whether the sender may send a step now."""
        port = self.outlet.port
        whole = port.size <= relays.COMES_WHOLE or port.packing != Packing()
        behind = whole and sum(self.on_the_way) < relays.MOST_BYTES_AT_ONCE
        return self.asked > 0 and (behind or not self.on_the_way)

    def room(self) -> int:
        """For how many steps the receiver has room, the one after the queue among them."""
        if self.on_demand:
            return 1
        queues = [queue for _, queue in self.outlet.channels if queue.policy.when_full == "block" and not queue.left]
        least = min((queue.policy.queue + 1 - len(queue.queued()) for queue in queues), default=1)
        return max(1, min(least, relays.MOST_AT_ONCE))


class _Crossing(NamedTuple):
    """A step on its way to another host."""

    step: _Step
    comes: int
    """When its first byte comes,"""
    ends: int
    """and its last one, where only the sender's network takes time."""
    size: int
    sent: int
    packs: int


class _Simulation:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.now = 0
        self.published = 0
        self.agenda: list[tuple[int, int, int, _Rank]] = []
        self.order = count()
        simulated = _simulated(model)
        self.inlets: list[list[_Inlet]] = [[] for _ in model.tasks]
        self.outlets: list[list[list[_Source]]] = [[] for _ in model.tasks]
        """By task and port: one source, or one of each rank."""
        inlets, outlets = [], []
        for inport in model.inports:
            inlets.append(_Inlet(replace(inport, readers=min(inport.readers, simulated[inport.task])), (inport.task,)))
            self.inlets[inport.task].append(inlets[-1])
        for port in model.outports:
            ranks = simulated[port.task]
            alone = [_Source(port, port.task, rank, 1) for rank in range(ranks)] if port.per_rank else []
            outlets.append(alone or [_Source(port, port.task, 0, ranks)])
            self.outlets[port.task].append(outlets[-1])
        self.lines = [network_links(host) for host in model.hosts]
        self.relays: list[_Relay] = []
        self.join(inlets, outlets)
        programs = [[self.program(index, rank) for rank in range(ranks)] for index, ranks in enumerate(simulated)]
        self.ranks = [
            [_Rank(index, rank, task.ranks // len(of_task), program) for rank, program in enumerate(of_task)]
            for index, (task, of_task) in enumerate(zip(model.tasks, programs, strict=True))
        ]
        for relay in self.relays:
            self.ranks.append([_Rank(len(self.ranks), 0, 1, self.send(relay))])
            self.ranks.append([_Rank(len(self.ranks), 0, 1, self.receive(relay))])
            self.inlets += [[relay.inlet], []]
            self.outlets += [[], [[relay.outlet]]]
        self.left = [len(ranks) for ranks in self.ranks]
        self.ends: list[int | None] = [None] * len(self.ranks)

    def join(self, inlets: Sequence[_Inlet], outlets: Sequence[Sequence[_Source]]) -> None:
        """Let sources feed in-ports; those on other hosts over a relay for each out-port and host, or each channel that
        drops steps."""
        crossing: dict[tuple[int, int, int | None], list[ModelChannel]] = {}
        for place, channel in enumerate(self.model.channels):
            reads = self.host(self.model.inports[channel.inport].task)
            if reads != self.host(self.model.outports[channel.outport].task):
                alone = place if channel.policy.drops else None
                crossing.setdefault((channel.outport, reads, alone), []).append(channel)
                continue
            for source in outlets[channel.outport]:
                inlets[channel.inport].feed(source, channel.policy)
        ways = [
            relays.Way(outport, self.host(port.task), reads, tuple(channel.policy for channel in some), may_fork)
            for (outport, reads, _), some in crossing.items()
            for port in [self.model.outports[outport]]
            for may_fork in [port.packing == Packing()]
        ]
        for way, by, ((_, _, alone), channels) in zip(ways, relays.forwarders(ways), crossing.items(), strict=True):
            port = self.model.outports[way.outport]
            readers = dict.fromkeys(self.model.inports[channel.inport].task for channel in channels)
            inlet = _Inlet(ModelInPort(task=port.task, pattern=port.pattern, readers=1), tuple(readers))
            outlet = _Source(replace(port, publish_at_next=False), port.task, 0, 1)
            for source in outlets[way.outport] if by is None else [self.relays[by].outlet]:
                inlet.feed(source, relays.taken(way.policies))
            for channel, policy in zip(channels, relays.given(way.policies), strict=True):
                inlets[channel.inport].feed(outlet, policy)
            writes = way.writes if by is None else self.relays[by].reads
            self.relays.append(_Relay(inlet, outlet, writes, way.reads, on_demand=alone is not None))

    def host(self, task: int) -> int:
        """The host of a task."""
        return self.model.tasks[task].host

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
        """Ranks that still wait; of relays, only others do on their behalf."""
        return (rank for ranks in self.ranks[: len(self.model.tasks)] for rank in ranks if rank.asleep)

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
        """The program of a rank, pause by pause."""
        task = self.model.tasks[index]
        alike = self.ranks[index][rank].ranks
        inlets = [(inlet, self.moving(inlet.port.readers * alike)) for inlet in self.inlets[index]]
        sources = [ports[rank if ports[0].port.per_rank else 0] for ports in self.outlets[index]]
        yield _Spend("starting", nanoseconds(task.start))
        for iteration in count() if task.steps is None else range(task.steps):
            for inlet, sharing in inlets:
                if not (iteration or inlet.port.first_waits):
                    continue
                yield None
                number = iteration if inlet.port.first_waits else iteration - 1
                while (taken := self.take(inlet, rank, number)) is None:
                    self.wake(inlet.relays)
                    yield _Sleep("waiting for data", inlet.port.pattern, inlet.sleepers, inlet.still_to_act)
                if isinstance(taken, Ended):
                    return
                if rank < inlet.port.readers:
                    source, step = taken
                    step.openings.append(Opening(task.name, rank, self.now / SECOND, alike))
                    yield _Spend("moving", sharing(source.port.size), inlet.port.pattern)
            yield _Spend("computing", nanoseconds(task.step))
            for source in sources:
                yield from self.create(source, iteration)
                yield _Spend("moving", self.moving(source.ranks * alike)(source.port.size), source.port.pattern)
                if self.closes(source):
                    self.publish(source)

    def latency(self, relay: _Relay) -> int:
        """The time that a message of a relay takes."""
        return nanoseconds(max(self.model.hosts[relay.writes].latency, self.model.hosts[relay.reads].latency))

    def send(self, relay: _Relay) -> _Steps:
        """The program of a relay's sender: it takes a step when the receiver has asked for one."""
        latency, sends = self.latency(relay), self.lines[relay.writes].sends
        ends = self.model.hosts[relay.writes], self.model.hosts[relay.reads]
        cores = min(end.cores for end in ends)
        bandwidth = min((end.bandwidth for end in ends if end.bandwidth is not None), default=None)
        is_sent = 0
        for number in count():
            yield from self.hear(relay, relay.may_send)
            yield None
            while (taken := self.take(relay.inlet, 0, number)) is None:
                yield _Sleep("waiting for data", relay.inlet.port.pattern, relay.inlet.sleepers, list)
            if isinstance(taken, Ended):
                yield from self.hear(relay, lambda: not relay.on_the_way)
                relay.carried.messages += 1
                yield _Spend("moving", latency)
                relay.sent.append(None)
                self.wake(relay.receiver)
                return
            size, packing = taken[0].port.size, taken[0].port.packing.on(cores, bandwidth)
            sent, packs = round(size * packing.sent), nanoseconds(size / packing.rate(cores))
            relay.asked -= 1
            relay.on_the_way.append(sent)
            relay.carried.messages += 1
            relay.carried.at_once = max(relay.carried.at_once, len(relay.on_the_way))
            yield _Spend("moving", packs)
            if packs:
                yield _Spend("moving", max(0, is_sent - self.now))  # what was packed before is sent meanwhile
            begin = sends.book(self.now, sent)
            is_sent = begin + sends.time(sent)
            relay.sent.append(_Crossing(taken[1], begin + latency, is_sent + latency, size, sent, packs))
            self.wake(relay.receiver)

    def hear(self, relay: _Relay, enough: Callable[[], bool]) -> _Steps:
        """The sender listens until it has heard enough."""
        relay.hear(self.now)
        while not enough():
            if relay.asks:
                yield _Spend("moving", relay.asks[0][0] - self.now)
            else:
                yield _Sleep("waiting for room", relay.inlet.port.pattern, relay.sender, list)
            relay.hear(self.now)

    def receive(self, relay: _Relay) -> _Steps:
        """The program of its receiver: it asks for as many steps as it has room for, each time that one has come."""
        latency, receives = self.latency(relay), self.lines[relay.reads].receives
        expected = 0
        for number in count():
            yield from self.demand(relay)
            more = max(0, relay.room() - expected)
            expected += more - 1
            relay.carried.messages += 1
            relay.asks.append((self.now + latency, more))
            self.wake(relay.sender)
            while not relay.sent:
                yield _Sleep("waiting for data", relay.outlet.port.pattern, relay.receiver, list)
            crossing = relay.sent.popleft()
            if crossing is None:
                return
            yield _Spend("moving", max(0, crossing.comes - self.now))
            end = receives.book(self.now, crossing.sent) + receives.time(crossing.sent)
            yield from self.create(relay.outlet, number)
            yield _Spend("moving", max(0, end - self.now, crossing.ends - self.now))
            carrying = max(crossing.ends - crossing.comes, receives.time(crossing.sent))
            relay.carried.add(crossing.size, crossing.sent, latency, carrying, crossing.packs, self.now)
            self.publish(relay.outlet, crossing.step)
            yield None  # ranks that wait take it first

    def demand(self, relay: _Relay) -> _Steps:
        """Where a relay brings steps on demand: wait until a reading rank waits for one, or none reads any more."""
        for inlet, _ in relay.outlet.channels if relay.on_demand else ():
            while self.ends[inlet.port.task] is None and not inlet.asked():
                yield _Sleep("waiting for room", relay.outlet.port.pattern, inlet.relays, list)

    def moving(self, ranks: int) -> _Sharing:
        """The time that one of several ranks takes for its share of the bytes."""
        return _Sharing(ranks, self.model.rate)

    def take(self, inlet: _Inlet, rank: int, number: int) -> tuple[_Source, _Step] | Ended | None:
        """Open a step: with the source that gave it, None if there is none yet, or the end."""
        if number == len(inlet.log):
            offered = inlet.offered()
            if offered is None:
                return None if inlet.going else Ended()
            if rank >= inlet.port.readers:
                return None
            heapq.heappop(inlet.offers)
            inlet.log.append(offered)
            self.wake(inlet.sleepers)
        place, step = inlet.log[number]
        source, queue = inlet.sources[place]
        if rank < inlet.port.readers:
            opened = queue.open(rank)
            assert opened == Opened(step), "a step that was handed out is kept for all ranks"
            self.wake(source.sleepers)
        return source, source.steps[step]

    def create(self, source: _Source, iteration: int) -> _Steps:
        """Begin a step, together with the other ranks of its file, when every channel has room."""
        arrived = source.created[iteration] = source.created.get(iteration, 0) + 1
        pattern = source.port.pattern
        if arrived == source.ranks:
            self.wake(source.sleepers)
            if source.unpublished:
                self.publish(source)
        while source.created[iteration] < source.ranks:
            yield _Sleep("moving", pattern, source.sleepers, lambda: [source.writer])
        for _, queue in source.channels:  # room that is there stays until the step is published
            while isinstance(queue.create(), Wait):
                yield _Sleep("waiting for room", pattern, source.sleepers, source.full)

    def closes(self, source: _Source) -> bool:
        """A rank closes the step; whether it is the last one, and the step is to be published now."""
        source.closed += 1
        if source.closed < source.ranks:
            return False
        source.closed = 0
        source.unpublished = source.port.publish_at_next
        return not source.unpublished

    def publish(self, source: _Source, origin: _Step | None = None) -> None:
        """Let readers have the step. `origin`: what became of it on the host from which it came."""
        source.unpublished = False
        step = _Step(self.now, self.published)
        if origin is not None:
            step.openings, step.dropped_for = origin.openings, origin.dropped_for
        self.published += 1
        source.steps.append(step)
        for inlet, queue in source.channels:
            names = [self.model.tasks[reader].name for reader in inlet.readers]
            made = queue.publish()
            if isinstance(made, Kept):
                heapq.heappush(inlet.offers, (step.order, inlet.place_of[source], made.step))
                if made.dropped is not None:
                    source.steps[made.dropped].dropped_for += names
            else:
                step.dropped_for += names
            self.wake(inlet.sleepers)

    def end(self, rank: _Rank) -> None:
        """A rank's program is over; with the last one the task ends, and lets go of its ports."""
        self.left[rank.task] -= 1
        if self.left[rank.task]:
            return
        self.ends[rank.task] = self.now
        for source in (source for ports in self.outlets[rank.task] for source in ports):
            if source.unpublished:
                self.publish(source)
            source.ended = True
            for inlet, queue in source.channels:
                queue.end()
                inlet.going -= 1
                self.wake(inlet.sleepers)
        for inlet in self.inlets[rank.task]:
            for source, queue in inlet.sources:
                queue.leave()
                self.wake(source.sleepers)
            self.wake(inlet.relays)

    def result(self) -> Timeline:
        """All that happened, in seconds."""
        steps = [
            (step.order, source, number, step)
            for of_task in self.outlets[: len(self.model.tasks)]
            for ports in of_task
            for source in ports
            for number, step in enumerate(source.steps)
        ]
        return Timeline(
            tasks=tuple(
                TaskTimeline(task.name, None if end is None else end / SECOND, tuple(_timelines(ranks)))
                for task, end, ranks in zip(self.model.tasks, self.ends, self.ranks, strict=False)
            ),
            steps=tuple(
                StepTimeline(
                    self.model.tasks[source.writer].name,
                    source.rank,
                    source.port.pattern,
                    number,
                    step.published / SECOND,
                    tuple(step.openings),
                    tuple(step.dropped_for),
                )
                for _, source, number, step in sorted(steps, key=lambda entry: entry[0])
            ),
            stuck=tuple(blocked for rank in self.stuck() for blocked in self.blocked(rank)),
            crossings=tuple(map(self.crossing, self.relays)),
            hosts=tuple(
                HostUse(host.name, sends.busy / SECOND, receives.busy / SECOND)
                for host, (sends, receives) in zip(self.model.hosts, self.lines, strict=True)
            ),
        )

    def crossing(self, relay: _Relay) -> Crossing:
        """The transfers of a relay."""
        return Crossing(
            task=self.model.tasks[relay.outlet.writer].name,
            pattern=relay.outlet.port.pattern,
            readers=tuple(self.model.tasks[task].name for task in relay.inlet.readers),
            writes=self.model.hosts[relay.writes].name,
            reads=self.model.hosts[relay.reads].name,
            steps=relay.carried.steps,
            bytes=relay.carried.bytes,
            moved=relay.carried.moved,
            messages=relay.carried.messages,
            under_way=relay.carried.under_way / SECOND,
            carrying=relay.carried.carrying / SECOND,
            packing=relay.carried.packing / SECOND,
            at_once=relay.carried.at_once,
        )

    def blocked(self, rank: _Rank) -> Iterator[Blocked]:
        """Why a rank, and those that do the same, do not go on."""
        assert rank.asleep
        sleep, since = rank.asleep
        on = dict.fromkeys(self.model.tasks[index].name for index in sleep.blockers())
        name = self.model.tasks[rank.task].name
        for number in range(rank.rank, rank.rank + rank.ranks):
            yield Blocked(name, number, since / SECOND, sleep.activity, sleep.what, tuple(on))


class _Sharing:
    """The time of one rank's share of a transfer."""

    def __init__(self, ranks: int, rate: float | None) -> None:
        self.ranks = ranks
        self.rate = rate

    def __call__(self, size: int) -> int:
        return nanoseconds(size / self.ranks / self.rate) if self.rate else 0


def _simulated(model: Model) -> list[int]:
    """How many ranks of each task are simulated: one where all do the same at the same time."""
    differ = {port.task for port in model.outports if port.per_rank}
    differ |= {port.task for port in model.inports if port.readers < model.tasks[port.task].ranks}
    return [task.ranks if index in differ else 1 for index, task in enumerate(model.tasks)]


def _timelines(ranks: Sequence[_Rank]) -> Iterator[RankTimeline]:
    """The timelines of all ranks; equal ones share their segments."""
    for rank in ranks:
        segments = tuple(Segment(what, begin / SECOND, end / SECOND, port) for what, begin, end, port in rank.segments)
        yield from (RankTimeline(number, segments) for number in range(rank.rank, rank.rank + rank.ranks))
