"""The records of a run that another one resumes, and whether it can be resumed at all."""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wilkins.errors import UsageError
from wilkins.flow.trace import Event
from wilkins.launch.hosts.control import SILENT_FOR
from wilkins.launch.records.hosttraces import trace_of
from wilkins.launch.records.rundir import RESUMPTION
from wilkins.plan import planfile
from wilkins.plan.plan import Plan
from wilkins.resume.restart_point import RestartPoint

_LOCK_WAIT = 10.0
"""Seconds in which the watcher of a killed run ends its remaining processes. On several hosts, a host that is cut off
needs `SILENT_FOR` more to notice."""

_held: list[int] = []
"""Locks of the runs that this process resumes, until it ends or releases them."""


@dataclass(frozen=True, slots=True)
class OldRun:
    """A run that did not finish."""

    path: Path
    plan: Plan
    events: list[Event]
    before: list[list[RestartPoint]]
    """By task, the oldest first: restart points in the runs before it."""
    runs: list[str]
    """The directories of this run and of those that it resumes, the newest first."""
    loops: list[bool]
    """By task: whether it was seen, in the runs before, to read steps in a loop."""


def load(folder: Path) -> OldRun:
    """Load the run of a directory, and lock it, so that no other process resumes it.

    Raises:
        UsageError: there is no such run, it has finished, goes on still, or has recorded too little.
    """
    path = folder.resolve()
    file = path / "plan.json"
    if not file.is_file():
        what = "holds no run's records" if path.is_dir() else "there is no such folder"
        raise UsageError(
            f"--resume {folder}: {what}; give the folder of a run, or its name in wilkins-runs, such as latest"
        )
    try:
        plan = planfile.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(
            f"--resume {folder}: the run was made by another version of Wilkins, which this one cannot go on with "
            f"({error}); use that version"
        ) from error
    _take(file, folder, _LOCK_WAIT + (SILENT_FOR if plan.hosts else 0.0))
    if _finished(path):
        raise UsageError(f"--resume {folder}: the run has finished, and nothing is left to be done")
    if not plan.can_resume:
        raise UsageError(
            f"--resume {folder}: no task says what it can be restarted from, so there is nothing to go back to; add "
            f"'restart:' to tasks of {plan.source.name} (`wilkins help restarting`), and run it anew"
        )
    before, runs, loops = before_of(path, plan)
    return OldRun(path, plan, trace_of(path, plan), before, [str(path), *runs], loops)


def release() -> None:
    """Release the locks of the runs that this process has loaded, so that others can resume them."""
    while _held:
        os.close(_held.pop())


def _take(file: Path, folder: Path, within: float) -> None:
    lock = os.open(file, os.O_RDWR | os.O_CLOEXEC)  # file systems of several hosts want it writable
    until = time.monotonic() + within
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(0.05)
                continue
            os.close(lock)
            where = " (`hosts` in its folder tells of each host)" if (file.parent / "hosts").exists() else ""
            raise UsageError(f"--resume {folder}: the run goes on still{where}; wait for its end, or stop it") from None
        _held.append(lock)
        return


def _finished(path: Path) -> bool:
    try:
        summary: dict[str, Any] = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return summary.get("exit_code") == 0


def before_of(path: Path, plan: Plan) -> tuple[list[list[RestartPoint]], list[str], list[bool]]:
    """The earlier restart points of each task, the directories of the earlier runs, and whether each task read steps in
    a loop: what the resumed run of a directory knows of the runs before it."""
    try:
        record = json.loads((path / RESUMPTION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [[] for _ in plan.tasks], [], [False] * len(plan.tasks)
    points = [[RestartPoint.restored(data) for data in of_task] for of_task in record["points"]]
    return points, list(record["runs"]), [bool(word) for word in record["loops"]]
