"""What the command line asks of a run, besides the plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of ``wilkins run``."""

    run_dir: Path | None = None
    """Where the run's records go; None for ``wilkins-runs/<name>-<time>`` beside the workflow file."""
    timeout: float | None = None
    """Seconds after which the whole run is stopped."""
    quiet: bool = False
    """Do not copy the tasks' output to the terminal."""
    strict: bool = False
    """Steps that a task did not read, though its policy gives them to it, make the run fail."""
    overrides: tuple[str, ...] = ()
    """``task.key=value`` and ``parameter=value``, as given with ``--set``; needed wherever the file is read again."""
    files: bool = False
    """Every coupled port in mode ``file``."""
    resume: Path | None = None
    """The directory of the run that this one goes on with."""
    resumption: dict[str, Any] | None = None
    """What a run that goes on with this one must know, if this one goes on with another."""
    folder: Path | None = None
    """Where the tasks of a packaged workflow run, and records go; None for the workflow file's folder."""
