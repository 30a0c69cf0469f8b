"""Which rank of which MPI job this process is, as its launcher's variables tell. No MPI is called."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FAMILIES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "mpiexec"),
    ("PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_SIZE", "mpiexec"),
    ("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_SIZE", "mpiexec"),
    ("SLURM_PROCID", "SLURM_NTASKS", "", "srun"),
)
_JOB_IDS = ("PMIX_NAMESPACE", "PMIX_SERVER_URI2", "PALS_APID", "SLURM_JOB_ID", "SLURM_STEP_ID")
_PROXIES = ("hydra_pmi_proxy",)


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

    From the ids the launcher gives, where it gives any, and the process that all the ranks descend from.
    """
    parts = [str(os.getuid()), *(environment.get(name, "") for name in _JOB_IDS)]
    if not any(parts[1:]):
        ancestor = _ancestor()
        parts += [str(ancestor), _start_time(ancestor)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _ancestor() -> int:
    """The launcher's process on this node: the nearest known proxy, else the parent."""
    pid = os.getpid()
    while pid > 1:
        pid = int(_stat(pid)[1])
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            break
        if name in _PROXIES:
            return pid
    return os.getppid()


def _start_time(pid: int) -> str:
    return _stat(pid)[19]


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ["?", "0", *["0"] * 20]
    return text[text.rindex(")") + 2 :].split()
