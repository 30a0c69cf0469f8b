"""The files that a run has left on disk, beside its records."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wilkins.plan.plan import Plan, PortPlan, TaskPlan, started_ready_made
from wilkins.report.leftfiles import matching, patterns_of

_CHUNK = 1 << 20
_EARLY = 2.0
"""Seconds by which the clock of a file system may be behind."""
_FOLDERS = ("folder",)
_FILES = ("file", "filename")
"""Keys of a ready-made task's options that name what it writes."""


@dataclass(frozen=True, slots=True)
class Output:
    """A file that a task has written."""

    task: str
    port: str
    """The pattern of the out-port; empty of what a ready-made task's options name."""
    path: Path
    size: int
    sha256: str
    modified: float
    """Seconds since 1970."""


def outputs_of(plan: Plan, began: float, ended: float) -> list[Output]:
    """Files on disk that match an out-port, or lie where a ready-made task writes, and have changed during a run.

    Files that were removed since, or are steps in memory alone, are not among them.

    Args:
        began, ended: of the run, in seconds since 1970.
    """
    found: dict[Path, Output] = {}
    for task in plan.tasks:
        for port, path in _candidates(plan, task):
            try:
                state = path.stat()
                if path in found or not began - _EARLY <= state.st_mtime <= ended + _EARLY:
                    continue
                found[path] = Output(task.name, port, path, state.st_size, digest(path), state.st_mtime)
            except OSError:  # it was removed just now, or nobody may read it
                continue
    return sorted(found.values(), key=lambda one: (one.task, one.path))


def digest(path: Path) -> str:
    """The SHA-256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            sha.update(data)
    return sha.hexdigest()


def _candidates(plan: Plan, task: TaskPlan) -> Iterator[tuple[str, Path]]:
    """Files that a task may have written, each with its port."""
    for port in plan.ports:
        if port.task == task.index and port.direction == "out" and port.mode != "memory":
            for path in _of_port(task, port):
                yield port.steps, path
    for path in _of_options(task):
        yield "", path


def _of_port(task: TaskPlan, port: PortPlan) -> Iterator[Path]:
    for pattern in patterns_of(port):
        yield from _matching(task.cwd, pattern)


def _matching(folder: Path, pattern: str) -> Iterator[Path]:
    """Files of a name or pattern, and those below folders of it."""
    for path in matching(folder, pattern):
        yield from _below(path)


def _below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path.resolve()
    for inner, _, names in os.walk(path):
        yield from (Path(inner, name).resolve() for name in names)


def _of_options(task: TaskPlan) -> Iterator[Path]:
    """Of a ready-made task: what lies in folders, or has names, that its options say."""
    if not started_ready_made(task) or len(task.args) < 3:
        return
    try:
        options = json.loads(task.args[2])
    except ValueError:
        return
    folders = [task.cwd / name for key, name in _named(options) if key in _FOLDERS]
    for folder in folders:
        yield from _below(folder)
    for key, name in _named(options):
        if key in _FILES:
            for folder in (task.cwd, *folders):
                yield from _matching(folder, re.sub(r"\{[^}]*\}", "*", name))


def _named(value: Any) -> Iterator[tuple[str, str]]:
    """The texts in nested options, with their keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, str):
                yield key, inner
            else:
                yield from _named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner)
