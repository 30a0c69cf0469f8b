"""What each host of a plan does: a plan of its own, in which channels to other hosts end at relays.

A relay is a task of two halves. On the host where steps are made, a sender reads them like any other reader; on the
host where they are read, a receiver writes them like any other producer. So each host is a workflow by itself, with
the queues, names and rules of one machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import wilkins.transport
from wilkins.errors import ResourceError
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan, TaskPlan

PROGRAM = Path(str(wilkins.transport.__file__)).with_name("relay.py")
"""What both halves of a relay execute."""


@dataclass(frozen=True, slots=True)
class Relay:
    """Carries the steps of an out-port to the readers on one other host."""

    index: int
    outport: int
    """Of the plan for all hosts, as are the channels."""
    channels: tuple[int, ...]
    writes: int
    """The host, by index, whose sender it has."""
    reads: int
    """The host whose receiver it has."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one host does."""

    host: int
    plan: Plan
    tasks: tuple[int, ...]
    """By task of `plan`: its index in the plan for all hosts. Relays, which come last, are not among them."""
    ports: tuple[int, ...]
    channels: tuple[tuple[int, ...], ...]
    """By channel of `plan`: those of the plan for all hosts that it is a part of."""
    senders: tuple[tuple[int, Relay], ...]
    """With their indices among the tasks of `plan`."""
    receivers: tuple[tuple[int, Relay], ...]


def parts(plan: Plan) -> tuple[Part, ...]:
    """The parts of all hosts that have a task, in the order of hosts.

    Raises:
        ResourceError: a task has ranks on several hosts.
    """
    for task in plan.tasks:
        if len({host for host, _ in task.share}) > 1:
            hosts = ", ".join(f"{count} on {plan.hosts[host].name}" for host, count in task.share)
            raise ResourceError(
                f"{task.origin}: {task.name}: its {task.nprocs} ranks would run on several hosts ({hosts}), which this "
                "version cannot do yet; give it `placement: [HOST]` with a host that has slots for all of them"
            )
    relays = _relays(plan)
    used = sorted({_host(plan, task.index) for task in plan.tasks})
    return tuple(_part(plan, relays, host) for host in used)


def _host(plan: Plan, task: int) -> int:
    return plan.tasks[task].share[0][0]


def _relays(plan: Plan) -> list[Relay]:
    """One for each out-port and other host on which there are readers of it."""
    found: dict[tuple[int, int], list[int]] = {}
    for place, channel in enumerate(plan.channels):
        writes, reads = (_host(plan, plan.ports[port].task) for port in (channel.outport, channel.inport))
        if writes != reads:
            found.setdefault((channel.outport, reads), []).append(place)
    return [
        Relay(index, outport, tuple(channels), _host(plan, plan.ports[outport].task), reads)
        for index, ((outport, reads), channels) in enumerate(found.items())
    ]


def _part(plan: Plan, relays: Sequence[Relay], host: int) -> Part:
    tasks = [task for task in plan.tasks if _host(plan, task.index) == host]
    place_of = {task.index: place for place, task in enumerate(tasks)}
    ports = [port for port in plan.ports if port.task in place_of]
    port_of = {port.index: place for place, port in enumerate(ports)}
    made_tasks = [replace(task, index=place) for place, task in enumerate(tasks)]
    made_ports = [replace(port, index=place, task=place_of[port.task]) for place, port in enumerate(ports)]
    made: list[ChannelPlan] = []
    channels: list[tuple[int, ...]] = []
    for place, channel in enumerate(plan.channels):
        if channel.outport in port_of and channel.inport in port_of:
            made.append(replace(channel, outport=port_of[channel.outport], inport=port_of[channel.inport]))
            channels.append((place,))
    senders, receivers = [], []
    for relay in relays:
        outport = plan.ports[relay.outport]
        carried = [plan.channels[channel] for channel in relay.channels]
        if relay.writes == host:
            senders.append((len(made_tasks), relay))
            port = _half(plan, relay, "send", made_tasks, made_ports, outport)
            made.append(replace(_taken(carried), outport=port_of[relay.outport], inport=port, readers=1))
            channels.append(relay.channels)
        elif relay.reads == host:
            receivers.append((len(made_tasks), relay))
            port = _half(plan, relay, "receive", made_tasks, made_ports, outport)
            for place, channel in zip(relay.channels, carried, strict=True):
                kept = replace(channel, every=1, offset=0) if _alike(carried) else channel
                made.append(replace(kept, outport=port, inport=port_of[channel.inport]))
                channels.append((place,))
    own = replace(
        plan,
        tasks=tuple(made_tasks),
        ports=tuple(made_ports),
        channels=tuple(made),
        total_ranks=sum(task.nprocs for task in made_tasks),
        notes=(),
        hosts=(),
    )
    return Part(
        host,
        own,
        tuple(task.index for task in tasks),
        tuple(port.index for port in ports),
        tuple(channels),
        tuple(senders),
        tuple(receivers),
    )


def _half(plan: Plan, relay: Relay, what: str, tasks: list[TaskPlan], ports: list[PortPlan], outport: PortPlan) -> int:
    """Adds a half of a relay with its port; returns the port."""
    producer = plan.tasks[outport.task]
    other = plan.hosts[relay.reads if what == "send" else relay.writes].name
    tasks.append(
        TaskPlan(
            index=len(tasks),
            name=f"{producer.name}-{'to' if what == 'send' else 'from'}-{other}-{relay.index}",
            instance=0,
            nprocs=1,
            kind="plain",
            executable=Path(sys.executable),
            args=(str(PROGRAM), what, outport.pattern),
            cwd=producer.cwd,
            env={},
            rerun="never",
            strict_end=True,
            origin=producer.origin,
            is_relay=True,
        )
    )
    direction = "in" if what == "send" else "out"
    ports.append(
        PortPlan(
            index=len(ports),
            task=len(tasks) - 1,
            direction="in" if direction == "in" else "out",
            pattern=outport.pattern,
            mode=outport.mode if direction == "in" else "memory",
            cap_bytes=outport.cap_bytes if direction == "out" else 0,
            origin=outport.origin,
        )
    )
    return len(ports) - 1


def _alike(channels: Sequence[ChannelPlan]) -> bool:
    """Whether all have one policy: then only steps that it keeps need to cross."""
    return len({(one.every, one.offset, one.queue, one.when_full) for one in channels}) == 1


def _taken(channels: Sequence[ChannelPlan]) -> ChannelPlan:
    """What a sender takes of the steps that its relay's channels may give to readers."""
    first = channels[0]
    if _alike(channels):
        return first
    return replace(first, every=1, offset=0, queue=max(one.queue for one in channels), when_full="block")
