"""Shared memory that MPI libraries leave behind when their ranks are killed."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from wilkins.launch.programs.signals import Creations

_FOLDER = "/dev/shm"
_NAMES = ("mpich_shm_", "vader_segment.", "sm_segment.", "osc_rdma.", "ucx_shm_")
_SEGMENT = rf"\s({_FOLDER}/(?:{'|'.join(map(re.escape, _NAMES))})\S+)".encode()
_FIRST_LOOK = 0.5
_LONGEST = 60.0
_AFTER_CREATION = 0.02
_LONGEST_REST = 0.5
"""Seconds between notifications, at most, while other programs create files all the time."""
_CALM = 5.0
"""Seconds without a creation, after which the next one is notified at once again."""


class Segments:
    """The segments of MPI libraries that a run's processes were seen to map.

    An MPI job removes its own at its end, but not when it is killed. Segments of other jobs look
    the same: only one that a process of ours maps is ours. So `look` runs shortly after any segment was created, and
    from time to time.
    """

    def __init__(
        self, now: float, family: Callable[[], Iterable[int]], *, watch: bool = True, on_seen: Callable[[Path], None]
    ) -> None:
        """`family` finds the run's processes. `watch`: get `CREATED` when a file is created; one process of a job is
        enough. `on_seen` is called with each segment when it is first seen."""
        self._seen: set[Path] = set()
        self._family = family
        self._on_seen = on_seen
        self._pause = _FIRST_LOOK
        self._look_at = now + self._pause
        self._list_at = float("inf")
        self._rest = 0.0
        self._noticed_at = now
        self._known = _segments()
        self._creations = Creations(Path(_FOLDER)) if watch else None
        self._hear()

    @property
    def due(self) -> float:
        """When to `look` next; monotonic, in seconds."""
        return min(self._look_at, self._list_at)

    def notice(self, now: float) -> None:
        """A file was created: check soon whether it is a segment. The next creation is notified after that."""
        calm = now - self._noticed_at > _CALM
        self._rest = _AFTER_CREATION if calm or not self._rest else min(2 * self._rest, _LONGEST_REST)
        self._noticed_at = now
        self._list_at = now + self._rest

    def look(self, now: float, *, at_once: bool = False) -> None:
        """Note what the run's processes map, and when to look again: less and less often, unless segments are new.

        These processes are not looked for if no segment is there that is not noted.

        Args:
            now: monotonic time, in seconds.
            at_once: also where no segment is new, since the processes are about to end.
        """
        self._list_at = float("inf")
        hears = self._hear()
        there = _segments()
        if there - self._known:  # they have yet to be mapped
            self._pause = _AFTER_CREATION
            self._look_at = min(self._look_at, now + self._pause)
        self._known = there
        if now < self._look_at and not at_once:
            return
        self._pause = min(2 * self._pause, _LONGEST)
        self._look_at = now + self._pause
        if not {f"{_FOLDER}/{name}" for name in there} - set(map(str, self._seen)):
            if hears:
                self._look_at = float("inf")
            return
        for pid in self._family():
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                maps = Path(f"/proc/{pid}/maps").read_bytes()
                found = {Path(os.fsdecode(name)) for name in re.findall(_SEGMENT, maps)} - self._seen
                self._seen |= found
                for segment in found:
                    self._on_seen(segment)

    def _hear(self) -> bool:
        return self._creations is not None and self._creations.hear()

    def remove(self) -> None:
        """Remove those that are still there. Call when all processes of the run have ended."""
        if self._creations is not None:
            self._creations.close()
        for segment in self._seen:
            with contextlib.suppress(OSError):
                segment.unlink()
        self._seen.clear()


def _segments() -> set[str]:
    with contextlib.suppress(OSError):
        return {name for name in os.listdir(_FOLDER) if name.startswith(_NAMES)}  # noqa: PTH208 - names will do
    return set()
