"""Chooses the restart points of the tasks of a run, and makes the plan of the run that resumes it."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from wilkins.errors import UsageError
from wilkins.flow.placement import Host, Rule
from wilkins.flow.recovery import Joint, Position, latest_cut
from wilkins.flow.restart import FILE
from wilkins.launch.options import Planned
from wilkins.launch.records.rundir import KEPT, RunDirectory
from wilkins.plan.placing import placed_again
from wilkins.plan.plan import ChannelPlan, Launch, Plan, PortPlan, Resumed, TaskPlan, started_ready_made
from wilkins.resume import record
from wilkins.resume.history import History
from wilkins.resume.record import OldRun
from wilkins.resume.restart_point import RestartPoint, Stream
from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.storage.contents import Contents
from wilkins.terminal.tables import text_table
from wilkins.transport import points
from wilkins.transport.points import CHOSEN, Point

RESTART = "WILKINS_RESTART"
"""The variable with the checkpoint of a resumed program."""

_ALL = 2**62
"""The number of consumed steps of a task that needs no more."""

_BEGINNING = RestartPoint("start")


def resume(
    folder: Path, launch: Launch, hosts: Sequence[Host] | None = None, moved: Mapping[str, Rule] | None = None
) -> Planned:
    """The run that resumes the run of a directory.

    Args:
        hosts: on which it goes on; None: on those of that run; none: on this machine.
        moved: by task, where it is to run, if not where it was to.

    Raises:
        UsageError: it cannot be gone on with.
        ResourceError: the hosts have too few slots, or lack one that a task asks for.
    """
    old = record.load(folder)
    plan = old.plan
    if plan.launch != launch:
        how = "alone, without an mpiexec" if plan.launch == "alone" else f"with an mpiexec -n {plan.total_ranks}"
        raise UsageError(f"--resume {folder}: the run was launched {how}; launch this one like it")
    history = History(plan, old.events)
    reported = [points.read(RunDirectory(old.path).points_path(task.name)) for task in plan.tasks]
    kept = kept_files(plan, reported, history)
    found: list[list[RestartPoint]] = []
    notes: list[str] = []
    if _changed(plan):
        notes.append(f"note: {plan.source} has changed since; the run goes on as it was planned")
    for task in plan.tasks:
        before = [point for point in old.before[task.index] if point.inode not in history.files]
        found.append([_BEGINNING, *before, *history.points_of(task, reported[task.index], kept)])
        if task.restart and (why := history.unclear(task)):
            notes.append(f"{task.name}: its checkpoints cannot be used: {why}")
    joints = _joints(plan, found, history)
    while True:
        cut = latest_cut([[_position(point, joints) for point in of_task] for of_task in found], joints)
        broken = [
            (task, why) for task in plan.tasks if (why := missing(task, found[task.index][cut[task.index]], old.runs))
        ]
        if not broken:
            break
        for task, why in broken:
            notes.append(f"{task.name}: {why}; it goes back further")
            del found[task.index][cut[task.index]]
    notes += _begun_anew(plan, found, cut, joints, old.runs)
    chosen = [of_task[place] for of_task, place in zip(found, cut, strict=True)]
    loops = [before or history.loops(task) for before, task in zip(old.loops, plan.tasks, strict=True)]
    data = {
        "runs": old.runs,
        "points": [
            [point.record() for point in of_task[1 : place + 1]] for of_task, place in zip(found, cut, strict=True)
        ],
        "loops": loops,
    }
    summary = "\n".join([f"goes on with {old.path}", _table(plan, chosen), *notes])
    left = _plan(old, chosen, loops)
    return Planned(placed_again(left, plan.hosts if hosts is None else hosts, moved or {}), data, summary)


def _changed(plan: Plan) -> bool:
    """Whether the workflow file has changed since."""
    try:
        return hashlib.sha256(plan.source.read_bytes()).hexdigest() != plan.digest
    except OSError:
        return True


def _joints(plan: Plan, found: Sequence[Sequence[RestartPoint]], history: History) -> list[Joint[Stream]]:
    """The streams of all channels, with producer and consumer."""
    streams = set(history.published)
    for of_task in found:
        for point in of_task:
            streams |= set(point.position.published)
    of_port: dict[int, list[Stream]] = defaultdict(list)
    for stream in sorted(streams):
        of_port[stream[0]].append(stream)
    return [
        Joint(place, stream, plan.ports[channel.outport].task, plan.ports[channel.inport].task)
        for place, channel in enumerate(plan.channels)
        for stream in of_port[channel.outport]
    ]


def _position(point: RestartPoint, joints: Sequence[Joint[Stream]]) -> Position[Stream]:
    if point.how != "ended":
        return point.position
    return Position({(joint.channel, joint.stream): _ALL for joint in joints}, point.position.published)


def kept_files(plan: Plan, reported: Sequence[Sequence[Point]], history: History) -> dict[tuple[Stream, int], str]:
    """Files that tasks have taken from memory to storage, by stream and number."""
    found: dict[tuple[Stream, int], str] = {}
    for task in plan.tasks:
        if started_ready_made(task) != "checkpoint":
            continue
        for channel in plan.channels:
            inport = plan.ports[channel.inport]
            streams = [stream for stream in history.published if stream[0] == channel.outport]
            if inport.task != task.index or len(streams) != 1:
                continue
            for point in reported[task.index]:
                if point.file and point.consumed.get(inport.pattern):
                    found[streams[0], point.consumed[inport.pattern] - 1] = os.path.abspath(task.cwd / point.file)  # noqa: PTH100 - links stay
    return found


def _begun_anew(
    plan: Plan,
    found: Sequence[Sequence[RestartPoint]],
    cut: Sequence[int],
    joints: Sequence[Joint[Stream]],
    runs: Sequence[str],
) -> list[str]:
    """Notes on tasks that start from the beginning though they have restart points: a reader is too far behind."""
    notes = []
    for task in plan.tasks:
        there = (point for point in found[task.index][1:] if not missing(task, point, runs))
        oldest = next(there, None) if cut[task.index] == 0 else None
        if oldest is None:
            continue
        for joint in joints:
            reader = plan.tasks[joint.consumer]
            consumed = _position(found[reader.index][cut[reader.index]], joints).consumed.get(
                (joint.channel, joint.stream), 0
            )
            made = oldest.position.published.get(joint.stream, 0)
            if joint.producer == task.index and made > consumed:
                pattern = plan.ports[joint.stream[0]].pattern
                why = (
                    f"{reader.name} has read {consumed} of {pattern}, and the oldest that could be gone on from, "
                    f"{oldest.shown}, comes after {made}; `keep:` says how many are kept"
                )
                notes.append(
                    f"{task.name} begins anew: {why if consumed else f'{reader.name} needs all of {pattern} again'}"
                )
                break
    return notes


def missing(task: TaskPlan, point: RestartPoint, runs: Sequence[str]) -> str:
    """Why the file of a restart point is missing or incomplete; empty if it is whole."""
    if not point.file:
        return ""
    path = task.cwd / point.file
    if point.inode:
        return "" if path_of(task, point, runs) else f"{path} is not there any more, or is another file by now"
    if not path.exists():
        return f"{path} is not there any more"
    if (path.parent / "manifest.json").exists() and point.how == "file":
        try:
            with Contents(path.parent) as contents:
                contents.verify()
        except (CheckpointError, OSError) as error:
            return f"{path} does not verify: {error}"
    return ""


def path_of(task: TaskPlan, point: RestartPoint, runs: Sequence[str]) -> Path | None:
    """The present path of a file that the program has written: it may have been renamed, or overwritten, since."""
    path = task.cwd / point.file
    pattern = task.restart.files if task.restart else ""
    near: list[Path] = [path, *(sorted(task.cwd.glob(pattern)) if pattern and not Path(pattern).is_absolute() else ())]
    kept = (one for run in runs for of in ("", "hosts/*/") for one in Path(run).glob(f"{of}{KEPT}/*/*"))
    kept = (candidate for candidate in kept if candidate.name == path.name)
    return next((candidate for candidate in chain(near, kept) if _inode(candidate) == point.inode), None)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _plan(old: OldRun, chosen: Sequence[RestartPoint], loops: Sequence[bool]) -> Plan:
    """The plan of the remaining work."""
    plan = old.plan
    ports = [_port(plan, port, chosen[port.task]) for port in plan.ports]
    return replace(
        plan,
        tasks=tuple(_task(task, chosen[task.index], old, loops[task.index]) for task in plan.tasks),
        ports=tuple(ports),
        channels=tuple(_channel(plan, place, channel, chosen) for place, channel in enumerate(plan.channels)),
        resumes=old.path,
    )


def _task(task: TaskPlan, point: RestartPoint, old: OldRun, loops: bool) -> TaskPlan:
    resumed = started_from(task, point, old.runs, loops)
    # In one MPI job, the ranks of an ended task are idle.
    kind = "plain" if resumed.ended and old.plan.launch == "one-job" else task.kind
    return replace(task, resumed=resumed, kind=kind)


def started_from(task: TaskPlan, point: RestartPoint, runs: Sequence[str], loops: bool) -> Resumed:
    """The start of a task from a restart point. `runs`: directories that may have hard links to its files."""
    if point.how == "start":
        # A task that reports points would take any state that it finds for its restart point.
        return Resumed(anew=True, env={CHOSEN: ""})
    if point.how == "ended":
        return Resumed(ended=True)
    env = {CHOSEN: point.line}
    file = point.file
    if file:
        file = str(path_of(task, point, runs) or task.cwd / file) if point.inode else str(task.cwd / file)
        env[RESTART] = file
    rule = None if task.restart is None else task.restart.replaced(lambda text: text.replace(FILE, file))
    return Resumed(
        args=rule.args if rule else None,
        env=env,
        hook=rule.hook if rule else (),
        consumed=sum(point.position.consumed.values()),
        loops=loops,
    )


def _port(plan: Plan, port: PortPlan, point: RestartPoint) -> PortPlan:
    if port.direction == "in":
        # What the first open is answered with, for cycles, was given in the run before.
        return port if point.how == "start" else replace(port, first="wait")
    ranks = range(plan.tasks[port.task].nprocs)
    begins = tuple(point.position.published.get((port.index, rank), 0) for rank in ranks)
    return replace(port, begins=begins if any(begins) else ())


def _channel(plan: Plan, place: int, channel: ChannelPlan, chosen: Sequence[RestartPoint]) -> ChannelPlan:
    producer = plan.ports[channel.outport].task
    before, after = chosen[producer], chosen[plan.ports[channel.inport].task]
    rests = []
    for rank in range(plan.tasks[producer].nprocs):
        stream = channel.outport, rank
        rests.append((after.position.consumed.get((place, stream), 0), before.offered.get((place, stream), 0)))
    return replace(channel, rests=tuple(rests) if any(map(any, rests)) else ())


def _table(plan: Plan, chosen: Sequence[RestartPoint]) -> str:
    """The table of tasks and their restart points."""
    rows = []
    for task, point in zip(plan.tasks, chosen, strict=True):
        consumed: dict[str, int] = defaultdict(int)
        for (channel, _), count in point.position.consumed.items():
            consumed[plan.ports[plan.channels[channel].inport].pattern] += count
        published: dict[str, int] = defaultdict(int)
        for (port, _), count in point.position.published.items():
            published[plan.ports[port].pattern] += count
        rows.append((task.name, point.shown, _counts(consumed), _counts(published)))
    return text_table(("task", "starts from", "steps consumed", "steps published"), rows)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {pattern}" for pattern, count in counts.items() if count) or "-"
