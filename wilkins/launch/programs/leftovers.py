"""Shared memory that MPI libraries leave behind when their ranks are killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

CREATED = signal.SIGURG
"""Comes when a file was created in the folder; a signal that nobody handles is ignored."""

_FOLDER = "/dev/shm"
_NAMES = ("mpich_shm_", "vader_segment.", "sm_segment.", "osc_rdma.", "ucx_shm_")
_SEGMENT = rf"\s({_FOLDER}/(?:{'|'.join(map(re.escape, _NAMES))})\S+)".encode()
_FIRST_LOOK = 0.5
_LONGEST = 60.0
_AFTER_CREATION = 0.02


class Segments:
    """The segments of MPI libraries that a run's processes were seen to map.

    An MPI job removes its own at its end, but not when it is killed. They can be told from those of other jobs only
    while a process of ours maps them. So one looks shortly after one was created, by whomever, and from time to time.
    """

    def __init__(self, now: float, *, watch: bool = True, on_seen: Callable[[Path], None] | None = None) -> None:
        """`watch`: hear of what is created as it is, by `CREATED`; one process of a job is enough. `on_seen` is called
        with each segment when it is first seen."""
        self._seen: set[Path] = set()
        self._on_seen = on_seen or (lambda _: None)
        self._pause = _FIRST_LOOK
        self.due = now + self._pause
        self._known = _segments()
        self._watch = _watch() if watch else -1

    def notice(self, now: float) -> None:
        """Something was created; if that was a segment, look soon and often, since it has yet to be mapped."""
        there = _segments()
        if there - self._known:
            self._pause = _AFTER_CREATION
            self.due = min(self.due, now + self._pause)
        self._known = there

    def look(self, now: float, pids: Iterable[int]) -> None:
        """Note what these processes map, and when to look again: less and less often."""
        self._pause = min(2 * self._pause, _LONGEST)
        self.due = now + self._pause
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                maps = Path(f"/proc/{pid}/maps").read_bytes()
                found = {Path(os.fsdecode(name)) for name in re.findall(_SEGMENT, maps)} - self._seen
                self._seen |= found
                for segment in found:
                    self._on_seen(segment)

    def remove(self) -> None:
        """Remove those that are still there. Call when all processes of the run have ended."""
        if self._watch >= 0:
            os.close(self._watch)
            self._watch = -1
        for segment in self._seen:
            with contextlib.suppress(OSError):
                segment.unlink()
        self._seen.clear()


def _segments() -> set[str]:
    with contextlib.suppress(OSError):
        return {name for name in os.listdir(_FOLDER) if name.startswith(_NAMES)}  # noqa: PTH208 - names will do
    return set()


def _watch() -> int:
    """Ask for `CREATED` as long as this descriptor is open. (To close one of inotify takes the kernel 10 to 20 ms.)"""
    watch = -1
    try:
        watch = os.open(_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.fcntl(watch, fcntl.F_SETSIG, CREATED)
        fcntl.fcntl(watch, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MULTISHOT)
    except OSError:  # a kernel without it: one looks from time to time
        if watch >= 0:
            os.close(watch)
        return -1
    return watch
