"""Chooses the restart point of one task after a failure, while the others of its run wait for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wilkins.flow.recovery import Position
from wilkins.flow.trace import BrokenTraceError, read_trace
from wilkins.launch.options import Ended, Planned
from wilkins.launch.records.rundir import RunDirectory
from wilkins.plan.plan import Back, CannotGoBackError, Plan, PortPlan, TaskPlan, started_ready_made
from wilkins.plan.relayrules import ranks_on
from wilkins.plan.split import HostPart
from wilkins.resume.history import History
from wilkins.resume.record import before_of
from wilkins.resume.restart_point import Joined, RestartPoint, Stream
from wilkins.resume.resumption import kept_files, missing, resume, started_from
from wilkins.transport import points

_BEGINNING = RestartPoint("start")


def go_back(whole: Plan, run: RunDirectory, part: HostPart | None, trace: Path, task: TaskPlan, again: bool) -> Back:
    """The restart point of a task that has failed.

    A task that reads nothing goes back to its newest restart point, or to its beginning, and what it has published
    since is made again for nobody. A task that reads steps goes on with the next one, or, `again`, with the one that it
    had opened last; if it has restart points, only from one at which it had read all that it has read by now, since
    earlier steps are gone.

    Args:
        part: in a run on several hosts, the part of the plan on the task's host; `task` belongs to it.
        trace: what has happened on its host.

    Raises:
        CannotGoBackError: it has no such point, or its progress is unknown.
    """
    plan = part.plan if part else whole
    task = plan.tasks[task.index]  # as at its first start: that is what the events begin with
    inports = {channel.inport for channel in plan.channels}
    reads = any(port.task == task.index and port.index in inports for port in plan.ports)
    outports = [
        port for port in plan.ports if port.task == task.index and port.direction == "out" and port.mode != "plain"
    ]
    if again and not outports:
        return Back("for the step at which it failed")
    try:
        history = History(plan, read_trace(trace))
    except (OSError, BrokenTraceError) as error:
        raise CannotGoBackError(
            f"{task.name}: cannot be started again by itself, since the trace does not show how far it was: {error}"
        ) from error
    if again:
        step = history.last_step(task)
        if step is None:
            raise CannotGoBackError(_unclear(task))
        return Back("for the step at which it failed", _begins(task, outports, step))
    before, runs, _ = before_of(run.path, whole)
    earlier = before[part.tasks[task.index] if part else task.index]
    earlier = [_here(whole, part, point) for point in earlier] if part else earlier
    reported = [points.read(run.points_path(one.name)) for one in plan.tasks]
    known = [point for point in earlier if point.inode not in history.files]
    known += history.points_of(task, reported[task.index], kept_files(plan, reported, history))
    usable = [
        point for point in known if point.how in ("told", "file") and not missing(task, point, [str(run.path), *runs])
    ]
    has_state = task.restart is not None or (whole.can_resume and started_ready_made(task))
    if reads and not known and not has_state:
        return Back("with the next step")
    consumed = history.consumed(task)
    point = next(
        (one for one in reversed(usable) if all(_far(one, joined) >= n for joined, n in consumed.items())), None
    )
    if point is None:
        if reads:
            raise CannotGoBackError(_behind(task, usable))
        point = _BEGINNING
    resumed = replace(started_from(task, point, [str(run.path), *runs], history.loops(task)), consumed=0)
    return Back(f"from {point.shown}", _begins(task, outports, point), resumed)


def continued(ended: Ended) -> Planned:
    """The run that resumes one in which a task could not be started again by itself; retries count on.

    Raises:
        UsageError: it cannot be gone on with.
    """
    planned = resume(ended.folder, "alone")
    tasks = [
        replace(task, retries=max(0, task.retries - ended.failures.get(task.index, 0))) for task in planned.plan.tasks
    ]
    return replace(planned, plan=replace(planned.plan, tasks=tuple(tasks)))


def _far(point: RestartPoint, joined: tuple[int, tuple[int, int]]) -> int:
    return point.position.consumed.get(joined, 0)


def _here(whole: Plan, part: HostPart, point: RestartPoint) -> RestartPoint:
    """A point of an earlier run, of a task that is on one host alone, in the numbers of that host's part.

    What has come to the host by a relay, of all ranks that write on another one, is one stream there.
    """
    published = {
        (part.ports.index(port), rank): count
        for (port, rank), count in point.position.published.items()
        if port in part.ports
    }
    consumed: dict[Joined, int] = {}
    for place, way in enumerate(part.channels):
        outport = part.plan.channels[place].outport
        for channel, stream in point.position.consumed:
            if channel not in way.channels or not _is_from(whole, stream, way.writes):
                continue
            first = 0 if way.arrives else ranks_on(whole.tasks[whole.ports[stream[0]].task], way.writes).start
            joined = place, (outport, 0 if way.arrives else stream[1] - first)
            consumed[joined] = consumed.get(joined, 0) + point.position.consumed[channel, stream]
    return replace(point, position=Position(consumed, published), offered={})


def _is_from(whole: Plan, stream: Stream, host: int) -> bool:
    """Whether the rank that publishes a stream is on a host."""
    return stream[1] in ranks_on(whole.tasks[whole.ports[stream[0]].task], host)


def _begins(task: TaskPlan, outports: list[PortPlan], point: RestartPoint) -> dict[tuple[int, int], int]:
    return {
        (port.index, rank): point.position.published.get((port.index, rank), 0)
        for port in outports
        for rank in range(task.nprocs)
    }


def _unclear(task: TaskPlan) -> str:
    return (
        f"{task.name}: cannot be started again by itself: its ranks were at different steps, or steps of one name came "
        "from several producers, so it is unknown which of its own it had published"
    )


def _behind(task: TaskPlan, usable: list[RestartPoint]) -> str:
    newest = f"its newest restart point, {usable[-1].shown}, is behind" if usable else "it has no restart point yet"
    return f"{task.name}: cannot be started again by itself: {newest}, and steps that it has read since are gone"
