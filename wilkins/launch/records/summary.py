"""The summary of a run, as a table for the terminal and as a record."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wilkins.errors import count_of
from wilkins.flow.policy import kept_words
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.plan.plan import Plan, PortPlan
from wilkins.plan.program import has_hdf5_inside
from wilkins.schema.patterns import is_wild
from wilkins.terminal.tables import duration, size, text_table
from wilkins.transport.report_table import PortFacts, Report
from wilkins.values import asdict, dataclass

if TYPE_CHECKING:
    from wilkins.launch.records.crossings import Crossing


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """One line of the table. Times are means over the task's ranks, in seconds."""

    name: str
    nprocs: int
    starts: int
    outcome: str
    exit: str
    produced: int
    consumed: int
    dropped: int
    bytes: int
    computing_s: float
    waiting_s: float
    copying_s: float
    retries: int = 0
    """Of the starts, those after a failure."""
    wall_s: float = 0.0
    """The time its programs ran, from start to end."""
    cpu_s: float = 0.0
    """Seconds of processors that they used, all ranks together; 0 if that is not known."""
    rss_bytes: int = 0
    """The most memory of one of their processes; 0 if that is not known."""
    expected_bytes: int = 0
    """The most memory that each rank was expected to take; 0 if the workflow file does not say so."""
    expected_s: float | None = None
    """The most time that it was expected to run."""


WENT_WELL = ("done", "ended at end of stream", "ended while polling")
"""Outcomes of tasks that have done all they had to."""


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """The launcher's record of a task's end."""

    starts: int
    outcome: str
    exit: str
    running_s: float
    retries: int = 0
    """Starts after a failure."""
    relisted: bool = False
    """It was started again for steps that came after its program had listed what was there."""
    cpu_s: float = 0.0
    """Seconds of processors that its programs have used, as far as their launcher has waited for them."""
    memory_bytes: int = 0
    """The most memory of one of their processes."""


def task_summaries(plan: Plan, report: Report, ends: Sequence[TaskEnd]) -> list[TaskSummary]:
    """Joins what the board counted with what the launcher saw, and what the workflow file expected."""
    lines = []
    of_task: dict[int, list[PortFacts]] = {}
    for port in report.ports:
        of_task.setdefault(port.task, []).append(port)
    for index, (planned, task, end) in enumerate(zip(plan.tasks, report.tasks, ends, strict=True)):
        ports = of_task.get(index, [])
        waiting = task.waiting_s / task.nprocs
        copying = task.copying_s / task.nprocs
        lines.append(
            TaskSummary(
                name=task.name,
                nprocs=task.nprocs,
                starts=end.starts,
                outcome=end.outcome,
                exit=end.exit,
                produced=sum(port.steps for port in ports if port.direction == "out"),
                consumed=sum(port.steps for port in ports if port.direction == "in"),
                dropped=sum(port.dropped for port in ports),
                bytes=sum(port.bytes for port in ports),
                computing_s=max(0.0, end.running_s - waiting - copying),
                waiting_s=waiting,
                copying_s=copying,
                retries=end.retries,
                wall_s=end.running_s,
                cpu_s=end.cpu_s,
                rss_bytes=end.memory_bytes,
                expected_bytes=planned.expected_memory,
                expected_s=planned.expected_walltime,
            )
        )
    return lines


def hints(plan: Plan, report: Report, outcomes: Sequence[str]) -> list[str]:
    """Hints on what the user may want to change, by what programs did. `outcomes`: how their tasks have ended."""
    ports = BoardPorts(plan)
    of_plan = {ports.index_of(port): port for port in plan.ports}
    reopened = [
        f"{report.tasks[port.task].name}: reopened {_files(port.pattern)} "
        f"{count_of(port.reopened, 'time')} to add to what had been published, and so published more steps: right, "
        "if readers want each state of a file (`publish: close` says so); if a file is complete only later, say "
        "`publish: next`, or `publish: n` for every n-th close"
        for place, port in enumerate(report.ports)
        if port.reopened and not of_plan[place].publish_given
    ]
    unseen = [
        f"{report.tasks[port.task].name}: did not do with {count_of(port.unseen, 'file')} of "
        f"{port.pattern!r} what its `publish:` waits for, so each was published only at its last close or when the "
        f"program ended; {_unseen(of_plan[place], plan.tasks[of_plan[place].task].executable)}"
        for place, port in enumerate(report.ports)
        if port.unseen and outcomes[port.task] != "failed"
    ]
    shared = [
        f"{report.tasks[port.task].name}: several processes of one rank went through the files of "
        f"{port.pattern!r} by turns; to Wilkins they are one reader: each file went to one of them, and the others "
        "may have missed it: let one process go from file to file (`wilkins help ready-made`, 'Workers of a "
        "DataLoader')"
        for port in report.ports
        if port.shared
    ]
    return [*reopened, *unseen, *shared, *_aliases(report), *([] if plan.resumes else _none_given(report))]


def _files(pattern: str) -> str:
    return f"files of {pattern!r}" if is_wild(pattern) else repr(pattern)


def _unseen(port: PortPlan, executable: Path) -> str:
    """Why nothing was seen of what makes a step on an out-port, and what to do."""
    if port.publish.when == "close":
        return "compare `publish:` with how the program writes"
    if has_hdf5_inside(executable):
        return (
            f"{executable.name} has its HDF5 inside, where flushes and writes to datasets cannot be seen: build it "
            "with the shared HDF5 (h5cc -shlib), or give `publish: next` (`wilkins help static-programs`)"
        )
    if port.publish.when == "flush":
        return (
            "H5Fflush, h5py's `file.flush()`, makes a step, and H5Dflush, `dset.flush()`, makes none: flush the file, "
            "or give `publish: {write: 1, dset: PATH}`"
        )
    return f"is {port.publish.dset!r} the path of the dataset in the file?" if port.publish.dset else "it wrote nothing"


def _aliases(report: Report) -> list[str]:
    """Notes on names that programs opened as an alias for the next step, or that would have been one."""
    found = []
    for port in report.ports:
        task, name, pattern = report.tasks[port.task].name, port.alias, port.pattern
        if port.alias_state == "found":
            steps = count_of(port.steps, "step")
            found.append(f'note: task {task}: {name!r} stood for the next step of "{pattern}" ({steps})')
        elif port.alias_state == "prevented":
            from wilkins.launch.watch import explain

            found.append(f"task {task}: {explain.prevented(name, pattern)}")
    return found


def _none_given(report: Report) -> list[str]:
    """Readers that were given no step because no more were published than come before the first that is kept."""
    tasks, ports = report.tasks, report.ports
    return [
        f"{tasks[inport.task].name}: was given no step of {inport.pattern!r}, since "
        f"{tasks[outport.task].name} published {outport.steps}, and its in-port keeps "
        f"{kept_words(channel.every, channel.offset)}; to begin with the first, write "
        f"`flow: {{every: {channel.every}}}` instead"
        for channel in report.channels
        for outport, inport in [(ports[channel.outport], ports[channel.inport])]
        if not inport.steps and 0 < outport.steps <= channel.offset
    ]


def resumed_hints(plan: Plan, report: Report, folder: Path) -> list[str]:
    """Hints on a resumed run, by what its programs did and the trace in its folder."""
    if plan.resumes is None:
        return []
    from wilkins.launch.records.agreement import differences

    return [*_unread(plan, report), *differences(plan.resumes, folder)]


_WAITS_FOR = 2.0
"""Seconds for which a task has waited that can be said to wait."""


def old_names(plan: Plan, report: Report) -> list[str]:
    """Hints on tasks of a resumed run that wait for steps they have consumed, while later ones are queued for them."""
    if plan.resumes is None:
        return []
    ports = BoardPorts(plan)
    found = []
    for channel, planned in zip(report.channels, ports.planned_channels(plan), strict=True):
        first = sum(number for number, _ in planned.rests)
        port = report.ports[channel.inport]
        if not first or not channel.queued or any(channel.reached):
            continue
        for wait in report.tasks[port.task].waits:
            if wait.what == "data" and wait.port == channel.inport and wait.seconds >= _WAITS_FOR:
                found.append(
                    f"{report.tasks[port.task].name}: waits for {wait.name!r}, but is to go on with step "
                    f"{first} of {port.pattern!r}, and what is there for it has another name; if it looks for a "
                    "step that it has had, lead it on by 'args' of its 'restart'"
                )
                break
    return found


def how_to_go_on(
    plan: Plan, report: Report, ends: Sequence[TaskEnd], code: int, folder: Path, lost: Collection[str] = ()
) -> list[str]:
    """The command that goes on with a run that has not done all, if there is something to go back to.

    Args:
        ends: of its tasks.
        lost: hosts of the run.
    """
    if code == 0 or not plan.can_resume:
        return []
    job = f"mpiexec -n {plan.total_ranks} " if plan.launch == "one-job" else ""
    rest = [host for host in plan.hosts if host.name not in lost]
    where = f" --hosts {','.join(f'{host.name}:{host.slots}' for host in rest)}" if lost and rest and not job else ""
    lines = [f"to go on with this run: {job}wilkins run --resume {folder}{where}"]
    slots = sum(host.slots for host in rest)
    ranks = sum(task.nprocs for task, end in zip(plan.tasks, ends, strict=True) if end.outcome not in WENT_WELL)
    if where and slots < ranks:
        have = f"{rest[0].name} has" if len(rest) == 1 else "these hosts have"
        lines.append(f"{have} {count_of(slots, 'slot')}, and {ranks} ranks are left: add other hosts")
    if report.trace_stopped:
        lines.append(
            f"it goes back further than it might: {folder / 'trace.tsv'} could not be written to the end, for the disk "
            "is full or one of the programs may not write files so large (ulimit -f)"
        )
    return lines


def _unread(plan: Plan, report: Report) -> list[str]:
    """Tasks of a resumed run that read none of the steps that were there for them."""
    ports = BoardPorts(plan)
    found = []
    for channel, planned in zip(report.channels, ports.planned_channels(plan), strict=True):
        task = plan.tasks[plan.ports[planned.inport].task]
        first = sum(number for number, _ in planned.rests)
        if task.resumed is None or task.resumed.ended or not first or any(channel.reached):
            continue
        pattern = plan.ports[planned.inport].pattern
        if sum(plan.ports[planned.outport].begins) + report.ports[channel.outport].steps > first:
            found.append(
                f"{task.name}: was to go on with step {first} of {pattern!r}, but read none from there on; "
                "does it look for names of steps that it has had? Lead it on by 'args' of its 'restart'"
            )
    return found


def record(
    tasks: Sequence[TaskSummary],
    channels: Sequence[dict[str, Any]] = (),
    crossings: Sequence[Crossing] = (),
    *,
    exit_code: int,
    reason: str | None,
    wall_s: float,
    peak: int,
    changed: Sequence[str] | None = None,
    messages: Sequence[str] = (),
) -> dict[str, Any]:
    """The summary as plain data.

    Args:
        channels: what became of the steps on each.
        crossings: what crossed from one host to another.
        changed: files in git that differ from the commit that is checked out; None: unknown.
        messages: for the user, about the run, as they are printed.
    """
    return {
        "exit_code": exit_code,
        "reason": reason,
        "ended": time.time(),
        "wall_s": round(wall_s, 6),
        "memory_peak_bytes": peak,
        "tasks": [asdict(task) for task in tasks],
        "channels": list(channels),
        "crossings": [asdict(crossing) for crossing in crossings],
        "changed": None if changed is None else list(changed),
        "messages": list(messages),
    }


def table(tasks: Sequence[TaskSummary], *, wall_s: float, peak: int, folder: Path, more: Sequence[str] = ()) -> str:
    """The table shown at the end of a run; `more`: others below it."""
    head = [
        "task",
        "ranks",
        "starts",
        "end",
        "produced",
        "consumed",
        "dropped",
        "moved",
        "computing",
        "waiting",
        "copying",
    ]
    rows = [
        [
            task.name,
            str(task.nprocs),
            str(task.starts),
            task.outcome if task.outcome in ("done", "stopped") or not task.exit else f"{task.outcome}: {task.exit}",
            *(str(count) if count else "-" for count in (task.produced, task.consumed, task.dropped)),
            size(task.bytes) if task.bytes else "-",
            *(duration(value) for value in (task.computing_s, task.waiting_s, task.copying_s)),
        ]
        for task in tasks
    ]
    last = f"wall time {duration(wall_s)}, most shared memory {size(peak)}, records in {folder}"
    return "\n".join([text_table(head, rows, {0, 3}), *(f"\n{one}" for one in more), *([""] if more else []), last])
