"""Removes the folders of runs from shared memory: that of a run at its end, and what dead runs have left there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
SEGMENTS = "segments"
"""In a run's folder: the paths of shared memory of others, a line each."""
_ANSWERS_WITHIN = 5.0
"""Seconds for which a disk is waited for that is to remove a run's hidden files."""


def remove_run(folder: Path) -> list[Path]:
    """Remove a run's folder, and first the files of steps that have no name but a hidden one (see steps/disk.hpp), and
    the shared memory of others that was noted there.

    Returns:
        Folders on a disk that does not answer, in which such files are left. The run's folder then stays, without what
        takes memory, so that they can be found when the disk answers again.
    """
    _unlink_noted(folder)
    hidden = _hidden(folder)
    if hidden and not _done_in_time(hidden):
        for kind in ("a[0-9]*", "n[0-9]*", "p[0-9a-f]*"):  # arenas, those made ready, parts of files of several hosts
            for memory in _within(folder, kind):
                with contextlib.suppress(OSError):
                    if not memory.is_symlink():
                        memory.unlink()
        return sorted({path.parent for path in hidden})
    shutil.rmtree(folder, ignore_errors=True)
    return []


def _unlink_noted(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for segment in (folder / SEGMENTS).read_bytes().splitlines():
            with contextlib.suppress(OSError):
                os.unlink(segment)  # noqa: PTH108 - names are bytes


def _within(folder: Path, pattern: str) -> list[Path]:
    """What matches in a folder, which another sweep may be removing: what is gone matches nothing."""
    try:
        return [path for path in folder.iterdir() if path.match(pattern)]
    except OSError:
        return []


def _hidden(folder: Path) -> list[Path]:
    """The hidden names of a run's files on disk; asks no disk."""
    found: dict[Path, None] = {}
    for link in _within(folder, "f[0-9]*"):
        with contextlib.suppress(OSError):
            hidden = link.readlink().with_name(f".{folder.name}-{link.name[1:]}")
            found.update({hidden: None, hidden.with_name(f"{hidden.name}.new"): None})
    for link in _within(folder, "a[0-9]*"):  # of a rename that was cut short, the other link may lead elsewhere
        with contextlib.suppress(OSError):
            hidden = link.readlink()
            if hidden.name.startswith(f".{folder.name}-"):
                found[hidden] = None
    return list(found)


def _done_in_time(paths: Sequence[Path]) -> bool:
    """Remove files in a process of its own, for a disk may answer late or never; False if it does not in time."""
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.closerange(0, os.sysconf("SC_OPEN_MAX"))  # it may outlive this process, and must hold no lock or pipe
            for path in paths:
                with contextlib.suppress(OSError):
                    path.unlink()
        finally:
            os._exit(0)
    until = time.monotonic() + _ANSWERS_WITHIN
    pause = 0.001
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)  # a process that waits for a disk may end late all the same
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return True


def _is_own(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.getuid()
    except FileNotFoundError:  # another sweep, or the run itself, removed it just now
        return False


def _is_dead(folder: Path) -> bool:
    making = folder.suffix == ".new"  # its maker holds the lock on the folder until it has the one on the board
    try:
        descriptor = os.open(folder if making else folder / "board", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _is_old(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # An empty folder may have been made just now, its lock not yet taken.
        return not making or (folder / "board").exists() or _is_old(folder)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _is_old(folder: Path) -> bool:
    """A folder that has had no board for a minute never will."""
    try:
        return time.time() - folder.stat().st_mtime > 60
    except OSError:
        return False


def sweep(root: Path = SHARED_MEMORY, on_left: Callable[[list[Path]], None] | None = None) -> list[Path]:
    """Remove what dead runs of this user left in shared memory; returns the folders removed. `on_left` is called with
    folders on a disk that does not answer, in which files of such a run stay."""
    removed = []
    for folder in sorted(root.glob(f"wilkins-{os.getuid()}-*")):
        if not (_is_own(folder) and _is_dead(folder)):
            continue
        left = remove_run(folder)
        if not left:
            removed.append(folder)
        elif on_left:
            on_left(left)
    return removed
