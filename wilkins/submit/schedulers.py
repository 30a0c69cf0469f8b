"""The schedulers: how each is found, and how it is asked for what a batch job needs. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from wilkins.errors import UsageError
from wilkins.submit.request import JobRequest

_NOTICE = 60
"""Seconds before the end of its time at which a job gets a signal."""

_EARLY = 1
"""Minutes by which Slurm may send it too early."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One kind of scheduler."""

    name: str
    """As the option and PSI/J call it."""
    title: str
    command: str
    """Submits a job; a machine that has it has the scheduler."""
    marker: str
    """The beginning of an option line in a script."""
    state: str
    """The command that shows a job's state, but for the job's number."""
    cancel: str
    """The command that ends a job."""
    options: Callable[[JobRequest], Iterator[str]]
    """The options of a job that PSI/J does not write."""
    lacks: Callable[[JobRequest], str] = lambda _: ""
    """The part of a job that its script cannot express, with a cure; empty: none."""
    reads_input: bool = False
    """True if it reads the options of a script only from its standard input."""


def _slurm(job: JobRequest) -> Iterator[str]:
    yield f"--job-name={job.name}"
    yield f"--time={job.minutes}"
    if job.gpus:
        yield f"--gpus-per-node={job.gpus}"
    if job.minutes > _NOTICE // 60 + _EARLY:  # or the signal might come as the job begins
        yield f"--signal=B:TERM@{_NOTICE}"


def _pbs(job: JobRequest) -> Iterator[str]:
    yield f"-N {job.name}"
    yield f"-l walltime={_clock(job.minutes)}"


def _pbs_lacks(job: JobRequest) -> str:
    if not job.gpus:
        return ""
    return (
        f"PSI/J's scripts for PBS do not ask for GPUs; add :ngpus={job.gpus} to the line with select= in what "
        "--dry-run prints, and give that to qsub"
    )


def _lsf(job: JobRequest) -> Iterator[str]:
    yield f"-J {job.name}"
    yield f"-W {job.minutes}"
    yield f"-wa TERM -wt {_NOTICE // 60}"
    if job.gpus:
        yield f"-gpu num={job.gpus}"


def _flux(job: JobRequest) -> Iterator[str]:
    yield f"--job-name={job.name}"
    yield f"--time-limit={job.minutes}m"
    yield f"--signal=TERM@{_NOTICE}s"
    yield f"--nodes={job.nodes}"
    yield f"--nslots={job.nodes}"
    yield f"--cores-per-slot={job.cores_per_node}"
    if job.gpus:
        yield f"--gpus-per-slot={job.gpus}"
    if job.queue:
        yield f"--queue={job.queue}"
    if job.account:
        yield f"--bank={job.account}"


def _flux_lacks(job: JobRequest) -> str:
    return "Flux does not deal memory out; leave --memory away" if job.memory else ""


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


SCHEDULERS = {
    one.name: one
    for one in (
        Scheduler("slurm", "Slurm", "sbatch", "#SBATCH", "squeue -j", "scancel", _slurm),
        Scheduler("pbs", "PBS", "qsub", "#PBS", "qstat", "qdel", _pbs, _pbs_lacks),
        Scheduler("flux", "Flux", "flux", "# flux:", "flux jobs", "flux cancel", _flux, _flux_lacks),
        Scheduler("lsf", "LSF", "bsub", "#BSUB", "bjobs", "bkill", _lsf, reads_input=True),
    )
}


def choose(given: str | None, commands: Collection[str]) -> Scheduler:
    """The given scheduler, or the installed one.

    Args:
        commands: those of the schedulers' commands that are on PATH.

    Raises:
        UsageError: none is given, and there is none, or there are several.
    """
    if given is not None:
        return SCHEDULERS[given]
    found = [one for one in SCHEDULERS.values() if one.command in commands]
    if len(found) == 1:
        return found[0]
    names = "|".join(one.name for one in found or SCHEDULERS.values())
    if found:
        several = " and ".join(f"{one.command} ({one.title})" for one in found)
        raise UsageError(f"which scheduler? {several} are on PATH; name one: --scheduler {names}")
    looked = ", ".join(one.command for one in SCHEDULERS.values())
    raise UsageError(
        f"which scheduler? none of {looked} is on PATH; submit where one is, or print a script with "
        f"--dry-run --scheduler {names}"
    )
