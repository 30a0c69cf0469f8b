"""Finds what a run has left behind: its plan and the timeline of its trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wilkins.errors import UsageError
from wilkins.flow.recorded import Feeds, recorded
from wilkins.flow.timeline import Timeline
from wilkins.flow.trace import FILE_NAME, BrokenTraceError, Event, read_trace
from wilkins.launch.records.account import rows_of
from wilkins.launch.records.rundir import named
from wilkins.plan import planfile
from wilkins.plan.plan import Plan
from wilkins.terminal import streams


def timeline_of_run(run: Path) -> Timeline:
    """The timeline of a run, as it happened: see `events_of_run`."""
    return timeline_of(*events_of_run(run))


def events_of_run(run: Path) -> tuple[Path, list[Event]]:
    """A run's folder and its trace; of a trace with a broken line, up to that, and a line on stderr says so.

    Args:
        run: its directory, its name among the runs here (such as `latest`), or the file of its trace.

    Raises:
        UsageError: the folder holds no trace, or one that cannot be read.
    """
    folder = named(run)
    try:
        events = read_trace(folder)
    except (FileNotFoundError, NotADirectoryError):
        if parts := sorted(folder.glob("hosts/*/trace.tsv")):
            raise UsageError(
                f"{folder}: was on several hosts, each of which has a trace: wilkins trace {parts[0]}"
            ) from None
        there = "holds no trace" if folder.exists() else "there is no such folder"
        raise UsageError(f"{folder}: {there}; give the folder of a run, or first run the workflow here") from None
    except BrokenTraceError as error:
        if not error.before:
            raise UsageError(f"{folder}: cannot read its trace: {error}; run the workflow again") from error
        streams.tell(
            f"note: {error}; what comes before that line is shown. A disk that was full breaks a trace like this"
        )
        events = error.before
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: cannot read its trace: {error}; run the workflow again") from error
    if not events:
        raise UsageError(f"{folder}: its trace is empty: no program was started; see the logs beside it")
    return folder, events


def measured_events(run: Path) -> tuple[Path, list[Event]]:
    """As `events_of_run`, also of a run on several hosts: there each host's clock begins with its first event.

    So times between events of one task are right, and times between those of tasks on different hosts say nothing.
    """
    folder = named(run)
    if (folder / FILE_NAME).exists() or not (hosts := sorted(folder.glob(f"hosts/*/{FILE_NAME}"))):
        return events_of_run(run)
    traces = [events_of_run(trace)[1] for trace in hosts]
    shifted = (replace(event, time_ns=event.time_ns - trace[0].time_ns) for trace in traces for event in trace)
    return folder, sorted(shifted, key=lambda event: event.time_ns)


def timeline_of(folder: Path, events: Sequence[Event]) -> Timeline:
    """The timeline of a run from its folder, or the file of its trace, and what that holds."""
    plan = _plan(folder if folder.is_dir() else folder.parent)
    return recorded(events, [task.name for task in plan.tasks] if plan else (), _feeds(plan) if plan else None)


def account_of_run(run: Path) -> str:
    """The table of the steps that were not read in a run; empty if all were, or if its records do not tell."""
    folder = named(run)
    try:
        record = json.loads(
            ((folder if folder.is_dir() else folder.parent) / "summary.json").read_text(encoding="utf-8")
        )
        return rows_of([one for one in record["channels"] if one["read"] < one["published"]])
    except (OSError, ValueError, KeyError, TypeError):  # of an earlier version, or a run that goes on
        return ""


def _plan(folder: Path) -> Plan | None:
    """The run's plan, if this version can read it: it only tells files of one name apart."""
    try:
        return planfile.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _feeds(plan: Plan) -> Feeds:
    ports = [(plan.tasks[port.task].name, port.pattern) for port in plan.ports]
    feeds: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for channel in plan.channels:
        feeds.setdefault(ports[channel.inport], set()).add(ports[channel.outport])
    return feeds
