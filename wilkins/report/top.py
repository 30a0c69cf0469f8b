"""``wilkins top``: how far a run is, from another terminal.

The run's launcher is asked by a file that is touched, and answers by one that it writes (see `launch.watch.progress`):
nobody but the launcher and the programs has the run's shared memory open, so that a viewer which is stopped, or killed,
holds nothing.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from wilkins.errors import ResourceError, UsageError, refused
from wilkins.launch.records.rundir import named
from wilkins.report.runlist import is_held, listed
from wilkins.terminal import streams
from wilkins.terminal.progress import HEAD, STATUS, WATCHED, History, Snapshot, cells, from_json, table
from wilkins.terminal.tables import binary_size, duration, text_table

_HEAD = (HEAD[0], "pid", *HEAD[1:])
_FIRST_TO_GO = ("bytes/s", "last step", "queued")
"""Columns that a narrow terminal does without, so that what tasks do now is seen."""
_EVERY = 1.0
_ANSWERS_WITHIN = 10.0
"""Seconds after which a launcher that goes on should have answered: it does within two, or five where it does not
hear that it is asked, as from another machine."""
_APART = 1.5
"""Seconds between the two looks of a single table."""


class _Run:
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


def top(path: Path, *, once: bool) -> int:
    """Show how far a run is until it ends, or until Ctrl-C; once, and where there is no terminal: one table.

    Raises:
        UsageError: there is no such run.
        ResourceError: its launcher does not answer.
    """
    run = _Run(path)
    end = run.over()
    if end is None and not (once or not sys.stdout.isatty()):
        with contextlib.suppress(KeyboardInterrupt):
            end = _follow(run)
    elif end is None:
        end = _look_twice(run)
    if end is not None:
        streams.show(end)
    return 0


def _look_twice(run: _Run) -> str | None:
    """One table with rates, which take two looks."""
    seen = 0
    first = 0.0
    while seen < 2:
        if run.look() and (not seen or run.history.newest.at - first >= _APART):
            first, seen = run.history.newest.at, seen + 1
        if (end := run.over()) is not None:
            return end
        time.sleep(0.1)
    streams.show(table(run.history))
    return None


def _follow(run: _Run) -> str | None:
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while (end := run.over()) is None:
            if run.look():
                live.update(_screen(run, console.width, console.height), refresh=True)
            time.sleep(_EVERY)
    return end


def _screen(run: _Run, width: int, height: int) -> Text:
    """One text, and no table of `rich`: that takes twenty times as long for a screen full of tasks."""
    pids = _pids(run.history.newest)
    rows = [(row[0], pids.get(row[0], ""), *row[1:]) for row in cells(run.history)]
    room = max(height - 5, 1)
    memory = binary_size(run.history.newest.memory)
    head = f"{run.path.resolve().name}: {len(run.history.newest.tasks)} tasks, {memory} of shared memory"
    rest = [f"... and {len(rows) - room} more"] if len(rows) > room else []
    lines = _fitting(rows[:room], width)
    return Text("\n".join(line[:width] for line in [head, "", *lines, *rest]))


def _fitting(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """The lines of a table, with as many columns as there is room for."""
    for gone in range(len(_FIRST_TO_GO) + 1):
        kept = [place for place, name in enumerate(_HEAD) if name not in _FIRST_TO_GO[:gone]]
        cut = [[row[place] for place in kept] for row in rows]
        lines = text_table([_HEAD[place] for place in kept], cut, {0, len(kept) - 1}).splitlines()
        if max(map(len, lines)) <= width:
            break
    return lines


def _pids(snapshot: Snapshot) -> dict[str, str]:
    return {task.name: str(task.pid) for task in snapshot.tasks if task.pid}
