"""What a run is given: the plan, and what the command line asks of it besides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wilkins.plan.plan import Plan


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
    resumption: dict[str, Any] | None = None
    """What a run that goes on with this one must know, if this one goes on with another."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be run, decided: by a workflow file, or by what another run has left."""

    plan: Plan
    record: dict[str, Any] | None = None
    """Of a run that goes on with another one: what one that goes on with it in turn must know."""
    told: str = ""
    """For the user: what each task of a resumed run goes back to."""
