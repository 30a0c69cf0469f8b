"""The end of a run: what is recorded of it, what is said at the terminal, and the exit code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from wilkins.flow import TRACE_FILE
from wilkins.launch.programs.output import Terminal
from wilkins.launch.records import summary
from wilkins.launch.records.account import Account
from wilkins.launch.records.crossings import Crossing, table
from wilkins.launch.records.datasets import held, missing_datasets, not_found
from wilkins.launch.records.layerlog import gone_names, useful_lines
from wilkins.launch.records.rundir import RunDirectory
from wilkins.launch.records.summary import TaskEnd
from wilkins.launch.records.tracednames import Trace
from wilkins.launch.watch import further
from wilkins.launch.watch.supervise import Stop, last_report
from wilkins.plan.plan import Plan
from wilkins.terminal.wording import listed, paragraphs
from wilkins.transport.board import Board, BoardHeldError

_UNREAD = "steps were not read, and --strict makes that a failure"
_OUTDATED = "newer versions of files that had been read were left unread"
_LOST = "{} changed steps where nobody can see it, and --strict makes that a failure"
_RELISTED = "{} listed a folder before all its files were there, and --strict makes that a failure"


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
    """Record and tell what a run on one board did, all of whose programs have ended; see `tell_end`."""
    try:
        report = last_report(board)
        datasets = [] if stop else missing_datasets(plan, board)
        there = held(plan, board, report)
    except BoardHeldError as error:
        terminal.say(f"there is no summary: {error}")
        return code or 1
    return tell_end(
        plan, report, datasets, ends, records, terminal, stop, code, strict=strict, wall_s=wall_s, there=there
    )


def tell_end(
    plan: Plan,
    report: dict[str, Any],
    datasets: Sequence[str],
    ends: Sequence[TaskEnd],
    records: RunDirectory,
    terminal: Terminal,
    stop: Stop | None,
    code: int,
    *,
    strict: bool,
    wall_s: float,
    crossings: Sequence[Crossing] = (),
    traces: Sequence[Trace] = (),
    lost: Collection[str] = (),
    there: Mapping[int, Sequence[str]] = MappingProxyType({}),
) -> int:
    """Record and tell what a run did, all of whose programs have ended.

    Args:
        report: the board's last one, or one that says the same of several boards.
        datasets: what to say of datasets in `dsets` that no step had.
        ends: of the tasks.
        stop: what stopped the run, if something did.
        code: what the run would exit with.
        strict: unread steps, and changes of steps that nobody can see, make it fail.
        crossings: what crossed from one host to another.
        traces: those of the hosts, if there are several.
        lost: hosts that are lost.
        there: by in-port, the datasets of a step.

    Returns:
        What it exits with.
    """
    reason, peak = stop.reason if stop else None, report["memory_peak_bytes"]
    outcomes = [end.outcome for end in ends]
    account = Account(plan, report, [end.starts for end in ends], traces or [Trace(records.trace)])
    unread = account.told(outcomes, stopped=stop is not None, gone=gone_names(records.layer_log))
    relisted = [task.name for task, end in zip(plan.tasks, ends, strict=True) if end.relisted]
    outdated = stop is None and account.outdated(outcomes)
    changed = [task["name"] for index, task in enumerate(report["tasks"]) if _loses_changes(report, index)]
    unseen = _UNREAD if account.loses(outcomes) else _RELISTED.format(listed(relisted)) if relisted else ""
    unseen = unseen or (_LOST.format(listed(changed)) if changed else "")
    failure = _OUTDATED if outdated else unseen
    fails = code == 0 and (outdated or (strict and bool(failure)))
    tasks = summary.task_summaries(report, ends)
    records.write_json(
        "summary.json",
        summary.record(
            tasks,
            account.record(),
            crossings,
            exit_code=1 if fails else code,
            reason=failure if fails else reason,
            wall_s=wall_s,
            peak=peak,
        ),
    )
    if code == 0:
        records.drop_kept()
    hints = [*summary.hints(plan, report, outcomes), *summary.resumed_hints(plan, report, records.path)]
    if any(end.retries for end in ends):
        from wilkins.launch.records.agreement import remade_otherwise

        for of_host in (records.trace, *sorted(records.path.glob(f"hosts/*/{TRACE_FILE}"))):
            hints += remade_otherwise(of_host)
    told = [*hints, *unread, *datasets, *not_found(report, outcomes, there)]
    lines = useful_lines(records.layer_log, [*told, reason or ""])
    more = further.pages([*told, *lines])
    for message in (*told, *map(paragraphs, lines), *([more] if more else [])):
        terminal.say(message)
    more_tables = [text for text in (account.table(), table(crossings, "summary.json")) if text]
    terminal.table(summary.table(tasks, wall_s=wall_s, peak=peak, folder=records.path, more=more_tables))
    if not (stop and stop.goes_on):
        for line in summary.how_to_go_on(plan, report, code, records.path, lost):
            terminal.say(line)
    if fails:
        terminal.say(failure)
    return 1 if fails else code


def _loses_changes(report: dict[str, Any], task: int) -> bool:
    return any(port["lost_changes"] for port in report["ports"] if port["task"] == task)
