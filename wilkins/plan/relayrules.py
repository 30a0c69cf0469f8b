"""Which relays carry the steps of a plan between its hosts: by rule, for one host or one relay, without a list of all.

There may be a quarter of a million of them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from wilkins.flow import relays
from wilkins.flow.policy import FlowPolicy
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan, TaskPlan
from wilkins.values import dataclass

_HALF = re.compile(r".+-(?:to|from)-.+-(\d+)")
"""What may be the name of a relay's half."""


class Relay(NamedTuple):
    """Carries the steps of an out-port to the readers on one other host. (There may be hundreds of thousands.)"""

    index: int  # type: ignore[assignment]  # a tuple's own `index` is of no use here
    outport: int
    """Index in the plan for all hosts, as of the channels."""
    channels: tuple[int, ...]
    writes: int
    """Index of the host with its sender."""
    reads: int
    """Index of the host with its receiver."""
    made: int
    """Index of the host on which the steps are made,"""
    brought_by: int | None = None
    """and the relay that brings them to the host with the sender, if that is another one."""


def spans(task: TaskPlan) -> bool:
    """Whether the task has ranks on several hosts."""
    return len(task.share) > 1


def lead_host(task: TaskPlan) -> int:
    """The host that starts the task: that of rank 0."""
    return task.share[0][0]


def may_be_unused(plan: Plan, relay: Relay) -> bool:
    """Whether all steps may come from other hosts: rank 0 writes those of most programs, and publishes what all write
    together."""
    return relay.made != lead_host(plan.tasks[plan.ports[relay.outport].task])


def ranks_on(task: TaskPlan, host: int) -> range:
    """The task's ranks on a host."""
    return ranges_of(task).get(host, range(0))


def ranges_of(task: TaskPlan) -> dict[int, range]:
    """By host: the task's ranks there."""
    ends = accumulate(count for _, count in task.share)
    return {host: range(end - count, end) for (host, count), end in zip(task.share, ends, strict=True)}


def half_name(plan: Plan, relay: Relay, *, sends: bool) -> str:
    """The name of the task that sends, or receives; its last word is the relay's index."""
    producer = plan.tasks[plan.ports[relay.outport].task].name
    way, other = ("to", relay.reads) if sends else ("from", relay.writes)
    return f"{producer}-{way}-{plan.hosts[other].name}-{relay.index}"


def policies_of(channels: Sequence[ChannelPlan]) -> list[FlowPolicy]:
    """The policies of channels."""
    return [channel.policy for channel in channels]


def _readers(plan: Plan, channel: ChannelPlan, ranks: Sequence[Mapping[int, range]]) -> dict[int, int]:
    """By host: how many of its ranks read the channel."""
    here = ranks[plan.ports[channel.inport].task].items()
    counts = {host: min(some.stop, channel.readers) - some.start for host, some in here}
    return {host: count for host, count in counts.items() if count > 0}


def _may_fork(plan: Plan, outport: PortPlan) -> bool:
    """Whether steps may be handed on: not what would be compressed twice; and parts come from where they are."""
    return not outport.compress and not spans(plan.tasks[outport.task])


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Relays of an out-port whose readers get the same steps: one from each host that writes to each other host that
    reads. Readers that leave out steps while they are busy have a bundle each; so has, in a resumed run, each group of
    readers that lack the same steps."""

    outport: int
    channels: tuple[int, ...]
    writes: Sequence[int]
    reads: Sequence[int]
    first: int
    """The index of its first relay."""
    may_fork: bool

    def index(self, writes: int, reads: int) -> int:
        """The index of a relay, by the places of its hosts. (None has those of a host that writes and reads.)"""
        return self.first + writes * len(self.reads) + reads


class RelayRules:
    """Which relays there are.

    Attributes:
        ranks: by task and host, the task's ranks there.
        readers: by channel and host, how many ranks read it there.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.ranks = [ranges_of(task) for task in plan.tasks]
        self.readers = [_readers(plan, channel, self.ranks) for channel in plan.channels]
        self._bundles = list(self._find_bundles())
        self._writing: dict[int, list[tuple[_Bundle, int]]] = {}
        """By host: its bundles, and its place in each."""
        self._reading: dict[int, list[tuple[_Bundle, int]]] = {}
        for bundle in self._bundles:
            for places, hosts in ((self._writing, bundle.writes), (self._reading, bundle.reads)):
                for place, host in enumerate(hosts):
                    places.setdefault(host, []).append((bundle, place))
        self._brought: dict[int, tuple[int, int]] = {}
        """By relay whose steps come by way of a third host: the relay that brings them there, and that host."""
        self._handed_on: dict[int, list[Relay]] = {}
        """By such a host."""
        self._find_trees()

    def _find_bundles(self) -> Iterator[_Bundle]:
        plan = self._plan
        half_read = {channel.outport for channel in plan.channels if channel.rests}
        found: dict[tuple[int, Hashable], list[int]] = {}
        for place, channel in enumerate(plan.channels):
            lacks = (channel.rests, *policies_of([channel])) if channel.outport in half_read else None
            found.setdefault((channel.outport, place if channel.drops else lacks), []).append(place)
        first = 0
        for (outport, alone), channels in found.items():
            writes = tuple(self.ranks[plan.ports[outport].task])
            reads = tuple(dict.fromkeys(host for place in channels for host in self.readers[place]))
            forks = alone is None and _may_fork(plan, plan.ports[outport])
            yield _Bundle(outport, tuple(channels), writes, reads, first, forks)
            first += len(writes) * len(reads)

    def _find_trees(self) -> None:
        """Only from hosts that send the same steps to many others."""
        many = {
            bundle.writes[0] for bundle in self._bundles if bundle.may_fork and len(bundle.reads) > relays.FEW_HOSTS
        }
        found = [(relay, bundle.may_fork) for host in sorted(many) for bundle, relay in self._written_on(host)]
        found.sort(key=lambda one: one[0].index)
        ways = [
            relays.Way(
                relay.outport,
                relay.writes,
                relay.reads,
                tuple(policies_of([self._plan.channels[channel] for channel in relay.channels])),
                may_fork,
            )
            for relay, may_fork in found
        ]
        for (relay, _), by in zip(found, relays.forwarders(ways), strict=True):
            if by is not None:
                before, _ = found[by]
                self._brought[relay.index] = before.index, before.reads
                handed_on = relay._replace(writes=before.reads, brought_by=before.index)
                self._handed_on.setdefault(before.reads, []).append(handed_on)

    def _written_on(self, host: int) -> Iterator[tuple[_Bundle, Relay]]:
        """The relays of steps that are made on a host, from there to where they are read."""
        for bundle, place in self._writing.get(host, ()):
            for at, reads in enumerate(bundle.reads):
                if reads != host:
                    yield bundle, self._relay(bundle, place, at)

    def _relay(self, bundle: _Bundle, writes: int, reads: int) -> Relay:
        reader, writer = bundle.reads[reads], bundle.writes[writes]
        channels = bundle.channels
        if len(channels) > 1:
            channels = tuple(channel for channel in channels if reader in self.readers[channel])
        return Relay(bundle.index(writes, reads), bundle.outport, channels, writer, reader, writer)

    def _received(self, bundle: _Bundle, writes: int, reads: int) -> Relay:
        """A relay as its readers' host has it: the steps may come from a third host."""
        relay = self._relay(bundle, writes, reads)
        if relay.index not in self._brought:
            return relay
        by, hands_on = self._brought[relay.index]
        return relay._replace(writes=hands_on, brought_by=by)

    def relays_on(self, host: int) -> Iterator[Relay]:
        """The relays that have a half on a host."""
        yield from (relay for _, relay in self._written_on(host) if relay.index not in self._brought)
        yield from self._handed_on.get(host, ())
        for bundle, place in self._reading.get(host, ()):
            for at, writes in enumerate(bundle.writes):
                if writes != host:
                    yield self._received(bundle, at, place)

    def sends_to(self, host: int) -> set[int]:
        """The hosts to which relays lead from a host."""
        found = {relay.reads for relay in self._handed_on.get(host, ())}
        for bundle, place in self._writing.get(host, ()):
            at = range(len(bundle.reads)) if self._brought else ()
            brought = {bundle.reads[reads] for reads in at if bundle.index(place, reads) in self._brought}
            found |= {*bundle.reads} - brought
        return found - {host}

    def relay(self, index: int) -> Relay | None:
        """The relay of an index; None: there is none."""
        at = bisect_right(self._bundles, index, key=lambda bundle: bundle.first) - 1
        if at < 0:
            return None
        bundle = self._bundles[at]
        writes, reads = divmod(index - bundle.first, max(1, len(bundle.reads)))
        if writes >= len(bundle.writes) or reads >= len(bundle.reads) or bundle.writes[writes] == bundle.reads[reads]:
            return None
        return self._received(bundle, writes, reads)

    def of_half(self, name: str) -> Relay | None:
        """The relay of which a half has a name; None: a task of another kind has it."""
        found = _HALF.fullmatch(name)
        relay = self.relay(int(found[1])) if found else None
        if relay is None or name not in (half_name(self._plan, relay, sends=sends) for sends in (False, True)):
            return None
        return relay

    def with_bringers(self, some: Iterable[Relay]) -> list[Relay]:
        """Some relays, and those that bring the steps that they hand on."""
        found: dict[int, Relay] = {}
        for one in some:
            relay: Relay | None = one
            while relay is not None and relay.index not in found:
                found[relay.index] = relay
                relay = None if relay.brought_by is None else self.relay(relay.brought_by)
        return list(found.values())

    def of_trees(self) -> Iterator[Relay]:
        """The relays of out-ports whose steps hosts hand on, by index."""
        forked = {relay.outport for some in self._handed_on.values() for relay in some}
        for bundle in self._bundles if forked else ():
            for at, writes in enumerate(bundle.writes if bundle.outport in forked else ()):
                for place, reads in enumerate(bundle.reads):
                    if writes != reads:
                        yield self._received(bundle, at, place)


def trees_of(plan: Plan) -> dict[int, list[Relay]]:
    """By out-port whose steps hosts hand on: its relays."""
    found: dict[int, list[Relay]] = {}
    for relay in RelayRules(plan).of_trees():
        found.setdefault(relay.outport, []).append(relay)
    return found
