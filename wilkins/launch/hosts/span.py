"""Starts tasks whose ranks are on several hosts: one MPI job of them all, each rank with what its host's keeper says.

The keeper of the host of rank 0 starts the job. Every keeper writes into a file which variables the ranks on its host
get, for which a shell waits in the place of each rank. On the other hosts a small process stands in for the program,
until the job has ended.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.launch.programs import environment as env
from wilkins.plan.mpi import launcher_family
from wilkins.plan.plan import Plan, TaskPlan
from wilkins.plan.split import ranks_on

STAND_IN = ("/bin/sh", "-c", "read -r code && case $code in -*) kill $code $$ ;; *) exit $code ;; esac")
"""The program on a host that does not start the job. Its standard input brings the code with which it ends, or less
than 0, the signal."""

_JOIN = """
tries=0
while [ ! -r "$0" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 600 ]; then echo "wilkins: no keeper of this host has written $0" >&2; exit 1; fi
    sleep 0.1
done
. "$0"
exec "$@"
"""
"""Takes over what a keeper says, once it does, and becomes the program."""


def settings_path(run: Path, host: str, task: TaskPlan) -> Path:
    """Where the keeper of a host says what the ranks of a task there get."""
    return run / "hosts" / host / f"{task.name}.sh"


def write_settings(path: Path, variables: Mapping[str, str], folder: Path) -> None:
    """Tell the ranks of a task on this host their variables and their folder."""
    lines = [f"cd {shlex.quote(str(folder))} || exit 1"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items() if name.isidentifier()]
    hidden = path.with_suffix(".new")
    hidden.touch(mode=0o600)
    hidden.write_text("\n".join([*lines, ""]))
    hidden.rename(path)


def write_reach(run: Path, host: str) -> Path:
    """A program that an mpiexec on a host takes for ssh. It finds programs as this process does, whatever the mpiexec
    thinks."""
    path = run / "hosts" / host / "reach"
    words = [sys.executable, "-m", "wilkins.launch.hosts.reach", str(run)]
    where = shlex.quote(os.environ.get("PATH", os.defpath))
    path.write_text(f'#!/bin/sh\nPATH={where} exec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)
    return path


def mpi_words(plan: Plan, task: TaskPlan, run: Path, world: Mapping[str, str], reach: Path) -> list[str]:
    """The command that starts all ranks of a task of `plan`.

    Raises:
        ResourceError: it is not known how its mpiexec is told hosts.
    """
    family = launcher_family(task.mpiexec[0])
    if family is None:
        raise ResourceError(
            f"{task.origin}: {task.name}: {task.mpiexec[0]} is neither of MPICH nor of Open MPI, so how to start ranks "
            "on several hosts with it is not known; name another one with 'mpiexec:', or give the task "
            "`placement: [HOST]`"
        )
    parts: list[list[str]] = []
    for host, count in task.share:
        name = plan.hosts[host].name
        settings = str(settings_path(run, name, task))
        words = ["-n", str(count), *env.pass_on_rank(), "/bin/sh", "-c", _JOIN, settings]
        words += ["/usr/bin/env", *(f"{key}={value}" for key, value in world.items()), *env.program_words(task, None)]
        parts.append(words if family == "mpich" else ["--host", f"{name}:{count}", *words])
    contexts = [word for part in parts for word in (":", *part)][1:]
    return [*task.mpiexec, *_options(family, plan, task, reach), *contexts]


def _options(family: str, plan: Plan, task: TaskPlan, reach: Path) -> Sequence[str]:
    if family == "mpich":
        hosts = ",".join(f"{plan.hosts[host].name}:{count}" for host, count in task.share)
        return "-launcher", "ssh", "-launcher-exec", str(reach), "-hosts", hosts
    settings = {
        "plm": "rsh",
        "plm_rsh_agent": str(reach),
        "plm_rsh_no_tree_spawn": "1",
        "orte_leave_session_attached": "1",
        "ras": "^slurm,tm,lsf",
    }
    return [word for name, value in settings.items() for word in ("--mca", name, value)]


def ranks_here(task: TaskPlan, host: int) -> str:
    """``first:count`` of the ranks on a host, as the layer reads it."""
    ranks = ranks_on(task, host)
    return f"{ranks.start}:{len(ranks)}"
