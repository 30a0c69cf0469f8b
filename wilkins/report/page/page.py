"""Puts the page of a run together from its records."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from wilkins.errors import UsageError, count_of
from wilkins.flow.timeline import Timeline
from wilkins.flow.trace import Event
from wilkins.launch.records.rundir import START, named
from wilkins.names import text_of
from wilkins.plan import planfile
from wilkins.plan.plan import Plan
from wilkins.report.draw.svg import ACTIVITIES, variables
from wilkins.report.draw.thumbnail import scale
from wilkins.report.page.advice import Join, Share, account, advise, oversubscribed, shares
from wilkins.report.page.held import last_steps, section
from wilkins.report.page.html import MOST_ROWS, channels_of, crossings_of, marked, paragraph, table, tasks_of
from wilkins.report.page.measured import graph_of
from wilkins.report.page.value import packed, value_of
from wilkins.report.pictures import output_text
from wilkins.report.runs import events_of_run, plans_of, timeline_of
from wilkins.terminal.tables import duration, size
from wilkins.terminal.wording import listed

_LAST_LINES = 200
_LAST_BYTES = 40_000
"""How much of the end of a log is shown."""
_LAST_WORDS = 8
_MOST_FAILED = 3
"""Lines at the top of the page: of how many tasks that have failed, and how many of each."""
_CLOCKS = 2.0
"""Seconds by which the clock of a file system may be wrong."""
_APART = "\n\n"
_MOST_LOGS = 60
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a run."""

    folder: Path
    plan: Plan
    summary: Mapping[str, Any]
    """Empty of a run that goes on, or was killed."""
    versions: Mapping[str, str]
    start: Mapping[str, Any]
    """How it was started."""
    events: Sequence[Event]
    no_trace: str
    """Why there are no events; empty if there are some."""


def records_of(run: Path) -> Records:
    """The records of a run: its directory, or its name among the runs here.

    Raises:
        UsageError: there is no such run, or another version of Wilkins has made it.
    """
    folder = named(run).resolve()
    try:
        plan = planfile.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except OSError:
        what = "holds no run's records" if folder.is_dir() else "there is no such folder"
        raise UsageError(
            f"{run}: {what}; give the folder of a run, or its name in wilkins-runs, such as latest"
        ) from None
    except ValueError as error:
        raise UsageError(f"{folder}: its records were made by another version of Wilkins: {error}") from error
    events: Sequence[Event] = ()
    why = ""
    try:
        events = events_of_run(folder)[1]
    except UsageError as error:
        why = str(error)
    summary, versions, start = (_json(folder / name) for name in ("summary.json", "versions.json", START))
    return Records(folder, plan, summary, versions, start, events, why)


def written(run: Path, target: Path) -> Path:
    """Write the page of a run, and return where it is.

    Raises:
        UsageError: there is no such run, or the file cannot be written, or is not to be a page.
    """
    if target.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"-o {target}: the page is HTML; let the name end in .html")
    output_text(page_of(records_of(run)), target)
    return target


def _get_all(plans: Sequence[Plan]) -> list[tuple[str, str, str]]:
    """Channels whose reader gets every step: writer, pattern, reader. Over the network these are a relay's."""
    return [
        (one.tasks[one.ports[channel.outport].task].name, one.ports[channel.outport].pattern, one.tasks[reader].name)
        for one in plans
        for channel in one.channels
        for reader in [one.ports[channel.inport].task]
        if channel.when_full == "block" and channel.every == 1
    ]


def page_of(records: Records, *, live: bool = False) -> str:
    """The page's text; `live`: of a run that goes on, as `wilkins top --web` serves it."""
    timeline = timeline_of(records.folder, records.events) if records.events else None
    published = [event for event in records.events if event.event == "publish"]
    spent = shares(timeline) if timeline else []
    plans = plans_of(records.plan, records.events)
    tasks = records.plan.tasks
    ends = [(one, records.plan.ports[one.outport], records.plan.ports[one.inport]) for one in records.plan.channels]
    joins = [
        Join(
            tasks[out.task].name,
            tasks[into.task].name,
            into.called,
            one.when_full == "block",
            tasks[into.task].kind == "mpi",
        )
        for one, out, into in ends
    ]
    advice = [*_oversubscribed(records), *advise(spent, joins, records.summary)]
    shape = Template((_HERE / "page.html").read_text(encoding="utf-8"))
    return shape.substitute(
        title=escape(f"{text_of(records.plan.name)}: {records.folder.name}"),
        style=variables() + scale() + (_HERE / "page.css").read_text(encoding="utf-8"),
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
        name=escape(text_of(records.plan.name)),
        outcome=outcome_of(records, live=live),
        reach="; connect-src 'self'" if live else "",
        now=(_HERE / "now.html").read_text(encoding="utf-8") if live else "",
        live=f"<script>\n{(_HERE / 'live.js').read_text(encoding='utf-8')}</script>\n" if live else "",
        facts=_facts(records),
        advice=_list(advice) if spent or records.summary else paragraph(records.no_trace),
        graph=graph_of(records.plan, timeline, records.summary.get("channels"), _sizes(published)),
        shares=_shares(spent),
        chart=_chart(timeline, records.no_trace),
        data=packed(value_of(timeline, published, _get_all(plans))) if timeline else "",
        how=_how(records),
        tasks=tasks_of(records.summary),
        channels=channels_of(records.summary),
        crossings=crossings_of(records.summary),
        # The programs of a run that goes on may have their files open, and HDF5 locks what it reads.
        held="" if live else _held(records),
        logs=_logs(records),
        workflow=_workflow(records),
        versions=table(("", ""), sorted(records.versions.items())),
    )


def _oversubscribed(records: Records) -> list[str]:
    cores = records.versions.get("cores", "")
    if records.plan.hosts or not cores.isdecimal():
        return []
    return oversubscribed({task.entry_name: task.nprocs for task in records.plan.tasks}, int(cores))


def _json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _sizes(published: Sequence[Event]) -> dict[str, float]:
    """The mean size of a step, by task and pattern."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for event in published:
        known = sums[f"{event.task}\t{event.pattern}"]
        known[0] += event.bytes
        known[1] += 1
    return {key: whole / count for key, (whole, count) in sums.items()}


def outcome_of(records: Records, *, live: bool = False) -> str:
    """How a run has ended, what was said about it, and what failed tasks have printed last."""
    if not records.summary:
        words = "goes on" if live else "goes on, or was killed"
        return f'<span class="mark unknown">{words}</span>'
    code = records.summary["exit_code"]
    kind, words = ("good", "ended well") if code == 0 else ("bad", f"exit code {code}")
    reason = records.summary.get("reason")
    said = [text_of(one) for one in (*([reason] if reason else []), *records.summary.get("messages", ()))]
    last = {name: _last_lines(records.folder / f"{name}.log", _LAST_WORDS) for name in _failed(records)[:_MOST_FAILED]}
    said += ["\n  ".join([f"{text_of(name)} printed last:", *lines]) for name, lines in last.items() if lines]
    why = f'<pre class="reason">{escape(_APART.join(said))}</pre>' if said else ""
    return f'<span class="mark {kind}">{words}</span>{why}'


def _failed(records: Records) -> list[str]:
    """Tasks that have failed."""
    return [task["name"] for task in records.summary.get("tasks", ()) if task["outcome"] == "failed"]


def _last_lines(path: Path, count: int) -> list[str]:
    try:
        whole = path.read_bytes()
    except OSError:
        return []
    return text_of(whole[-_LAST_BYTES:].decode("utf-8", errors="replace")).rstrip().splitlines()[-count:]


def _facts(records: Records) -> str:
    words = [account(records.summary)] if records.summary else [count_of(len(records.plan.tasks), "task")]
    if records.plan.hosts:
        words.append(f"on {count_of(len(records.plan.hosts), 'host')}")
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime((records.folder / "plan.json").stat().st_mtime))
    return escape(f"{'; '.join(words)}. Begun {began} on {records.versions.get('host', 'an unknown host')}.")


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{marked(line)}</li>" for line in lines) + "</ul>"


def _shares(found: Sequence[Share]) -> str:
    """A bar for each task, of how it spent its time."""
    bars = []
    for share in found[:MOST_ROWS]:
        parts = "".join(
            f'<i class="a{number}" style="flex:{part:.5f}" title="{activity}: {100 * part:.1f} %"></i>'
            for number, activity in enumerate(ACTIVITIES)
            if (part := share.of.get(activity, 0.0)) > 0
        )
        said = ", ".join(f"{one} {100 * part:.0f} %" for one, part in share.of.items() if part >= 0.005)
        bars.append(
            f'<div class="bar"><b>{escape(text_of(share.name))}</b>'
            f'<span role="img" aria-label="{escape(said)}">{parts}</span><em>{duration(share.seconds)}</em></div>'
        )
    return "".join(bars)


def _chart(timeline: Timeline | None, why: str) -> str:
    if timeline is None:
        return f'<p class="none">There is no timeline: {escape(text_of(why))}</p>'
    return (_HERE / "chart.html").read_text(encoding="utf-8")


def _held(records: Records) -> str:
    """What the last steps hold; empty if none can be read any more."""
    plan_made = (records.folder / "plan.json").stat().st_mtime
    began = float(records.start.get("began", plan_made)) - _CLOCKS
    ended = float(records.summary.get("ended", math.inf)) + _CLOCKS
    return section(last_steps(records.plan, records.folder, began, ended))


def _logs(records: Records) -> str:
    paths = sorted(records.folder.glob("*.log")) + sorted(records.folder.glob("hosts/*.log"))
    failed = {f"{name}.log" for name in _failed(records)}
    paths.sort(key=lambda path: path.name not in failed)
    parts = [_log(path, records.folder, shown=path.name in failed) for path in paths[:_MOST_LOGS]]
    if len(paths) > _MOST_LOGS:
        parts.append(paragraph(f"and {len(paths) - _MOST_LOGS} more in {records.folder}"))
    return "".join(parts) or paragraph("There are none.")


def _log(path: Path, folder: Path, *, shown: bool) -> str:
    try:
        whole = path.read_bytes()
    except OSError as error:
        return paragraph(f"{path}: cannot be read: {error.strerror}")
    last = whole[-_LAST_BYTES:].decode("utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    text = text_of("\n".join(last))
    cut = len(text.encode(errors="replace")) + 1 < len(whole)
    note = f'<p class="cut">Its end; all of it is in {escape(str(path))}</p>' if cut else ""
    name = escape(text_of(str(path.relative_to(folder))))
    state = " open" if shown else ""
    head = f"<summary>{name} <em>{size(len(whole))}</em></summary>"
    return f'<details{state} data-log="{name}">{head}{note}<pre>{escape(text)}</pre></details>'


def _how(records: Records) -> str:
    """By what the run was started, and from which commit of git."""
    start = records.start
    if not start:
        return paragraph("The records do not say.")
    rows = [("command", shlex.join(start["command"])), ("folder", start["folder"])]
    if start["commit"]:
        changed = records.summary.get("changed")
        rows.append(("commit", start["commit"] + (f", with changes in {listed(changed)}" if changed else "")))
    return table(("", ""), rows)


def _workflow(records: Records) -> str:
    if "workflow" not in records.start:
        return paragraph("The records do not have it.")
    return f"<pre>{escape(text_of(records.start['workflow']))}</pre>"
