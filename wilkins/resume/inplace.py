"""Decides where one task goes on after a failure, while the others of its run wait for it."""

from __future__ import annotations

from dataclasses import replace

from wilkins.flow.trace import BrokenTraceError, read_trace
from wilkins.launch.options import Ended, Planned
from wilkins.launch.records.rundir import RunDirectory
from wilkins.plan.plan import Back, CannotGoBackError, Plan, PortPlan, TaskPlan, started_ready_made
from wilkins.resume.history import History
from wilkins.resume.record import before_of
from wilkins.resume.restart_point import RestartPoint
from wilkins.resume.resumption import kept_files, missing, resume, started_from
from wilkins.transport import points

_BEGINNING = RestartPoint("start")


def go_back(plan: Plan, run: RunDirectory, task: TaskPlan, again: bool) -> Back:
    """Where a task goes on that has failed.

    A task that reads nothing goes back to its newest restart point, or to its beginning, and what it has published
    since is made again for nobody. A task that reads steps goes on with the next one, or, `again`, with the one that it
    had opened last; if it has restart points, only from one at which it had had all that it has had by now, since
    earlier steps are gone.

    Raises:
        CannotGoBackError: it has no such point, or how far it was cannot be told.
    """
    task = plan.tasks[task.index]  # as at its first start: that is what the events begin with
    inports = {channel.inport for channel in plan.channels}
    reads = any(port.task == task.index and port.index in inports for port in plan.ports)
    outports = [
        port for port in plan.ports if port.task == task.index and port.direction == "out" and port.mode != "plain"
    ]
    if again and not outports:
        return Back("for the step at which it failed")
    try:
        history = History(plan, read_trace(run.trace))
    except (OSError, BrokenTraceError) as error:
        raise CannotGoBackError(
            f"{task.name}: cannot be started again by itself, since the trace does not tell how far it was: {error}"
        ) from error
    if again:
        step = history.last_step(task)
        if step is None:
            raise CannotGoBackError(_unclear(task))
        return Back("for the step at which it failed", _begins(task, outports, step))
    before, runs, _ = before_of(run.path, plan)
    told = [points.read(run.points_path(one.name)) for one in plan.tasks]
    known = [point for point in before[task.index] if point.inode not in history.files]
    known += history.points_of(task, told[task.index], kept_files(plan, told, history))
    usable = [
        point for point in known if point.how in ("told", "file") and not missing(task, point, [str(run.path), *runs])
    ]
    has_state = task.restart is not None or (plan.can_resume and started_ready_made(task))
    if reads and not known and not has_state:
        return Back("with the next step")
    had = history.had(task)
    point = next((one for one in reversed(usable) if all(_far(one, joined) >= n for joined, n in had.items())), None)
    if point is None:
        if reads:
            raise CannotGoBackError(_behind(task, usable))
        point = _BEGINNING
    resumed = replace(started_from(task, point, [str(run.path), *runs], history.loops(task)), consumed=0)
    return Back(f"from {point.shown}", _begins(task, outports, point), resumed)


def gone_on(ended: Ended) -> Planned:
    """The run that goes on with one in which a task could not be started again by itself; retries count on.

    Raises:
        UsageError: it cannot be gone on with.
    """
    planned = resume(ended.folder, "alone", ())
    tasks = [
        replace(task, retries=max(0, task.retries - ended.failures.get(task.index, 0))) for task in planned.plan.tasks
    ]
    return replace(planned, plan=replace(planned.plan, tasks=tuple(tasks)))


def _far(point: RestartPoint, joined: tuple[int, tuple[int, int]]) -> int:
    return point.position.consumed.get(joined, 0)


def _begins(task: TaskPlan, outports: list[PortPlan], point: RestartPoint) -> dict[tuple[int, int], int]:
    return {
        (port.index, rank): point.position.published.get((port.index, rank), 0)
        for port in outports
        for rank in range(task.nprocs)
    }


def _unclear(task: TaskPlan) -> str:
    return (
        f"{task.name}: cannot be started again by itself: its ranks were at different steps, or steps of one name came "
        "from several producers, so nobody can tell which of its own it had published"
    )


def _behind(task: TaskPlan, usable: list[RestartPoint]) -> str:
    newest = f"its newest restart point, {usable[-1].shown}, is behind" if usable else "it has no restart point yet"
    return f"{task.name}: cannot be started again by itself: {newest}, and steps that it has read since are gone"
