"""A run that goes on, as those see it who watch it from outside.

The run's launcher is asked by a file that is touched, and answers by one that it writes (see `launch.watch.progress`):
nobody but the launcher and the programs has the run's shared memory open, so that a viewer which is stopped, or killed,
holds nothing.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from wilkins.errors import ResourceError, UsageError, refused
from wilkins.launch.records.rundir import named
from wilkins.report.runlist import is_held, listed
from wilkins.terminal import progress
from wilkins.terminal.progress import STATUS, WATCHED, History, Snapshot, cells, from_json
from wilkins.terminal.tables import duration

EVERY = 1.0
"""Seconds between two looks."""
HEAD = (progress.HEAD[0], "pid", *progress.HEAD[1:])

_ANSWERS_WITHIN = 10.0
"""Seconds after which a launcher that goes on should have answered: it does within two, or five where it does not
hear that it is asked, as from another machine."""


class Watched:
    """A run, looked at from outside."""

    def __init__(self, path: Path) -> None:
        self.path = named(path)
        if not (self.path / "plan.json").is_file():
            raise UsageError(
                f"{self.path}: there is no run; name its directory, or its name in wilkins-runs (see `wilkins runs`)"
            )
        self.history = History()
        self._asked = time.monotonic()

    def look(self) -> bool:
        """Ask again, and take in what has been answered; whether that is new.

        Raises:
            ResourceError: the launcher does not answer, or cannot be asked.
        """
        try:
            (self.path / WATCHED).touch()
        except OSError as error:
            raise refused(self.path / WATCHED, "ask the run's launcher how far it is", error) from error
        found = self._answer()
        if found is not None and (self.history.is_empty or found.at != self.history.newest.at):
            self.history.add(found)
            self._asked = time.monotonic()
            return True
        if time.monotonic() - self._asked > _ANSWERS_WITHIN:
            raise ResourceError(
                f"{self.path}: the run's launcher does not answer, though it is there: it is stopped, or its disk or a "
                "host of the run does not answer; the logs and the trace in that directory say how far the run was"
            )
        return False

    def _answer(self) -> Snapshot | None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return from_json(json.loads((self.path / STATUS).read_text(encoding="utf-8")))
        return None

    def over(self) -> str | None:
        """How the run has ended, in words; None: it goes on."""
        if is_held(self.path / "plan.json"):
            return None
        run = listed(self.path)
        (self.path / WATCHED).unlink(missing_ok=True)  # it may have ended while it was asked
        took = "" if run.wall_s is None else f" after {duration(run.wall_s)}"
        return f"{self.path}: the run has ended{took}: {run.end}"


def rows_of(history: History) -> list[tuple[str, ...]]:
    """The rows of the table, with the processes of tasks."""
    pids = _pids(history.newest)
    return [(row[0], pids.get(row[0], ""), *row[1:]) for row in cells(history)]


def _pids(snapshot: Snapshot) -> dict[str, str]:
    return {task.name: str(task.pid) for task in snapshot.tasks if task.pid}
