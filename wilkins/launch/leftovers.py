"""Shared memory that MPI libraries leave behind when their ranks are killed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

_SEGMENT = re.compile(rb"\s(/dev/shm/(?:mpich_shm_|vader_segment\.|sm_segment\.|osc_rdma\.|ucx_shm_)\S+)")
_FIRST_LOOK = 0.5
_LONGEST = 60.0


class Segments:
    """The segments of MPI libraries that a run's processes were seen to map.

    An MPI job removes its own at its end, but not when it is killed. They can be told from those of other jobs only
    while a process of ours maps them, so one looks from time to time.
    """

    def __init__(self, now: float) -> None:
        self._seen: set[Path] = set()
        self._pause = _FIRST_LOOK
        self.due = now + self._pause

    def look(self, now: float, pids: Iterable[int]) -> None:
        """Note what these processes map, and when to look again: less and less often."""
        self._pause = min(2 * self._pause, _LONGEST)
        self.due = now + self._pause
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                maps = Path(f"/proc/{pid}/maps").read_bytes()
                self._seen.update(Path(name.decode(errors="surrogateescape")) for name in _SEGMENT.findall(maps))

    def remove(self) -> None:
        """Remove those that are still there. Call when all processes of the run have ended."""
        for segment in self._seen:
            with contextlib.suppress(OSError):
                segment.unlink()
        self._seen.clear()
