"""The runs of a folder: which there are, how they ended, and the removal of old ones."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wilkins.errors import UsageError, count_of, refused
from wilkins.launch.records.rundir import LATEST
from wilkins.terminal.tables import binary_size, duration, text_table


@dataclass(frozen=True, slots=True)
class Listed:
    """A run that has left records."""

    path: Path
    began: float
    """Seconds since the epoch."""
    goes_on: bool
    end: str
    """How it ended, in words; of one that goes on: that it does."""
    wall_s: float | None
    """None: unknown from its records."""
    bytes: int
    """Bytes of its records on disk."""


def runs_in(folder: Path) -> list[Listed]:
    """The runs that have their directories there, oldest first.

    Raises:
        UsageError: there is no such folder.
    """
    try:
        paths = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{folder}: there is no such folder; runs leave it beside their workflow file, so go there, or name it"
        ) from None
    except OSError as error:
        raise refused(folder, "list the runs in it", error) from error
    found = [listed(path) for path in paths if (path / "plan.json").exists()]
    return sorted(found, key=lambda run: (run.began, run.path.name))


def table(runs: Sequence[Listed]) -> str:
    """What people are shown of runs."""
    rows = [
        [
            run.path.name,
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.began)),
            "-" if run.wall_s is None else duration(run.wall_s),
            binary_size(run.bytes),
            run.end,
        ]
        for run in runs
    ]
    return text_table(["run", "began", "took", "records", "end"], rows, {0, 1, 4})


def prune(folder: Path, older: float) -> str:
    """Remove ended runs that began more than `older` seconds ago; returns the report.

    Raises:
        UsageError: there is no such folder.
        ResourceError: one cannot be removed.
    """
    before = time.time() - older
    old = [run for run in runs_in(folder) if not run.goes_on and run.began < before]
    try:
        for run in old:
            shutil.rmtree(run.path)
    except OSError as error:
        raise refused(error.filename or folder, "remove a run there", error) from error
    latest = folder / LATEST
    if latest.is_symlink() and not latest.exists():
        latest.unlink()
    total = binary_size(sum(run.bytes for run in old))
    lines = [f"removed {run.path}" for run in old]
    return "\n".join([*lines, f"{count_of(len(old), 'run')} removed, {total}"])


def listed(path: Path) -> Listed:
    """The run of a directory."""
    plan = path / "plan.json"
    goes_on = is_held(plan)
    end, wall = ("goes on", time.time() - plan.stat().st_mtime) if goes_on else _ended(path)
    return Listed(path, plan.stat().st_mtime, goes_on, end, wall, _bytes_of(path))


def is_held(plan: Path) -> bool:
    """Whether some launcher looks after the run (see `RunDirectory.hold`)."""
    try:
        lock = os.open(plan, os.O_RDWR | os.O_CLOEXEC)  # file systems of several hosts want it writable
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _ended(path: Path) -> tuple[str, float | None]:
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        code, wall, reason = summary["exit_code"], float(summary["wall_s"]), summary["reason"]
    except (OSError, ValueError, KeyError, TypeError):
        return "killed: it has left no summary", None
    if code == 0:
        return "done", wall
    return f"exit code {code}" + (f": {str(reason).splitlines()[0]}" if reason else ""), wall


def _bytes_of(path: Path) -> int:
    """The bytes of its files; hard links to checkpoints count as the files."""
    files = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(file.lstat().st_blocks * 512 for file in files)
