"""Runs a crew of tasks until all have ended or the run is stopped. One thread, driven by events."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from wilkins.launch.programs import process
from wilkins.launch.programs.leftovers import Segments
from wilkins.launch.programs.output import Stream, Terminal
from wilkins.launch.programs.process import Children, Used
from wilkins.launch.programs.signals import Signals
from wilkins.launch.watch.dependencies import Dependencies
from wilkins.launch.watch.notices import HELD_AGAIN, FindHints, HeldBoard, Hints, failure_on
from wilkins.launch.watch.polling import Pollers, Polls
from wilkins.launch.watch.progress import Progress
from wilkins.launch.watch.starts import Starts
from wilkins.launch.watch.stopping import Stop, Stopping
from wilkins.launch.watch.stuck import CHECK_MOVED, CHECK_STUCK, StuckRuns, pause_after
from wilkins.launch.watch.taskrun import TaskRun, pids, programs
from wilkins.launch.watch.verdicts import Verdicts
from wilkins.transport.board import Board, BoardHeldError
from wilkins.values import dataclass


def _descendants() -> list[int]:
    return process.descendants(os.getpid())


class Inbox(Protocol):
    """The messages of another launcher of the run."""

    def fileno(self) -> int:
        """Readable when there are messages."""

    def notice(self) -> bool:
        """Handle them; False: there will be no more."""


@dataclass(frozen=True, slots=True)
class WholeRun:
    """Settings of the launcher that supervises the whole run (its time, its waits), not only its crew."""

    timeout: float | None = None
    """Seconds that the run may take."""
    progress: Progress | None = None
    """Prints its progress."""


class Supervisor:
    """Starts, watches and ends the programs of one launcher process."""

    def __init__(
        self,
        crew: Sequence[TaskRun],
        board: Board,
        terminal: Terminal,
        *,
        whole: WholeRun | None,
        on_stop: Callable[[Stop], None] | None = None,
        hints: FindHints | None = None,
        polls: Polls | None = None,
        inbox: Inbox | None = None,
        can_resume: bool = False,
        family: Callable[[], Iterable[int]] = _descendants,
        dependencies: Dependencies | None = None,
    ) -> None:
        """`whole`: None, where another launcher looks after the whole run. `on_stop` is called when this crew is what
        stops the run; `hints` returns the hints for the user in a report, each of which is printed once; `polls`
        finds programs that only poll for files that will not come, which are ended; `inbox`: the messages of another
        launcher of the run; `can_resume`: another run can go on with this one; `family` finds the processes of its
        programs; `dependencies`: the status of the run's other tasks, where other launchers start some of them."""
        self.crew = list(crew)
        self._board = board
        self._inbox = inbox
        self._progress = whole.progress if whole else None
        self._selector = selectors.DefaultSelector()
        self._streams: dict[int, Stream] = {}
        self._children = Children()
        # Shared memory of MPI that a killed crew leaves.
        watches = whole is not None
        self._segments = Segments(time.monotonic(), family, watch=watches, on_seen=board.note_segment)
        self._stopping = Stopping(self.crew, board, terminal, self._children, self._segments, on_stop)
        self._held = held = HeldBoard(terminal)
        dependencies = dependencies or Dependencies(self.crew)
        self._verdicts = Verdicts(self.crew, board, terminal, self._stopping, held, dependencies)
        self._starts = Starts(
            self.crew, terminal, self._stopping, self._verdicts, held, dependencies, can_resume=can_resume
        )
        said = Hints(terminal, hints)
        self._pollers = Pollers(self.crew, board, terminal, polls, said) if polls else None
        self._stuck: StuckRuns | None = None
        if whole is not None:
            self._stuck = StuckRuns(
                self.crew,
                board,
                terminal,
                self._stopping,
                held,
                said,
                timeout=whole.timeout,
                check_moved_s=min(CHECK_MOVED, polls.message_every_s) if polls else CHECK_MOVED,
                says_waits=inbox is None,
            )

    @property
    def stopped(self) -> Stop | None:
        """Why the run was stopped, if it was."""
        return self._stopping.why

    def run(self, tick: Callable[[], float | None] | None = None) -> int:
        """Run all to the end and return the exit code.

        `tick` is called in every turn and returns the longest time in seconds until its next turn, or None when the
        run may end as far as it is concerned.
        """
        self._children.adopt()
        with Signals() as signals:
            self._selector.register(signals.reader, selectors.EVENT_READ)
            if self._inbox is not None:
                self._selector.register(self._inbox, selectors.EVENT_READ, self._inbox)
            try:
                while self._turn(signals, tick):
                    pass
                self._stop_for_failure()  # met by programs that ended all the same
            finally:
                if self._progress is not None:
                    self._progress.end()
                self._selector.unregister(signals.reader)
                self._end_all()
                self._children.release()
        self._stop_for_failure()  # met by a program's last act
        if self.stopped is not None:
            return self.stopped.code
        return 1 if self._verdicts.any_failed else 0

    def add(self, run: TaskRun) -> None:
        """Let the crew have one more."""
        self.crew.append(run)

    def stop(self, code: int, reason: str) -> None:
        """End everything; the first reason counts."""
        self._stopping.stop(code, reason)

    def join_stop(self, stop: Stop) -> None:
        """End everything because another launcher of the run does."""
        self._stopping.join(stop)

    def program_over(self, run: TaskRun, code: int) -> None:
        """A program is about to exit with `code`, but its process waits for others before it ends."""
        self._verdicts.program_over(run, code, time.monotonic())

    def _turn(self, signals: Signals, tick: Callable[[], float | None] | None) -> bool:
        """Do what is due, and wait for what comes next; False: all is over."""
        more = tick() if tick else None
        now = time.monotonic()
        self._board.deliver()
        inherited = self._board.settle_inherited()
        self._verdicts.judge_ended(now)
        for run in self._starts.start_due(now):
            if run.stream is not None:
                self._streams[run.stream.pipe] = run.stream
                self._selector.register(run.stream.pipe, selectors.EVENT_READ, run.stream)
        self._heed(signals, now)
        self._check(now)
        if more is None and self._is_over:
            return False
        unsettled = inherited or any(run.unjudged is not None for run in self.crew)
        again = HELD_AGAIN if unsettled else self._pause(now)
        self._wait(self._next_due(now + (again if more is None else min(more, again))) - now, signals)
        if signals.file_created:
            signals.file_created = False
            self._segments.notice(now)
        if signals.child_ended:
            signals.child_ended = False
            self._reap()
        return True

    @property
    def _is_over(self) -> bool:
        decided = self._verdicts.are_decided or self.stopped is not None
        return decided and all(run.state == "ended" and run.program is None for run in self.crew)

    def _heed(self, signals: Signals, now: float) -> None:
        while signals.received:
            number = signals.received.pop(0)
            if self.stopped is not None:
                self._stopping.kill_now(now)
            held = [str(self._held.error)] if self._held.error else []
            self.stop(128 + number, "\n".join([f"stopped by {signal.Signals(number).name}", *held]))

    def _check(self, now: float) -> None:
        self._stopping.turn(now)
        if now >= self._segments.due:  # also while all ends: a job that was just starting makes them yet
            self._segments.look(now)
        if self.stopped is not None:
            return
        self._verdicts.decide()
        for run in self.crew:
            if run.deadline is not None and now >= run.deadline:
                self.stop(4, f"{run.name}: still running after its timeout of {run.plan.timeout:g} s; stopped")
        if self._stuck is not None:
            self._check_run(self._stuck, now)
        if self._pollers is not None:
            self._pollers.turn(now)

    def _check_run(self, stuck: StuckRuns, now: float) -> None:
        try:
            stuck.turn(now, self._pause)
            if self._progress is not None and self.stopped is None:
                self._progress.turn(now, self._board.report, lambda: programs(self.crew))
        except BoardHeldError as error:
            self._held.note(now, error)

    def _pause(self, now: float) -> float:
        """Seconds until the next look at the run, where nothing happens before."""
        seen = self._progress is not None and self._progress.is_seen(now)
        polling = self._pollers is not None and self._pollers.poll_missing
        wanted = seen or polling or self._held.error is not None
        return CHECK_STUCK if wanted else pause_after(self._board.still_s())

    def _next_due(self, latest: float) -> float:
        """When something is due next, and at the latest."""
        deadlines = [run.deadline for run in self.crew if run.deadline is not None]
        due = [latest, self._stopping.due, self._segments.due, *self._starts.due(), *deadlines]
        return min([*due, self._stuck.due] if self._stuck else due)

    def _wait(self, seconds: float, signals: Signals) -> None:
        for key, _ in self._selector.select(max(0.0, seconds)):
            if isinstance(key.data, Stream):
                self._pump(key.data)
            elif self._inbox is not None and key.data is self._inbox:
                if not self._inbox.notice():
                    self._selector.unregister(self._inbox)
            else:
                signals.drain()

    def _pump(self, stream: Stream) -> None:
        pipe = stream.pipe
        if not stream.pump():
            self._selector.unregister(pipe)
            del self._streams[pipe]

    def _reap(self) -> None:
        used: dict[int, Used] = {}
        ended = self._children.reap(pids(self.crew), used)
        for run in self.crew:
            if run.program is None or run.program.pid not in ended:
                continue
            code = ended[run.program.pid]
            run.used += used[run.program.pid]
            if run.stream is not None and run.stream.pipe >= 0:
                self._pump(run.stream)
            run.reaped(code)
        self._verdicts.judge_ended(time.monotonic())

    def _stop_for_failure(self) -> None:
        """Stop the run for a failure on the board, though its programs may have ended well."""
        if self._stuck is not None and self.stopped is None and (failure := failure_on(self._board)):
            self.stop(1, failure)

    def _end_all(self) -> None:
        """End all processes that the crew started, and keep their last output."""
        self._children.end()
        self._segments.remove()
        for stream in list(self._streams.values()):
            if stream.pump():
                stream.close()
        self._selector.close()
        for run in self.crew:
            if run.program is not None:
                run.abandon("stopped")
            run.log.close()
