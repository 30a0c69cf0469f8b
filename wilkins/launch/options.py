"""What a run is given: the plan, and what the command line asks of it besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wilkins.plan.plan import Plan, TaskPlan

if TYPE_CHECKING:
    from wilkins.launch.records.rundir import RunDirectory
    from wilkins.plan.plan import Back


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
    go_back: Callable[[Plan, RunDirectory, TaskPlan, bool], Back] | None = None
    """Where a task of the run goes on after a failure; None: with what comes next."""
    resumption: dict[str, Any] | None = None
    """What a run that goes on with this one must know, if this one goes on with another."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended."""

    code: int
    """Its exit code."""
    folder: Path
    """Its directory."""
    goes_on: bool = False
    """Another run is to go on with it, since a task that has failed could not be started again by itself."""
    failures: Mapping[int, int] = field(default_factory=dict)
    """By task: how often it has failed since it had last ended well."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be run, decided: by a workflow file, or by what another run has left."""

    plan: Plan
    record: dict[str, Any] | None = None
    """Of a run that goes on with another one: what one that goes on with it in turn must know."""
    told: str = ""
    """For the user: what each task of a resumed run goes back to."""
