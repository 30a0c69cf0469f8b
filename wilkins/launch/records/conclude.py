"""The end of a run: its records, what is printed at the terminal, and the exit code."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wilkins.flow import TRACE_FILE
from wilkins.launch.programs.output import Terminal
from wilkins.launch.records import layerlog, summary
from wilkins.launch.records.account import Account
from wilkins.launch.records.datasets import held, missing_datasets, not_found
from wilkins.launch.records.rundir import RunDirectory, commit_of
from wilkins.launch.records.summary import TaskEnd, TaskSummary
from wilkins.launch.records.tracednames import Trace
from wilkins.launch.watch import helppages
from wilkins.launch.watch.notices import last_report
from wilkins.launch.watch.stopping import Stop
from wilkins.plan.plan import Plan
from wilkins.terminal.wording import listed, paragraphs
from wilkins.transport.board import Board, BoardHeldError
from wilkins.transport.report_table import Report
from wilkins.values import dataclass, field

if TYPE_CHECKING:
    from wilkins.launch.records.crossings import Crossing
    from wilkins.transport.events import Logged

_GIT_WITHIN = 5.0
"""Seconds in which git should say what has changed."""
_UNREAD = "steps were not read, and --strict makes that a failure"
_OUTDATED = "newer versions of files that had been read were left unread"
_LOST = "{} changed steps where nobody can see it, and --strict makes that a failure"
_RELISTED = "{} listed a folder before all its files were there, and --strict makes that a failure"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a run, all of whose programs have ended."""

    plan: Plan
    report: Report
    """The last report of the board, or the merged report of several boards."""
    ends: Sequence[TaskEnd]
    """Of the tasks."""
    stop: Stop | None
    """Why the run was stopped, if it was."""
    code: int
    """The exit code of the run, before unread steps are checked."""
    wall_s: float
    datasets: Sequence[str] = ()
    """Messages about datasets in `dsets` that no step has."""
    there: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """By in-port, the datasets of a step."""
    crossings: Sequence[Crossing] = ()
    """The transfers between hosts."""
    traces: Sequence[Trace] = ()
    """The traces of the hosts, if there are several."""
    lost: Collection[str] = ()
    """Hosts that are lost."""

    @property
    def outcomes(self) -> list[str]:
        """How each task has ended."""
        return [end.outcome for end in self.ends]


def conclude(
    plan: Plan,
    board: Board,
    ends: Sequence[TaskEnd],
    records: RunDirectory,
    terminal: Terminal,
    stop: Stop | None,
    code: int,
    *,
    strict: bool,
    wall_s: float,
) -> int:
    """Write and print the summary of a run on one board, all of whose programs have ended; see `report_end`."""
    try:
        report = last_report(board)
        datasets = [] if stop else missing_datasets(plan, board)
        there = held(plan, board, report)
    except BoardHeldError as error:
        terminal.say(f"there is no summary: {error}")
        return code or 1
    ending = Ending(plan, report, ends, stop, code, wall_s, datasets, there)
    return report_end(ending, records, terminal, strict=strict)


def report_end(ending: Ending, records: RunDirectory, terminal: Terminal, *, strict: bool) -> int:
    """Write and print the summary of a run; its exit code.

    Args:
        strict: unread steps, and changes of steps that nobody can see, make it fail.
    """
    starts = [end.starts for end in ending.ends]
    logged = layerlog.events(records.layer_log)
    traces = ending.traces or [Trace(records.trace)]
    account = Account(ending.plan, ending.report, starts, traces, layerlog.gone_names(logged))
    failure = _failure(ending, account, strict=strict)
    code = 1 if failure else ending.code
    tasks = summary.task_summaries(ending.plan, ending.report, ending.ends)
    messages, more = _all_messages(ending, records, account, logged)
    _write(ending, records, tasks, account, code, failure, messages)
    if ending.code == 0:
        records.drop_kept()
    for message in (*messages, *([more] if more else [])):
        terminal.say(message)
    terminal.table(_tables(ending, records, tasks, account))
    if not (ending.stop and ending.stop.goes_on):
        for line in summary.how_to_go_on(
            ending.plan, ending.report, ending.ends, ending.code, records.path, ending.lost
        ):
            terminal.say(line)
    if failure:
        terminal.say(failure)
    return code


def _failure(ending: Ending, account: Account, *, strict: bool) -> str:
    """Why a run fails, all of whose programs have ended well; empty: it does not."""
    if ending.code != 0:
        return ""
    if ending.stop is None and account.outdated(ending.outcomes):
        return _OUTDATED
    if not strict:
        return ""
    if account.loses(ending.outcomes):
        return _UNREAD
    if relisted := [task.name for task, end in zip(ending.plan.tasks, ending.ends, strict=True) if end.relisted]:
        return _RELISTED.format(listed(relisted))
    tasks = ending.report.tasks
    changed = [task.name for index, task in enumerate(tasks) if _loses_changes(ending.report, index)]
    return _LOST.format(listed(changed)) if changed else ""


def _write(
    ending: Ending,
    records: RunDirectory,
    tasks: Sequence[TaskSummary],
    account: Account,
    code: int,
    failure: str,
    messages: Sequence[str],
) -> None:
    records.write_json(
        "summary.json",
        summary.record(
            tasks,
            account.record(),
            ending.crossings,
            exit_code=code,
            reason=failure or (ending.stop.reason if ending.stop else None),
            wall_s=ending.wall_s,
            peak=ending.report.memory_peak_bytes,
            changed=_changed(ending.plan.source.parent),
            messages=messages,
        ),
    )


def _changed(folder: Path) -> list[str] | None:
    """Files in git that differ from the commit that is checked out. None: the folder is in no repository, or git does
    not answer."""
    if commit_of(folder) is None:
        return None
    import subprocess

    words = ["git", "--no-optional-locks", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no"]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, timeout=_GIT_WITHIN, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [os.fsdecode(line[3:]) for line in done.stdout.split(b"\0") if line]


def _messages(ending: Ending, records: RunDirectory, account: Account) -> list[str]:
    """Messages for the user about the run."""
    plan, report, outcomes = ending.plan, ending.report, ending.outcomes
    hints = [*summary.hints(plan, report, outcomes), *summary.resumed_hints(plan, report, records.path)]
    if any(end.retries for end in ending.ends):
        from wilkins.launch.records.agreement import remade_otherwise

        for of_host in (records.trace, *sorted(records.path.glob(f"hosts/*/{TRACE_FILE}"))):
            hints += remade_otherwise(of_host)
    if ending.crossings:
        from wilkins.launch.records.crossings import unfit

        hints += unfit(ending.crossings)
    unread = account.messages(outcomes, stopped=ending.stop is not None)
    return [*hints, *unread, *ending.datasets, *not_found(report, outcomes, ending.there)]


def _all_messages(
    ending: Ending, records: RunDirectory, account: Account, logged: Sequence[Logged]
) -> tuple[list[str], str]:
    """The messages, with what the layer's log adds to them; and the pages that say more."""
    messages = _messages(ending, records, account)
    said = layerlog.useful(logged, records.layer_log, [*messages, ending.stop.reason if ending.stop else ""])
    more = helppages.pages(messages, [one.page for one in said if one.page])
    return [*messages, *(paragraphs(one.words) for one in said)], more


def _tables(ending: Ending, records: RunDirectory, tasks: Sequence[TaskSummary], account: Account) -> str:
    more = [text for text in (account.table(), _crossed(ending)) if text]
    peak = ending.report.memory_peak_bytes
    return summary.table(tasks, wall_s=ending.wall_s, peak=peak, folder=records.path, more=more)


def _crossed(ending: Ending) -> str:
    if not ending.crossings:
        return ""
    from wilkins.launch.records.crossings import table

    return table(ending.crossings, "summary.json")


def _loses_changes(report: Report, task: int) -> bool:
    return any(port.lost_changes for port in report.ports if port.task == task)
