"""What a keeper reports of its board: all but relays that have done nothing, of which a host may have many."""

from __future__ import annotations

from collections.abc import Collection

from wilkins.plan.split import HostPart
from wilkins.transport.report_table import ChannelFacts, PortFacts, Report
from wilkins.values import dataclass, replace

_OF_PORTS = ("steps", "bytes", "names", "dropped", "reopened", "shared", "unseen", "left", "brought")
_OF_CHANNELS = ("queued", "published", "read", "skipped", "dropped", "let_go", "newer", "held")


@dataclass(frozen=True, slots=True)
class PartReport:
    """The report of a host's board, as if its plan had only some of its relays."""

    report: Report
    relays: tuple[int, ...] = ()
    """These: with `HostPart.only`, the plan of which this is the report."""


def used_only(part: HostPart, report: Report, started: Collection[int] = ()) -> PartReport:
    """The report of a board with all relays, cut to those that were used.

    They have started, or carried something, or a rank waits for them; and of each channel that is read here one is
    kept in any case, by which the channel's readers here are known.

    Args:
        started: relays.
    """
    own = len(part.tasks)
    relays = dict((*part.senders, *part.receivers))
    used = {port.task for port in report.ports if _says(port, _OF_PORTS)}
    for channel in report.channels:
        if _says(channel, _OF_CHANNELS):
            used |= {report.ports[channel.outport].task, report.ports[channel.inport].task}
    used |= {whom.task for task in report.tasks[:own] for wait in task.waits for whom in wait.on}
    used |= {place for place, relay in relays.items() if relay.index in started}
    used |= set({channel: place for place, relay in reversed(part.receivers) for channel in relay.channels}.values())
    kept = part.only([relays[place].index for place in used if place >= own])
    indices = {relay.index for _, relay in (*kept.senders, *kept.receivers)}
    tasks = [place for place in range(len(report.tasks)) if place < own or relays[place].index in indices]
    return PartReport(_cut(report, own, tasks), tuple(sorted(indices)))


def _says(facts: PortFacts | ChannelFacts, counts: Collection[str]) -> bool:
    return any(getattr(facts, name) for name in counts)


def _cut(report: Report, own: int, kept: Collection[int]) -> Report:
    """The report with some of its tasks, and the ports and channels that are theirs. The first ones are the host's."""
    task_at = {place: at for at, place in enumerate(kept)}
    port_at: dict[int, int] = {}
    for place, port in enumerate(report.ports):
        if port.task in task_at:
            port_at[place] = len(port_at)
    tasks = [report.tasks[place] for place in kept]
    for place, task in enumerate(tasks[:own]):
        waits = [
            replace(wait, on=tuple(replace(whom, task=task_at[whom.task]) for whom in wait.on)) for wait in task.waits
        ]
        tasks[place] = replace(task, waits=tuple(waits))
    return replace(
        report,
        tasks=(*tasks[:own], *(replace(task, waits=()) for task in tasks[own:])),  # nobody asks for whom relays wait
        ports=tuple(replace(report.ports[place], task=task_at[report.ports[place].task]) for place in port_at),
        channels=tuple(
            replace(channel, outport=port_at[channel.outport], inport=port_at[channel.inport])
            for channel in report.channels
            if channel.outport in port_at and channel.inport in port_at
        ),
    )
