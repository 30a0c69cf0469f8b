"""One rank of a one-job run: its program, the idle rank that joins MPI in its place if needed, and its result.

The first program of an MPI task runs on the ranks of the job (`joins_world`). A rank can initialise MPI once, so what
is started later, or with the name of each step, is an MPI job of its own, which the launcher of the task's first rank
starts and watches as `wilkins run` alone would. The task's other ranks are idle until that has ended.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from wilkins.launch.alone import Start, end_of
from wilkins.launch.begin import exporter_of
from wilkins.launch.job.dependencies import JobDependencies
from wilkins.launch.job.programs import IdleRank, Worlds, end_rank, label, labels
from wilkins.launch.job.rendezvous import ENDED, HAS_FAILED, MAY_GO_ON, OVER, Rendezvous
from wilkins.launch.options import RunOptions, going_back
from wilkins.launch.programs import environment as env
from wilkins.launch.programs import process
from wilkins.launch.programs.guard import VARIABLE, Guard
from wilkins.launch.programs.output import Log, Terminal
from wilkins.launch.programs.process import Program, Used
from wilkins.launch.records.rundir import RunDirectory
from wilkins.launch.records.summary import TaskEnd, old_names
from wilkins.launch.watch import decide
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.launch.watch.decide import Exit
from wilkins.launch.watch.polling import Polls
from wilkins.launch.watch.progress import Progress
from wilkins.launch.watch.stopping import Stop
from wilkins.launch.watch.supervise import Supervisor, WholeRun
from wilkins.launch.watch.taskrun import Ends, GoBack, TaskRun
from wilkins.launch.watch.tracing import TaskTrace
from wilkins.plan.plan import Plan, TaskPlan
from wilkins.transport.board import Board, BoardHeldError
from wilkins.values import asdict, dataclass, replace

_TURN = 0.05
_LOOK = 1.0
_LAST_RESULTS = 10.0
_FAILURES = ("failed", "untouched")


@dataclass(frozen=True, slots=True)
class JobSetting(Worlds):
    """The settings that the first rank has chosen for all."""

    records: str
    """The run directory."""
    quiet: bool
    timeout: float | None
    go_back: str
    """See `RunOptions`."""


def task_of(plan: Plan, rank: int) -> TaskPlan:
    """The task that a rank of the job belongs to."""
    return next(task for task in plan.tasks if task.first_rank <= rank < task.first_rank + task.nprocs)


def meets_at_start(task: TaskPlan) -> bool:
    """True if the task's ranks start by themselves, so that the job's first launcher reports the start for all."""
    is_apart = task.kind == "mpi" and not env.joins_world(task)
    return task.nprocs > 1 and not is_apart


class JobRank:
    """A rank's launcher."""

    def __init__(
        self,
        plan: Plan,
        setting: JobSetting,
        meeting: Rendezvous,
        board: Board,
        guard: Guard,
        options: RunOptions | None = None,
    ) -> None:
        """`options`: of the run, where this is the first rank."""
        self.plan = plan
        self._task = task_of(plan, meeting.rank)
        self._setting = setting
        self._meeting = meeting
        self._board = board
        self._token = guard.token
        self._leads = meeting.rank == 0
        self._rank = meeting.rank - self._task.first_rank
        self._world_ranks = [
            rank for other in plan.tasks if env.joins_world(other) for rank in range(other.first_rank, end_rank(other))
        ]
        shown = [label for item in plan.tasks for label in labels(item)]
        self.terminal = Terminal(shown, quiet=setting.quiet, colours=False)
        self._records = RunDirectory(Path(setting.records))
        self.exporter = exporter_of(plan, options, self._records, self.terminal) if options else None
        self._ports = BoardPorts(plan)
        self._start_apart = Start(board, self._ports, guard.token, self._records, can_resume=plan.can_resume)
        # If each rank has a program, the first rank's launcher decides what the ends of all of them mean.
        self._judges = meets_at_start(self._task) and self._rank == 0
        self._lost = False
        """Whether the programs of its ranks have ended, and not well."""
        self._dependencies = JobDependencies(plan, meeting)
        polls = Polls(plan)
        self._supervisor = Supervisor(
            self._crew(),
            board,
            self.terminal,
            whole=self._whole_run(),
            on_stop=lambda stop: meeting.stop(stop.code, stop.reason),
            hints=lambda report: [*old_names(plan, report), *polls.messages(report, time.monotonic())],
            # The end of a rank of the job would be the end of the job.
            polls=None if env.joins_world(self._task) or self._task.nprocs > 1 else polls,
            dependencies=self._dependencies,
        )
        self._result_sent = False
        self._starter = os.getppid()
        self._look_at = 0.0
        self._results_by = float("inf")
        self._idle_rank: IdleRank | None = None

    @property
    def stopped(self) -> Stop | None:
        """Why the run was stopped, if it was."""
        return self._supervisor.stopped

    def run(self) -> int:
        """Run this rank to the end of the whole job; its exit code (for the first rank: of its own part)."""
        if not env.joins_world(self._task):
            self._meeting.mark(OVER)
            if self._setting.idle_rank:
                self._idle_rank = IdleRank(self._setting.idle_rank, self._token)
        try:
            code = self._supervisor.run(self._turn)
        finally:
            self._end_idle_rank()
        verdict = self._meeting.verdict()
        return code if verdict is None else verdict

    def _crew(self) -> list[TaskRun]:
        """The tasks that this launcher starts at first."""
        task = self._task
        if not meets_at_start(task):
            return [self._run_apart()] if self._rank == 0 else []
        return [
            TaskRun(
                task,
                self._board,
                self._ports,
                Log(label(task, self._rank), self._records.log_path(task.name, self._rank), self.terminal),
                self._start,
                ends=_CountedEnds(self._board, self._meeting),
                trace=TaskTrace(self._board, task.index, self._rank),
                once=True,
                go_back=self._going_back(),
            )
        ]

    def _whole_run(self) -> WholeRun | None:
        """The first rank's launcher looks after it."""
        if not self._leads:
            return None
        return WholeRun(self._setting.timeout, Progress(self.plan, self._records.path, self.terminal, self.exporter))

    def _going_back(self) -> GoBack | None:
        return going_back(self._setting.go_back, self.plan, self._records, None, self._records.trace)

    def _run_apart(self, starts: int = 0, *, listed: bool = False) -> TaskRun:
        """The task by itself, at every start after so many; `listed`: the last had listed its steps."""
        task = self._task
        return TaskRun(
            task,
            self._board,
            self._ports,
            Log(task.name, self._records.log_path(task.name), self.terminal),
            self._start_apart,
            starts=starts,
            listed=listed,
            go_back=self._going_back(),
        )

    def _start(self, task: TaskPlan, _filename: str | None) -> Program:
        own = {VARIABLE: self._token, **self._start_apart.own_variables(task)}
        layer = self._board.environment(task.index, self._rank)
        return self._setting.program(task, self._board.path, own, layer, rank=self._rank, local_rank=self._rank).start()

    def _end_idle_rank(self) -> None:
        """Let the idle rank finalise MPI, which waits for the other ranks; end it if they do not come."""
        if self._idle_rank is None:
            return
        self._idle_rank.wake()
        until = time.monotonic() + (0.0 if self.stopped else _LAST_RESULTS)
        while not process.reap([self._idle_rank.program.pid]):
            if time.monotonic() > until:
                process.send([self._idle_rank.program.pid], 9)
            time.sleep(0.01)
        self._idle_rank = None

    def _turn(self) -> float | None:
        now = time.monotonic()
        ranks = self._meeting.ranks()
        if env.joins_world(self._task) and ranks[self._meeting.rank] == OVER:
            run = self._supervisor.crew[0]
            if run.state == "running":
                self._supervisor.program_over(run, self._meeting.exit_status())
        if self.stopped is None and (found := self._meeting.stopped()):
            self._supervisor.join_stop(Stop(found["code"], found["reason"]))
        if self.stopped is not None and self._results_by == float("inf"):
            self._results_by = now + _LAST_RESULTS
        if self._judges and self.stopped is None:
            self._judge_ends()
        if self._rank == 0 and not self._judges:
            self._report_end()
        if not self._result_sent and (result := self._result(ranks)):
            self._result_sent = True
            self._meeting.leave_result(result)
        self._watch_idle_rank(ranks)
        looks = now >= self._look_at
        if looks:
            self._look_at = now + _LOOK
            if os.getppid() != self._starter:  # Open MPI's mpirun ends no rank that is not in MPI when it is killed
                self._supervisor.stop(1, "the process that started the ranks of this job was killed; the run ends")
            elif self._leads and (killed := self._meeting.killed()):  # a rank that has left MPI may go unnoticed there
                name = task_of(self.plan, killed[0]).name
                self._supervisor.stop(
                    1, f"{name}: the launcher of rank {killed[0]} of the job was killed; the run ends"
                )
        if self._leads:
            done = min(self._meeting.ranks()) >= ENDED or now > self._results_by
        else:
            done = self._meeting.verdict() is not None or now > self._results_by + _LAST_RESULTS
            if not done and looks and not self._meeting.leader_lives():
                self._supervisor.stop(1, "rank 0's launcher was killed; the run cannot go on")
                done = self._result_sent
        return None if done else _TURN

    def _judge_ends(self) -> None:
        """Decide what the ends of the programs of all ranks mean for the task, once all have ended."""
        run = self._supervisor.crew[0]
        ends = self._meeting.ends(self._task.index)
        if len(ends) < self._task.nprocs:
            return
        clean = HAS_FAILED not in ends
        try:
            facts = run.facts()
        except BoardHeldError:
            return
        again = clean and MAY_GO_ON in ends and decide.after_exit(Exit(0), facts) == "again"
        self._judges, self._lost = False, not clean
        self._board.task_exited(self._task.index, final=not again, clean=clean)
        if again:
            self._supervisor.add(self._run_apart(run.starts, listed=decide.has_read_listed(facts)))
        elif clean and run.outcome not in _FAILURES:
            TaskTrace(self._board, self._task.index).done()

    def _report_end(self) -> None:
        """Report that the task has ended, though a first program may wait for others in MPI_Finalize."""
        run = self._supervisor.crew[-1]
        waits = env.joins_world(self._task) and run is self._supervisor.crew[0]
        if waits or (run.state == "ended" and run.program is None):
            self._dependencies.report_ended(self._task.index, lost=self._lost or run.lost)

    def _result(self, ranks: bytes) -> dict[str, Any] | None:
        """The result of this rank; None until it is known."""
        crew = self._supervisor.crew
        if not crew:  # the launcher of the task's first rank knows
            if self.stopped is not None:
                return _result_record(TaskEnd(0, "stopped", "", 0.0))
            return self._meeting.result(self._task.first_rank) if ranks[self._task.first_rank] >= ENDED else None
        if any(run.state != "ended" or run.program is not None for run in crew):
            return None
        if self._judges and self.stopped is None:
            return None
        worst = next((run for run in crew if run.outcome in _FAILURES), crew[-1])
        used = sum((run.used for run in crew), Used())
        end = replace(
            end_of(worst),
            starts=crew[-1].starts,
            running_s=sum(run.running_s for run in crew),
            retries=sum(run.retries for run in crew),
            cpu_s=used.cpu_s,
            memory_bytes=used.memory_bytes,
        )
        return _result_record(end, spared=worst.spared)

    def _watch_idle_rank(self, ranks: bytes) -> None:
        if self._idle_rank is None:
            return
        if all(ranks[rank] >= OVER for rank in self._world_ranks):
            self._idle_rank.wake()
        if code := process.reap([self._idle_rank.program.pid]):
            self._idle_rank = None
            if any(code.values()):
                self._supervisor.stop(
                    1, f"{self._task.name}: its rank could not join the MPI job with {self._setting.idle_rank}"
                )


class _CountedEnds(Ends):
    """The ends of one of several ranks: the launcher of the first one judges them when all have ended."""

    def __init__(self, board: Board, meeting: Rendezvous) -> None:
        super().__init__(board)
        self._meeting = meeting

    def started(self, task: int) -> None:
        """Do nothing: the first launcher has reported the start to the board, before any rank was started."""

    def exited(self, task: int, *, final: bool, clean: bool) -> bool:
        self._meeting.count_end(task, final=final, clean=clean)
        return False


def _result_record(end: TaskEnd, *, spared: bool = False) -> dict[str, Any]:
    return {**asdict(end), "failed": end.outcome in _FAILURES and not spared}
