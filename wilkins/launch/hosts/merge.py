"""Makes one report of those of all hosts: as if the plan had run on one board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan
from wilkins.plan.split import Part

End = tuple[int, str, str, float]
"""Of a task: its starts, outcome, exit, and seconds that it ran."""

_SUMMED = ("skipped", "dropped", "let_go")


def merged(plan: Plan, told: Sequence[tuple[Part, dict[str, Any]]]) -> tuple[dict[str, Any], list[End]]:
    """The report and the ends of a plan's tasks.

    Args:
        told: by host, what its keeper told: ``report`` and, at the end, ``ends``.
    """
    tasks: list[dict[str, Any]] = [_no_task(task.name, task.nprocs) for task in plan.tasks]
    ends: list[End] = [(0, "stopped", "", 0.0)] * len(plan.tasks)
    ports: dict[int, dict[str, Any]] = {}
    pieces: dict[int, list[dict[str, Any]]] = {}
    for part, message in told:
        report = message["report"]
        board = BoardPorts(part.plan)
        for place, index in enumerate(part.tasks):
            tasks[index] = _task(plan, part, board, report["tasks"][place])
        for place, end in zip(part.tasks, message.get("ends", ()), strict=False):
            starts, outcome, exit_, running_s = end
            ends[place] = starts, outcome, exit_, running_s
        for place, index in enumerate(part.ports):
            at = board.index_of(part.plan.ports[place])
            if at is not None:
                ports[index] = {**report["ports"][at], "task": part.tasks[report["ports"][at]["task"]]}
        records = dict(zip(map(id, board.planned_channels(part.plan)), report["channels"], strict=True))
        for channel, wholes in zip(part.plan.channels, part.channels, strict=True):
            from_relay = part.plan.tasks[part.plan.ports[channel.outport].task].is_relay
            for whole in wholes if id(channel) in records else ():
                pieces.setdefault(whole, []).append({**records[id(channel)], "from_relay": from_relay})
    board = BoardPorts(plan)
    known = {port.index for port in plan.ports if board.index_of(port) is not None}
    return {
        "tasks": tasks,
        "ports": [ports.get(port.index) or _no_port(port) for port in plan.ports if port.index in known],
        "channels": [
            _whole(plan, board, channel, pieces.get(place, []))
            for place, channel in enumerate(plan.channels)
            if {channel.outport, channel.inport} <= known
        ],
        "memory_bytes": sum(message["report"]["memory_bytes"] for _, message in told),
        "memory_peak_bytes": max((message["report"]["memory_peak_bytes"] for _, message in told), default=0),
        "trace_stopped": any(message["report"]["trace_stopped"] for _, message in told),
    }, ends


def _task(plan: Plan, part: Part, board: BoardPorts, task: dict[str, Any]) -> dict[str, Any]:
    """What a host's board says of a task of its own, in numbers of the plan for all hosts."""
    whole = BoardPorts(plan)
    ports = {
        board.index_of(port): whole.index_of(plan.ports[index])
        for port, index in zip(part.plan.ports, part.ports, strict=False)
    }
    waits = [
        {**wait, "port": ports[wait["port"]], "on": [one for some in wait["on"] for one in _on(plan, part, *some)]}
        for wait in task["waits"]
    ]
    return {**task, "waits": waits}


def _on(plan: Plan, part: Part, task: int, first: int, last: int) -> list[tuple[int, int, int]]:
    """Whom a rank waits for; in the place of a relay, those at its other end."""
    if task < len(part.tasks):
        return [(part.tasks[task], first, last)]
    relays = dict((*part.senders, *part.receivers))
    relay = relays[task]
    ends = [plan.ports[relay.outport]]
    if any(task == sender for sender, _ in part.senders):
        ends = [plan.ports[plan.channels[channel].inport] for channel in relay.channels]
    return [(port.task, 0, plan.tasks[port.task].nprocs - 1) for port in ends]


def _whole(plan: Plan, board: BoardPorts, channel: ChannelPlan, pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What became of the steps of a channel: of one that crosses, up to its relay and after that."""
    before = [piece for piece in pieces if not piece["from_relay"]]
    after = [piece for piece in pieces if piece["from_relay"]]
    last: dict[str, Any] = dict((after or before or [_NO_CHANNEL])[0])
    if before and after:
        last |= {"published": before[0]["published"]}
        last |= {what: before[0][what] + after[0][what] for what in _SUMMED}
    ends = {
        "outport": board.index_of(plan.ports[channel.outport]),
        "inport": board.index_of(plan.ports[channel.inport]),
    }
    return {**last, **ends, "every": channel.every, "offset": channel.offset}


_NO_CHANNEL = {
    **dict.fromkeys(("queued", "published", "read", "held", *_SUMMED), 0),
    "waits": True,
    "reached": [],
}


def _no_task(name: str, nprocs: int) -> dict[str, Any]:
    """Of a task whose host has told nothing."""
    nothing = dict.fromkeys(("waits", "polls", "flushes", "unmatched_names"), ())
    return {"name": name, "nprocs": nprocs, "waiting_s": 0.0, "moving_s": 0.0, "state": "ended", **nothing}


def _no_port(port: PortPlan) -> dict[str, Any]:
    counts = ("steps", "bytes", "dropped", "reopened", "shared", "unseen", "touched", "in_vain", "again", "only_looks")
    words = dict.fromkeys(("stand_in", "stands", "asked"), "")
    waits = {"waits_first": False, "waits_looks": False}
    named = {"pattern": port.pattern, "direction": port.direction, "task": port.task}
    return {**named, **dict.fromkeys(counts, 0), **waits, **words}
