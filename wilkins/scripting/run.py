"""A run that has left records: its tasks, channels, events, logs and files as values."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wilkins.errors import UsageError
from wilkins.flow.timeline import Timeline
from wilkins.flow.trace import Event
from wilkins.launch.records.rundir import RUNS, RunDirectory, named
from wilkins.plan import planfile
from wilkins.plan.plan import Plan
from wilkins.report.runlist import runs_in
from wilkins.report.runs import events_of_run, timeline_of_run
from wilkins.report.table import rows
from wilkins.schema.kinds import typed

if TYPE_CHECKING:
    import pandas

Table = Literal["tasks", "channels", "events"]


class Run:
    """The records of a run.

    Args:
        path: its directory, or its name in ``wilkins-runs``, such as ``latest``.

    Raises:
        UsageError: there is no such run.
    """

    def __init__(self, path: str | Path = "latest") -> None:
        self.path = named(Path(path)).resolve()
        if not (self.path / "plan.json").is_file():
            raise UsageError(f"{path}: there is no run; wilkins.runs() lists those of a folder")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All of ``summary.json``; empty of a run that was killed."""
        try:
            found: dict[str, Any] = json.loads((self.path / "summary.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    @property
    def code(self) -> int | None:
        """The exit code; None: the run goes on, or was killed."""
        return self.summary.get("exit_code")

    @property
    def seconds(self) -> float | None:
        """How long it took; None as of `code`."""
        return self.summary.get("wall_s")

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """The outcome of each task."""
        return list(self.summary.get("tasks", ()))

    @property
    def channels(self) -> list[dict[str, Any]]:
        """The outcome of the steps of each channel."""
        return list(self.summary.get("channels", ()))

    @cached_property
    def events(self) -> list[Event]:
        """The trace: what happened when.

        Raises:
            UsageError: there is none.
        """
        return events_of_run(self.path)[1]

    @cached_property
    def plan(self) -> Plan:
        """The plan of the run."""
        return planfile.loads((self.path / "plan.json").read_text(encoding="utf-8"))

    def timeline(self) -> Timeline:
        """The activities of every rank, in seconds from the beginning.

        Raises:
            UsageError: there is no trace.
        """
        return timeline_of_run(self.path)

    def report(self, path: str | Path = "report.html") -> Path:
        """Write a page that shows the run, for a browser; it needs no network (`wilkins report`).

        Raises:
            UsageError: the name does not end in ``.html``, or the file cannot be written.
        """
        from wilkins.report.page.page import written

        return written(self.path, Path(path))

    def table(self, results: str = "") -> list[dict[str, Any]]:
        """A row for each instance: its parameters, what it did, and its own results (`wilkins report --table`).

        Args:
            results: the name of a file that each instance has left in its folder, in which ``{instance}`` and
                parameters stand for its own: an object of JSON, or CSV, of which the last line counts.

        Raises:
            UsageError: a file of results cannot be read.
        """
        return [
            {name: typed(value) if isinstance(value, str) else value for name, value in row.items()}
            for row in rows(self.path, results)
        ]

    def log(self, task: str) -> str:
        """The output of a task; all logs, if each rank has one.

        Raises:
            UsageError: there is no such task.
        """
        found = next((one for one in self.plan.tasks if one.name == task), None)
        if found is None:
            names = ", ".join(one.name for one in self.plan.tasks)
            raise UsageError(f"{self.path}: the run has no task {task!r}; it has {names}")
        records = RunDirectory(self.path)
        ranks = [records.log_path(task, rank) for rank in range(found.nprocs)]
        logs = [path for path in (records.log_path(task), *ranks) if path.exists()]
        return "".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)

    def files(self, task: str | None = None) -> list[Path]:
        """Files on disk of the ports that have some (``mode: both`` or ``file``), sorted.

        Args:
            task: that wrote them; None: any.
        """
        ports = [port for port in self.plan.ports if port.direction == "out" and port.mode in ("both", "file")]
        found: set[Path] = set()
        for port in ports:
            writer = self.plan.tasks[port.task]
            if task in (None, writer.name):
                found.update(path for path in writer.cwd.glob(port.pattern) if path.is_file())
        return sorted(found)

    def frame(self, table: Table) -> pandas.DataFrame:
        """A table of the run, as pandas has it; times of events in seconds from the first one.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise UsageError("pandas, which the tables of runs need, is not installed: pip install pandas") from None
        if table != "events":
            return pandas.DataFrame(self.tasks if table == "tasks" else self.channels)
        rows = [asdict(event) for event in self.events]
        frame = pandas.DataFrame(rows)
        if rows:
            frame.insert(0, "seconds", (frame.pop("time_ns") - rows[0]["time_ns"]) / 1e9)
        return frame

    def _repr_html_(self) -> str:
        """The tables and the timeline that a notebook shows."""
        from wilkins.report.notebook import of_run

        return of_run(self.path)

    def __repr__(self) -> str:
        return f"<run {self.path.name}: {'no summary' if self.code is None else f'exit code {self.code}'}>"


def runs(folder: str | Path = RUNS) -> list[Run]:
    """The runs in a folder, oldest first.

    Raises:
        UsageError: there is no such folder.
    """
    return [Run(run.path) for run in runs_in(Path(folder))]
