"""The sizes of the steps of a run, by which the next run of the workflow prepares memory when it begins."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

from wilkins.flow.footprint import most_steps
from wilkins.flow.policy import FlowPolicy
from wilkins.launch.records.rundir import LATEST, RUNS, RunDirectory
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.plan.plan import Plan, PortPlan
from wilkins.transport.board import Board
from wilkins.values import dataclass, field

FILE = "step-sizes.json"


@dataclass(frozen=True, slots=True)
class StepSizes:
    """The largest step, in bytes, of ranks on out-ports."""

    by_port: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)
    """By task and port, and then by rank."""

    def of(self, plan: Plan, port: PortPlan, rank: int) -> int:
        """The largest step of one rank: in the run, or if that has no such port, by the workflow file; else 0."""
        seen = self.by_port.get((plan.tasks[port.task].name, port.pattern))
        if seen is not None:
            return seen.get(rank, 0)
        return port.step_bytes if rank == 0 or port.per_rank else 0


def of_run_before(plan: Plan) -> StepSizes:
    """The step sizes of the last run of the workflow with records in their usual place.

    Ask before the records of the run that starts take that place.
    """
    path = (plan.folder or plan.source.parent) / RUNS / LATEST / FILE
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        return StepSizes(
            {
                (str(one["task"]), str(one["port"])): {int(rank): int(size) for rank, size in one["bytes"].items()}
                for one in json.loads(path.read_text(encoding="utf-8"))
            }
        )
    return StepSizes()


def make_ready(plan: Plan, board: Board, sizes: StepSizes) -> None:
    """Prepare memory for the next steps in the background, until the board is closed."""
    ports = BoardPorts(plan)
    policies: dict[int, list[FlowPolicy]] = {}
    listed = {port.index for port in plan.ports if port.direction == "in" and port.listing == "end"}
    whole: set[int] = set()
    any_there = False
    for channel in plan.channels:
        policies.setdefault(channel.outport, []).append(channel.policy)
        if channel.inport in listed:
            whole.add(channel.outport)
    for port in plan.ports:
        place = ports.index_of(port)
        if place is None or port.index not in policies or port.mode not in ("memory", "both") or port.index in whole:
            continue
        most = most_steps(policies[port.index], port.publish)
        for rank in range(plan.tasks[port.task].nprocs):
            board.expect_step(place, rank, sizes.of(plan, port, rank), most)
        any_there = True
    if any_there:
        board.make_ready()


def record(plan: Plan, board: Board, records: RunDirectory) -> None:
    """Write the sizes of this run's steps, if it has made any.

    Raises:
        ResourceError: the system refuses it.
    """
    ports, largest = BoardPorts(plan), board.largest_steps()
    found = [
        {"task": plan.tasks[port.task].name, "port": port.pattern, "bytes": by_rank}
        for port in plan.ports
        if (place := ports.index_of(port)) is not None and (by_rank := largest.get(place))
    ]
    if found:
        records.write_json(FILE, found)
