"""What one MPI job is to run, if it has the ranks and the MPI libraries for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.launch.job.rank import Rank
from wilkins.launch.options import Planned
from wilkins.launch.programs import environment as env
from wilkins.plan.plan import Plan
from wilkins.terminal import streams

Planner = Callable[[], Planned]


def planned_for(given: Path, make: Planner, here: Rank) -> Planned:
    """What is to be run, if the job has the ranks it needs."""
    planned = make()
    _check(planned.plan, given, here)
    if planned.told:
        streams.show(planned.told)
    return planned


def _check(plan: Plan, path: Path, here: Rank) -> None:
    if plan.total_ranks != here.size:
        shown = path if plan.folder is None else plan.shown
        shown = f"--resume {path}" if plan.resumes else shown
        raise ResourceError(
            f"{path} needs {plan.total_ranks} ranks, and this job has {here.size}; start it as: "
            f"{here.launcher} -n {plan.total_ranks} wilkins run {shown}"
        )
    if plan.lacking:
        raise ResourceError("\n".join(plan.lacking))


def world_libraries(plan: Plan) -> dict[int, tuple[Path, bool]]:
    """By task: the MPI library of each task in the job's world, and whether its executable is linked to it."""
    from wilkins.launch.job.mpilib import mpi_library

    found: dict[int, tuple[Path, bool]] = {}
    for task in plan.tasks:
        if env.joins_world(task):
            library, linked = mpi_library(task, {**env.user_environment(), **task.env})
            if library is None:
                raise ResourceError(
                    f"{task.origin}: {task.name}: has {task.nprocs} ranks in this MPI job, but no MPI library is found "
                    f"that {task.executable} uses; run the file without an mpiexec, or this task with nprocs: 1"
                )
            found[task.index] = library, linked
    return found
