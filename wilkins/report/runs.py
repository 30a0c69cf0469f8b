"""Finds what a run has left behind: its plan and the timeline of its trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wilkins.errors import UsageError
from wilkins.flow import TRACE_FILE
from wilkins.flow.recorded import Feeds, recorded
from wilkins.flow.timeline import Timeline
from wilkins.flow.trace import BrokenTraceError, Event, read_trace
from wilkins.launch.records.account import rows_of
from wilkins.launch.records.hosttraces import clocks_ahead
from wilkins.launch.records.rundir import named
from wilkins.plan import planfile
from wilkins.plan.plan import Plan
from wilkins.plan.split import host_parts
from wilkins.terminal import streams


def timeline_of_run(run: Path) -> Timeline:
    """The timeline of a run, as it happened: see `events_of_run`."""
    return timeline_of(*events_of_run(run))


def events_of_run(run: Path) -> tuple[Path, list[Event]]:
    """A run's folder and its trace; of a trace with a broken line, up to that, and a line on stderr says so.

    Of a run on several hosts, the events of all of them, by the clock of the host where it was started, with those of
    relays. Where it was killed before it noted how far the clocks are apart, each begins with the first event there.

    Args:
        run: its directory, its name among the runs here (such as `latest`), or the file of its trace.

    Raises:
        UsageError: the folder holds no trace, or one that cannot be read.
    """
    folder = named(run)
    parts = (
        {}
        if (folder / TRACE_FILE).exists()
        else {path.parent.name: path for path in folder.glob(f"hosts/*/{TRACE_FILE}")}
    )
    if not parts:
        return folder, _events(folder)
    firsts, ahead = _first_ranks(folder), clocks_ahead(folder)
    events = []
    for host, path in sorted(parts.items()):
        found = _events(path)
        start = ahead[host] if ahead.keys() >= parts.keys() else found[0].time_ns
        ranks = firsts.get(host, {})
        events += [
            replace(
                event,
                time_ns=event.time_ns - start,
                rank=event.rank + ranks.get(event.task, 0) if event.rank >= 0 else event.rank,
            )
            for event in found
        ]
    return folder, sorted(events, key=lambda event: event.time_ns)


def _first_ranks(folder: Path) -> dict[str, dict[str, int]]:
    """By host and task: which rank of the task is the first one there; traces count from it."""
    plan = _plan(folder)
    return (
        {}
        if plan is None
        else {
            plan.hosts[part.host].name: {
                plan.tasks[task].name: first for task, first in zip(part.tasks, part.first_ranks, strict=True)
            }
            for part in host_parts(plan, ())
        }
    )


def _events(folder: Path) -> list[Event]:
    try:
        events = read_trace(folder)
    except (FileNotFoundError, NotADirectoryError):
        there = "holds no trace" if folder.exists() else "there is no such folder"
        raise UsageError(f"{folder}: {there}; give the folder of a run, or first run the workflow here") from None
    except BrokenTraceError as error:
        if not error.before:
            raise UsageError(f"{folder}: cannot read its trace: {error}; run the workflow again") from error
        streams.log(
            f"note: {error}; what comes before that line is shown. A disk that was full breaks a trace like this"
        )
        events = error.before
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: cannot read its trace: {error}; run the workflow again") from error
    if not events:
        raise UsageError(f"{folder}: its trace is empty: no program was started; see the logs beside it")
    return events


def timeline_of(folder: Path, events: Sequence[Event]) -> Timeline:
    """The timeline of a run from its folder, or the file of its trace, and what that holds."""
    whole = _plan(folder if folder.is_dir() else folder.parent)
    plans = [] if whole is None else plans_of(whole, events)
    names = dict.fromkeys(task.name for plan in (whole, *plans) if plan is not None for task in plan.tasks)
    feeds: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for plan in plans:
        for port, sources in _feeds(plan).items():
            feeds.setdefault(port, set()).update(sources)
    relays = {task.name for plan in plans for task in plan.tasks if task.is_relay}
    return recorded(events, list(names), feeds if whole is not None else None, relays)


def plans_of(plan: Plan, events: Sequence[Event]) -> list[Plan]:
    """The plan of a run, or those of its hosts, with the relays of which its trace tells."""
    if len(plan.hosts) < 2:
        return [plan]
    return [part.plan for part in host_parts(plan, {event.task for event in events})]


def account_of_run(run: Path) -> str:
    """The table of the steps that were not read in a run; empty if all were read, or if its records do not say."""
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
