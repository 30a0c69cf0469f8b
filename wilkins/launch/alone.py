"""The launch on one machine: every task is a process, or a small MPI job, of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from wilkins.errors import ResourceError, WilkinsError
from wilkins.launch.begin import begin_run, brief, end_export, exporter_of
from wilkins.launch.options import Ended, RunOptions, going_back
from wilkins.launch.programs import environment as env
from wilkins.launch.programs import process
from wilkins.launch.programs.guard import VARIABLE, Guard, end_members
from wilkins.launch.programs.output import Log, Terminal, report_leftovers
from wilkins.launch.programs.process import Program
from wilkins.launch.records import stepsizes, summary
from wilkins.launch.records.conclude import conclude
from wilkins.launch.records.rundir import RunDirectory
from wilkins.launch.records.summary import TaskEnd
from wilkins.launch.watch.boardmap import BoardPorts, create_board
from wilkins.launch.watch.notices import report_of
from wilkins.launch.watch.polling import Polls
from wilkins.launch.watch.progress import Progress
from wilkins.launch.watch.supervise import Supervisor, WholeRun
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.plan.cores import cores, oversubscribed
from wilkins.plan.plan import Plan, TaskPlan
from wilkins.terminal import streams
from wilkins.transport.board import Board
from wilkins.transport.removal import sweep


def run(plan: Plan, options: RunOptions) -> Ended:
    """Run a plan on this machine.

    Raises:
        WilkinsError: the run could not be set up.
    """
    if plan.lacking:
        raise ResourceError("\n".join(plan.lacking))
    sweep()
    sizes = stepsizes.of_run_before(plan)
    records = begin_run(plan, options)
    terminal = Terminal([task.name for task in plan.tasks], quiet=options.quiet)
    for note in (*plan.notes, *oversubscribed(plan, cores())):
        terminal.say(note)
    with Guard() as guard:
        board = create_board(plan, records.layer_log, records.trace, can_resume=plan.can_resume)
        try:
            stepsizes.make_ready(plan, board, sizes)
            brief(board, plan, records.path)
            return _run(plan, options, records, terminal, board, guard)
        except KeyboardInterrupt:  # outside the time in which signals are events
            return Ended(128 + signal.SIGINT, records.path)
        finally:
            end_members(guard.token)
            report_leftovers(board.remove())


def _run(
    plan: Plan, options: RunOptions, records: RunDirectory, terminal: Terminal, board: Board, guard: Guard
) -> Ended:
    ports = BoardPorts(plan)
    started = time.monotonic()
    shares_cores = sum(task.nprocs for task in plan.tasks) > cores()
    start = Start(board, ports, guard.token, records, can_resume=plan.can_resume, shares_cores=shares_cores)
    back = going_back(options.go_back, plan, records, None, records.trace)
    crew = [
        TaskRun(task, board, ports, Log(task.name, records.log_path(task.name), terminal), start, go_back=back)
        for task in plan.tasks
    ]
    polls = Polls(plan)
    exporter = exporter_of(plan, options, records, terminal)
    supervisor = Supervisor(
        crew,
        board,
        terminal,
        whole=WholeRun(options.timeout, Progress(plan, records.path, terminal, exporter)),
        hints=lambda report: [*summary.old_names(plan, report), *polls.messages(report, time.monotonic())],
        polls=polls,
        can_resume=plan.can_resume,
    )
    code = supervisor.run()
    stepsizes.record(plan, board, records)
    ends = [end_of(task) for task in crew]
    wall_s = time.monotonic() - started
    stop = supervisor.stopped
    code = conclude(plan, board, ends, records, terminal, stop, code, strict=options.strict, wall_s=wall_s)
    end_export(exporter, report_of(board), code, terminal)
    failures = {task.plan.index: task.failures for task in crew}
    records.release()
    return Ended(code, records.path, stop is not None and stop.goes_on, failures)


def end_of(run: TaskRun) -> TaskEnd:
    """The launcher's part of a task's summary."""
    exit_words = str(run.exit) if run.exit else ""
    return TaskEnd(
        run.starts,
        run.outcome or "stopped",
        exit_words,
        run.running_s,
        run.retries,
        run.relisted,
        run.used.cpu_s,
        run.used.memory_bytes,
    )


class Start:
    """Starts the programs of tasks, each in a world of its own."""

    def __init__(
        self,
        board: Board,
        ports: BoardPorts,
        token: str,
        records: RunDirectory,
        *,
        can_resume: bool,
        shares_cores: bool = False,
    ) -> None:
        """`shares_cores`: the run has more ranks than this machine has cores."""
        self._board = board
        self._records = records
        self._can_resume = can_resume
        self._shares_cores = shares_cores
        self._ports = ports
        self._base = {**env.user_environment(), VARIABLE: token}

    def own_variables(self, task: TaskPlan) -> dict[str, str]:
        """A task's own."""
        return env.started_env(task, self._records.points_path(task.name) if self._can_resume else None)

    def extras(self, _task: TaskPlan) -> tuple[dict[str, str], tuple[int, ...]]:
        """Variables and open descriptors that a program needs beside the usual."""
        return {}, ()

    def __call__(self, task: TaskPlan, filename: str | None) -> Program:
        """Start a task's program; the layer goes only into tasks that have a memory port.

        Raises:
            OSError: it cannot be started.
        """
        if task.kind == "mpi" and not task.mpiexec:
            raise OSError(
                0,
                "the next start is an MPI job of its own, and no mpiexec was found for that; install the one of the "
                "program's MPI, name one with 'mpiexec:', or let the program read all steps in one start",
            )
        coupled = bool(self._ports.of(task.index))
        port = env.free_port()
        more, descriptors = self.extras(task)
        try:
            own = self.own_variables(task) | more
        except WilkinsError as error:
            raise OSError(0, str(error)) from error
        if task.container:
            return self._start_contained(task, own, port, filename)
        if task.kind == "plain":
            layer = self._board.environment(task.index, 0) if coupled else {}
            world = env.world_variables(1, rank=0, local_rank=0, port=port)
            variables = env.merged({**self._base, **world}, own, layer)
            return self.started(task, env.program_words(task, filename), variables, descriptors)
        layer = self._board.environment(task.index, None) if coupled else {}
        if coupled and self._shares_cores:
            layer |= {env.SHARES_CORES: "1"}
        world = env.world_variables(task.nprocs, rank=None, local_rank=None, port=port)
        base = {**env.MPIEXEC_DEFAULTS, **self._base, **world, **own}
        ranks = env.merged(base, {}, layer)
        words = env.mpi_words(task, {name: ranks[name] for name in (*layer, *world)}, filename)
        return process.start(words, base, task.cwd, task.stdin)

    def started(
        self, task: TaskPlan, words: list[str], variables: Mapping[str, str], descriptors: tuple[int, ...]
    ) -> Program:
        """Start a task that is one process, and no container."""
        return process.start(words, variables, task.cwd, task.stdin, descriptors)

    def _start_contained(self, task: TaskPlan, own: dict[str, str], port: int, filename: str | None) -> Program:
        """Start a task's program in its container; the layer goes into the program alone."""
        from wilkins.plan import containers

        is_mpi = task.kind == "mpi"
        layer = self._board.environment(task.index, None if is_mpi else 0) if self._ports.of(task.index) else {}
        if layer and is_mpi and self._shares_cores:
            layer |= {env.SHARES_CORES: "1"}
        rank = None if is_mpi else 0
        world = env.world_variables(task.nprocs, rank=rank, local_rank=rank, port=port)
        inside = env.merged(world, {name: own[name] for name in own if name == "LD_PRELOAD"}, layer)
        if is_mpi:
            words, inside = env.mpi_words(task, inside, filename), {**env.MPIEXEC_DEFAULTS, **containers.MPI_VARIABLES}
        else:
            words = env.program_words(task, filename)
        words = env.contained(task, words, own, inside, self._records.path)
        path = self._base.get("PATH", os.defpath)
        base = {**containers.outside({**self._base, **own}), "PATH": path}  # what starts containers needs its own
        return process.start(words, base, task.cwd, task.stdin)


def clean() -> int:
    """Remove what dead runs of this user left in shared memory, and say what was removed."""
    folders = sweep(on_left=report_leftovers)
    for folder in folders:
        streams.show(f"removed {folder}")
    if not folders:
        streams.show("nothing to remove: no dead run left anything in shared memory")
    return 0
