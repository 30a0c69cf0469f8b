"""Makes one report of those of all hosts: as if the plan had run on one board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wilkins.launch.boardmap import BoardPorts
from wilkins.plan.plan import Plan
from wilkins.plan.split import Part

End = tuple[int, str, str, float]
"""Of a task: its starts, outcome, exit, and seconds that it ran."""


def merged(plan: Plan, told: Sequence[tuple[Part, dict[str, Any]]]) -> tuple[dict[str, Any], list[End]]:
    """The report and the ends of a plan's tasks.

    Args:
        told: by host, what its keeper told at the end: ``report`` and ``ends``.
    """
    tasks: list[dict[str, Any]] = [_no_task(task.name, task.nprocs) for task in plan.tasks]
    ends: list[End] = [(0, "stopped", "", 0.0)] * len(plan.tasks)
    ports: dict[int, dict[str, Any]] = {}
    peak = 0
    for part, message in told:
        report = message["report"]
        peak = max(peak, report["memory_peak_bytes"])
        for place, index in enumerate(part.tasks):
            tasks[index] = report["tasks"][place]
            starts, outcome, exit_, running_s = message["ends"][place]
            ends[index] = starts, outcome, exit_, running_s
        board = BoardPorts(part.plan)
        for place, index in enumerate(part.ports):
            at = board.index_of(part.plan.ports[place])
            if at is not None:
                ports[index] = {**report["ports"][at], "task": part.tasks[report["ports"][at]["task"]]}
    return {
        "tasks": tasks,
        "ports": [ports[index] for index in sorted(ports)],
        "channels": [],
        "memory_peak_bytes": peak,
    }, ends


def _no_task(name: str, nprocs: int) -> dict[str, Any]:
    return {"name": name, "nprocs": nprocs, "waiting_s": 0.0, "moving_s": 0.0, "state": "ended", "waits": []}
