"""Splits a plan into host parts: each host has a plan of its own, in which channels to other hosts end at relays.

A relay is a task of two halves. On the host where steps are made, a sender reads them like any other reader; on the
host where they are read, a receiver writes them like any other producer. So each host is a workflow by itself, with
the queues, names and rules of one machine. Where many hosts read the same steps, some hand them on: there the sender
reads what a receiver has written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import wilkins.transport
from wilkins.errors import ResourceError, count_of
from wilkins.flow import relays
from wilkins.flow.policy import FlowPolicy
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan, TaskPlan
from wilkins.plan.relayrules import Relay, RelayRules, half_name, policies_of, spans
from wilkins.transport.plan_table import values_of
from wilkins.values import dataclass, field, replace

PROGRAM = Path(str(wilkins.transport.__file__)).with_name("relay.py")
"""The program of both halves of a relay."""

_MOST_NAMED = 3
"""How many readers of a relay a message names; of more, it gives the number."""


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a channel's steps: written on one host, and read on the same or another one."""

    channels: tuple[int, ...]
    """Indices in the plan for all hosts."""
    writes: int
    """The host on which they are made, whichever hands them on."""
    reads: int
    arrives: bool = False
    """Whether it leads from a relay to the readers; else it leads to a relay, or from the writers to the readers."""


class HostPart:
    """The part of a plan that one host executes. What takes time or memory is made when it is first asked for."""

    def __init__(
        self, plan: Plan, host: int, own: _Own, rules: RelayRules, some: Sequence[Relay] | None = None
    ) -> None:
        """`some`: the only relays that it is to have; None: all that have a half there."""
        self.host = host
        self.tasks = tuple(task.index for task, _ in own.tasks)
        """By task of `plan`: its index in the plan for all hosts. Relays, which come last, are not among them."""
        self.first_ranks = tuple(ranks.start for _, ranks in own.tasks)
        """By those tasks: the first rank of the task on this host."""
        self.ports = tuple(port.index for port in own.ports)
        self._whole = plan
        self._own = own
        self._rules = rules
        self._some = some
        self._last: HostPart | None = None

    def only(self, relays: Collection[int]) -> HostPart:
        """The part with none but these relays, as if there were no others."""
        found = self._rules.with_bringers(filter(None, map(self._rules.relay, relays)))
        here = sorted(relay for relay in found if self.host in (relay.writes, relay.reads))
        if self._last is None or self._last._some != here:
            self._last = HostPart(self._whole, self.host, self._own, self._rules, here)
        return self._last

    @cached_property
    def _relays(self) -> list[tuple[int, Relay]]:
        relays = sorted(self._rules.relays_on(self.host)) if self._some is None else self._some
        return list(enumerate(relays, len(self.tasks)))

    def half(self, name: str) -> Relay | None:
        """The relay whose half of a name this host may have; None: a task of another kind has the name."""
        return self._rules.of_half(name)

    def sends_to(self) -> set[int]:
        """The hosts to which steps go from here, found without a list of relays."""
        return self._rules.sends_to(self.host)

    @cached_property
    def senders(self) -> tuple[tuple[int, Relay], ...]:
        """With their indices among the tasks of `plan`."""
        return tuple((place, relay) for place, relay in self._relays if relay.writes == self.host)

    @cached_property
    def receivers(self) -> tuple[tuple[int, Relay], ...]:
        """Likewise."""
        return tuple((place, relay) for place, relay in self._relays if relay.writes != self.host)

    @cached_property
    def _made(self) -> tuple[Plan, tuple[Route, ...]]:
        return _part(self._whole, self.host, self._own, [relay for _, relay in self._relays], self._rules)

    @property
    def plan(self) -> Plan:
        """The host's own plan."""
        return self._made[0]

    @property
    def channels(self) -> tuple[Route, ...]:
        """The routes, by channel of `plan`."""
        return self._made[1]


def host_parts(plan: Plan, names: Iterable[str] | None = None) -> tuple[HostPart, ...]:
    """The parts of all hosts that have a task, in the order of hosts.

    Args:
        names: of tasks that a run has told of: the parts have only those relays of which a half is among them. There
            may be many more, which have carried nothing. None: they have all.

    Raises:
        ResourceError: a task on several hosts would be started for each step, or its MPI cannot place its ranks.
    """
    for task in plan.tasks:
        _check_order(plan, task)
        _check_starts(plan, task)
    _check_sets(plan)
    _check_containers(plan)
    rules = RelayRules(plan)
    own: dict[int, _Own] = {}
    for task in plan.tasks:
        for host, here in rules.ranks[task.index].items():
            own.setdefault(host, _Own()).tasks.append((task, here))
    for port in plan.ports:
        for host in rules.ranks[port.task]:
            own[host].ports.append(port)
    for place, channel in enumerate(plan.channels):
        for host in rules.readers[place].keys() & rules.ranks[plan.ports[channel.outport].task].keys():
            own[host].channels.append((place, rules.readers[place][host]))
    if names is None:
        return tuple(HostPart(plan, host, found, rules) for host, found in sorted(own.items()))
    halves: dict[int, list[Relay]] = {}
    for relay in sorted(rules.with_bringers(filter(None, map(rules.of_half, names)))):
        for host in (relay.writes, relay.reads):
            halves.setdefault(host, []).append(relay)
    return tuple(HostPart(plan, host, found, rules, halves.get(host, [])) for host, found in sorted(own.items()))


@dataclass(slots=True)
class _Own:
    """The share of a plan on one host. Found for all hosts at once: the time is linear in tasks and channels."""

    tasks: list[tuple[TaskPlan, range]] = field(default_factory=list)
    """Tasks with ranks on the host, and these ranks."""
    ports: list[PortPlan] = field(default_factory=list)
    channels: list[tuple[int, int]] = field(default_factory=list)
    """Channels with both ends on the host, and the number of ranks that read there."""


def _check_order(plan: Plan, task: TaskPlan) -> None:
    hosts = [host for host, _ in task.share]
    if len(set(hosts)) < len(hosts):
        twice = next(host for host in hosts if hosts.count(host) > 1)
        raise ResourceError(
            f"{task.origin}: {task.name}: some of its ranks would run on {plan.hosts[twice].name}, the next ones on "
            "another host, and then some on the first one again, which an mpiexec cannot do; give the task a "
            "'placement' of its own"
        )


def starts_for_each(plan: Plan, task: TaskPlan) -> bool:
    """Whether the program of a task with ranks on several hosts may be started for each step."""
    return spans(task) and bool(_coupled_inports(plan, task)) and not _why_once(plan, task)


def _coupled_inports(plan: Plan, task: TaskPlan) -> list[int]:
    return [
        port.index for port in plan.ports if port.task == task.index and port.direction == "in" and port.mode != "plain"
    ]


def _why_once(plan: Plan, task: TaskPlan) -> str:
    """Why the program of a task on several hosts, which reads steps, is started once only; empty if that is not so."""
    inports = _coupled_inports(plan, task)
    channels = [channel for channel in plan.channels if channel.inport in inports]
    if plan.launch != "alone":
        return "in one MPI job such a program is started once"
    if task.is_elastic:
        return "ranks that go on without each other are started once"
    if plan.resumes is not None:
        return "in a resumed run such a program is started once"
    if len(inports) != 1 or len(channels) != 1:
        return "the steps of several ports or tasks may come to its hosts in different orders"
    if channels[0].drops and plan.tasks[plan.ports[channels[0].outport].task].nprocs > 1:
        return "where steps are left out, those of several ranks may come to its hosts in different orders"
    return ""


def _check_starts(plan: Plan, task: TaskPlan) -> None:
    """A program is started for each step only where all hosts get the steps in one order."""
    named = any("{filename}" in arg for arg in task.args)
    if not spans(task) or not (named or task.rerun == "always") or not _coupled_inports(plan, task):
        return
    if why := _why_once(plan, task):
        starts = "'{filename}' in its arguments asks" if named else "'rerun: always' asks"
        hosts = ", ".join(plan.hosts[host].name for host, _ in task.share)
        raise ResourceError(
            f"{task.origin}: {task.name}: {starts} for a start for each step, and its ranks are on several hosts "
            f"({hosts}): {why}; give the task `placement: [HOST]` with a host that has slots for all of its ranks, or "
            "let the program read all steps in a loop"
        )


def _check_sets(plan: Plan) -> None:
    """Steps of several files are for tasks on one host."""
    for port in plan.ports:
        if port.is_set:
            what = "folders" if port.is_folder else "several files each"
            raise ResourceError(
                f"{port.origin}: task {plan.tasks[port.task].name!r}: the steps of {port.steps!r} are {what}, which "
                "are for tasks on one host; run the workflow without --hosts"
            )


def _check_containers(plan: Plan) -> None:
    """The ranks of a task share one container, and its ``mpiexec`` starts them all there."""
    for task in plan.tasks:
        if task.container and spans(task):
            hosts = ", ".join(plan.hosts[host].name for host, _ in task.share)
            raise ResourceError(
                f"{task.origin}: {task.name}: its ranks are on several hosts ({hosts}), and the ranks of a task with "
                "'container' are in one container, on one host; give the task `placement: [HOST]` with a host that has "
                "slots for all of its ranks, or give each rank one by `prefix:` (`wilkins help containers`)"
            )


def _here(plan: Plan, task: TaskPlan, index: int, ranks: range) -> TaskPlan:
    """The task with those of its ranks that are on a host."""
    if not spans(task):
        return replace(task, index=index)
    rerun = task.rerun if starts_for_each(plan, task) else "never"
    return replace(task, index=index, nprocs=len(ranks), rerun=rerun, is_part=True)


def _part(
    plan: Plan, host: int, own: _Own, halves: Sequence[Relay], rules: RelayRules
) -> tuple[Plan, tuple[Route, ...]]:
    """The plan of a host, and the routes of its channels. `halves`: the relays that have a half there."""
    ranks, readers = rules.ranks, rules.readers
    place_of = {task.index: place for place, (task, _) in enumerate(own.tasks)}
    port_of = {port.index: place for place, port in enumerate(own.ports)}
    made_tasks = [_here(plan, task, place, ranks) for place, (task, ranks) in enumerate(own.tasks)]
    made_ports = [
        replace(
            port,
            index=place,
            task=place_of[port.task],
            part_of=_part_of(plan, port),
            begins=_of(ranks[port.task][host], port.begins),
        )
        for place, port in enumerate(own.ports)
    ]
    made: list[ChannelPlan] = []
    channels: list[Route] = []
    for place, count in own.channels:
        channel = plan.channels[place]
        outport, inport = port_of[channel.outport], port_of[channel.inport]
        rests = _of(ranks[plan.ports[channel.outport].task][host], channel.rests)
        ends = replace(channel, outport=outport, inport=inport, readers=count, rests=rests)
        made.append(replace(ends, group=_group(channel, place)))
        channels.append(Route((place,), host, host))
    arrives_at: dict[int, int] = {}
    for relay in halves:
        written = plan.ports[relay.outport]
        carried = [plan.channels[channel] for channel in relay.channels]
        rests = _rests(plan, relay, ranks)
        if relay.writes == host:
            port = _half(plan, relay, "send", made_tasks, made_ports, written)
            kept = replace(_under(carried[0], relays.taken(policies_of(carried))), rests=rests)
            outport = port_of[relay.outport] if relay.brought_by is None else arrives_at[relay.brought_by]
            group = _group(kept, relay.channels[0])
            made.append(replace(kept, outport=outport, inport=port, readers=1, group=group))
            channels.append(Route(relay.channels, relay.made, relay.reads))
        else:
            port = _half(plan, relay, "receive", made_tasks, made_ports, written)
            arrives_at[relay.index] = port
            begin = sum(first for first, _ in rests)
            made_ports[port] = replace(made_ports[port], begins=(begin,) if begin else ())
            for place, channel, policy in zip(relay.channels, carried, relays.given(policies_of(carried)), strict=True):
                rests = ((begin, 0),) if begin else ()
                ends = replace(_under(channel, policy), outport=port, inport=port_of[channel.inport], rests=rests)
                made.append(replace(ends, readers=readers[place][host]))
                channels.append(Route((place,), relay.made, relay.reads, arrives=True))
    whole = replace(
        plan,
        tasks=tuple(made_tasks),
        ports=tuple(made_ports),
        channels=tuple(made),
        total_ranks=sum(task.nprocs for task in made_tasks),
        notes=(),
        hosts=(),
    )
    return whole, tuple(channels)


def _group(channel: ChannelPlan, place: int) -> int:
    """The number that the routes of one channel share on a host, where they are to drop the same steps."""
    return place + 1 if channel.drops else 0


_T = TypeVar("_T")


def _of(ranks: range, values: tuple[_T, ...]) -> tuple[_T, ...]:
    """The values of some ranks; `values` has one for each rank of a task, or none."""
    return values[ranks.start : ranks.stop]


def _rests(plan: Plan, relay: Relay, ranks: Sequence[Mapping[int, range]]) -> tuple[tuple[int, int], ...]:
    """In a resumed run, what is left for a relay of the producer's ranks on its host: all that its readers lack. All
    steps of these ranks have names for the relay, unless it is that of one reader (`_named`)."""
    written = plan.ports[relay.outport]
    here = ranks[written.task][relay.made]
    begins = _of(here, written.begins) or (0,) * len(here)
    channel = plan.channels[relay.channels[0]]
    lacked = _of(here, channel.rests)
    if channel.drops:
        return lacked
    return tuple((first, begin) for (first, _), begin in zip(lacked, begins, strict=True)) if lacked else ()


def _part_of(plan: Plan, port: PortPlan) -> int:
    """The number that all host parts of one out-port share; 0: the out-port is on one host."""
    return port.index + 1 if port.direction == "out" and spans(plan.tasks[port.task]) else 0


def _half(plan: Plan, relay: Relay, what: str, tasks: list[TaskPlan], ports: list[PortPlan], outport: PortPlan) -> int:
    """Adds a half of a relay with its port; returns the port."""
    producer = plan.tasks[outport.task]
    other = relay.reads if what == "send" else relay.writes
    on_demand = plan.channels[relay.channels[0]].drops
    pattern = _named(plan, relay) if what == "send" else outport.pattern
    tasks.append(
        TaskPlan(
            index=len(tasks),
            name=half_name(plan, relay, sends=what == "send"),
            instance=0,
            nprocs=1,
            kind="plain",
            executable=Path(sys.executable),
            args=(str(PROGRAM), what, pattern, *_rules(outport)),
            cwd=producer.cwd,
            env={},
            rerun="never",
            strict_end=True,
            origin=producer.origin,
            carries=_carried(plan, relay),
        )
    )
    direction = "in" if what == "send" else "out"
    ports.append(
        PortPlan(
            index=len(ports),
            task=len(tasks) - 1,
            direction="in" if direction == "in" else "out",
            pattern=pattern,
            mode=outport.mode if direction == "in" and relay.brought_by is None else "memory",
            cap_bytes=_cap(plan, relay, outport) if direction == "out" else 0,
            part_of=_part_of(plan, outport) if direction == "out" else 0,
            far_host=other + 1,
            on_demand=on_demand and direction == "out",
            checked=outport.checked and direction == "out",
            origin=outport.origin,
        )
    )
    return len(ports) - 1


def _named(plan: Plan, relay: Relay) -> str:
    """The pattern of the steps that a relay takes: all of the out-port's, or, where it leaves out some while the reader
    is busy, those of this reader, which its policy counts."""
    channel = plan.channels[relay.channels[0]]
    return plan.ports[channel.inport if channel.drops else channel.outport].pattern


def _rules(outport: PortPlan) -> tuple[str, ...]:
    """What a relay is told of `compress`."""
    return (json.dumps(outport.compress), outport.compress_when) if outport.compress else ()


def _cap(plan: Plan, relay: Relay, outport: PortPlan) -> int:
    """The cap in bytes for steps on the reader's host; 0: none. No step is on disk there. So steps that would wait on
    the producer's disk, to be listed together, have no cap."""
    inports = (plan.ports[plan.channels[channel].inport] for channel in relay.channels)
    waits_on_disk = outport.mode == "both" and any(inport.listing == "end" for inport in inports)
    return 0 if waits_on_disk else outport.cap_bytes


def _carried(plan: Plan, relay: Relay) -> str:
    tasks = dict.fromkeys(plan.tasks[plan.ports[plan.channels[one].inport].task].name for one in relay.channels)
    readers = ", ".join(tasks) if len(tasks) <= _MOST_NAMED else count_of(len(tasks), "task")
    producer = plan.tasks[plan.ports[relay.outport].task].name
    ways = f"from {plan.hosts[relay.writes].name} to {plan.hosts[relay.reads].name}"
    return f"the steps of {producer} for {readers} {ways}"


def _under(channel: ChannelPlan, policy: FlowPolicy) -> ChannelPlan:
    return replace(channel, **values_of(FlowPolicy, policy))
