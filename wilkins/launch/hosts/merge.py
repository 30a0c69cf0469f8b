"""Makes one report of those of all hosts: as if the plan had run on one board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wilkins.launch.records.summary import TaskEnd
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan
from wilkins.plan.split import Part, Way, leads, spans
from wilkins.schema.patterns import is_wild

_SUMMED = ("skipped", "dropped", "let_go")
_SPENT = ("waiting_s", "moving_s")


def merged(plan: Plan, told: Sequence[tuple[Part, dict[str, Any]]]) -> tuple[dict[str, Any], list[TaskEnd]]:
    """The report and the ends of a plan's tasks.

    Args:
        told: by host, what its keeper told: ``report`` and, at the end, ``ends``.
    """
    found: list[list[dict[str, Any]]] = [[] for _ in plan.tasks]
    ends = [TaskEnd(0, "stopped", "", 0.0)] * len(plan.tasks)
    ports: dict[int, list[dict[str, Any]]] = {}
    for part, message in told:
        report = message["report"]
        board = BoardPorts(part.plan)
        for place, index in enumerate(part.tasks):
            found[index].append(_task(plan, part, board, report["tasks"][place], part.first_ranks[place]))
        for place, told_end in zip(part.tasks, message.get("ends", ()), strict=False):
            end = TaskEnd(**told_end)
            if ends[place].outcome != "failed" and (leads(plan.tasks[place]) == part.host or end.outcome == "failed"):
                ends[place] = end
        for place, index in enumerate(part.ports):
            at = board.index_of(part.plan.ports[place])
            if at is not None:
                port = {**report["ports"][at], "task": part.tasks[report["ports"][at]["task"]]}
                ports.setdefault(index, []).append(port)
    pieces = _pieces(told)
    tasks = [_joined(task.name, task.nprocs, some) for task, some in zip(plan.tasks, found, strict=True)]
    board = BoardPorts(plan)
    known = {port.index for port in plan.ports if board.index_of(port) is not None}
    channels = [
        _whole(plan, board, channel, pieces.get(place, []))
        for place, channel in enumerate(plan.channels)
        if {channel.outport, channel.inport} <= known
    ]
    joined = [_one_port(port, ports.get(port.index, [])) for port in plan.ports if port.index in known]
    for place, one in enumerate(joined):  # a step may be dropped before its relay, and after it
        one["dropped"] = sum(of["dropped"] for of in channels if place in (of["outport"], of["inport"]))
    return {
        "tasks": tasks,
        "ports": joined,
        "channels": channels,
        "memory_bytes": sum(message["report"]["memory_bytes"] for _, message in told),
        "memory_peak_bytes": max((message["report"]["memory_peak_bytes"] for _, message in told), default=0),
        "trace_stopped": any(message["report"]["trace_stopped"] for _, message in told),
    }, ends


def _pieces(told: Sequence[tuple[Part, dict[str, Any]]]) -> dict[int, list[tuple[Way, dict[str, Any]]]]:
    """By channel of the plan for all hosts: what each host says of the ways of its steps."""
    pieces: dict[int, list[tuple[Way, dict[str, Any]]]] = {}
    for part, message in told:
        board = BoardPorts(part.plan)
        records = dict(zip(map(id, board.planned_channels(part.plan)), message["report"]["channels"], strict=True))
        for channel, way in zip(part.plan.channels, part.channels, strict=True):
            for whole in way.channels if id(channel) in records else ():
                record = records[id(channel)]
                came = message["report"]["ports"][record["outport"]]["steps"]
                pieces.setdefault(whole, []).append((way, {**record, "came": came}))
    return pieces


def wrong(plan: Plan, told: Sequence[tuple[Part, dict[str, Any]]], report: dict[str, Any]) -> list[str]:
    """What no host alone can see of tasks with ranks on several ones, at the end of a run that went well.

    Args:
        report: what `merged` makes of it.
    """
    board = BoardPorts(plan)
    said = []
    for task in plan.tasks:
        unused = [name for port, name in board.joined(task.index).items() if not report["ports"][port]["touched"]]
        # What is left of a resumed task may need none of a port.
        if spans(task) and unused and (task.resumed is None or task.resumed.anew):
            names = ", ".join(map(repr, unused))
            ports = "port" if len(unused) == 1 else "ports"
            said.append(
                f"{task.name}: ended without ever using its memory {ports} {names} on any of its hosts; "
                "compare the pattern with the names of the files that its program opens"
            )
    written: dict[int, set[int]] = {}
    for place, pieces in _pieces(told).items():
        inport = plan.channels[place].inport
        written.setdefault(inport, set()).update(way.writes for way, piece in pieces if piece["published"])
    for inport, hosts in written.items():
        port = plan.ports[inport]
        task = plan.tasks[port.task]
        if spans(task) and len(hosts) > 1 and not is_wild(port.called):
            names = ", ".join(plan.hosts[host].name for host in sorted(hosts))
            said.append(
                f"{port.origin}: {task.name}: its ranks on different hosts may have read the steps of {port.called!r} "
                f"in different orders, since they were written on several hosts, too ({names}); give the files names "
                "that tell them apart, or give the task `placement: [HOST]`"
            )
    return said


def _task(plan: Plan, part: Part, board: BoardPorts, task: dict[str, Any], first: int) -> dict[str, Any]:
    """What a host's board says of a task of its own, in numbers of the plan for all hosts."""
    whole = BoardPorts(plan)
    ports = {
        board.index_of(port): whole.index_of(plan.ports[index])
        for port, index in zip(part.plan.ports, part.ports, strict=False)
    }
    waits = [
        {
            **wait,
            "rank": first + wait["rank"],
            "port": ports[wait["port"]],
            "on": [one for some in wait["on"] for one in _on(plan, part, *some)],
        }
        for wait in task["waits"]
    ]
    polls = [{**poll, "rank": first + poll["rank"]} for poll in task["polls"]]
    return {**task, "waits": waits, "polls": polls, "among": [first + rank for rank in task["among"]]}


def _joined(name: str, nprocs: int, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all hosts say of a task."""
    if not found:
        return _no_task(name, nprocs)
    one = dict(found[0])
    for other in found[1:]:
        for key, value in other.items():
            if isinstance(value, (list, tuple)):
                one[key] = [*one[key], *value]
            elif key in _SPENT:
                one[key] += value
            elif key == "state" and value == "running":
                one[key] = value
    return {**one, "name": name, "nprocs": nprocs}


def _one_port(port: PortPlan, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all hosts say of a port. What is written counts on each, what is read is the same on all."""
    if not found:
        return _no_port(port)
    one = dict(found[0])
    for other in found[1:]:
        for key, value in other.items():
            if key == "task":
                continue
            if isinstance(value, int) and not isinstance(value, bool) and port.direction == "out":
                one[key] += value
            else:
                one[key] = max(one[key], value)
    return one


def _on(plan: Plan, part: Part, task: int, first: int, last: int) -> list[tuple[int, int, int]]:
    """Whom a rank waits for; in the place of a relay, those at its other end."""
    if task < len(part.tasks):
        before = part.first_ranks[task]
        return [(part.tasks[task], before + first, before + last)]
    relays = dict((*part.senders, *part.receivers))
    relay = relays[task]
    ends = [plan.ports[relay.outport]]
    if any(task == sender for sender, _ in part.senders):
        ends = [plan.ports[plan.channels[channel].inport] for channel in relay.channels]
    return [(port.task, 0, plan.tasks[port.task].nprocs - 1) for port in ends]


def _whole(
    plan: Plan, board: BoardPorts, channel: ChannelPlan, pieces: Sequence[tuple[Way, dict[str, Any]]]
) -> dict[str, Any]:
    """What became of the steps of a channel.

    Of what one host writes and one reads: up to the relay between them and after it. A host reads what all have
    written; and what a task has read, the ranks on each of its hosts have.
    """
    crossed: dict[int, dict[int, dict[str, Any]]] = {}
    for way, piece in sorted(pieces, key=lambda one: one[0].arrives):
        of = crossed.setdefault(way.reads, {})
        before = of.get(way.writes)
        of[way.writes] = piece if before is None else _after(before, piece)
    reads = [_sum(list(of.values())) for of in crossed.values()] or [_NO_CHANNEL]
    whole = min(reads, key=lambda one: int(one["read"]))
    ends = {
        "outport": board.index_of(plan.ports[channel.outport]),
        "inport": board.index_of(plan.ports[channel.inport]),
    }
    return {**whole, **ends, "every": channel.every, "offset": channel.offset}


def _after(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """A way to a relay and on from there. The relay takes all files of the out-port: only behind it, the in-port tells
    which of those that came are meant for it."""
    published = before["published"] - (after["came"] - after["published"])
    return {**after, "published": published, **{what: before[what] + after[what] for what in _SUMMED}}


def _sum(pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What one host reads of all that write."""
    one = dict(pieces[0])
    for other in pieces[1:]:
        for key in ("queued", "published", "read", "newer", "held", *_SUMMED):
            one[key] += other[key]
        one["waits"] = one["waits"] or other["waits"]
        one["reached"] = [*one["reached"], *other["reached"]]
    return one


_NO_CHANNEL = {
    **dict.fromkeys(("queued", "published", "read", "newer", "held", *_SUMMED), 0),
    "waits": True,
    "reached": [],
    "next": "",
}


def _no_task(name: str, nprocs: int) -> dict[str, Any]:
    """Of a task whose host has told nothing."""
    nothing = dict.fromkeys(("waits", "polls", "among", "flushes", "unmatched_names"), ())
    idle = {"waiting_s": 0.0, "moving_s": 0.0, "state": "ended", "vain_open": None}
    return {"name": name, "nprocs": nprocs, **idle, **nothing}


def _no_port(port: PortPlan) -> dict[str, Any]:
    counts = [
        "steps",
        "bytes",
        "names",
        "dropped",
        "reopened",
        "shared",
        "unseen",
        "touched",
        "in_vain",
        "again",
        "only_looks",
    ]
    counts += ["lost_changes", "not_found", "not_found_printed"]
    words = dict.fromkeys(("stand_in", "stands", "asked", "begun_in", "not_found_path", "not_found_in"), "")
    waits = {"waits_first": False, "waits_looks": False}
    named = {"pattern": port.pattern, "direction": port.direction, "task": port.task}
    return {**named, **dict.fromkeys(counts, 0), **waits, **words}
