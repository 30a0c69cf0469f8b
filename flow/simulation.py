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

Ranks write and read a file in equal pieces, in their order. What ranks on several hosts write together lies where it
was written. A host that reads it gets its pieces from the first rank's host by the relay, then from the others; and on
that host itself, whoever reads first brings them. Small and packed steps come there before they are published. Ranks on
several hosts that read have a relay for each. A host that hands a large step on does so as its bytes come.

Time is counted in whole nanoseconds inside, so that equal durations meet exactly.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from wilkins.flow import relays
from wilkins.flow.machine import ChannelQueue, Ended, Kept, Opened, Skipped, Wait
from wilkins.flow.model import Model, ModelChannel, ModelInPort, ModelOutPort, ModelTask
from wilkins.flow.network import SECOND, nanoseconds, network_links
from wilkins.flow.packing import Packing
from wilkins.flow.pieces import Ranges, Rest, both, elsewhere, joined, piece, whole
from wilkins.flow.streams import Inlet, OnItsWay, Pauses, Rank, Relay, Sleep, Source, Spend, Step
from wilkins.flow.timeline import (
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


class _Simulation:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.now = 0
        self.published = 0
        self.agenda: list[tuple[int, int, int, Rank]] = []
        self.order = count()
        self.groups = list(_groups(model))
        self.inlets: list[list[Inlet]] = [[] for _ in model.tasks]
        self.ports: list[list[Mapping[int, Inlet]]] = [[] for _ in model.tasks]
        """By task and in-port: the inlets, by host."""
        self.outlets: list[list[list[Source]]] = [[] for _ in model.tasks]
        """By task and port: one source, or one of each rank."""
        inlets, outlets = [], []
        for inport in model.inports:
            inlets.append(self.inlets_of(inport))
            self.inlets[inport.task] += inlets[-1].values()
            self.ports[inport.task].append(inlets[-1])
        for port in model.outports:
            task, groups = model.tasks[port.task], self.groups[port.task]
            alone = [Source(port, port.task, one.first, 1, one.host) for one in groups] if port.per_rank else []
            outlets.append(alone or [Source(port, port.task, 0, len(groups), task.lead, _lies(task, port))])
            self.outlets[port.task].append(outlets[-1])
        self.lines = [network_links(host) for host in model.hosts]
        self.relays: list[Relay] = []
        self.join(inlets, outlets)
        self.ranks = [
            [Rank(index, one.first, one.ranks, self.program(index, place)) for place, one in enumerate(of_task)]
            for index, of_task in enumerate(self.groups)
        ]
        for relay in self.relays:
            self.ranks.append([Rank(len(self.ranks), 0, 1, self.send(relay))])
            self.ranks.append([Rank(len(self.ranks), 0, 1, self.receive(relay))])
            self.inlets += [[relay.inlet], []]
            self.outlets += [[], [[relay.outlet]]]
        self.left = [len(ranks) for ranks in self.ranks]
        self.ends: list[int | None] = [None] * len(self.ranks)

    def inlets_of(self, inport: ModelInPort) -> dict[int, Inlet]:
        """The inlets of an in-port: of those of its task's hosts where ranks open steps."""
        of = min(inport.readers, self.model.tasks[inport.task].ranks)
        found: dict[int, list[_Group]] = {}
        for group in self.groups[inport.task]:
            if group.first < of:
                found.setdefault(group.host, []).append(group)
        return {
            host: Inlet(
                replace(inport, readers=len(groups)),
                (inport.task,),
                range(groups[0].first, groups[-1].first + groups[-1].ranks),
                of,
            )
            for host, groups in found.items()
        }

    def join(self, inlets: Sequence[Mapping[int, Inlet]], outlets: Sequence[Sequence[Source]]) -> None:
        """Let sources feed in-ports; those on other hosts over a relay for each out-port and pair of hosts, or each
        channel that drops steps."""
        dropping = {
            (place, source): ChannelQueue(channel.policy, _takers(inlets[channel.inport], source))
            for place, channel in enumerate(self.model.channels)
            for source in (outlets[channel.outport] if channel.policy.drops else ())
        }
        """Of a channel that drops steps, hosts are to each other what ranks are on one: they have one queue."""
        for place, channel in enumerate(self.model.channels):
            for source in outlets[channel.outport]:
                if inlet := inlets[channel.inport].get(source.host):
                    source.wanted = joined([source.wanted, inlet.wants(source.port.size)])
                    own = ChannelQueue(channel.policy, inlet.port.readers)
                    inlet.feed(source, dropping.get((place, source), own))
        ways = list(self.ways(inlets, outlets))
        forwarders = relays.forwarders([way for way, _, _ in ways])
        for (way, channels, alone), by in zip(ways, forwarders, strict=True):
            before = None if by is None else self.relays[by]
            relay = self.relay(way, before, [inlets[channel.inport][way.reads] for channel in channels])
            relay.on_demand = alone is not None
            self.relays.append(relay)
            for source in outlets[way.outport] if before is None else [before.outlet]:
                if source.host == relay.writes:
                    own = ChannelQueue(relays.taken(way.policies), 1)
                    relay.inlet.feed(source, own if alone is None else dropping[alone, source])
        for relay, by in reversed(list(zip(self.relays, forwarders, strict=True))):
            if by is not None:
                self.relays[by].needs = joined([self.relays[by].needs, relay.needs])

    def ways(
        self, inlets: Sequence[Mapping[int, Inlet]], outlets: Sequence[Sequence[Source]]
    ) -> Iterator[tuple[relays.Way, Sequence[ModelChannel], int | None]]:
        """From each host with steps of an out-port to each other that reads them, with the channels there. A channel
        that drops steps goes alone, and has its index with it."""
        found: dict[tuple[int, int, int, int | None], list[ModelChannel]] = {}
        for place, channel in enumerate(self.model.channels):
            alone = place if channel.policy.drops else None
            for writes in dict.fromkeys(source.host for source in outlets[channel.outport]):
                for reads in inlets[channel.inport]:
                    if reads != writes:
                        found.setdefault((channel.outport, writes, reads, alone), []).append(channel)
        for (outport, writes, reads, alone), channels in found.items():
            port = self.model.outports[outport]
            may_fork = port.packing == Packing() and len(self.model.tasks[port.task].hosts) == 1
            policies = tuple(channel.policy for channel in channels)
            yield relays.Way(outport, writes, reads, policies, may_fork), channels, alone

    def relay(self, way: relays.Way, before: Relay | None, ends: Sequence[Inlet]) -> Relay:
        """The relay of a way, from that which brings it the steps, if one does, to in-ports on another host."""
        port = self.model.outports[way.outport]
        readers = dict.fromkeys(reader for end in ends for reader in end.readers)
        inlet = Inlet(ModelInPort(task=port.task, pattern=port.pattern, readers=1), tuple(readers), is_of_relay=True)
        outlet = Source(replace(port, publish_at_next=False), port.task, 0, 1, way.reads)
        for end, policy in zip(ends, relays.given(way.policies), strict=True):
            end.feed(outlet, ChannelQueue(policy, end.port.readers))
        comes_whole = port.size <= relays.COMES_WHOLE or port.packing != Packing()
        needs = whole(port.size) if comes_whole else joined(end.wants(port.size) for end in ends)
        return Relay(inlet, outlet, way.writes if before is None else before.reads, way.reads, needs)

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

    def stuck(self) -> Iterator[Rank]:
        """Ranks that still wait; of relays, only others do on their behalf."""
        return (rank for ranks in self.ranks[: len(self.model.tasks)] for rank in ranks if rank.asleep)

    def slept(self, rank: Rank) -> None:
        """Note a wait that has lasted until now."""
        if rank.asleep:
            sleep, since = rank.asleep
            rank.did(sleep.activity, since, self.now, sleep.what)

    def plan(self, rank: Rank, time: int, phase: int = 0) -> None:
        """Let a rank go on at a time. Phase 1 is after all that ends at that instant."""
        heapq.heappush(self.agenda, (time, phase, next(self.order), rank))

    def advance(self, rank: Rank) -> None:
        """Run a rank's program to its next pause."""
        for pause in rank.program:
            if pause is None:
                self.plan(rank, self.now, 1)
            elif isinstance(pause, Sleep):
                rank.asleep = (pause, self.now)
                pause.on.append(rank)
            elif pause.time:
                rank.did(pause.activity, self.now, self.now + pause.time, pause.what)
                self.plan(rank, self.now + pause.time)
            else:
                continue
            return
        self.end(rank)

    def wake(self, sleepers: list[Rank]) -> None:
        """Let all that wait at a place look again."""
        for rank in sleepers:
            self.plan(rank, self.now, 1)
        sleepers.clear()

    def program(self, index: int, place: int) -> Pauses:
        """The program of a rank, or of a group of them, pause by pause."""
        task, group = self.model.tasks[index], self.groups[index][place]
        inlets = [self.inlet_of(ports, group) for ports in self.ports[index]]
        sources = [ports[place if ports[0].port.per_rank else 0] for ports in self.outlets[index]]
        yield Spend("starting", nanoseconds(task.start))
        for iteration in count() if task.steps is None else range(task.steps):
            for inlet, rank in inlets:
                if not (iteration or inlet.port.first_waits):
                    continue
                yield None
                number = iteration if inlet.port.first_waits else iteration - 1
                while (taken := self.take(inlet, rank, number)) is None:
                    self.wake(inlet.relays)
                    yield Sleep("waiting for data", inlet.port.pattern, inlet.sleepers, inlet.still_to_act)
                if isinstance(taken, Ended):
                    return
                if rank < inlet.port.readers:
                    source, step = taken
                    step.openings.append(Opening(task.name, group.first, self.now / SECOND, group.ranks))
                    if source.lies:
                        yield from self.come(source, step)
                    there = step.there - self.now
                    yield Spend("moving", max(there, self.moving(source.port.size, inlet.of)), inlet.port.pattern)
            yield Spend("computing", nanoseconds(task.step))
            for source in sources:
                yield from self.create(source, iteration)
                there = 2 * relays.TRIPS_OF_A_FILE * self.latency(source.host, group.host)
                ranks = 1 if source.port.per_rank else task.ranks
                yield Spend("moving", self.moving(source.port.size, ranks) + there, source.port.pattern)
                if self.closes(source):
                    yield from self.gather(source)
                    self.publish(source)

    def inlet_of(self, ports: Mapping[int, Inlet], group: _Group) -> tuple[Inlet, int]:
        """Where ranks get steps, and their number there; others than those that open them follow these."""
        inlet = ports.get(group.host) or next(iter(ports.values()))
        return inlet, group.place if group.first < inlet.of else inlet.port.readers

    def latency(self, host: int, other: int) -> int:
        """The time that a message between hosts takes."""
        if host == other:
            return 0
        return nanoseconds(max(self.model.hosts[host].latency, self.model.hosts[other].latency))

    def come(self, source: Source, step: Step) -> Pauses:
        """What others have written of a step comes to the host that has published it, once for all who read there."""
        while step.comes == "now":
            yield Sleep("moving", source.port.pattern, step.sleepers, list)
        if step.comes == "not yet":
            step.comes = "now"
            rest = elsewhere(source.wanted, source.lies, {source.host})
            yield from self.bring(rest, source.host, source.port.pattern)
            step.comes = "is there"
            self.wake(step.sleepers)

    def gather(self, source: Source) -> Pauses:
        """Bytes of a step that several hosts have written, and that is small or packed, come before it is published."""
        task = self.model.tasks[source.writer]
        if len(task.hosts) > 1 and not source.port.per_rank and not source.lies:
            rest = elsewhere(whole(source.port.size), _written(task, source.port.size), {source.host})
            yield from self.bring(rest, source.host, source.port.pattern)

    def asking(self, rest: Rest, to: int) -> int:
        """The time until hosts hear what they are to send to another one, which meets them one after the other."""
        return sum(2 * relays.TRIPS_TO_OPEN * self.latency(host, to) for host, _ in rest) + self.farthest(rest, to)

    def farthest(self, rest: Rest, to: int) -> int:
        """The time of a message from the farthest of some hosts."""
        return max((self.latency(host, to) for host, _ in rest), default=0)

    def bring(self, rest: Rest, to: int, pattern: str) -> Pauses:
        """Bytes come from other hosts, from all of them at once."""
        if not rest:
            return
        receives, latency = self.lines[to].receives, self.farthest(rest, to)
        yield Spend("moving", self.asking(rest, to), pattern)
        ends = [self.lines[host].sends.book(self.now, size) + self.lines[host].sends.time(size) for host, size in rest]
        yield Spend("moving", latency, pattern)
        came = max(receives.book(self.now, size) + receives.time(size) for _, size in rest)
        yield Spend("moving", max(came, max(ends) + latency) - self.now, pattern)

    def send(self, relay: Relay) -> Pauses:
        """The program of a relay's sender: it takes a step when the receiver has asked for one."""
        latency, sends = self.latency(relay.writes, relay.reads), self.lines[relay.writes].sends
        ends = self.model.hosts[relay.writes], self.model.hosts[relay.reads]
        cores = min(end.cores for end in ends)
        bandwidth = min((end.bandwidth for end in ends if end.bandwidth is not None), default=None)
        of_all = relay.inlet.sources[0][0]
        rest = elsewhere(relay.needs, of_all.lies, {relay.writes, relay.reads})
        here = both(relay.needs, of_all.lies.get(relay.writes, whole(of_all.port.size)))
        is_sent = 0
        for number in count():
            yield from self.hear(relay, relay.may_send)
            yield None
            while (taken := self.take(relay.inlet, 0, number)) is None:
                yield Sleep("waiting for data", relay.inlet.port.pattern, relay.inlet.sleepers, list)
            if isinstance(taken, Ended):
                yield from self.hear(relay, lambda: not relay.on_the_way)
                relay.carried.messages += 1
                yield Spend("moving", latency)
                relay.sent.append(None)
                self.wake(relay.receiver)
                return
            source, step = taken
            size, packing = source.port.size, source.port.packing.on(cores, bandwidth)
            sent, packs = round(here * packing.sent), nanoseconds(here / packing.rate(cores))
            relay.asked -= 1
            relay.carried.messages += 1
            relay.carried.at_once = max(relay.carried.at_once, len(relay.on_the_way) + 1)
            yield Spend("moving", packs)
            if packs:
                yield Spend("moving", max(0, is_sent - self.now))  # what was packed before is sent meanwhile
            begin = sends.book(self.now, sent)
            is_sent = max(begin + sends.time(sent), step.there + sends.time(min(sent, relays.PIECE)))
            comes, ends_at = begin + latency, is_sent + latency
            crossing = OnItsWay(step, comes, ends_at, size, sent, packs, rest, is_whole=here == size)
            relay.on_the_way.append(crossing)
            relay.sent.append(crossing)
            self.wake(relay.receiver)

    def hear(self, relay: Relay, enough: Callable[[], bool]) -> Pauses:
        """The sender listens until it has heard enough."""
        relay.hear(self.now)
        while not enough():
            if relay.asks:
                yield Spend("moving", relay.asks[0][0] - self.now)
            else:
                yield Sleep("waiting for room", relay.inlet.port.pattern, relay.sender, list)
            relay.hear(self.now)

    def receive(self, relay: Relay) -> Pauses:
        """The program of its receiver: it asks for as many steps as it has room for, each time that one has come."""
        latency, receives = self.latency(relay.writes, relay.reads), self.lines[relay.reads].receives
        expected = 0
        for number in count():
            yield from self.demand(relay)
            more = max(0, relay.room() - expected)
            expected += more - 1
            relay.carried.messages += 1
            relay.asks.append((self.now + latency, more))
            self.wake(relay.sender)
            while not relay.sent:
                yield Sleep("waiting for data", relay.outlet.port.pattern, relay.receiver, list)
            crossing = relay.sent.popleft()
            if crossing is None:
                return
            yield Spend("moving", max(0, crossing.comes - self.now))
            end = receives.book(self.now, crossing.sent) + receives.time(crossing.sent)
            yield from self.create(relay.outlet, number)
            end = max(self.now, end, crossing.ends)
            goes_on = relay.goes_on(crossing)
            if goes_on:
                self.publish(relay.outlet, crossing.step, end)
            yield Spend("moving", end - self.now)
            carrying = max(crossing.ends - crossing.comes, receives.time(crossing.sent))
            messages = 2 * latency
            if not crossing.is_whole and not relay.keeps:
                relay.keeps = True
                messages += 2 * relays.TRIPS_TO_KEEP * latency
                yield Spend("moving", 2 * relays.TRIPS_TO_KEEP * latency)
            if crossing.rest:
                messages += self.asking(crossing.rest, relay.reads) + self.farthest(crossing.rest, relay.reads)
                carrying += max(self.lines[host].sends.time(count) for host, count in crossing.rest)
                relay.carried.messages += 2 * len(crossing.rest)
                yield from self.bring(crossing.rest, relay.reads, relay.outlet.port.pattern)
            moved = crossing.sent + sum(count for _, count in crossing.rest)
            relay.carried.add(crossing.size, moved, messages, carrying, crossing.packs, self.now)
            if not goes_on:
                self.publish(relay.outlet, crossing.step)
            yield None  # ranks that wait take it first

    def demand(self, relay: Relay) -> Pauses:
        """Where a relay brings steps on demand: wait until a reading rank waits for one, or none reads any more."""
        for inlet, _ in relay.outlet.channels if relay.on_demand else ():
            while self.ends[inlet.port.task] is None and not inlet.asked():
                yield Sleep("waiting for room", relay.outlet.port.pattern, inlet.relays, list)

    def moving(self, size: int, ranks: int) -> int:
        """The time that one of several ranks takes for its share of the bytes."""
        return nanoseconds(size / ranks / self.model.rate) if self.model.rate else 0

    def take(self, inlet: Inlet, rank: int, number: int) -> tuple[Source, Step] | Ended | None:
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
        source, queue, first = inlet.sources[place]
        if rank < inlet.port.readers:
            opened = queue.open(first + rank)
            assert opened == Opened(step), "a step that was handed out is kept for all ranks"
            self.wake(source.sleepers)
        return source, source.steps[step]

    def create(self, source: Source, iteration: int) -> Pauses:
        """Begin a step, together with the other ranks of its file, when every channel has room."""
        arrived = source.created[iteration] = source.created.get(iteration, 0) + 1
        pattern = source.port.pattern
        if arrived == source.ranks:
            self.wake(source.sleepers)
            if source.unpublished:
                self.publish(source)
        while source.created[iteration] < source.ranks:
            yield Sleep("moving", pattern, source.sleepers, lambda: [source.writer])
        for _, queue in source.channels:  # room that is there stays until the step is published
            while isinstance(queue.create(), Wait):
                yield Sleep("waiting for room", pattern, source.sleepers, source.full)

    def closes(self, source: Source) -> bool:
        """A rank closes the step; whether it is the last one, and the step is to be published now."""
        source.closed += 1
        if source.closed < source.ranks:
            return False
        source.closed = 0
        source.unpublished = source.port.publish_at_next
        return not source.unpublished

    def publish(self, source: Source, origin: Step | None = None, there: int = 0) -> None:
        """Let readers have the step. `origin`: what became of it on the host from which it came. `there`: when the last
        of its bytes is there."""
        source.unpublished = False
        step = Step(self.now, self.published, comes="not yet" if source.lies else "is there", there=there)
        if origin is not None:
            step.openings, step.dropped_for = origin.openings, origin.dropped_for
        self.published += 1
        source.steps.append(step)
        done: dict[ChannelQueue, Kept | Skipped] = {}
        for inlet, queue in source.channels:
            names = [self.model.tasks[reader].name for reader in inlet.readers if queue not in done]
            made = done[queue] = done.get(queue) or queue.publish()
            if isinstance(made, Kept):
                heapq.heappush(inlet.offers, (step.order, inlet.place_of[source], made.step))
                if made.dropped is not None:
                    source.steps[made.dropped].dropped_for += names
            else:
                step.dropped_for += names
            self.wake(inlet.sleepers)

    def end(self, rank: Rank) -> None:
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
            for source, queue, first in inlet.sources:
                queue.leave(range(first, first + inlet.port.readers))
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

    def crossing(self, relay: Relay) -> Crossing:
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

    def blocked(self, rank: Rank) -> Iterator[Blocked]:
        """Why a rank, and those that do the same, do not go on."""
        assert rank.asleep
        sleep, since = rank.asleep
        on = dict.fromkeys(self.model.tasks[index].name for index in sleep.blockers())
        name = self.model.tasks[rank.task].name
        for number in range(rank.rank, rank.rank + rank.ranks):
            yield Blocked(name, number, since / SECOND, sleep.activity, sleep.what, tuple(on))


def _takers(inlets: Mapping[int, Inlet], source: Source) -> int:
    """How many take its steps: the ranks on its host, and a relay for each other host."""
    return sum(inlet.port.readers if host == source.host else 1 for host, inlet in inlets.items())


class _Group(NamedTuple):
    """Ranks of a task that do the same at the same time, on one host."""

    first: int
    ranks: int
    host: int
    place: int
    """Its number among those of the task on the host."""


def _groups(model: Model) -> Iterator[list[_Group]]:
    """By task: those of each host, or each rank alone, where ranks do different things."""
    differ = {port.task for port in model.outports if port.per_rank}
    differ |= {port.task for port in model.inports if port.readers < model.tasks[port.task].ranks}
    for index, task in enumerate(model.tasks):
        found: list[_Group] = []
        there, first = Counter[int](), 0
        for host, ranks in task.hosts:
            each = 1 if index in differ else ranks
            for rank in range(first, first + ranks, each):
                found.append(_Group(rank, each, host, there[host]))
                there[host] += 1
            first += ranks
        yield found


def _lies(task: ModelTask, port: ModelOutPort) -> dict[int, Ranges]:
    """By host: the bytes of a step that lie there when it is published, if several hosts have some. Those of small
    ones, and such as are packed, have come to the lead's by then."""
    come = port.size <= relays.COMES_WHOLE or port.packing != Packing()
    return {} if len(task.hosts) == 1 or port.per_rank or come else _written(task, port.size)


def _written(task: ModelTask, size: int) -> dict[int, Ranges]:
    """By host: the bytes that ranks there write."""
    found: dict[int, Ranges] = {}
    first = 0
    for host, ranks in task.hosts:
        found[host] = joined([found.get(host, ()), piece(size, range(first, first + ranks), task.ranks)])
        first += ranks
    return found


def _timelines(ranks: Sequence[Rank]) -> Iterator[RankTimeline]:
    """The timelines of all ranks; equal ones share their segments."""
    for rank in ranks:
        segments = tuple(Segment(what, begin / SECOND, end / SECOND, port) for what, begin, end, port in rank.segments)
        yield from (RankTimeline(number, segments) for number in range(rank.rank, rank.rank + rank.ranks))
