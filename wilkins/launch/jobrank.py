"""One rank of a one-job run: its program, the stand-in that joins MPI for it where needed, and its part in the end."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from wilkins.launch import bystander, process
from wilkins.launch import environment as env
from wilkins.launch.alone import end_of
from wilkins.launch.boardmap import BoardPorts
from wilkins.launch.guard import VARIABLE, Guard
from wilkins.launch.output import Log, Terminal
from wilkins.launch.process import Program
from wilkins.launch.rendezvous import ENDED, OVER, Rendezvous
from wilkins.launch.rundir import RunDirectory
from wilkins.launch.summary import old_names
from wilkins.launch.supervise import Stop, Supervisor
from wilkins.launch.taskrun import Ends, TaskRun
from wilkins.launch.tracing import TaskTrace
from wilkins.plan import Plan, TaskPlan
from wilkins.transport.board import Board

_TURN = 0.05
_LOOK = 1.0
_LAST_RESULTS = 10.0


@dataclass(frozen=True, slots=True)
class JobSetting:
    """What the first rank decided for all."""

    records: str
    """The run directory."""
    quiet: bool
    timeout: float | None
    master_ports: dict[str, int]
    """By task index."""
    mpi_libraries: dict[str, str]
    """By task index, for MPI tasks that load MPI by themselves, late or never."""
    bystander_library: str | None
    """The MPI library by which ranks without MPI join the job; None if no task needs MPI."""


def task_of(plan: Plan, rank: int) -> TaskPlan:
    """The task that a rank of the job belongs to."""
    return next(task for task in plan.tasks if task.first_rank <= rank < task.first_rank + task.nprocs)


class JobRank:
    """A rank's launcher."""

    def __init__(self, plan: Plan, setting: JobSetting, meeting: Rendezvous, board: Board, guard: Guard) -> None:
        task = task_of(plan, meeting.rank)
        if task.kind == "mpi":
            task = replace(task, rerun="never")  # MPI cannot be initialised twice by one rank of a job
        self.plan = plan
        self._setting = setting
        self._meeting = meeting
        self._board = board
        self._token = guard.token
        self._leads = meeting.rank == 0
        self._rank = meeting.rank - task.first_rank
        self._mpi_ranks = [
            rank for other in plan.tasks if other.kind == "mpi" for rank in range(other.first_rank, _end_rank(other))
        ]
        label = _label(task, self._rank)
        labels = [
            item.name if item.nprocs == 1 else f"{item.name}:{rank}"
            for item in plan.tasks
            for rank in range(item.nprocs)
        ]
        self.terminal = Terminal(labels, quiet=setting.quiet, colours=False)
        records = RunDirectory(Path(setting.records))
        self._records = records
        log = Log(label, records.log_path(task.name, None if task.nprocs == 1 else self._rank), self.terminal)
        ports = BoardPorts(plan)
        ends = Ends(board) if task.nprocs == 1 else _CountedEnds(board, meeting, task.nprocs)
        trace = TaskTrace(board, task.index, -1 if task.nprocs == 1 else self._rank)
        self.run_of_task = TaskRun(task, board, ports, log, self._start, ends, trace)
        self._supervisor = Supervisor(
            [self.run_of_task],
            board,
            self.terminal,
            timeout=setting.timeout if self._leads else None,
            watches_all=self._leads,
            on_stop=lambda stop: meeting.stop(stop.code, stop.reason),
            on_segment=guard.note,
            hints=lambda report: old_names(plan, report),
        )
        self._coupled = bool(ports.of(task.index))
        self._told = False
        self._look_at = 0.0
        self._results_by = float("inf")
        self._bystander: Program | None = None
        self._asleep = -1

    @property
    def stopped(self) -> Stop | None:
        """Why the run was stopped, if it was."""
        return self._supervisor.stopped

    def run(self) -> int:
        """Run this rank to the end of the whole job; its exit code (for the first rank: of its own part)."""
        if self.run_of_task.plan.kind == "plain":
            self._meeting.mark(OVER)
            if self._setting.bystander_library:
                self._start_bystander(self._setting.bystander_library)
        try:
            code = self._supervisor.run(self._turn)
        finally:
            self._end_bystander()
        verdict = self._meeting.verdict()
        return code if verdict is None else verdict

    def _start(self, task: TaskPlan, filename: str | None) -> Program:
        port = self._setting.master_ports[str(task.index)]
        world = env.world_variables(task.nprocs, rank=self._rank, local_rank=self._rank, port=port)
        layer = self._board.environment(task.index, self._rank)
        own = env.started_env(task, self._records.points_path(task.name) if self.plan.can_resume else None)
        if task.kind == "plain":
            layer = layer if self._coupled else {}
            base = {**env.user_environment(), **world, VARIABLE: self._token}
            return process.start(env.program_words(task, filename), env.merged(base, own, layer), task.cwd, task.stdin)
        layer["WILKINS_WORLD"] = f"{task.first_rank}:{_end_rank(task) - 1}"
        layer["WILKINS_JOB"] = str(self._meeting.path)
        if library := self._setting.mpi_libraries.get(str(task.index)):
            layer["WILKINS_MPI"] = library
        base = {**os.environ, **world, **env.window_variables(self._meeting.path, task), VARIABLE: self._token}
        words = env.program_words(task, filename)
        return process.start(words, env.merged(base, own, layer), task.cwd, task.stdin, env.job_descriptors())

    def _start_bystander(self, library: str) -> None:
        reader, self._asleep = os.pipe()
        words = [sys.executable, "-I", "-S", bystander.__file__, library]
        self._bystander = process.start(
            words,
            {**os.environ, VARIABLE: self._token},
            Path("/"),
            Path(f"/proc/self/fd/{reader}"),
            env.job_descriptors(),
            capture=False,
        )
        os.close(reader)

    def _wake_bystander(self) -> None:
        if self._asleep >= 0:
            os.close(self._asleep)
            self._asleep = -1

    def _end_bystander(self) -> None:
        """Let the stand-in finalise MPI, which waits for the other ranks; end it if they do not come."""
        if self._bystander is None:
            return
        self._wake_bystander()
        until = time.monotonic() + (0.0 if self.stopped else _LAST_RESULTS)
        while not process.reap([self._bystander.pid]):
            if time.monotonic() > until:
                process.send([self._bystander.pid], 9)
            time.sleep(0.01)
        self._bystander = None

    def _turn(self) -> float | None:
        now = time.monotonic()
        task = self.run_of_task
        ranks = self._meeting.ranks()
        if not self._told and task.state == "ended" and task.program is None:
            self._told = True
            self._meeting.leave_result({**asdict(end_of(task)), "failed": task.outcome in ("failed", "untouched")})
        elif task.plan.kind == "mpi" and task.state == "running" and ranks[self._meeting.rank] == OVER:
            self._supervisor.program_over(task, self._meeting.exit_status())
        if self.stopped is None and (found := self._meeting.stopped()):
            self._supervisor.join_stop(Stop(found["code"], found["reason"]))
        if self.stopped is not None and self._results_by == float("inf"):
            self._results_by = now + _LAST_RESULTS
        self._watch_bystander(ranks)
        if self._leads:
            done = min(self._meeting.ranks()) >= ENDED or now > self._results_by
        else:
            done = self._meeting.verdict() is not None or now > self._results_by + _LAST_RESULTS
            if not done and now >= self._look_at:
                self._look_at = now + _LOOK
                if not self._meeting.leader_lives():
                    self._supervisor.stop(1, "rank 0's launcher was killed; the run cannot go on")
                    done = self._told
        return None if done else _TURN

    def _watch_bystander(self, ranks: bytes) -> None:
        if self._bystander is None:
            return
        if all(ranks[rank] >= OVER for rank in self._mpi_ranks):
            self._wake_bystander()
        if code := process.reap([self._bystander.pid]):
            self._bystander = None
            if any(code.values()):
                name = self.run_of_task.name
                self._supervisor.stop(
                    1, f"{name}: its rank could not join the MPI job with {self._setting.bystander_library}"
                )


class _CountedEnds(Ends):
    """A task of several ranks has ended when the last of them has; its start was told once, at the set-up."""

    def __init__(self, board: Board, meeting: Rendezvous, nprocs: int) -> None:
        super().__init__(board)
        self._meeting = meeting
        self._nprocs = nprocs

    def started(self, task: int, *, one_step: bool) -> None:
        """The first launcher has told the board, before any rank was started."""

    def exited(self, task: int, *, final: bool, clean: bool) -> None:
        all_clean = self._meeting.count_end(task, self._nprocs, clean)
        if all_clean is not None:
            super().exited(task, final=final, clean=all_clean)


def _label(task: TaskPlan, rank: int) -> str:
    return task.name if task.nprocs == 1 else f"{task.name}:{rank}"


def _end_rank(task: TaskPlan) -> int:
    return task.first_rank + task.nprocs
