"""The transfers between the hosts of a run, from what their keepers report at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from wilkins.launch.hosts.status import HostResult
from wilkins.launch.records.crossings import Crossing
from wilkins.launch.records.tracednames import Port, Trace
from wilkins.plan.plan import Plan
from wilkins.plan.relayrules import Relay
from wilkins.plan.split import HostPart
from wilkins.transport.relay_messages import Compressed
from wilkins.transport.report_table import PortFacts


def crossings_of(plan: Plan, results: Sequence[tuple[HostPart, HostResult]]) -> list[Crossing]:
    """For each relay that has started, and whose receiver's host has reported: the steps that arrived, and the messages
    for them."""
    found = []
    unfit = {relay: rules for _, account in results for relay, rules in account.unfit.items()}
    for whole, account in results:
        if account.report is None:
            continue
        part = whole.only(account.report.relays)
        port_of = {port.task: port for port in account.report.report.ports}
        found += [
            _crossing(
                plan,
                relay,
                port_of[task],
                account.messages[relay.index],
                account.compressed.get(relay.index, Compressed()),
                unfit.get(relay.index, ()),
                account.fabrics.get(relay.index, ("", "")),
            )
            for task, relay in part.receivers
            if relay.index in account.messages
        ]
    return found


def host_trace(plan: Plan, part: HostPart, path: Path) -> Trace:
    """The trace of a host, whose senders take steps for readers elsewhere."""

    @cache
    def readers(port: Port) -> Sequence[Port] | None:
        relay = part.half(port[0])
        if relay is None or relay.writes != part.host:
            return None
        channels = [plan.channels[channel] for channel in relay.channels]
        ends = [plan.ports[one.inport] for one in channels if plan.ports[one.outport].pattern == port[1]]
        return [(plan.tasks[end.task].name, end.pattern) for end in ends]

    return Trace(path, readers)


def _crossing(
    plan: Plan,
    relay: Relay,
    port: PortFacts,
    messages: int,
    found: Compressed,
    unfit: Sequence[int],
    fabric: tuple[str, str],
) -> Crossing:
    outport = plan.ports[relay.outport]
    readers = (plan.tasks[plan.ports[plan.channels[channel].inport].task].name for channel in relay.channels)
    return Crossing(
        producer=plan.tasks[outport.task].name,
        consumers=tuple(dict.fromkeys(readers)),
        files=outport.pattern,
        writes=plan.hosts[relay.writes].name,
        reads=plan.hosts[relay.reads].name,
        steps=port.steps,
        bytes=port.bytes,
        moved=port.bytes - port.left - (found.before - found.after),
        messages=messages + port.brought,
        compressed=found.before,
        compressed_to=found.after,
        compressed_steps=found.steps,
        largest_error=found.largest_error,
        part_of_bound=found.part_of_bound,
        compression_s=found.cpu_seconds,
        unfit=tuple(outport.compress[number][0] for number in unfit),
        fabric=fabric[0],
        fabric_reason=fabric[1],
    )
