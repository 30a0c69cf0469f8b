"""Symbolic links that a user has made before the run, to files that only the run will bring."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath

from wilkins.plan.plan import Plan
from wilkins.transport.board import Board


def register_links(plan: Plan, board: Board) -> None:
    """Report to the board the tasks in whose folders links lead to files of their in-ports."""
    targets = cache(targets_in)
    for port in plan.ports:
        if port.direction == "in" and port.mode != "plain":
            called = PurePath(port.called).name
            if any(fnmatchcase(target, called) for target in targets(plan.tasks[port.task].cwd)):
                board.uses_links(port.task)


def targets_in(folder: Path) -> frozenset[str]:
    """The names, without folders, of what the symbolic links in a folder lead to, over other links too; none if it
    cannot be read."""
    try:
        with os.scandir(folder) as entries:
            links = [Path(entry) for entry in entries if entry.is_symlink()]
            return frozenset(name for link in links for name in (link.readlink().name, link.resolve().name))
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        return frozenset()
