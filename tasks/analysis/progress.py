"""How far an analysis is: saved again and again, so that a resumed run goes on with its sums and tables."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from wilkins import atomic
from wilkins.tasks.analysis.results import goes_to
from wilkins.tasks.group import Group
from wilkins.tasks.ranks import agree
from wilkins.tasks.registry import Ports
from wilkins.transport import points

SECONDS = 0.5
"""The least time between two saves, since a save waits for the disk."""

KEPT = 8
"""Saves that stay: a resumed run may need an older one, from before what the readers of an out-port have read."""


def saved(ranks: Group) -> dict[str, Any] | None:
    """What a resumed run goes on from, the same on all ranks; None if the analysis begins anew.

    Raises:
        TaskError: it cannot be read.
    """
    point = points.chosen()
    if point is None:
        return None
    trouble = ""
    found: dict[str, Any] = {}
    if ranks.rank == 0:
        try:
            found = json.loads(Path(point.file).read_bytes())
        except (OSError, ValueError) as error:
            trouble = f"cannot go on from {point.file}: {error}; to begin anew, run the workflow without '--resume'"
    agree(ranks, trouble)
    return ranks.allgather(found)[0]


class Progress:
    """Counts an analysis' steps, and tells its restart points on the first rank."""

    def __init__(self, ports: Ports, ranks: Group, parts: Callable[[], Any], before: Mapping[str, Any] | None) -> None:
        """`parts` gives their state, as JSON takes it; `before` is what `saved` has found."""
        place = os.environ.get(points.POINTS) if ranks.rank == 0 else None
        self._folder = Path(place).resolve().with_suffix("") if place else None
        self._ports, self._parts = ports, parts
        self._published = dict(before["published"]) if before else dict.fromkeys(ports.outports, 0)
        self._consumed = 0
        self._saved: float | None = None
        self.count = int(before["count"]) if before else 0
        """Steps so far, those of the runs that this one goes on with included."""

    def step(self, sequence: int, files: Iterable[Path]) -> None:
        """The step of this number is done with, and gave these HDF5 files: saves, if the last save was a while ago."""
        self.count += 1
        self._consumed = sequence + 1
        for port in [next((port for port in self._ports.outports if goes_to(file, port)), None) for file in files]:
            if port is not None:
                self._published[port] += 1
        if self._saved is None or time.monotonic() - self._saved >= SECONDS:
            self._save()

    def end(self) -> None:
        """Saves the last steps after the end of the stream."""
        if self._consumed:
            self._save()

    def _save(self) -> None:
        if self._folder is None:
            return
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True)
            atomic.sync(self._folder.parent)
        path = self._folder / f"{self.count:09}.json"
        state = {"count": self.count, "published": self._published, "parts": self._parts()}
        atomic.put(path, json.dumps(state), durable=True)
        points.tell(str(self.count), {self._ports.inports[0]: self._consumed}, self._published, path)
        for old in sorted(self._folder.glob("*.json"))[:-KEPT]:
            with contextlib.suppress(OSError):
                old.unlink()
        self._saved = time.monotonic()
