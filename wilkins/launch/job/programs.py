"""The processes on the ranks of a job: their programs, and idle ranks for tasks that do not use MPI."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wilkins.launch.job import idle_rank
from wilkins.launch.programs import environment as env
from wilkins.launch.programs import process
from wilkins.launch.programs.guard import VARIABLE
from wilkins.launch.programs.process import Program
from wilkins.plan.plan import TaskPlan
from wilkins.values import dataclass


@dataclass(frozen=True, slots=True)
class RankProgram:
    """The program of a rank, which its launcher starts."""

    words: list[str]
    variables: dict[str, str]
    """Environment variables beside the launcher's own."""
    layer: dict[str, str]
    """Environment variables for the layer."""
    cwd: str
    stdin: str
    """Empty for none."""

    def start(self) -> Program:
        """Start it, as a child of this process.

        Raises:
            OSError: it cannot be started.
        """
        stdin = Path(self.stdin) if self.stdin else None
        environment = env.merged(os.environ, self.variables, self.layer)
        return process.start(self.words, environment, Path(self.cwd), stdin, env.job_descriptors())


@dataclass(frozen=True, slots=True)
class Worlds:
    """The settings that the first process of a job chooses for the MPI programs on all its ranks."""

    ports: dict[str, int]
    """By task index: where its ranks meet without MPI."""
    libraries: dict[str, str]
    """By task index: MPI libraries of programs that load theirs by themselves, late or never."""
    idle_rank: str | None
    """The MPI library by which the other ranks join the job; None if the program of no task does."""

    def of(self, tasks: Sequence[int]) -> Worlds:
        """Those of some tasks, by index."""
        here = set(map(str, tasks))
        ports = {task: port for task, port in self.ports.items() if task in here}
        libraries = {task: library for task, library in self.libraries.items() if task in here}
        return Worlds(ports, libraries, self.idle_rank)

    def program(
        self, task: TaskPlan, run: Path, own: Mapping[str, str], layer: Mapping[str, str], **where: Any
    ) -> RankProgram:
        """The program of a rank of a task.

        Args:
            run: the run's folder in shared memory.
            own: the task's variables, and others.
            layer: by which the layer finds the board.
            where: the rank, as for `env.world_variables`.
        """
        world = env.world_variables(task.nprocs, port=self.ports[str(task.index)], **where)
        joins = {"WILKINS_WORLD": f"{task.first_rank}:{end_rank(task) - 1}", "WILKINS_JOB": str(run)}
        if library := self.libraries.get(str(task.index)):
            joins["WILKINS_MPI"] = library
        variables = {**world, **env.window_variables(run, task), **own}
        return RankProgram(
            env.program_words(task, None), variables, {**layer, **joins}, str(task.cwd), str(task.stdin or "")
        )


class IdleRank:
    """Takes part in the job's start and end of MPI, asleep in between."""

    def __init__(self, library: str, token: str) -> None:
        """`library`: the MPI library to do so with; `token`: of the guard that ends what is left."""
        reader, self._asleep = os.pipe()
        words = [sys.executable, "-I", "-S", idle_rank.__file__, library]
        variables, stdin = {**os.environ, VARIABLE: token}, Path(f"/proc/self/fd/{reader}")
        self.program = process.start(words, variables, Path("/"), stdin, env.job_descriptors(), capture=False)
        os.close(reader)

    def wake(self) -> None:
        """Let it end MPI, which waits for the other ranks."""
        if self._asleep >= 0:
            os.close(self._asleep)
            self._asleep = -1


def end_rank(task: TaskPlan) -> int:
    """The rank of the job after a task's last."""
    return task.first_rank + task.nprocs


def label(task: TaskPlan, rank: int) -> str:
    """The name under which the output of a rank is shown."""
    return task.name if task.nprocs == 1 else f"{task.name}:{rank}"


def labels(task: TaskPlan) -> Sequence[str]:
    """All names under which the output of a task's programs is shown, in one job."""
    ranks = [] if task.nprocs == 1 else [label(task, rank) for rank in range(task.nprocs)]
    return [task.name, *ranks] if task.mpiexec or not ranks else ranks
