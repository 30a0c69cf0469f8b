"""Which rank of which MPI job this process is, by the variables of its launcher. Calls no MPI."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.values import dataclass

_FAMILIES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "mpiexec"),
    ("PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_SIZE", "mpiexec"),
    ("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_SIZE", "mpiexec"),
    ("SLURM_PROCID", "SLURM_NTASKS", "", "srun"),
)
_ALLOCATION_IDS = ("SLURM_JOB_ID", "SLURM_RESTART_COUNT")
JOB_ID = "WILKINS_JOB_ID"
"""Set by a user to name a job that its launcher gives no id."""
_JOB_IDS = ("PMIX_NAMESPACE", "PMIX_SERVER_URI2", "PALS_APID", "SLURM_STEP_ID", JOB_ID)
_LAUNCHERS = ("hydra_pmi_proxy", "slurmstepd")
"""The processes, one per job and node, that start the ranks. Their variables may be the same in two jobs."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A place in a job."""

    rank: int
    size: int
    one_node: bool
    launcher: str
    """The command such a job is started with."""


def this_rank(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """The rank this process is; None if it is not part of a job."""
    for rank, size, local, launcher in _FAMILIES:
        if rank not in environment:
            continue
        number = _integer(environment.get(rank))
        count = _integer(environment.get(size)) or _integer(environment.get("SLURM_NTASKS"))
        if number is None or count is None:
            continue
        here = _integer(environment.get(local))
        nodes = _integer(environment.get("SLURM_STEP_NUM_NODES")) or _integer(environment.get("SLURM_NNODES"))
        in_slurm_step = "SLURM_PROCID" in environment and here is None
        one_node = here == count if here is not None else not (in_slurm_step and nodes and nodes > 1)
        name = "srun" if in_slurm_step else launcher
        return Rank(number, count, one_node, name)
    return None


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def job_key(environment: Mapping[str, str] = os.environ) -> str:
    """A word that is the same for all ranks of this job on this node, and different for any other job.

    From all the ids that the launcher gives, and the process that started the ranks. The ids alone do not do: an
    allocation may run many jobs at once, and MPICH's mpiexec gives no id of its own. The process alone does not either:
    it cannot be seen from a container with processes of its own.

    Raises:
        ResourceError: nothing tells: there is no id, and this rank is alone in its PID namespace.
    """
    parts = [str(os.getuid()), *(environment.get(name, "") for name in (*_ALLOCATION_IDS, *_JOB_IDS))]
    launcher = _known_launcher()
    if launcher is None and not any(name in environment for name in _JOB_IDS):
        launcher = _starter(environment)
    if launcher is not None:
        parts += [str(launcher), _start_time(launcher), str(Path("/proc/self/ns/pid").stat().st_ino)]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:24]


def hosts_key(environment: Mapping[str, str] = os.environ) -> str:
    """A word that is the same for all ranks of this job on all its hosts, and different for any other job that runs.

    Raises:
        ResourceError: nothing tells.
    """
    launcher = _known_launcher()
    # In this order, since an mpiexec may start the ranks on its own host, and by job steps those on others.
    name = environment.get(JOB_ID) or (launcher and _control_port(launcher))
    name = name or environment.get("PMIX_NAMESPACE") or environment.get("PALS_APID") or _step(environment)
    if not name:
        raise ResourceError(
            "the hosts of this job cannot meet: what started its ranks does not tell this job from another one; start "
            f"them with srun, or with the mpiexec of MPICH or Open MPI, or set {JOB_ID} to a word that all ranks of "
            f"this job have and no other job, as in: {JOB_ID}=$(uuidgen) mpiexec -n N wilkins run FILE"
        )
    return hashlib.sha256(f"{os.getuid()} {name}".encode(errors="surrogateescape")).hexdigest()[:24]


def _step(environment: Mapping[str, str]) -> str:
    """A step of a job of Slurm."""
    names = (*_ALLOCATION_IDS, "SLURM_STEP_ID")
    return ".".join(environment.get(name, "") for name in names) if "SLURM_STEP_ID" in environment else ""


def _control_port(launcher: int) -> str:
    """The control address of MPICH's mpiexec, from the command line of its proxy: ``node0:41217``."""
    try:
        words = os.fsdecode(Path(f"/proc/{launcher}/cmdline").read_bytes()).split("\0")
    except OSError:
        return ""
    return next((after for word, after in pairwise(words) if word == "--control-port"), "")


def _known_launcher() -> int | None:
    """The nearest ancestor that is known to start the ranks of one job."""
    pid = os.getpid()
    while (pid := _parent(pid)) > 1:
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return None
        if name in _LAUNCHERS:
            return pid
    return None


def _starter(environment: Mapping[str, str]) -> int:
    """The nearest ancestor that is not this rank: what stands between a launcher and a rank, such as a shell, has the
    rank's variables."""
    mine = {f"{rank}={environment[rank]}" for rank, *_ in _FAMILIES if rank in environment}
    pid = os.getpid()
    while pid > 0 and (pid == os.getpid() or _has(pid, mine)):
        if pid == 1 and mine:
            raise ResourceError(
                "the ranks of this job cannot meet: each is in a PID namespace of its own (a container per rank?), "
                "where what started it cannot be seen, and no variable of its launcher names the job; start all ranks "
                f"in one PID namespace, or set {JOB_ID} to a word that all ranks of this job have and no other job, "
                f"as in: {JOB_ID}=$(uuidgen) mpiexec -n N CONTAINER wilkins run FILE (`wilkins help containers`)"
            )
        pid = _parent(pid)
    return pid


def _has(pid: int, variables: set[str]) -> bool:
    """Whether a process was started with these variables."""
    try:
        its = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
    except OSError:  # another user's, as the daemon of a scheduler is
        return False
    return bool(variables) and variables.issubset(its)


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _start_time(pid: int) -> str:
    return _stat(pid)[19]


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ["?", "0", *["0"] * 20]
    return text[text.rindex(")") + 2 :].split()
