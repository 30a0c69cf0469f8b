"""The plan of one MPI job, checked against its ranks and MPI libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.launch.job.programs import Worlds
from wilkins.launch.job.rank import Rank
from wilkins.launch.options import Planned
from wilkins.launch.programs import environment as env
from wilkins.plan.plan import Plan
from wilkins.terminal import streams

Planner = Callable[[], Planned]


def planned_for(given: Path, make: Planner, here: Rank) -> Planned:
    """The plan to run, if the job has the ranks it needs."""
    planned = make()
    _check(planned.plan, given, here)
    if planned.summary:
        streams.show(planned.summary)
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


def worlds_of(plan: Plan) -> Worlds:
    """The settings of the tasks in the job's world.

    Raises:
        ResourceError: it is not known which MPI library one of them uses.
    """
    from wilkins.launch.job.mpilib import mpi_library

    ports, libraries, first = {}, {}, None
    for task in filter(env.joins_world, plan.tasks):
        library, linked = mpi_library(task, {**env.user_environment(), **env.entered(task), **task.env})
        if library is None:
            raise ResourceError(
                f"{task.origin}: {task.name}: has {task.nprocs} ranks in this MPI job, but no MPI library is found "
                f"that {task.executable} uses; run the file without an mpiexec, or this task with nprocs: 1"
            )
        first = first or str(library)
        ports[str(task.index)] = env.free_port()
        if not linked:
            libraries[str(task.index)] = str(library)
    return Worlds(ports, libraries, first)
