"""What every launch does before it starts programs: the run's records, the folders of tasks, facts for the board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.launch.options import RunOptions
from wilkins.launch.programs.hooks import run_hooks
from wilkins.launch.records.rundir import RunDirectory
from wilkins.launch.watch.leftfiles import register_left_files
from wilkins.launch.watch.links import register_links
from wilkins.plan.plan import Plan
from wilkins.transport.board import Board


def begin_run(plan: Plan, options: RunOptions) -> RunDirectory:
    """Make the run's directory and what its programs need on disk.

    Raises:
        WilkinsError: something cannot be made, or a hook fails.
    """
    records = RunDirectory.create(plan, options.run_dir, options.resumption)
    make_folders(plan)
    run_hooks(plan)
    return records


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
