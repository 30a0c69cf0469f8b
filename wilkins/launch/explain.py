"""Sentences about what went wrong or is being waited for, for the person at the terminal."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from wilkins.launch.environment import takes_filename

if TYPE_CHECKING:
    from wilkins.launch.taskrun import TaskRun


def failed(run: TaskRun) -> str:
    """A program ended with an error."""
    again = f" at its {_ordinal(run.starts)} start" if run.starts > 1 else ""
    once = again and run.plan.rerun == "auto" and not takes_filename(run.plan)
    cure = "; if it is to read one step and end, give it `rerun: never`" if once else ""
    return f"{run.name}: failed{again}: {run.exit}; its output is in {run.log.path}{cure}"


def not_started(run: TaskRun, error: OSError) -> str:
    """A program could not be started."""
    task = run.plan
    words = [*task.mpiexec, *task.prefix] if task.kind == "mpi" and task.mpiexec else [*task.prefix]
    program = words[0] if words else str(task.executable)
    cure = {
        errno.ENOEXEC: "it is neither a program for this machine nor a script that begins with #!; add the #! line",
        errno.EACCES: f"give it the right to be executed: chmod +x {program}",
        errno.ENOENT: f"check that {program} and the folder {task.cwd} exist",
        errno.E2BIG: "its arguments and environment are too long",
    }.get(error.errno or 0, "")
    where = f"{task.origin}: " if task.origin else ""
    about = f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    return f"{where}{run.name}: cannot start {program}: {about}{f'; {cure}' if cure else ''}"


def untouched(run: TaskRun) -> str:
    """A program ended well without using a memory port."""
    patterns = ", ".join(repr(pattern) for pattern in run.untouched)
    verb = "port" if len(run.untouched) == 1 else "ports"
    return (
        f"{run.name}: ended without ever using its memory {verb} {patterns}; either it used a file of another name "
        "(compare the pattern with the names it opens), or it is a static executable, which cannot be reached "
        f"(`file {run.plan.executable}` tells). Its output is in {run.log.path}"
    )


def waits(report: dict[str, Any]) -> list[str]:
    """Who waits for whom, one line each."""
    tasks, ports = report["tasks"], report["ports"]
    lines = []
    for task in tasks:
        for wait in task["waits"]:
            pattern = wait["name"] or ports[wait["port"]]["pattern"]
            on = [_who(tasks, index, rank) for index, rank in wait["on"]]
            lines.append(
                f"{_who(tasks, tasks.index(task), wait['rank'])} has waited {_seconds(wait['seconds'])} s "
                + (f"for a step of {pattern}" if wait["for"] == "data" else f"for room to write {pattern}")
                + (f", on {', '.join(on)}" if on else "")
            )
            if wait["for"] == "room" and (idle := _never_read(report, wait["port"])):
                lines.append(f"  if only some ranks of {', '.join(idle)} read, say how many with `nreaders:`")
    return lines


def _never_read(report: dict[str, Any], outport: int) -> list[str]:
    tasks, ports = report["tasks"], report["ports"]
    readers = {channel["inport"] for channel in report["channels"] if channel["outport"] == outport}
    return [
        tasks[ports[port]["task"]]["name"]
        for port in sorted(readers)
        if not ports[port]["steps"] or tasks[ports[port]["task"]]["nprocs"] > 1
    ]


def _who(tasks: list[dict[str, Any]], index: int, rank: int) -> str:
    task = tasks[index]
    return f"{task['name']}[{rank}]" if task["nprocs"] > 1 else str(task["name"])


def _seconds(time: float) -> str:
    return f"{time:.0f}" if time >= 10 else f"{time:.1f}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
