"""The launcher's lines in a run's trace: when the programs of tasks start and end."""

from __future__ import annotations

import signal
import time

from wilkins.launch.watch.decide import Exit
from wilkins.transport.board import Board


class TaskTrace:
    """Notes the starts and ends of one task, or of one rank of it. A trace that cannot be written disturbs no run."""

    def __init__(self, board: Board, task: int, rank: int = -1) -> None:
        self._board = board
        self._task = task
        self._rank = rank
        self._running = False

    def started(self, time_ns: int) -> None:
        """The program has been started, at this time of the monotonic clock."""
        self._running = True
        self._board.note(self._task, self._rank, "start", "-", time_ns)

    def ended(self, code: int) -> None:
        """The program has ended with an exit code, or a negative signal; for each start the first end counts."""
        if self._running:
            self._running = False
            self._board.note(self._task, self._rank, "end", _name_of(Exit(code)), time.monotonic_ns())

    def done(self) -> None:
        """The task has done all it will do, and has not failed."""
        self._board.note(self._task, self._rank, "done", "-", time.monotonic_ns())


def _name_of(exit_: Exit) -> str:
    return signal.Signals(-exit_.code).name if -exit_.code in set(signal.Signals) else str(exit_.code)
