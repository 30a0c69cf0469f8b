"""The options of a run, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wilkins.plan.plan import Plan
from wilkins.values import dataclass, field

if TYPE_CHECKING:
    from wilkins.launch.records.rundir import RunDirectory
    from wilkins.launch.watch.taskrun import GoBack
    from wilkins.plan.plan import Back
    from wilkins.plan.split import HostPart

PATIENCE = 60.0
"""Seconds for which a host's launcher may stand still, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of ``wilkins run``."""

    run_dir: Path | None = None
    """Where the run's records go; None for ``wilkins-runs/<name>-<time>`` beside the workflow file."""
    timeout: float | None = None
    """Seconds after which the whole run is stopped."""
    patience: float = PATIENCE
    """Over several hosts: seconds for which the launcher of a host may stand still before the host counts as lost."""
    quiet: bool = False
    """Do not copy the tasks' output to the terminal."""
    strict: bool = False
    """Steps that a task did not read, though its policy gives them to it, make the run fail."""
    go_back: str = ""
    """A function, by its module and name (``module:name``), since keepers on other hosts call it, too: where a task of
    the run goes on after a failure (`GoBack`). Empty: no task is started again then."""
    metrics: tuple[str, ...] = ()
    """Files and addresses at which numbers of the run are given out while it lasts (see `launch.metrics`)."""
    command: tuple[str, ...] = ()
    """The command line, for the run's records."""
    settings: tuple[str, ...] = ()
    """What its ``--set`` say."""
    resumption: dict[str, Any] | None = None
    """If this run resumes another one: the record for a run that resumes this one."""


def going_back(name: str, plan: Plan, run: RunDirectory, part: HostPart | None, trace: Path) -> GoBack | None:
    """What `RunOptions.go_back` names, for the launcher of a run, or for a host's, which does a part of the plan.

    Args:
        trace: what that launcher notes the run's events in.
    """
    if not name:
        return None
    return partial(_called, name, plan, run, part, trace)


def _called(name: str, *arguments: Any) -> Back:
    from pkgutil import resolve_name

    found: Back = resolve_name(name)(*arguments)
    return found


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
    """By task: how often it has failed since it last ended well."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan to run: from a workflow file, or from the records of a run to resume."""

    plan: Plan
    record: dict[str, Any] | None = None
    """For a run that resumes another one: the record for a run that resumes this one."""
    summary: str = ""
    """For the user: the restart point of each task of a resumed run."""
