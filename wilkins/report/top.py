"""``wilkins top``: how far a run is, from another terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from wilkins.report.watched import EVERY, HEAD, Watched, rows_of
from wilkins.terminal import streams
from wilkins.terminal.progress import table
from wilkins.terminal.tables import binary_size, text_table

_FIRST_TO_GO = ("bytes/s", "last step", "queued")
"""Columns that a narrow terminal does without, so that what tasks do now is seen."""
_APART = 1.5
"""Seconds between the two looks of a single table."""


def top(path: Path, *, once: bool, web: int | None = None) -> int:
    """Show how far a run is until it ends, or until Ctrl-C; once, and where there is no terminal: one table.

    Args:
        web: the port where a browser is shown it; 0: any that is free; None: the terminal is.

    Raises:
        UsageError: there is no such run, or the port is taken.
        ResourceError: its launcher does not answer.
    """
    run = Watched(path)
    end = run.over()
    if end is None and web is not None:
        from wilkins.report.live import serve

        end = serve(run, web)
    elif end is None and not (once or not sys.stdout.isatty()):
        with contextlib.suppress(KeyboardInterrupt):
            end = _follow(run)
    elif end is None:
        end = _look_twice(run)
    if end is not None:
        streams.show(end)
    return 0


def _look_twice(run: Watched) -> str | None:
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


def _follow(run: Watched) -> str | None:
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while (end := run.over()) is None:
            if run.look():
                live.update(_screen(run, console.width, console.height), refresh=True)
            time.sleep(EVERY)
    return end


def _screen(run: Watched, width: int, height: int) -> Text:
    """One text, and no table of `rich`: that takes twenty times as long for a screen full of tasks."""
    rows = rows_of(run.history)
    room = max(height - 5, 1)
    memory = binary_size(run.history.newest.memory)
    head = f"{run.path.resolve().name}: {len(run.history.newest.tasks)} tasks, {memory} of shared memory"
    rest = [f"... and {len(rows) - room} more"] if len(rows) > room else []
    lines = _fitting(rows[:room], width)
    return Text("\n".join(line[:width] for line in [head, "", *lines, *rest]))


def _fitting(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """The lines of a table, with as many columns as there is room for."""
    for gone in range(len(_FIRST_TO_GO) + 1):
        kept = [place for place, name in enumerate(HEAD) if name not in _FIRST_TO_GO[:gone]]
        cut = [[row[place] for place in kept] for row in rows]
        lines = text_table([HEAD[place] for place in kept], cut, {0, len(kept) - 1}).splitlines()
        if max(map(len, lines)) <= width:
            break
    return lines
