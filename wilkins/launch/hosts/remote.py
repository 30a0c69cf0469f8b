"""Runs commands on other hosts, by ssh, the launcher of a scheduler, or a command of the user.

As a program, it is the launch agent of an mpiexec.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.plan.hosts import flux_ranks, flux_resources, slurm_nodes, slurm_parts

RSH = "WILKINS_RSH"
"""Names a command that runs another one on a host, as ``ssh HOST COMMAND`` does, instead of ssh or srun."""

MARK = "WILKINS_PART"
"""Marks the processes on a host that belong to a task of several hosts, so that the host's keeper can end them."""

_OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=5")
"""Of ssh: ask nobody for a password, and do not try for ever, nor wait for a host that is cut off."""


_OF_SCHEDULERS = ("srun", "flux", "pbs_tmrsh", "blaunch")


def remote_command(host: str, words: Sequence[str], run: Path) -> list[str]:
    """The command that starts a program on a host, with the standard streams of the process that runs the command.

    Args:
        run: the run's directory, which all hosts see.

    Raises:
        ResourceError: the scheduler of this allocation does not know the host.
    """
    agent = shlex.split(os.environ.get(RSH, ""))
    if not agent and _is_here(host):
        return list(words)
    if not agent and (launcher := _of_scheduler(host, run)):
        return [*launcher, *words]
    return [*(agent or ("ssh", *_OPTIONS)), host, shlex.join(["cd", str(Path.cwd())]) + " && exec " + shlex.join(words)]


def launcher_in_clear(host: str) -> str | None:
    """What of a scheduler starts programs on a host, and carries their streams in clear; None: ssh, or the user's."""
    if os.environ.get(RSH) or _is_here(host):
        return None
    words = _of_scheduler(host, Path())
    return next((word for word in _OF_SCHEDULERS if word in words), None)


def _is_here(host: str) -> bool:
    return host in (socket.gethostname(), socket.gethostname().partition(".")[0], "localhost")


def _of_scheduler(host: str, run: Path) -> list[str]:
    """The command by which a scheduler starts a program on a host of its allocation; none outside of one."""
    environment = os.environ
    if environment.get("FLUX_URI") and shutil.which("flux"):
        launcher = ["flux", "exec", f"--rank={_flux_rank(host)}"]
    elif "SLURM_JOB_ID" in environment and shutil.which("srun"):
        return _srun(host)
    elif "PBS_NODEFILE" in environment and shutil.which("pbs_tmrsh"):
        launcher = ["pbs_tmrsh", host]
    elif "LSB_MCPU_HOSTS" in environment and shutil.which("blaunch"):
        launcher = ["blaunch", host]
    else:
        return []
    return [sys.executable, "-m", "wilkins.launch.hosts.streams", "here", str(run), *launcher, "--"]


def _flux_rank(host: str) -> int:
    """The rank of a broker on a host, by which `flux exec` knows it."""
    if (rank := flux_ranks(flux_resources()).get(host)) is None:
        raise ResourceError(f"the host {host} is not of this Flux instance; name hosts that `flux resource list` shows")
    return rank


def _srun(host: str) -> list[str]:
    """The `srun` of a step that has all that the allocation has on a host: what it starts shares that out by itself."""
    of_tasks = ("SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_GPU_BIND", "SLURM_TRES_PER_TASK")
    words = ["env", *(word for name in of_tasks for word in ("-u", name)), "srun", "--overlap", "-K1"]
    for number, part in enumerate(slurm_parts(os.environ)):
        if part and host in slurm_nodes(os.environ, part):
            words.append(f"--het-group={number}")
    return [*words, "-N1", "-n1", "--cpu-bind=none", "--mem=0", "-w", host]


def address(host: str) -> str:
    """The address by which other hosts reach a host, if it does not say so itself.

    A command of the user's may know it by a name that no network does; then it is taken for this machine.
    """
    if host == "localhost" or (RSH in os.environ and not _is_known(host)):
        return socket.gethostname()
    return host


def _is_known(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False


def mark_of(run: Path, host: str) -> str:
    """The value of `MARK` on a host."""
    return str(run / "hosts" / host)


def main(run: Path, words: list[str]) -> None:
    """``[OPTION ...] HOST WORD ...``: the words, with spaces between them, are what a shell on the host is to do."""
    while words[0].startswith("-"):
        words = words[1:]
    mark = f"{MARK}={mark_of(run, words[0])}"
    command = remote_command(words[0], ["/usr/bin/env", mark, "/bin/sh", "-c", " ".join(words[1:])], run)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
