"""Shared memory that MPI libraries leave behind when their ranks are killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

_NAME = rb"(?:mpich_shm_|vader_segment\.|sm_segment\.|osc_rdma\.|ucx_shm_)"
_SEGMENT = re.compile(rb"\s(/dev/shm/" + _NAME + rb"\S+)")
_CREATED = re.compile(_NAME)
_FIRST_LOOK = 0.5
_LONGEST = 60.0
_AFTER_CREATION = 0.02
_IN_CREATE = 0x100


class Segments:
    """The segments of MPI libraries that a run's processes were seen to map.

    An MPI job removes its own at its end, but not when it is killed. They can be told from those of other jobs only
    while a process of ours maps them. So one looks shortly after one was created, by whomever, and from time to time.
    """

    def __init__(self, now: float, *, watch: bool = True, on_seen: Callable[[Path], None] | None = None) -> None:
        """`watch`: see what is created as it is; one process of a job is enough, for a user has few such watches.
        `on_seen` is called with each segment when it is first seen."""
        self._seen: set[Path] = set()
        self._on_seen = on_seen or (lambda _: None)
        self._pause = _FIRST_LOOK
        self.due = now + self._pause
        self.created = _watch() if watch else -1
        """Readable when something was created in the folder; -1 if that is not known."""

    def notice(self, now: float) -> None:
        """Read what was created, and look soon and often if that was a segment: it has yet to be mapped."""
        with contextlib.suppress(BlockingIOError):
            while events := os.read(self.created, 65536):
                if _CREATED.search(events):
                    self._pause = _AFTER_CREATION
                    self.due = min(self.due, now + self._pause)

    def look(self, now: float, pids: Iterable[int]) -> None:
        """Note what these processes map, and when to look again: less and less often."""
        self._pause = min(2 * self._pause, _LONGEST)
        self.due = now + self._pause
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                maps = Path(f"/proc/{pid}/maps").read_bytes()
                found = {Path(os.fsdecode(name)) for name in _SEGMENT.findall(maps)} - self._seen
                self._seen |= found
                for segment in found:
                    self._on_seen(segment)

    def remove(self) -> None:
        """Remove those that are still there. Call when all processes of the run have ended."""
        if self.created >= 0:
            os.close(self.created)
            self.created = -1
        for segment in self._seen:
            with contextlib.suppress(OSError):
                segment.unlink()
        self._seen.clear()


def _watch() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    watch: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if watch >= 0 and libc.inotify_add_watch(watch, b"/dev/shm", _IN_CREATE) < 0:
        os.close(watch)
        return -1
    return watch
