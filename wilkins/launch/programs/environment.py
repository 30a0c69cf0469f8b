"""The environment and the command line a task's program is started with."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wilkins.plan.plan import TaskPlan
from wilkins.transport.board import native_library
from wilkins.transport.plan_table import RANK_VARIABLES

if TYPE_CHECKING:
    from wilkins.plan.containers import Entry

LOCAL_RANK_VARIABLES = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID", "SLURM_LOCALID")

_UNBUFFERED = "GFORTRAN_UNBUFFERED_PRECONNECTED"
_JOB_PREFIXES = (
    "PMI",
    "HYD",
    "MPIR_",
    "MPI_LOCAL",
    "OMPI_",
    "PMIX",
    "PRTE",
    "ORTE",
    "OPAL_",
    "PALS_",
    "SLURM_STEP",
    "SRUN_",
)
_JOB_NAMES = frozenset(
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_TASK_PID", "WILKINS_JOB_ID"}
)
_KEPT_PREFIXES = ("OMPI_ALLOW_RUN_AS_ROOT",)

_NO_SCHEDULER = "^slurm,tm,lsf"
SHARES_CORES = "WILKINS_SHARES_CORES"
"""Tells all ranks of a task that there are more ranks than cores (`transport/native/mpi/asleep.hpp`)."""

MPIEXEC_DEFAULTS = {
    "HYDRA_LAUNCHER": "fork",
    "HYDRA_RMK": "user",
    "OMPI_MCA_ras": _NO_SCHEDULER,
    "OMPI_MCA_plm": _NO_SCHEDULER,
}
"""Defaults for an mpiexec, which the user may override: it starts ranks as its children, and asks no scheduler. Within
an allocation it would ask for a job step, and the step of one task would wait until that of another has ended; on any
node but the first, Open MPI's would start the ranks on the first one, and MPICH's would divide by zero."""


def without_mpi_job(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is not a rank of the MPI job this process belongs to.

    A program that finds the variables of a launcher it was not started by takes itself for a rank and hangs in its
    initialisation. Outside a job nothing is removed: what is there then are settings a user made for an ``mpiexec``.
    """
    if not any(name in environment for name in RANK_VARIABLES):
        return dict(environment)
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_KEPT_PREFIXES) or not (name.startswith(_JOB_PREFIXES) or name in _JOB_NAMES)
    }


def merged(base: Mapping[str, str], task: Mapping[str, str], layer: Mapping[str, str]) -> dict[str, str]:
    """``base`` with the task's own variables and the layer's, whose library is preloaded before any other."""
    environment = {**base, **task}
    for name, value in layer.items():
        before = environment.get(name, "") if name == "LD_PRELOAD" else ""
        environment[name] = f"{value}:{before}" if before else value
    return environment


def world_variables(
    size: int, *, rank: int | None, local_rank: int | None, port: int, host: str = "127.0.0.1"
) -> dict[str, str]:
    """The variables by which a distributed program without MPI (torch's DDP) finds its peers within the task.

    Args:
        host: that of the first rank.
    """
    variables = {"WORLD_SIZE": str(size), "MASTER_ADDR": host, "MASTER_PORT": str(port)}
    if rank is not None:
        variables["RANK"] = str(rank)
    if local_rank is not None:
        variables["LOCAL_RANK"] = str(local_rank)
    return variables


def window_variables(run: Path, task: TaskPlan) -> dict[str, str]:
    """Variables that give a task's one-sided windows a folder of their own in the run's, where the user gave none.

    Open MPI (4.1) names the shared memory of a window by job and communicator number. The worlds of two tasks of one
    job may have the same number, and would share the memory: windows fail, or hold the other task's values.
    """
    names = [f"OMPI_MCA_osc_{kind}_backing_directory" for kind in ("sm", "rdma")]
    folder = run / f"windows-{task.index}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return {name: os.environ.get(name, str(folder)) for name in names}


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def program_words(task: TaskPlan, filename: str | None) -> list[str]:
    """The command of a rank: prefix, executable and arguments, with ``{filename}`` filled in."""
    args = started_args(task)
    if filename is not None:
        args = tuple(arg.replace("{filename}", filename) for arg in args)
    return [*task.prefix, str(task.executable), *args]


def takes_filename(task: TaskPlan) -> bool:
    """True if the task is started with the name of each step."""
    return any("{filename}" in arg for arg in started_args(task))


def joins_world(task: TaskPlan) -> bool:
    """True if, in one MPI job, the ranks of the task's first program are ranks of the job.

    A rank can initialise MPI once. So a program that is started with the name of each step is an MPI job of its own
    from its first start on.
    """
    return task.kind == "mpi" and not takes_filename(task)


def started_args(task: TaskPlan) -> tuple[str, ...]:
    """The arguments that the program is started with: in a resumed run, those that lead it to its checkpoint."""
    return task.args if task.resumed is None or task.resumed.args is None else task.resumed.args


def started_env(task: TaskPlan, points: Path | None) -> dict[str, str]:
    """The task's own variables, the file for its restart points, and what a resumed program goes back to.

    Programs of GNU Fortran show what they print as it comes, unless that would slow down their reading of standard
    input, or the user has said otherwise.
    """
    where = {}
    if points:
        from wilkins.transport.points import POINTS

        where[POINTS] = str(points)
    shown = {} if task.stdin or _UNBUFFERED in os.environ else {_UNBUFFERED: "y"}
    return {**shown, **entered(task), **task.env, **where, **(task.resumed.env if task.resumed else {})}


def entered(task: TaskPlan) -> dict[str, str]:
    """The variables of the task's environment on this host.

    Raises:
        WilkinsError: it cannot be activated here.
    """
    environment = task.environment
    if environment is None or environment.activation is None:
        return {}
    if environment.host == socket.gethostname():
        return environment.variables
    from wilkins.plan.activation import ActivationError, variables_of

    try:
        return variables_of(environment.activation)
    except ActivationError as error:
        raise ActivationError(f"{task.origin}: {task.name}: on {socket.gethostname()}: {error}") from error


def contained(
    task: TaskPlan, words: list[str], own: Mapping[str, str], inside: Mapping[str, str], records: Path
) -> list[str]:
    """A command that runs in the task's container.

    Args:
        own: the task's variables.
        inside: variables of the command, which nothing outside gets.
        records: the run's directory.
    """
    from wilkins.plan import containers

    container = task.container
    assert container is not None
    library = str(native_library().parent)
    folders = containers.folders_of(str(task.cwd), *container.folders, str(records), library)
    listing = entries_of(Path(container.image))
    return [*containers.command(container, str(task.cwd), folders, own, inside, listing), *words]


def entries_of(root: Path) -> Callable[[str], list[Entry]]:
    """What lists the folders of a root file system."""
    from wilkins.plan.containers import Entry

    def listing(folder: str) -> list[Entry]:
        with os.scandir(root / folder) as found:
            entries = sorted(found, key=lambda one: one.name)
        links = {one.name: str(Path(one.path).readlink()) for one in entries if one.is_symlink()}
        return [Entry(one.name, one.is_dir(follow_symlinks=False), links.get(one.name, "")) for one in entries]

    return listing


def exit_code(task: TaskPlan, code: int) -> int:
    """The exit code of a task's program, where what starts containers tells a signal as 128 and its number."""
    is_signal = task.container is not None and task.kind == "plain" and 128 < code < 128 + signal.NSIG
    return 128 - code if is_signal else code


def mpi_words(task: TaskPlan, variables: Mapping[str, str], filename: str | None) -> list[str]:
    """The command that starts an MPI task alone: only its ranks, not their ``mpiexec``, get ``variables``.

    ``RANK`` and ``LOCAL_RANK`` are known to the ranks alone, hence the shell that passes them on.
    """
    settings = [f"{name}={value}" for name, value in variables.items()]
    return [
        *task.mpiexec,
        "-n",
        str(task.nprocs),
        *pass_on_rank(),
        "/usr/bin/env",
        *settings,
        *program_words(task, filename),
    ]


def pass_on_rank() -> list[str]:
    """The beginning of a rank's command that makes ``RANK`` and ``LOCAL_RANK`` of what its mpiexec says."""
    return ["/bin/sh", "-c", _PASS_ON_RANK, "rank"]


def _first_of(names: tuple[str, ...]) -> str:
    value = ""
    for name in reversed(names):
        value = f"${{{name}-{value}}}"
    return value


_PASS_ON_RANK = (
    f"RANK={_first_of(RANK_VARIABLES)}; LOCAL_RANK={_first_of(LOCAL_RANK_VARIABLES)}; "
    'WILKINS_RANK_PID=$$; export RANK LOCAL_RANK WILKINS_RANK_PID; exec "$@"'
)


def shown(words: list[str]) -> str:
    """A command as one would type it."""
    import shlex

    return shlex.join(words)


def user_environment() -> dict[str, str]:
    """The launcher's own environment, without the job it may be part of."""
    return without_mpi_job(os.environ)


def job_descriptors() -> list[int]:
    """Open files by which the MPI launcher of this process is reached; its MPI program inherits them."""
    named = [value for name, value in os.environ.items() if name in ("PMI_FD", "PALS_FD")]
    return [int(value) for value in named if value.isdecimal()]
