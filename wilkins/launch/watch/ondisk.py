"""What lies in the folders of tasks before a run: files that earlier ones have left, links to what it will bring."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath

from wilkins.flow import TRACE_FILE
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.plan import planfile
from wilkins.plan.plan import Plan, TaskPlan
from wilkins.transport.board import Board


def register_left_files(plan: Plan, board: Board, records: Path) -> None:
    """Register with the board the files that earlier runs have left in the folders of tasks, under names of in-ports
    that may get an alias for their next step: such a file does not prevent the alias."""
    for inport, port in BoardPorts(plan).may_have_alias():
        for file in left_files(_files(plan.tasks[port.task], port.pattern), records):
            board.left_by_run(inport, file)


def left_files(files: Mapping[str, os.stat_result], records: Path) -> list[os.stat_result]:
    """Return those of the files that an earlier run has left.

    These are files that a task of the run published under this name, in mode ``both`` or ``file``, and that have not
    changed since the run.

    Args:
        files: by their paths.
        records: directory of the run that begins; those of earlier ones lie beside it.
    """
    left: dict[str, os.stat_result] = {}
    for run in records.parent.iterdir() if files else ():
        if run == records or run.is_symlink():
            continue
        with contextlib.suppress(OSError, ValueError):
            began = (run / "plan.json").stat().st_mtime_ns
            ended = max(trace.stat().st_mtime_ns for trace in _traces(run))
            of_its_time = {path: file for path, file in files.items() if began <= file.st_mtime_ns <= ended}
            if of_its_time.keys() - left:
                left |= {path: of_its_time[path] for path in _published(run) & of_its_time.keys()}
    return list(left.values())


def _traces(run: Path) -> list[Path]:
    """A run's trace, or those of its hosts."""
    return [trace for trace in (run / TRACE_FILE, *run.glob(f"hosts/*/{TRACE_FILE}")) if trace.exists()]


def _files(task: TaskPlan, pattern: str) -> dict[str, os.stat_result]:
    """The files in the task's folder that match, by their paths."""
    import glob

    found = {}
    for name in glob.glob(pattern, root_dir=task.cwd):  # noqa: PTH207 - the pattern may be a whole path
        path = task.cwd / name
        with contextlib.suppress(OSError):
            found[os.path.normpath(path)] = path.stat()
    return found


def _published(run: Path) -> set[str]:
    """The paths of the files that the tasks of a run have published on disk.

    Raises:
        OSError, ValueError: the run's records cannot be read.
    """
    plan = planfile.loads((run / "plan.json").read_text(encoding="utf-8"))
    tasks = plan.tasks
    on_disk = {(tasks[port.task].name, port.pattern) for port in plan.ports if port.mode in ("both", "file")}
    folders = {task.name: task.cwd for task in tasks}
    found = set()
    for trace in _traces(run):
        with trace.open(encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                words = line.rstrip("\n").split("\t")
                if len(words) == 8 and words[1] == "publish" and (words[2], words[4]) in on_disk:
                    found.add(os.path.normpath(folders[words[2]] / words[5]))
    return found


def register_links(plan: Plan, board: Board) -> None:
    """Report to the board the tasks in whose folders links lead to files of their in-ports."""
    targets = cache(targets_in)
    for port in plan.ports:
        if port.direction == "in" and port.mode != "plain":
            called = PurePath(port.called).name
            if any(fnmatchcase(target, called) for target in targets(plan.tasks[port.task].cwd)):
                board.uses_links(port.task)


def targets_in(folder: Path) -> frozenset[str]:
    """The names, without folders, of what the symbolic links in a folder lead to, over other links too; none if it
    cannot be read."""
    try:
        with os.scandir(folder) as entries:
            links = [Path(entry) for entry in entries if entry.is_symlink()]
            return frozenset(name for link in links for name in (link.readlink().name, link.resolve().name))
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        return frozenset()
