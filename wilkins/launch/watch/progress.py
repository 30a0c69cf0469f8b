"""The progress of a run: taken from the board, shown at the terminal, and written for `wilkins top`."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from wilkins import atomic
from wilkins.errors import count_of
from wilkins.launch.programs.output import Terminal
from wilkins.launch.programs.signals import Creations
from wilkins.plan.plan import Plan
from wilkins.terminal.progress import STATUS, WATCHED, History, Snapshot, TaskNow, sentence, table
from wilkins.transport.report_table import Report

_EVERY = 1.0
_WATCHED_FOR = 5.0
"""Seconds for which `wilkins top` counts as running after it has touched the file."""
_REPORT_EVERY = 60.0
"""Seconds between two lines where the launcher has no terminal."""


def take(plan: Plan, report: Report, pids: Mapping[int, int], at: float) -> Snapshot:
    """The progress of all tasks, by the report of the board.

    Args:
        pids: the processes of this launcher's programs, by task.
        at: monotonic time, in seconds.
    """
    steps, queued = [0] * len(plan.tasks), [0] * len(plan.tasks)
    moved = [0] * len(plan.tasks)
    for port in report.ports:
        steps[port.task] = max(steps[port.task], port.steps)
        moved[port.task] += port.bytes
    for channel in report.channels:
        queued[report.ports[channel.inport].task] += channel.queued
    tasks = []
    for task, found in zip(plan.tasks, report.tasks, strict=True):
        if task.is_relay:
            continue
        doing, since = _doing(report, task.index)
        tasks.append(
            TaskNow(
                name=task.name,
                entry=task.entry_name,
                ranks=task.nprocs,
                state=found.state,
                steps=steps[task.index],
                bytes=moved[task.index],
                queued=queued[task.index],
                pid=pids.get(task.index, 0),
                doing=doing,
                since_s=since,
            )
        )
    return Snapshot(at, report.memory_bytes, tuple(tasks))


def _doing(report: Report, index: int) -> tuple[str, float]:
    """The current activity of a task, and for how many seconds it waits."""
    task = report.tasks[index]
    if task.state == "ended":
        return "ended", 0.0
    if task.waits:
        longest = max(task.waits, key=lambda wait: wait.seconds)
        name = longest.name or report.ports[longest.port].pattern
        others = list(dict.fromkeys(report.tasks[whom.task].name for whom in longest.on))
        what = f"waits for {name}" if longest.what == "data" else f"waits for {longest.what} to write {name}"
        many = f"{len(task.waits)} of {task.nprocs} ranks: " if task.nprocs > 1 else ""
        return f"{many}{what}{f', on {_some(others)}' if others else ''}", longest.seconds
    if task.polls:
        most = max(task.polls, key=lambda poll: poll.seconds)
        return f"has looked for {most.name} {count_of(most.looks, 'time')} in vain", most.seconds
    if task.state == "pending":
        return "not started", 0.0
    return ("computes" if any(port.task == index for port in report.ports) else "runs"), 0.0


def _some(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 2 else " and ".join(names)


class Export(Protocol):
    """Gives out numbers of the run."""

    def put(self, report: Report, pids: Mapping[int, int]) -> str:
        """Give out a report; returns what the user should know. `pids`: the processes of programs, by task."""


class Progress:
    """Prints the progress of a run: at a terminal in lines that rewrite themselves, else in a line a minute. Writes it
    for `wilkins top` while that runs, and gives it to an exporter."""

    def __init__(self, plan: Plan, folder: Path, terminal: Terminal, export: Export | None = None) -> None:
        """`folder`: the run's directory."""
        self._export = export
        self._plan = plan
        self._folder = folder
        self._terminal = terminal
        self._history = History()
        self._began = time.monotonic()
        self._due = self._began + _EVERY
        self._report_at = self._began + _REPORT_EVERY
        self._touched: int | None = None
        self._watched_until = 0.0
        self._creations = Creations(folder)

    def is_seen(self, now: float) -> bool:
        """Whether the progress is shown all the time: at a terminal, by `wilkins top`, or by an exporter.

        Args:
            now: monotonic time, in seconds.
        """
        always = self._terminal.is_live or self._export is not None
        return always or self._is_watched(now)  # also who began since the last turn

    def is_wanted(self, now: float) -> bool:
        """Whether the progress is to be printed or written, now or soon.

        Args:
            now: monotonic time, in seconds.
        """
        always = self._terminal.is_live or self._export is not None
        return always or now >= self._report_at - _EVERY or self._is_watched(now)

    def turn(self, now: float, report: Callable[[], Report | None], pids: Callable[[], Mapping[int, int]]) -> None:
        """Print and write the progress, if that is due and wanted.

        Args:
            now: monotonic time, in seconds.
            report: returns the report of the board, or None if there is none yet.
            pids: finds the processes of this launcher's programs, by task.

        Raises:
            BoardHeldError: the board could not be read.
        """
        if now < self._due:
            return
        self._due = now + _EVERY
        if not self.is_wanted(now):
            self._creations.hear()  # of a `wilkins top` that starts
            return
        if (found := report()) is None:
            return
        processes = pids()
        if self._export is not None and (said := self._export.put(found, processes)):
            self._terminal.say(said)
        self._history.add(take(self._plan, found, processes, now))
        if self._terminal.is_live:
            self._terminal.keep_below(table(self._history).splitlines())
        elif now >= self._report_at:
            self._report_at = now + _REPORT_EVERY
            self._terminal.say(sentence(self._history, now - self._began))
        if self._is_watched(now):
            with contextlib.suppress(OSError):  # a full disk is reported where a record needs it
                atomic.put(self._folder / STATUS, json.dumps(self._history.newest.as_json()))

    def end(self) -> None:
        """Remove the status files and the lines at the terminal."""
        self._terminal.keep_below([])
        self._creations.close()
        for name in (WATCHED, STATUS):
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()

    def _is_watched(self, now: float) -> bool:
        """Whether `wilkins top` has touched the file in the last seconds; clocks of file systems may be wrong."""
        try:
            touched = (self._folder / WATCHED).stat().st_mtime_ns
        except OSError:
            return False
        if touched != self._touched:
            self._touched, self._watched_until = touched, now + _WATCHED_FOR
        return now < self._watched_until
