"""Merges the reports of all hosts into one, as if the plan had run on one board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from wilkins.errors import count_of
from wilkins.launch.hosts.status import HostResult
from wilkins.launch.records.summary import TaskEnd
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan
from wilkins.plan.relayrules import lead_host, spans
from wilkins.plan.split import HostPart, Route, starts_for_each
from wilkins.schema.patterns import is_wild
from wilkins.transport.report_table import ChannelFacts, PortFacts, Report, TaskFacts, Whom
from wilkins.values import dataclass, fields, replace

_SUMMED = ("skipped", "dropped", "let_go")
_SPENT = ("waiting_s", "copying_s")


def merged(plan: Plan, reports: Sequence[tuple[HostPart, Report]]) -> Report:
    """The report of a plan's tasks, from those of its hosts."""
    found: list[list[TaskFacts]] = [[] for _ in plan.tasks]
    ports: dict[int, list[PortFacts]] = {}
    whole = BoardPorts(plan)
    for part, report in reports:
        board = BoardPorts(part.plan)
        for place, index in enumerate(part.tasks):
            found[index].append(_task(plan, whole, part, board, report.tasks[place], part.first_ranks[place]))
        for place, index in enumerate(part.ports):
            at = board.index_of(part.plan.ports[place])
            if at is not None:
                port = replace(report.ports[at], task=part.tasks[report.ports[at].task])
                ports.setdefault(index, []).append(port)
    routes = _route_reports(reports)
    tasks = [_joined(task.name, task.nprocs, some) for task, some in zip(plan.tasks, found, strict=True)]
    known = {port.index: at for port in plan.ports if (at := whole.index_of(port)) is not None}
    channels = [
        _whole(known[channel.outport], known[channel.inport], channel, routes.get(place, []), _all_read(plan, channel))
        for place, channel in enumerate(plan.channels)
        if {channel.outport, channel.inport} <= known.keys()
    ]
    dropped = Counter[int]()
    for one in channels:
        dropped.update({one.outport: one.dropped, one.inport: one.dropped})
    joined = [_one_port(port, ports.get(port.index, [])) for port in plan.ports if port.index in known]
    return Report(
        tuple(tasks),
        # A step may be dropped before its relay, and after it.
        tuple(replace(port, dropped=dropped[place]) for place, port in enumerate(joined)),
        tuple(channels),
        sum(report.memory_bytes for _, report in reports),
        max((report.memory_peak_bytes for _, report in reports), default=0),
        any(report.trace_stopped for _, report in reports),
    )


def ends_of(plan: Plan, results: Sequence[tuple[HostPart, HostResult]]) -> list[TaskEnd]:
    """How a plan's tasks have ended, by the results of its hosts."""
    unknown = TaskEnd(0, "stopped", "", 0.0)
    ends = [unknown] * len(plan.tasks)
    for part, account in results:
        for place, end in zip(part.tasks, account.ends, strict=False):
            # The host that has started a task's job knows best; it may be lost.
            leads = lead_host(plan.tasks[place]) == part.host
            if ends[place].outcome != "failed" and (leads or end.outcome == "failed" or ends[place] is unknown):
                # What runs on other hosts was not waited for by their launchers.
                ends[place] = replace(end, cpu_s=0.0, memory_bytes=0) if spans(plan.tasks[place]) else end
    return ends


@dataclass(frozen=True, slots=True)
class _RouteReport:
    """The report of a host about one route of a channel's steps."""

    route: Route
    facts: ChannelFacts
    came: int
    """Steps of its out-port on that host."""


def _route_reports(reports: Sequence[tuple[HostPart, Report]]) -> dict[int, list[_RouteReport]]:
    """By channel of the plan for all hosts: the report of each host on the routes of its steps. A host to which steps
    were to come, and that does not say so, has got none."""
    routes: dict[int, list[_RouteReport]] = {}
    for part, report in reports:
        board = BoardPorts(part.plan)
        records = dict(zip(map(id, board.planned_channels(part.plan)), report.channels, strict=True))
        for channel, route in zip(part.plan.channels, part.channels, strict=True):
            for whole in route.channels if id(channel) in records else ():
                facts = records[id(channel)]
                routes.setdefault(whole, []).append(_RouteReport(route, facts, report.ports[facts.outport].steps))
    told = {part.host for part, _ in reports}
    for some in routes.values():
        came = {(one.route.writes, one.route.reads) for one in some if one.route.arrives}
        some += [
            _RouteReport(replace(one.route, arrives=True), ChannelFacts(), 0)
            for one in some
            if one.route.reads in told - {one.route.writes} and (one.route.writes, one.route.reads) not in came
        ]
    return routes


def wrong(plan: Plan, reports: Sequence[tuple[HostPart, Report]], report: Report) -> list[str]:
    """Messages about tasks with ranks on several hosts, for problems that no host alone can detect.

    Args:
        report: what `merged` makes of it.
    """
    board = BoardPorts(plan)
    said = []
    for task in plan.tasks:
        unused = [name for port, name in board.joined(task.index).items() if not report.ports[port].touched]
        # What is left of a resumed task may need none of a port; a program for each step may have had none.
        needed = report.tasks[task.index].starts and (task.resumed is None or task.resumed.anew)
        if spans(task) and unused and needed:
            names = ", ".join(map(repr, unused))
            ports = "port" if len(unused) == 1 else "ports"
            said.append(
                f"{task.name}: ended without ever using its memory {ports} {names} on any of its hosts; "
                "compare the pattern with the names of the files that its program opens"
            )
    said += _started_once(plan, report)
    written: dict[int, set[int]] = {}
    for place, routes in _route_reports(reports).items():
        inport = plan.channels[place].inport
        written.setdefault(inport, set()).update(one.route.writes for one in routes if one.facts.published)
    for inport, hosts in written.items():
        port = plan.ports[inport]
        task = plan.tasks[port.task]
        if spans(task) and len(hosts) > 1 and not is_wild(port.called):
            names = ", ".join(plan.hosts[host].name for host in sorted(hosts))
            said.append(
                f"{port.origin}: {task.name}: its ranks on different hosts may have read the steps of {port.called!r} "
                f"in different orders, since they were written on several hosts, too ({names}); give the files names "
                "that differ by host, or give the task `placement: [HOST]`"
            )
    return said


def _started_once(plan: Plan, report: Report) -> Iterator[str]:
    """Messages about programs that have read one step and ended, where others were left: on one machine, they would be
    started for the next one."""
    board = BoardPorts(plan)
    for channel, facts in zip(board.planned_channels(plan), report.channels, strict=True):
        task = plan.tasks[plan.ports[channel.inport].task]
        left = facts.published - facts.read - facts.given_up
        once = spans(task) and not starts_for_each(plan, task)
        if once and task.rerun == "auto" and report.ports[facts.inport].steps == 1 and left > 0:
            yield (
                f"{task.name}: has read one step of {plan.ports[channel.inport].called!r} and ended, and "
                f"{count_of(left, 'step')} came after that: on one machine it would be started for each, on several "
                "hosts it is started once; let it read all steps in a loop, give it `placement: [HOST]`, or "
                "`rerun: never` if one step is all that it needs"
            )


def _task(plan: Plan, whole: BoardPorts, part: HostPart, board: BoardPorts, task: TaskFacts, first: int) -> TaskFacts:
    """The report of a host's board on a task, with the indices of the plan for all hosts."""
    ports = {
        board.index_of(port): at
        for port, index in zip(part.plan.ports, part.ports, strict=False)
        if (at := whole.index_of(plan.ports[index])) is not None
    }
    waits = [
        replace(
            wait,
            rank=first + wait.rank,
            port=ports[wait.port],
            on=tuple(dict.fromkeys(one for whom in wait.on for one in _on(plan, part, whom))),
        )
        for wait in task.waits
    ]
    polls = [replace(poll, rank=first + poll.rank) for poll in task.polls]
    among, leaving = ([first + rank for rank in ranks] for ranks in (task.among, task.leaving))
    return replace(task, waits=tuple(waits), polls=tuple(polls), among=tuple(among), leaving=tuple(leaving))


def _joined(name: str, nprocs: int, found: Sequence[TaskFacts]) -> TaskFacts:
    """The reports of all hosts on a task, merged."""
    if not found:
        return TaskFacts(name, nprocs, "ended")
    one = _values(found[0])
    for other in found[1:]:
        for key, value in _values(other).items():
            if isinstance(value, tuple) or key in _SPENT:
                one[key] += value
            elif key == "state" and value == "running":
                one[key] = value
    return TaskFacts(**{**one, "name": name, "nprocs": nprocs})


def _one_port(port: PortPlan, found: Sequence[PortFacts]) -> PortFacts:
    """The reports of all hosts on a port, merged. Writes are summed over the hosts; reads are the same on all."""
    if not found:
        return PortFacts(port.task, port.direction, port.pattern)
    one = _values(found[0])
    for other in found[1:]:
        for key, value in _values(other).items():
            if key == "task":
                continue
            if isinstance(value, int) and not isinstance(value, bool) and port.direction == "out":
                one[key] += value
            else:
                one[key] = max(one[key], value)
    return PortFacts(**one)


def _on(plan: Plan, part: HostPart, whom: Whom) -> list[Whom]:
    """The ranks that a rank waits for; in place of a relay, the ranks at its other end."""
    if whom.task < len(part.tasks):
        before = part.first_ranks[whom.task]
        return [Whom(part.tasks[whom.task], before + whom.first, before + whom.last)]
    relays = dict((*part.senders, *part.receivers))
    relay = relays[whom.task]
    ends = [plan.ports[relay.outport]]
    if any(whom.task == sender for sender, _ in part.senders):
        ends = [plan.ports[plan.channels[channel].inport] for channel in relay.channels]
    return [Whom(port.task, 0, plan.tasks[port.task].nprocs - 1) for port in ends]


def _all_read(plan: Plan, channel: ChannelPlan) -> bool:
    """Whether a step counts as read only if the ranks on each host have read it: not where ranks go on without those
    that die."""
    return not plan.tasks[plan.ports[channel.inport].task].is_elastic


def _whole(
    outport: int, inport: int, channel: ChannelPlan, routes: Sequence[_RouteReport], all_read: bool
) -> ChannelFacts:
    """The account of the steps of a channel.

    Of what one host writes and one reads: up to the relay between them and after it. A host reads what all have
    written; and what a task has read, the ranks on each of its hosts have, or (not `all_read`) those on one of them.
    """
    crossed: dict[int, dict[int, ChannelFacts]] = {}
    for one_route in sorted(routes, key=lambda one: one.route.arrives):
        of = crossed.setdefault(one_route.route.reads, {})
        before = of.get(one_route.route.writes)
        of[one_route.route.writes] = one_route.facts if before is None else _after(before, one_route)
    reads = [_sum(list(of.values())) for _, of in sorted(crossed.items())]
    ends: dict[str, Any] = {"outport": outport, "inport": inport, "every": channel.every, "offset": channel.offset}
    choose = min if all_read else max
    return replace(choose(reads, key=lambda one: one.read), **ends) if reads else ChannelFacts(**ends)


def _after(before: ChannelFacts, one_route: _RouteReport) -> ChannelFacts:
    """Join the route to a relay and the route after it. The relay takes all files of the out-port; only after it, the
    in-port's pattern selects those for its task."""
    after = one_route.facts
    published = before.published - (one_route.came - after.published)
    return replace(after, published=published, **_added((before, after), _SUMMED))


def _sum(routes: Sequence[ChannelFacts]) -> ChannelFacts:
    """The sum over all writing hosts for one reading host."""
    return replace(
        routes[0],
        waits=any(one.waits for one in routes),
        reached=tuple(steps for one in routes for steps in one.reached),
        **_added(routes, ("queued", "published", "read", "newer", "held", *_SUMMED)),
    )


def _added(routes: Sequence[ChannelFacts], names: Sequence[str]) -> dict[str, Any]:
    return {name: sum(getattr(one, name) for one in routes) for name in names}


def _values(facts: TaskFacts | PortFacts) -> dict[str, Any]:
    return {field.name: getattr(facts, field.name) for field in fields(facts)}
