"""Detects a run that is stuck or out of time, stops it, and prints which ranks wait for which."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wilkins.launch.programs import process
from wilkins.launch.programs.output import Terminal
from wilkins.launch.watch import helppages
from wilkins.launch.watch.notices import HeldBoard, Hints
from wilkins.launch.watch.stopping import Stopping
from wilkins.launch.watch.taskrun import TaskRun, programs
from wilkins.transport.board import Board, BoardHeldError
from wilkins.transport.report_table import Report

if TYPE_CHECKING:
    from wilkins.launch.programs.ranks import Ranks

CHECK_STUCK = 1.0
_LONGEST_PAUSE = 5.0
"""Seconds between two looks at the run, at most."""
CHECK_MOVED = 5.0
QUIET_FOR = 30.0
"""Seconds without progress after which the waits are printed; they are printed again after twice the time."""


def pause_after(still_s: float) -> float:
    """Seconds until the next look at a run in which nothing has been published, opened or begun for so many: what
    follows from that is seen once as much time has passed again."""
    return min(_LONGEST_PAUSE, max(CHECK_STUCK, still_s))


class StuckRuns:
    """Checks from time to time whether the run can go on."""

    def __init__(
        self,
        crew: Sequence[TaskRun],
        board: Board,
        terminal: Terminal,
        stopping: Stopping,
        held: HeldBoard,
        hints: Hints,
        *,
        timeout: float | None,
        check_moved_s: float,
        says_waits: bool,
    ) -> None:
        """`timeout`: seconds that the run may take; `check_moved_s`: seconds between two looks at what has moved;
        `says_waits`: this launcher, and no other one, prints the waits of a run in which nothing moves."""
        now = time.monotonic()
        self._crew = crew
        self._board = board
        self._terminal = terminal
        self._stopping = stopping
        self._held = held
        self._hints = hints
        self._timeout = timeout
        self._deadline = float("inf") if timeout is None else now + timeout
        self._ranks = _GoneRanks(crew, board)
        self._next_stuck = now + CHECK_STUCK
        self._doubted = False
        """A message was printed that the run may be stuck, and nothing has moved since then."""
        self._says_waits = says_waits
        self._check_moved_s = check_moved_s
        self._next_moved = now + check_moved_s
        self._quiet = _Quiet(now)

    @property
    def due(self) -> float:
        """When to look next, in monotonic time."""
        return min(self._next_stuck, self._deadline)

    def turn(self, now: float, pause: Callable[[float], float]) -> None:
        """Look, if that is due. `pause`: seconds from now to the next look.

        Raises:
            BoardHeldError: the board could not be read.
        """
        if now >= self._deadline:
            said = f"the run took longer than --timeout {self._timeout:g} s; stopped"
            self._stopping.stop(4, "\n".join([said, *self._waits(), helppages.STUCK]))
            return
        if now >= self._next_stuck:
            self._next_stuck = now + pause(now)
            if self._board.still_s() >= CHECK_STUCK:
                self._ranks.note()
            self._check_stuck()
            self._held.is_over()
        if now >= self._next_moved and self._stopping.why is None:
            self._next_moved = now + self._check_moved_s
            self._check_moved(now)

    def _check_stuck(self) -> None:
        if failure := self._board.failure():
            self._stopping.stop(1, failure)
        elif not self._board.may_be_stuck():
            return
        elif stuck := self._board.stuck():
            self._stopping.stop(4, self._with_cures(f"the run is stuck and was stopped: {stuck}"))
        elif not self._doubted and (doubtful := self._board.doubtful()):
            self._doubted = True
            self._terminal.say(self._with_cures(f"the run may be stuck: {doubtful}"))

    def _check_moved(self, now: float) -> None:
        report = self._board.report()
        self._hints.show(report)
        moved = [(port.steps, port.bytes) for port in report.ports], [run.starts for run in self._crew]
        if self._quiet.moved(moved, now):
            self._doubted = False
        elif self._says_waits and (seconds := self._quiet.lasts(now)):
            self._say_waits(report, seconds)

    def _say_waits(self, report: Report, seconds: float) -> None:
        from wilkins.launch.watch import explain
        from wilkins.launch.watch.stacks import where

        waits = [*explain.waits(report), *explain.awaited(report, programs(self._crew), where)]
        if waits:
            self._terminal.say("\n".join([f"nothing has moved for {seconds:g} s:", *waits, helppages.STUCK]))

    def _with_cures(self, said: str) -> str:
        from wilkins.launch.watch import explain

        return "\n".join([said, *explain.cures(self._board.report()), helppages.STUCK])

    def _waits(self) -> list[str]:
        """Which ranks wait for which, or the process that holds the lock of the board."""
        from wilkins.launch.watch import explain

        try:
            return explain.waits(self._board.report())
        except BoardHeldError as error:
            return [str(error)]


class _Quiet:
    """For how long nothing has moved."""

    def __init__(self, now: float) -> None:
        self._moved: object = None
        self._since = now
        self._say_after = QUIET_FOR

    def moved(self, moved: object, now: float) -> bool:
        """Record the counters of the run; whether they have changed."""
        if moved == self._moved:
            return False
        self._moved, self._since, self._say_after = moved, now, QUIET_FOR
        return True

    def lasts(self, now: float) -> float | None:
        """The seconds without progress to print, if a message is due: the first time, and after twice the time each."""
        if now - self._since < self._say_after:
            return None
        seconds, self._say_after = self._say_after, 2 * self._say_after
        return seconds


class _GoneRanks:
    """Reports to the board the ranks that have ended while others of their tasks go on."""

    def __init__(self, crew: Sequence[TaskRun], board: Board) -> None:
        self._crew = crew
        self._board = board
        self._ranks: dict[int, Ranks] = {}
        """By the mpiexec that runs them."""

    def note(self) -> None:
        """Find and report such ranks."""
        running = [
            (run, run.program.pid)
            for run in self._crew
            if run.program is not None and run.plan.kind == "mpi" and run.plan.nprocs > 1
        ]
        if not running:
            self._ranks.clear()
            return
        from wilkins.launch.programs.ranks import Ranks

        parents = process.parents(os.getpid())
        known, self._ranks = self._ranks, {}
        for run, pid in running:
            ranks = self._ranks[pid] = known.get(pid) or Ranks(run.plan.index, run.plan.nprocs, pid)
            for rank, began in ranks.gone(parents).items():
                self._board.rank_gone(run.plan.index, rank, began=began)
