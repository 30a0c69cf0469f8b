"""``wilkins submit``: from a plan that was checked to a job in the queue, or to its script on the terminal."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from wilkins.errors import UsageError
from wilkins.launch.records.rundir import RUNS
from wilkins.plan.plan import Plan
from wilkins.submit import batch
from wilkins.submit.request import JobRequest, records
from wilkins.submit.schedulers import SCHEDULERS, Scheduler, choose
from wilkins.terminal import streams


def submit(plan: Plan, job: JobRequest, given: str | None, run: Path | None, *, dry: bool) -> None:
    """Submit a job, or show its script.

    Args:
        given: the scheduler; None: the one that is here.
        run: the run's directory, if it was given.
        dry: only show the script.

    Raises:
        ResourceError: the scheduler does not take the job.
        UsageError: there is no such scheduler, it cannot be asked for what the job needs, or PSI/J is missing.
    """
    here = [one.command for one in SCHEDULERS.values() if shutil.which(one.command)]
    scheduler = choose(given, here)
    lacks = scheduler.lacks(job)
    if dry:
        streams.show(batch.script_of(job, scheduler), end="")
        if lacks:
            streams.log(f"note: {lacks}")
        return
    if lacks:
        raise UsageError(lacks)
    streams.show(confirmation(plan, job, scheduler, batch.submit(job, scheduler), run))


def confirmation(plan: Plan, job: JobRequest, scheduler: Scheduler, number: str, run: Path | None) -> str:
    """The message about a job that was submitted."""
    rows = [
        ("output", str(job.output / f"{number}.out")),
        ("state", f"{scheduler.state} {number}"),
        ("cancel", f"{scheduler.cancel} {number}"),
    ]
    if plan.can_resume:
        nodes = f"--nodes {job.nodes} " if job.nodes > 1 else ""
        how = f"wilkins submit {nodes}--resume {_resumed(plan, job, run)}   (if it ends before all is done)"
        rows.append(("go on", how))
    head = f"job {number} of {scheduler.title}: {job.name}, {job.size}"
    return "\n".join([head, *(f"  {what:<6}  {how}" for what, how in rows)])


def _resumed(plan: Plan, job: JobRequest, run: Path | None) -> str:
    """The name of a job's run in its folder."""
    if run is not None:
        return shlex.quote(str(run))
    return "latest" if records(plan) == job.folder else shlex.quote(str(records(plan) / RUNS / "latest"))
