"""The state of one task while it runs: its starts, the outcomes of its programs, and its waits."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from wilkins.launch.programs import process
from wilkins.launch.programs.environment import exit_code, takes_filename
from wilkins.launch.programs.hooks import run_hook
from wilkins.launch.programs.output import Log, Stream
from wilkins.launch.programs.process import Program, Used
from wilkins.launch.watch import decide
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.launch.watch.decide import Exit, Facts, Final, Verdict
from wilkins.launch.watch.tracing import TaskTrace
from wilkins.plan.plan import Back, CannotGoBackError, Resumed, TaskPlan, may_read_again
from wilkins.transport.board import Board, EndOfStream
from wilkins.values import replace

State = Literal["waiting", "running", "ended"]
Outcome = Final | Literal["stopped", "not started"]
Starter = Callable[[TaskPlan, "str | None"], Program]
GoBack = Callable[[TaskPlan, bool], Back]
"""Takes a task that has failed, and whether its next start is for the step at which it failed; returns where it goes
on. Raises `CannotGoBackError`."""

_FIRST_POLL = 0.005
_SLOWEST_POLL = 0.05
_ENDS_WITHIN = 5.0
"""Seconds to wait for processes that a failed program has left."""


def _goes_on(_task: TaskPlan, _again: bool) -> Back:
    return Back("with what comes next")


class Ends:
    """Reports the starts and ends of a task's program to the board."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def started(self, task: int) -> None:
        """The program is about to start."""
        self._board.task_started(task)

    def exited(self, task: int, *, final: bool, clean: bool) -> bool:
        """The program has ended; `clean`: it did not fail. True if that is known to be the task's end."""
        self._board.task_exited(task, final=final, clean=clean)
        return final


class Together(Protocol):
    """Agrees with other hosts on each start of a task that has ranks there."""

    @property
    def leads(self) -> bool:
        """Whether this host decides when the next start comes, and for which step."""

    @property
    def reads(self) -> bool:
        """Whether ranks here read."""

    @property
    def is_over(self) -> bool:
        """Whether the host that leads has said that no start comes any more."""

    @property
    def next_start(self) -> str | None:
        """The step that it starts the task for; None: it has not said so yet."""

    def begins(self, filename: str | None) -> None:
        """The task is about to be started here."""

    def differ(self, name: str | None) -> None:
        """The next step here is another one than there, or there is none."""

    def verdict(self, ended: Exit, facts: Facts, board: Board, port: int) -> Verdict | None:
        """What the end of the program means; None: it is not known yet."""


class TaskRun:
    """A task (or, in one job, one rank of it) from before its first start to its last end."""

    def __init__(
        self,
        plan: TaskPlan,
        board: Board,
        ports: BoardPorts,
        log: Log,
        start: Starter,
        *,
        ends: Ends | None = None,
        trace: TaskTrace | None = None,
        once: bool = False,
        starts: int = 0,
        listed: bool = False,
        go_back: GoBack | None = None,
        together: Together | None = None,
    ) -> None:
        """`ends`, `trace`: None for those of a task that has one launcher. `once`: it ends with its first program;
        whether the task goes on is for others to say. `starts`: how often the task was started before; `listed`: the
        last time, its program read what it had listed and ended. `go_back`: where it goes on after a failure, if it is
        to be started again then; None: with what comes next. `together`: for a task with ranks on several hosts that
        may be started for each step."""
        self.plan = plan
        self.log = log
        self.state: State = "waiting"
        self.outcome: Outcome | None = None
        self.exit: Exit | None = None
        self.starts = starts
        self.running_s = 0.0
        self.used = Used()
        self.started_at = 0.0
        self.poll_at = 0.0
        self.program: Program | None = None
        self.unjudged: int | None = None
        """Exit code of the program that has ended, until it was judged."""
        self.stream: Stream | None = None
        self.untouched: tuple[str, ...] = ()
        self.polling_end: Final | None = None
        """The outcome of a task whose program is being ended, since it only polls for what will not come."""
        self._board = board
        self._board_index = ports.by_plan(plan.index)
        self._in_ports = ports.inward(plan.index)
        self._ports = ports.joined(plan.index)
        self._start = start
        self._ends = ends or Ends(board)
        self._trace = trace or TaskTrace(board, plan.index)
        self._interval = _FIRST_POLL
        self._takes_filename = takes_filename(plan)
        self._once = once
        self._final_reported = False
        self._facts_at_end: Facts | None = None
        self._listed = listed
        self._relisted = False
        self._failed_at = 0.0
        self._go_back = go_back or _goes_on
        self._together = together
        self.failures = 0
        """Of its program, since that has ended well for the last time."""
        self.retries = 0
        """Starts after a failure, in all."""
        self._retries = False
        """The next start is one."""
        self.spared = False
        """It has failed, and the run goes on without it."""
        self._steps_well = False
        """Its program has ended well, to be started again for the next step."""

    @property
    def name(self) -> str:
        """The task's name."""
        return self.plan.name

    def poll(self, now: float) -> bool:
        """Start the program if it is due; True if it was started. Ends the task if nothing more will come for it.

        Raises:
            OSError: the program cannot be started.
            BoardHeldError: the board could not be read or changed now.
        """
        if self.plan.resumed and self.plan.resumed.ended:
            self._end("done")
            return False
        filename: str | None = None
        named = self._takes_filename and bool(self._in_ports)
        if self._retries and not self._made_ready(now):
            return False
        if named or (self.starts and (self._steps_well or not self.failures)):
            follows = self._together is not None and not self._together.leads
            due, filename = self._led(named) if follows else self._due(named)
            if not due:
                self.poll_at = now + self._interval
                self._interval = min(2 * self._interval, _SLOWEST_POLL)
                return False
            if self._together:
                self._together.begins(filename)
        if filename is None:
            self._ends.started(self.plan.index)
        self._interval = _FIRST_POLL
        self.starts += 1
        self.started_at = now
        began = time.monotonic_ns()
        self.program = self._start(self.plan, filename)
        self._trace.started(began)
        self._log_relisted()
        self.stream = Stream(self.program.output, self.log)
        self.state = "running"
        return True

    def _due(self, named: bool) -> tuple[bool, str | None]:
        """Whether the next start is due, and for which step, if its program is told that (`named`). Ends the task if
        none will come."""
        awaited = self._awaited()
        try:
            due = None not in [self._board.next_name(port) for port in awaited]
        except EndOfStream:
            facts = self.facts() if self.starts else None
            self._end(decide.after_last_exit(facts) if facts else "done", facts)
            return False, None
        # (A step that was there a moment ago may have been dropped since; the one that is named now is not.)
        filename = self._board.task_started_for(self.plan.index, awaited[0]) if due and named else None
        return due and named == (filename is not None), filename

    def _led(self, named: bool) -> tuple[bool, str | None]:
        """The same on a host that follows another one."""
        assert self._together is not None
        port, told = self._in_ports[0], self._together.next_start
        if self._together.is_over:
            self._end("done")
            return False, None
        if told is not None and not (named and self._together.reads):
            return True, None
        try:
            if self._board.next_name(port) is None or told is None:
                return False, None
        except EndOfStream:
            if told is not None:
                self._together.differ(None)
            return False, None
        filename = self._board.task_started_for(self.plan.index, port)
        if filename not in (None, told):
            self._together.differ(filename)
            return False, None
        return filename is not None, filename

    def _made_ready(self, now: float) -> bool:
        """Whether the task can be started after a failure now; else `poll_at` is the time to try again.

        Raises:
            CannotGoBackError: there is no such start.
            BoardHeldError: not now.
        """
        if self.plan.is_part:
            raise CannotGoBackError(
                f"{self.name}: cannot be started again by itself, since files that its ranks have open together are in "
                "the memory of several hosts"
            )
        if left := self._left_processes():
            process.send(left, signal.SIGKILL)
            if now < self._failed_at + _ENDS_WITHIN:
                self.poll_at = now + _SLOWEST_POLL
                return False
        again = self._for_same_step
        self._board.task_failed(self.plan.index, again=again)
        if not self._board.deliver():
            self.poll_at = now + _SLOWEST_POLL
            return False
        back = self._go_back(self.plan, again)
        for (port, rank), sequence in back.begins.items():
            self._board.go_back(self._board_index[port], rank, sequence)
        if back.resumed is not None:
            self.plan = replace(self.plan, resumed=back.resumed)
            if trouble := run_hook(self.plan):
                raise CannotGoBackError(trouble)
        self._retries = False
        self.retries += 1
        self.log.say(f"{self.name}: starts again {back.shown}")
        return True

    @property
    def will_restart(self) -> bool:
        """Whether it has failed and will be started again."""
        return self._retries and self.state == "waiting"

    @property
    def _for_same_step(self) -> bool:
        """Whether the next start after a failure is for the step at which the program has failed."""
        if not self._in_ports or not may_read_again(self.plan):
            return False
        per_start = self._takes_filename or self.plan.rerun == "always" or self._steps_well
        return self.plan.restart is not None or per_start

    def _left_processes(self) -> list[int]:
        """The processes with the layer that the failed program has left running."""
        of_run = process.members("WILKINS_RUN", str(self._board.path))
        return [pid for pid in of_run if process.environment(pid).get("WILKINS_TASK") == str(self.plan.index)]

    def _log_relisted(self) -> None:
        """Log, once, that the task is started again for steps that came after its program had listed the folder."""
        if self._listed and not self._relisted:
            self._relisted = True
            self.log.say(_started_again(self.name))

    @property
    def lost(self) -> bool:
        """Whether it has failed to do its work, in a run that needs it."""
        return self.outcome in ("failed", "untouched", "stopped", "not started") and not self.spared

    @property
    def relisted(self) -> bool:
        """Whether the task was started again for steps that came after its program had listed the folder."""
        return self._relisted

    def _awaited(self) -> list[int]:
        """The in-ports that must offer a step before the next start: the first, or all that were ever read."""
        if not self.starts:
            return self._in_ports[:1]
        return [port for port in self._in_ports if self._board.port_steps(port)] or self._in_ports[:1]

    @property
    def deadline(self) -> float | None:
        """When the program will have run for longer than the task's time limit, in monotonic time."""
        works = self.state == "running" and self._facts_at_end is None
        return self.started_at + self.plan.timeout if works and self.plan.timeout is not None else None

    def reaped(self, code: int) -> None:
        """The program's process has ended; what that means, `judge` says."""
        code = exit_code(self.plan, code)
        self._stop_clock()
        self._trace.ended(code)
        self.program = None
        self.unjudged = code

    def judge(self) -> Verdict | None:
        """The task waits for its next start, or has ended with its program. None: it was judged before, or other hosts
        have not said yet what they know.

        Raises:
            BoardHeldError: unknown until the board can be read.
        """
        if self.outcome is not None:
            self.unjudged = None
            self.state = "ended"
            return None
        facts = self._facts_at_end or self.facts()
        ended = Exit(self.unjudged or 0)
        verdict = self.polling_end or self._verdict(ended, facts)
        if verdict is None:
            return None
        self.exit, self.unjudged = ended, None
        if verdict == "retry":
            self.failures += 1
            self._retries = True
            self.state = "waiting"
            self._failed_at = time.monotonic()
            self.poll_at = self._failed_at + self.next_delay
            return verdict
        self.failures = 0
        if verdict == "again":
            self._steps_well = True
            self._listed = decide.has_read_listed(facts)
            self._report_restart()
            if self._once:
                self.state, self.outcome = "ended", "done"
            else:
                self.state = "waiting"
                self.poll_at = 0.0
            return verdict
        self._end(verdict, facts)
        return verdict

    def _verdict(self, ended: Exit, facts: Facts) -> Verdict | None:
        if self._together is None:
            return decide.after_exit(ended, facts)
        return self._together.verdict(ended, facts, self._board, self._in_ports[0])

    @property
    def next_delay(self) -> float:
        """Seconds from its last failure to the start after it."""
        return decide.delay(self.plan.retry_delay, self.failures)

    def over(self, code: int) -> Verdict | None:
        """The program has done all it will do and is about to exit with `code`, but its process waits for others.

        Raises:
            BoardHeldError: unknown until the board can be read.
        """
        if self._facts_at_end is not None:
            return None
        facts = self.facts()
        self._stop_clock()
        self._facts_at_end = facts
        self._trace.ended(code)
        verdict = decide.after_exit(Exit(code), self._facts_at_end)
        if verdict == "again":
            self._report_restart()
        elif verdict in ("failed", "untouched"):
            self.exit = Exit(code)
            self.outcome = "failed" if verdict == "failed" else "untouched"
            self.untouched = self._facts_at_end.untouched
        else:
            self.report_final()
        return verdict

    def _end(self, outcome: Outcome, facts: Facts | None = None) -> None:
        self.state = "ended"
        self.outcome = outcome
        if facts is not None and outcome == "untouched":
            self.untouched = facts.untouched
        if outcome not in ("failed", "untouched"):  # these may stop the run, before its consumers see an end
            self.report_final()

    def report_final(self) -> None:
        """Report to the board that nothing more will come from this task."""
        if not self._final_reported:
            self._final_reported = True
            ended = self._ends.exited(self.plan.index, final=True, clean=self.outcome != "failed")
            if ended and self.outcome not in ("failed", "untouched"):
                self._trace.done()

    def _report_restart(self) -> None:
        if not self._final_reported:
            self._final_reported = self._once
            self._ends.exited(self.plan.index, final=False, clean=True)

    def _stop_clock(self) -> None:
        """Count the time of the program until now; what it waits for others after its end is not its own."""
        if self._facts_at_end is None:
            self.running_s += time.monotonic() - self.started_at

    def abandon(self, outcome: Outcome) -> None:
        """End the task without a verdict: it could not be started, or the run is being stopped."""
        if self.program is not None:
            self._stop_clock()
        self.state = "ended"
        self.outcome = outcome

    def stopped(self) -> None:
        """The program has ended while the run was being stopped."""
        if self.outcome is None:
            self.exit = Exit(self.unjudged or 0)
        self.unjudged = None
        self.abandon(self.outcome or "stopped")

    def steps(self) -> int:
        """How many steps it has read from, or published on, the port that has most.

        Raises:
            BoardHeldError: not now.
        """
        return max(map(self._board.port_steps, self._ports), default=0)

    def facts(self) -> Facts:
        """The facts that the board has recorded about the task since its last start.

        Raises:
            BoardHeldError: not now.
        """
        resumed = self.plan.resumed or Resumed(anew=True)
        is_part = not resumed.anew
        read = sum(map(self._board.port_steps, self._in_ports))
        return Facts(
            rerun="never" if resumed.loops and self.plan.rerun == "auto" else self.plan.rerun,
            strict_end=self.plan.strict_end,
            takes_filename=self._takes_filename,
            in_ports=len(self._in_ports),
            opened=self._board.steps_opened(self.plan.index),
            read=resumed.consumed + read,
            listed=self._board.listed(self.plan.index),
            at_end=decide.met_end(self._board.failed_open(self.plan.index), before=resumed.consumed, now=read),
            met_failure=self._board.met_failure(self.plan.index),
            retries_left=max(0, self.plan.retries - self.failures),
            # What is left of a resumed task may need none of a port; a relay's producer answers for itself.
            untouched=tuple(
                pattern
                for port, pattern in self._ports.items()
                if not (is_part or self.plan.is_relay or self.plan.is_part or self._board.touched(port))
            ),
        )


def programs(crew: Iterable[TaskRun]) -> dict[int, int]:
    """The process of each program that runs, by task."""
    return {run.plan.index: run.program.pid for run in crew if run.program is not None}


def pids(crew: Iterable[TaskRun]) -> list[int]:
    """The processes of programs that run."""
    return [run.program.pid for run in crew if run.program is not None]


def _started_again(name: str) -> str:
    """A program had read what it listed, and ended, before its producers did."""
    return (
        f"{name}: listed a folder, read steps that it was shown and ended; it is started again for those that "
        "came meanwhile. If it needs all of them at once, give its in-port `listing: end`; if it is done, give it "
        "`rerun: never` (`wilkins help looking-at-files`)"
    )
