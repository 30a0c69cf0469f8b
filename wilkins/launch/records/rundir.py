"""The directory in which a run leaves its records."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wilkins import atomic
from wilkins.errors import ResourceError, UsageError, refused
from wilkins.flow import TRACE_FILE
from wilkins.names import own_form, text_of
from wilkins.plan import planfile
from wilkins.plan.plan import Plan

RESUMPTION = "resume.json"
"""For a run that resumes another one: the record for a run that resumes this one."""

START = "start.json"
"""What was started: the command line, the workflow file's text, programs, the commit."""

CLOCKS = "hosts/clocks.json"
"""For a run on several hosts: the offsets of their clocks."""

KEPT = "kept"
"""Holds hard links to the newest checkpoints, as long as the run may have to be resumed."""


RUNS = "wilkins-runs"
"""Holds the directories of runs."""

LATEST = "latest"
"""Among them: leads to the newest."""


def named(run: Path) -> Path:
    """The directory of a run that is given as such, or by its name among the runs here; `latest` is one, too."""
    among = Path(RUNS, run)
    return among if not run.exists() and among.exists() else run


class RunDirectory:
    """``wilkins-runs/<name>-<time>/`` beside the workflow file: plan, versions, logs, summary."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = -1

    @classmethod
    def create(cls, plan: Plan, wanted: Path | None, resumption: dict[str, Any] | None = None) -> RunDirectory:
        """Make the directory of a run that starts now, and hold a lock on its plan as long as this process lives.

        Args:
            resumption: for a run that resumes another one, the record for a run that resumes this one.

        Raises:
            ResourceError: it cannot be made.
            UsageError: the wanted folder is not empty.
        """
        try:
            path = _given(wanted) if wanted else fresh(plan.folder or plan.source.parent, plan.name)
            run = cls(path)
            if resumption:
                run.write_json(RESUMPTION, resumption)
            if plan.can_resume:
                (path / "points").mkdir()
                run.make_kept()
            atomic.put(path / "plan.json", planfile.dumps(plan))
            run.hold()
            if path.parent.name == RUNS:  # now there is something to be resumed
                _point(path.parent / LATEST, path.name)
            run.write_json("versions.json", versions())
        except OSError as error:
            where = wanted or plan.folder or plan.source.parent
            raise ResourceError(
                f"{where}: cannot write the run's records there: {error.strerror}; "
                "name a folder you may write to with --run-dir"
            ) from error
        return run

    def note_start(self, plan: Plan, command: Sequence[str], settings: Sequence[str]) -> None:
        """Leave a record of what is started, and when.

        Args:
            command: the command line.
            settings: what its ``--set`` say.

        Raises:
            ResourceError: the system refuses it.
        """
        self.write_json(START, _start(plan, command, settings))

    def hold(self) -> None:
        """Take the shared lock on the plan that shows other processes that the run goes on."""
        self._lock = os.open(self.path / "plan.json", os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def release(self) -> None:
        """Release the lock on the plan."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def make_kept(self) -> None:
        """Make the folder for hard links to checkpoints."""
        (self.path / KEPT).mkdir()

    @property
    def layer_log(self) -> Path:
        """Where the layer inside the tasks writes its own lines."""
        return self.path / "layer.log"

    @property
    def trace(self) -> Path:
        """Where the run's events are noted."""
        return self.path / TRACE_FILE

    def log_path(self, task: str, rank: int | None = None) -> Path:
        """The log of a task, or of one of its ranks."""
        stem = own_form(re.sub(r"[^\w.,=+\[\]-]", "_", text_of(task)))
        return self.path / (f"{stem}.log" if rank is None else f"{stem}.{rank}.log")

    def points_path(self, task: str) -> Path:
        """The file to which a task reports its restart points."""
        return self.path / "points" / self.log_path(task).with_suffix(".jsonl").name

    def drop_kept(self) -> None:
        """Remove the hard links to checkpoints of a finished run, and of the runs that it has resumed."""
        runs = [str(self.path)]
        with contextlib.suppress(OSError, ValueError, KeyError):
            runs += json.loads((self.path / RESUMPTION).read_text(encoding="utf-8"))["runs"]
        for run in map(Path, runs):
            for kept in (run / KEPT, *run.glob(f"hosts/*/{KEPT}")):
                shutil.rmtree(kept, ignore_errors=True)

    def write_json(self, name: str, value: Any) -> None:
        """Leave a record.

        Raises:
            ResourceError: the system refuses it.
        """
        try:
            atomic.put(self.path / name, json.dumps(value, indent=2) + "\n")
        except OSError as error:
            raise refused(self.path / name, "write this record of the run", error) from error


def _given(path: Path) -> Path:
    path = path.absolute()
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise UsageError(f"{path}: holds files already; give --run-dir an empty or new folder")
    return path


def fresh(folder: Path, name: str) -> Path:
    """A new directory for a run, among the others of a folder.

    Raises:
        OSError: it cannot be made.
        ResourceError: there are too many.
    """
    parent = folder / RUNS
    parent.mkdir(exist_ok=True)
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1, 10000):
        path = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise ResourceError(f"{parent}: holds too many runs of this second; remove old ones")


def _point(link: Path, target: str) -> None:
    """Let ``link`` lead to ``target``, in one step, so that two runs at once do not disturb each other."""
    if link.exists() and not link.is_symlink():
        return
    atomic.point(link, target, writer=os.urandom(4).hex())


def _start(plan: Plan, command: Sequence[str], settings: Sequence[str]) -> dict[str, Any]:
    """What a start is found to be, by looks that take no time: no file but the workflow's is read whole."""
    programs = {}
    for path in {str(task.cwd / file) for task in plan.tasks for file in (str(task.executable), *task.args[:1])}:
        with contextlib.suppress(OSError, ValueError):
            found = os.stat(path)  # noqa: PTH116
            programs[path] = [found.st_size, found.st_mtime_ns]
    text = None
    with contextlib.suppress(OSError):
        text = plan.source.read_bytes().decode("utf-8", "replace")
    return {
        "began": time.time(),
        "monotonic_ns": time.monotonic_ns(),
        "command": list(command),
        "folder": os.getcwd(),  # noqa: PTH109
        "settings": list(settings),
        "commit": commit_of(plan.source.parent),
        "programs": programs,
        "workflow": text,
    }


def commit_of(folder: Path) -> str | None:
    """The commit that is checked out where a folder is, by git's files: to ask git takes longer than a start may.

    None: the folder is in no repository, or one that cannot be read.
    """
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        try:
            if git.is_file():
                git = parent / git.read_text().removeprefix("gitdir:").strip()
            head = (git / "HEAD").read_text().strip()
        except (OSError, ValueError):
            continue
        if not head.startswith("ref: "):
            return head
        return _named_commit(git, head.removeprefix("ref: "))
    return None


def _named_commit(git: Path, name: str) -> str | None:
    common = git
    with contextlib.suppress(OSError, ValueError):
        common = git / (git / "commondir").read_text().strip()
    for place in (git, common):
        with contextlib.suppress(OSError, ValueError):
            return (place / name).read_text().strip()
    with contextlib.suppress(OSError, ValueError):
        for line in (common / "packed-refs").read_text().splitlines():
            commit, _, known = line.partition(" ")
            if known == name:
                return commit
    return None


def versions() -> dict[str, str]:
    """The versions of the software of the run."""
    system, libc = os.uname(), (os.confstr("CS_GNU_LIBC_VERSION") or "").replace(" ", "")
    installed = _installed()
    packages = ("wilkins", "h5py", "mpi4py", "numpy", "networkx", "PyYAML")
    return {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "platform": "-".join([system.sysname, system.release, system.machine, "with", libc]),
        "host": system.nodename,
        "cores": str(len(os.sched_getaffinity(0))),
        **{name: installed[name.lower()] for name in packages if name.lower() in installed},
    }


def _installed() -> dict[str, str]:
    """Versions of packages, by the names of the folders that say so; `importlib.metadata` takes 20 ms to ask them."""
    found: dict[str, str] = {}
    for place in sys.path:
        with contextlib.suppress(OSError):
            for entry in os.listdir(place or "."):  # noqa: PTH208 - names are all that is asked for
                stem, _, kind = entry.rpartition(".")
                name, _, version = stem.partition("-")
                if kind in ("dist-info", "egg-info") and version:
                    found.setdefault(name.lower(), version.partition("-")[0])
    return found
