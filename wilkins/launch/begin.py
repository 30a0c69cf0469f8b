"""What every launch does before it starts programs: the run's records, the folders of tasks, facts for the board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from wilkins.errors import ResourceError
from wilkins.launch.options import RunOptions
from wilkins.launch.programs.hooks import run_hooks
from wilkins.launch.programs.output import Terminal
from wilkins.launch.records.rundir import RunDirectory
from wilkins.launch.watch.ondisk import register_left_files, register_links
from wilkins.plan.plan import Plan
from wilkins.transport.board import Board

if TYPE_CHECKING:
    from wilkins.launch.metrics.exporter import Exporter
    from wilkins.transport.report_table import Report


def begin_run(plan: Plan, options: RunOptions) -> RunDirectory:
    """Make the run's directory and what its programs need on disk.

    Raises:
        WilkinsError: something cannot be made, or a hook fails.
    """
    if options.metrics:
        from wilkins.launch.metrics.exporter import check

        check(options.metrics)
    records = RunDirectory.create(plan, options.run_dir, options.resumption)
    records.note_start(plan, options.command, options.settings)
    make_folders(plan)
    run_hooks(plan)
    return records


def exporter_of(plan: Plan, options: RunOptions, records: RunDirectory, terminal: Terminal) -> Exporter | None:
    """What gives out the run's numbers; None: nobody wants them.

    Raises:
        WilkinsError: they cannot go where they should.
    """
    if not options.metrics:
        return None
    from wilkins.launch.metrics.exporter import Exporter

    exporter = Exporter(plan, records.path, options.metrics)
    for address in exporter.addresses:
        terminal.say(f"the run's metrics are at {address}")
    return exporter


def end_export(exporter: Exporter | None, report: Report | None, code: int, terminal: Terminal) -> None:
    """Give out a run's last numbers.

    Args:
        report: None: there is none.
        code: what the run exits with.
    """
    if exporter is not None and (said := exporter.end(report, code)):
        terminal.say(said)


def make_folders(plan: Plan) -> None:
    """Make every instance's own folder that is missing.

    Raises:
        ResourceError: the system refuses one.
    """
    for task in plan.tasks:
        if task.makes_cwd:
            try:
                task.cwd.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ResourceError(
                    f"{task.origin}: {task.name}: cannot make its folder {task.cwd}: {error.strerror}; mend 'cwd', or "
                    "what the system refuses"
                ) from error


def brief(board: Board, plan: Plan, run: Path, knows: Callable[[int], bool] = lambda _: True) -> None:
    """Report to the board what it cannot see: files of earlier runs, links in folders, tasks that come after others.

    Args:
        run: the run's directory.
        knows: whether the board has all tasks that one comes after.
    """
    register_left_files(plan, board, run)
    register_links(plan, board)
    for task in plan.tasks:
        if task.after and knows(task.index):
            board.task_follows(task.index)
