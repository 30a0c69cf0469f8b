"""Keeps a crew of tasks running until all have ended or one thing ends them all. One thread, driven by events."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol

from wilkins.launch.programs import process
from wilkins.launch.programs.created import CREATED
from wilkins.launch.programs.leftovers import Segments
from wilkins.launch.programs.output import Stream, Terminal
from wilkins.launch.programs.ranks import Ranks
from wilkins.launch.watch import further
from wilkins.launch.watch.decide import Final, Verdict
from wilkins.launch.watch.others import Others
from wilkins.launch.watch.polling import Polls
from wilkins.launch.watch.progress import Progress
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.plan.plan import CannotGoBackError
from wilkins.transport.board import Board, BoardHeldError
from wilkins.values import dataclass

GRACE = 3.0
"""Seconds between the polite request to end and the end."""

_RELEASE = 0.5
"""Seconds after the polite request until calls that wait for steps fail; most programs are gone by then."""

_CHECK_STUCK = 1.0
_LONGEST_PAUSE = 5.0
"""Seconds between two looks at the run, at most."""
_CHECK_MOVED = 5.0
QUIET_FOR = 30.0
"""Seconds without a movement after which a run says who waits for whom; it says so again after twice the time."""

_HELD_FOR = 5.0
"""Seconds for which a process may stand still with the board before that is said."""

_HELD_AGAIN = 0.1
"""Seconds until the board is asked again."""
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run is stopped, and what its launcher exits with."""

    code: int
    reason: str
    goes_on: bool = False
    """Its tasks are to go back together to where none of them misses a step, since one could not do so by itself."""


def pause_after(still_s: float) -> float:
    """Seconds until the next look at a run in which nothing has been published, opened or begun for so many: what
    follows from that is seen once as much time has passed again."""
    return min(_LONGEST_PAUSE, max(_CHECK_STUCK, still_s))


def last_report(board: Board) -> dict[str, Any]:
    """What the board says when all programs have ended.

    Raises:
        BoardHeldError: a process that could not be ended stands still with it.
    """
    until = time.monotonic() + GRACE
    while time.monotonic() < until:
        with contextlib.suppress(BoardHeldError):
            return board.report()
    return board.report()


def _descendants() -> list[int]:
    return process.descendants(os.getpid())


class Inbox(Protocol):
    """What another launcher of the run says."""

    def fileno(self) -> int:
        """Readable when there is something to notice."""

    def notice(self) -> bool:
        """Hear it; False: there will be no more."""


class Signals:
    """Turns signals into readable events while the block lasts."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.child_ended = True
        self.file_created = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (*_ENDING_SIGNALS, signal.SIGCHLD, CREATED):
            self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGCHLD:
            self.child_ended = True
        elif number == CREATED:
            self.file_created = True
        else:
            self.received.append(number)

    def drain(self) -> None:
        """Forget the wake-ups that led here."""
        try:
            while self.reader.recv(4096):
                pass
        except BlockingIOError:
            pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self.reader.close()
        self._writer.close()


class Supervisor:
    """Starts, watches and ends the programs of one launcher process."""

    def __init__(
        self,
        crew: Sequence[TaskRun],
        board: Board,
        terminal: Terminal,
        *,
        timeout: float | None = None,
        watches_all: bool = True,
        on_stop: Callable[[Stop], None] | None = None,
        on_segment: Callable[[Path], None] | None = None,
        hints: Callable[[dict[str, Any]], list[str]] | None = None,
        polls: Polls | None = None,
        inbox: Inbox | None = None,
        progress: Progress | None = None,
        can_resume: bool = False,
        family: Callable[[], Iterable[int]] = _descendants,
        others: Others | None = None,
    ) -> None:
        """`watches_all`: looks after the whole run (its time, its waits), not only after the crew. `on_stop` is called
        when this crew is what stops the run, `on_segment` with shared memory of MPI that a killed crew leaves; `hints`
        finds in a report what the user should be told while the run goes on, once; `polls` finds programs that do
        nothing but ask for what will not come, which are ended; `inbox` is what another launcher of the run says;
        `progress` tells how far the run is; `can_resume`: another run can go on with this one; `family` finds the
        processes of its programs; `others` knows of the run's tasks, where other launchers start some of them."""
        self.crew = list(crew)
        self._others = others or Others(self.crew)
        self._undecided: list[tuple[TaskRun, str]] = []
        """Instances that have failed, and what is to be said of that, until it is known whether they may."""
        self._board = board
        self._terminal = terminal
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._timeout = timeout
        self._watches_all = watches_all
        self._on_stop = on_stop
        self._stop: Stop | None = None
        self._release_at = float("inf")
        self._kill_at = float("inf")
        self._failed = False
        self._selector = selectors.DefaultSelector()
        self._streams: dict[int, Stream] = {}
        self._foreign: set[int] = set()
        self._next_stuck = time.monotonic() + _CHECK_STUCK
        self._check_moved_s = min(_CHECK_MOVED, polls.told_s) if polls else _CHECK_MOVED
        self._next_moved = time.monotonic() + self._check_moved_s
        self._moved: object = None
        self._moved_at = time.monotonic()
        self._explain_after = QUIET_FOR
        self._doubted = False
        self._held_since = float("inf")
        self._held: BoardHeldError | None = None
        self._told_held = False
        self._inherited = False
        self._hints = hints
        self._polls = polls
        self._asked_in_vain = False
        self._inbox = inbox
        self._progress = progress
        self._can_resume = can_resume
        self._family = family
        self._next_polls = time.monotonic() + (polls.every_s if polls else 0.0)
        self._hinted: set[str] = set()
        self._ranks: dict[int, Ranks] = {}
        """By the mpiexec that runs them."""
        self._segments = Segments(time.monotonic(), watch=watches_all, on_seen=on_segment)

    @property
    def stopped(self) -> Stop | None:
        """Why the run was stopped, if it was."""
        return self._stop

    def run(self, tick: Callable[[], float | None] | None = None) -> int:
        """Run all to the end and return the exit code.

        `tick` is called in every turn and returns the longest time in seconds until its next turn, or None when the
        run may end as far as it is concerned.
        """
        process.adopt_orphans()
        self._foreign = process.children()
        with Signals() as signals:
            self._selector.register(signals.reader, selectors.EVENT_READ)
            if self._inbox is not None:
                self._selector.register(self._inbox, selectors.EVENT_READ, self._inbox)
            try:
                while True:
                    more = tick() if tick else None
                    now = time.monotonic()
                    self._board.tell_rest()
                    self._inherited = self._board.settle_inherited()
                    self._judge_ended(now)
                    self._start_due(now)
                    self._check(now, signals)
                    if more is None and self._is_over:
                        break
                    self._wait(now, more, signals)
                    if signals.file_created:
                        signals.file_created = False
                        self._segments.notice(now)
                    if signals.child_ended:
                        signals.child_ended = False
                        self._reap()
                if self._watches_all and (failure := self._failure()):  # met by programs that ended all the same
                    self.stop(1, failure)
            finally:
                if self._progress is not None:
                    self._progress.end()
                self._selector.unregister(signals.reader)
                self._end_strays()
                process.adopt_orphans(False)
        if self._watches_all and self._stop is None and (failure := self._failure()):
            self.stop(1, failure)  # met by a program's last act
        if self._stop is not None:
            return self._stop.code
        return 1 if self._failed else 0

    @property
    def _is_over(self) -> bool:
        decided = not self._undecided or self._stop is not None
        return decided and all(run.state == "ended" and run.program is None for run in self.crew)

    def add(self, run: TaskRun) -> None:
        """Let the crew have one more."""
        self.crew.append(run)

    def stop(self, code: int, reason: str, *, goes_on: bool = False) -> None:
        """End everything; the first reason counts."""
        if self._stop is not None:
            return
        self._stop = Stop(code, reason, goes_on)
        self._terminal.say(reason)
        if self._on_stop:
            self._on_stop(self._stop)
        self._end_programs()

    def join_stop(self, stop: Stop) -> None:
        """End everything because another launcher of the run does."""
        if self._stop is None:
            self._stop = stop
            self._end_programs()

    def _end_programs(self) -> None:
        """Ask politely; what programs say to that goes to their logs alone, so that the reason stays in sight."""
        now = time.monotonic()
        self._segments.look(now, self._family, at_once=True)
        process.send(self._pids(), signal.SIGTERM, group=True)
        self._release_at = now + _RELEASE
        self._kill_at = now + GRACE
        for run in self.crew:
            if run.program is not None:
                run.log.mute()
            if run.state == "waiting":
                run.abandon("stopped")

    def _pids(self) -> list[int]:
        return [run.program.pid for run in self.crew if run.program is not None]

    def _programs(self) -> dict[int, int]:
        """The process of each program that runs, by task."""
        return {run.plan.index: run.program.pid for run in self.crew if run.program is not None}

    def _start_due(self, now: float) -> None:
        for run in self.crew:
            if run.state != "waiting" or run.poll_at > now or self._stop is not None or self._awaits_others(run):
                continue
            try:
                started = run.poll(now)
            except BoardHeldError as error:
                run.poll_at = now + _HELD_AGAIN
                self._note_held(now, error)
                continue
            except OSError as error:
                from wilkins.launch.watch import explain

                run.abandon("failed")
                self._fail(run, explain.not_started(run, error))
                continue
            except CannotGoBackError as error:
                run.abandon("failed")
                if self._can_resume:
                    self.stop(1, f"{error}; all tasks go back to where none of them misses a step", goes_on=True)
                else:
                    self._fail(run, str(error))
                continue
            if started and run.stream is not None:
                self._streams[run.stream.pipe] = run.stream
                self._selector.register(run.stream.pipe, selectors.EVENT_READ, run.stream)
            elif run.outcome == "untouched":
                self._fail(run, self._untouched(run))

    def _awaits_others(self, run: TaskRun) -> bool:
        """Whether the task comes after others that go on still. If one of them did not end well, it never starts."""
        if run.starts or not run.plan.after:
            return False
        before = [self._others.standing(task) for task in run.plan.after]
        if lost := next((name for standing, name in before if standing == "lost"), None):
            run.abandon("not started")
            self._terminal.say(f"{run.name}: not started, since {lost}, which it comes after, did not end well")
            run.tell_final()
            return True
        return any(standing == "goes on" for standing, _ in before)

    def _wait(self, now: float, more: float | None, signals: Signals) -> None:
        quiet = not self._inherited and all(run.unjudged is None for run in self.crew)
        again = self._pause(now) if quiet else _HELD_AGAIN
        due = [now + (again if more is None else min(more, again)), self._release_at, self._kill_at, self._segments.due]
        if self._watches_all:
            due += [self._next_stuck, self._deadline or due[0]]
        for run in self.crew:
            if run.state == "waiting" and not self._awaits_others(run):
                due.append(run.poll_at)
            elif run.deadline is not None:
                due.append(run.deadline)
        for key, _ in self._selector.select(max(0.0, min(due) - now)):
            if isinstance(key.data, Stream):
                self._pump(key.data)
            elif self._inbox is not None and key.data is self._inbox:
                if not self._inbox.notice():
                    self._selector.unregister(self._inbox)
            else:
                signals.drain()

    def _pause(self, now: float) -> float:
        """Seconds until the next look at the run, where nothing happens before."""
        seen = self._progress is not None and self._progress.is_seen(now)
        wanted = seen or self._asked_in_vain or self._held is not None
        return _CHECK_STUCK if wanted else pause_after(self._board.still_s())

    def _pump(self, stream: Stream) -> None:
        pipe = stream.pipe
        if not stream.pump():
            self._selector.unregister(pipe)
            del self._streams[pipe]

    def _reap(self) -> None:
        ended = process.reap((process.children() - self._foreign) | set(self._pids()))
        for run in self.crew:
            if run.program is None or run.program.pid not in ended:
                continue
            code = ended[run.program.pid]
            if run.stream is not None and run.stream.pipe >= 0:
                self._pump(run.stream)
            run.reaped(code)
        self._judge_ended(time.monotonic())

    def _judge_ended(self, now: float) -> None:
        for run in self.crew:
            if run.unjudged is None:
                continue
            if self._stop is not None:
                run.stopped()
                continue
            try:
                verdict = run.judge()
            except BoardHeldError as error:
                self._note_held(now, error)
            else:
                self._judge(run, verdict)

    def program_over(self, run: TaskRun, code: int) -> None:
        """A program is about to exit with `code`, but its process waits for others before it ends."""
        try:
            verdict = run.over(code)
        except BoardHeldError as error:
            self._note_held(time.monotonic(), error)
        else:
            self._judge(run, verdict)

    def _note_held(self, now: float, error: BoardHeldError) -> None:
        """The board could not be asked; say so once, if that lasts."""
        self._held = error
        self._held_since = min(self._held_since, now)
        if now - self._held_since >= _HELD_FOR and not self._told_held:
            self._told_held = True
            self._terminal.say(str(error))

    def _failure(self) -> str | None:
        """The error on the board; None also where that cannot be asked."""
        try:
            return self._board.failure()
        except BoardHeldError:
            return None

    def _judge(self, run: TaskRun, verdict: Verdict | None) -> None:
        if verdict not in ("failed", "retry", "untouched"):
            return
        from wilkins.launch.watch import explain

        if verdict == "failed":
            self._fail(run, explain.failed(run, self._report()))
        elif verdict == "retry":
            self._terminal.say(explain.retried(run, self._report()))
        elif verdict == "untouched":
            self._fail(run, self._untouched(run))

    def _untouched(self, run: TaskRun) -> str:
        from wilkins.launch.watch import explain

        return explain.untouched(run, self._report())

    def _report(self) -> dict[str, Any] | None:
        """What the board knows; None if it cannot be asked now."""
        with contextlib.suppress(BoardHeldError):
            return self._board.report()
        return None

    def _fail(self, run: TaskRun, message: str) -> None:
        if failure := self._failure():  # what the program met, in more words than its exit code has
            self._lose(run, f"{failure}\n{message}")
        else:
            self._undecided.append((run, message))
            self._decide()

    def _decide(self) -> None:
        """What follows from the failures of tasks, as far as it is known whether they may fail."""
        undecided, self._undecided = self._undecided, []
        for run, message in undecided:
            may_fail = self._others.may_fail(run)
            if may_fail is None:
                self._undecided.append((run, message))
            elif may_fail:
                from wilkins.launch.watch import explain

                run.spared = True
                self._terminal.say(f"{message}\n{explain.left_out(run)}")
                run.tell_final()
            else:
                self._lose(run, message)

    def _lose(self, run: TaskRun, message: str) -> None:
        self._failed = True
        if run.plan.on_failure != "continue":
            self.stop(1, message)
        else:
            self._terminal.say(message)
            run.tell_final()

    def _check(self, now: float, signals: Signals) -> None:
        while signals.received:
            number = signals.received.pop(0)
            if self._stop is not None:
                self._kill_at = now
            held = [str(self._held)] if self._held else []
            self.stop(128 + number, "\n".join([f"stopped by {signal.Signals(number).name}", *held]))
        if self._stop is not None and now >= self._release_at:
            self._release_at = float("inf")
            self._board.stop()
        if now >= self._kill_at:
            self._kill_at = now + GRACE
            process.send(self._pids(), signal.SIGKILL, group=True)
            process.send(self._strays(), signal.SIGKILL)
        if now >= self._segments.due:  # also while all ends: a job that was just starting makes them yet
            self._segments.look(now, self._family)
        if self._stop is not None:
            return
        self._decide()
        for run in self.crew:
            if run.deadline is not None and now >= run.deadline:
                self.stop(4, f"{run.name}: still running after its timeout of {run.plan.timeout:g} s; stopped")
        if self._watches_all:
            self._check_run(now)
        if self._polls is not None and now >= self._next_polls:
            self._next_polls = now + self._polls.every_s
            self._end_polls(self._polls, now)

    def _check_run(self, now: float) -> None:
        if self._deadline is not None and now >= self._deadline:
            self.stop(
                4,
                "\n".join(
                    [f"the run took longer than --timeout {self._timeout:g} s; stopped", *self._waits(), further.STUCK]
                ),
            )
            return
        try:
            if now >= self._next_stuck:
                self._next_stuck = now + self._pause(now)
                if self._board.still_s() >= _CHECK_STUCK:
                    self._note_gone_ranks()
                if failure := self._board.failure():
                    self.stop(1, failure)
                elif stuck := self._board.stuck():
                    from wilkins.launch.watch import explain

                    cures = explain.cures(self._board.report())
                    self.stop(4, "\n".join([f"the run is stuck and was stopped: {stuck}", *cures, further.STUCK]))
                elif not self._doubted and (doubtful := self._board.doubtful()):
                    from wilkins.launch.watch import explain

                    self._doubted = True
                    cures = explain.cures(self._board.report())
                    self._terminal.say("\n".join([f"the run may be stuck: {doubtful}", *cures, further.STUCK]))
                self._held, self._held_since = None, float("inf")
            if now >= self._next_moved and self._stop is None:
                self._next_moved = now + self._check_moved_s
                self._check_moved(now)
            if self._progress is not None and self._stop is None:
                self._progress.turn(now, self._board.report, self._programs)
        except BoardHeldError as error:
            self._note_held(now, error)

    def _note_gone_ranks(self) -> None:
        """Tell the board of ranks that have ended while others of their tasks go on."""
        running = [
            (run, run.program.pid)
            for run in self.crew
            if run.program is not None and run.plan.kind == "mpi" and run.plan.nprocs > 1
        ]
        parents = process.parents(os.getpid()) if running else {}
        known, self._ranks = self._ranks, {}
        for run, pid in running:
            ranks = self._ranks[pid] = known.get(pid) or Ranks(run.plan.index, run.plan.nprocs, pid)
            for rank, began in ranks.gone(parents).items():
                self._board.rank_gone(run.plan.index, rank, began=began)

    def _waits(self) -> list[str]:
        """Who waits for whom, or who keeps all from going on."""
        from wilkins.launch.watch import explain

        try:
            return explain.waits(self._board.report())
        except BoardHeldError as error:
            return [str(error)]

    def _end_polls(self, polls: Polls, now: float) -> None:
        try:
            self._asked_in_vain = self._board.asks_in_vain()
            report = self._board.report() if self._asked_in_vain else None
        except BoardHeldError:
            return  # it is asked again, and whoever watches the run says who holds it
        if report is None:
            polls.forget()
            return
        for run in self.crew:
            if run.program is None:
                continue
            pid = run.program.pid
            if end := polls.only_polls(report, run.plan.index, partial(process.family, pid), now):
                self._tell_hints(report)
                self._end_program(run, pid, end)
            elif name := polls.starts_in_vain(report, run.plan.index, now):
                if not run.polls_in_vain:
                    self._terminal.say(
                        f"{run.name}: one new process after another asks for {name!r} in vain; it is ended"
                    )
                self._end_program(run, pid, "failed")

    def _end_program(self, run: TaskRun, pid: int, end: Final) -> None:
        """End a program that asks for what will not come: its task's end."""
        process.send([pid], signal.SIGKILL if run.polls_in_vain else signal.SIGTERM, group=True)
        run.polls_in_vain = end

    def _tell_hints(self, report: dict[str, Any]) -> None:
        for hint in self._hints(report) if self._hints else ():
            if hint not in self._hinted:
                self._hinted.add(hint)
                self._terminal.say(hint)

    def _check_moved(self, now: float) -> None:
        report = self._board.report()
        self._tell_hints(report)
        moved = [(port["steps"], port["bytes"]) for port in report["ports"]], [run.starts for run in self.crew]
        if moved != self._moved:
            self._moved, self._moved_at, self._explain_after = moved, now, QUIET_FOR
            self._doubted = False
        elif now - self._moved_at >= self._explain_after and self._inbox is None:
            from wilkins.launch.watch import explain
            from wilkins.launch.watch.stacks import where

            quiet, self._explain_after = self._explain_after, 2 * self._explain_after
            waits = [*explain.waits(report), *explain.awaited(report, self._programs(), where)]
            if waits:
                self._terminal.say("\n".join([f"nothing has moved for {quiet:g} s:", *waits, further.STUCK]))

    def _strays(self) -> list[int]:
        own = process.children() - self._foreign
        return sorted(own.union(*(process.descendants(pid) for pid in own))) if own else []

    def _end_strays(self) -> None:
        """Nothing that the crew started runs on; what it printed last is kept."""
        until = time.monotonic() + GRACE
        while (strays := self._strays()) and time.monotonic() < until:
            process.send(strays, signal.SIGKILL)
            process.reap(strays)
            time.sleep(0.01)
        self._segments.remove()
        for stream in list(self._streams.values()):
            if stream.pump():
                stream.close()
        self._selector.close()
        for run in self.crew:
            if run.program is not None:
                run.abandon("stopped")
            run.log.close()
