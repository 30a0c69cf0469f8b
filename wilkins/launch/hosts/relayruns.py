"""The halves of relays as tasks that start late.

A receiver starts when its sender comes. A sender starts with the first step of its port, where it may have none: it is
not on the host of its producer's rank 0. A relay that carries no step then takes no process: its sender's host says at
the end that none comes. What other tasks see of it on the board is what they would see of one that runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from wilkins.launch.hosts.relays import Relays
from wilkins.launch.watch.taskrun import Ends, TaskRun
from wilkins.transport.board import Board

_SOONEST, _LATEST = 0.02, 0.25
"""Seconds between two looks at the board, as it moves or stands still,"""
_OF_EACH = 0.0004
"""at least for each sender that waits, so that very many take a few percent of a core,"""
_OF_STILL = 1 / 20
"""and as a part of the time for which it has stood still."""
_ANYWAY = 0.5
"""Seconds after which senders look though nothing has moved: a stream may have ended."""


class SenderRun(TaskRun):
    """Starts when its port has a step. Where none comes, it ends without a start."""

    def poll(self, now: float) -> bool:
        if not self.starts:
            due, _ = self._due(named=False)
            if not due:
                self.poll_at = float("inf")  # until `Lookout` says otherwise
                return False
        return super().poll(now)


class ReceiverRun(TaskRun):
    """Starts when its sender connects. Until then, and while others of its producer's go on, it is on the board as one
    that runs and waits for steps from elsewhere."""

    def __init__(self, relays: Relays, *rest: Any, ends: Ends, **more: Any) -> None:
        super().__init__(*rest, ends=_StartedBefore(ends), **more)
        self._relays = relays
        self._of_board = ends
        self._is_shown = False

    def poll(self, now: float) -> bool:
        if not self._is_shown:
            self._of_board.started(self.plan.index)
            self._is_shown = True
        if self._relays.has_come(self.plan.index):
            return super().poll(now)
        self.poll_at = float("inf")
        return False

    def end_without(self) -> None:
        """No sender comes: end without a start."""
        self._end("done")


class _StartedBefore(Ends):
    """The start of a task was reported before its program starts."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends

    def started(self, task: int) -> None:
        """It was said."""

    def exited(self, task: int, *, final: bool, clean: bool) -> bool:
        return self._ends.exited(task, final=final, clean=clean)


class Lookout:
    """Lets the halves of relays that have not started look whether they have to."""

    def __init__(self, board: Board, relays: Relays, crew: Sequence[TaskRun]) -> None:
        self._board = board
        self._relays = relays
        self._senders = [run for run in crew if isinstance(run, SenderRun)]
        self._receivers = {run.plan.index: run for run in crew if isinstance(run, ReceiverRun)}
        self._looked = self._due = 0.0
        self._is_hurried = True

    def hurry(self) -> None:
        """A task of this host has ended: so may a stream have."""
        self._is_hurried = True

    def note_arrivals(self) -> None:
        """Start the receivers to which senders have come."""
        for task in self._relays.arrived():
            self._receivers[task].poll_at = 0.0

    def unused(self) -> dict[int, list[int]]:
        """By host that reads: relays whose senders have ended without a start since the last call."""
        ended = [run for run in self._senders if run.state == "ended"]
        self._senders = [run for run in self._senders if run.state == "waiting"]
        return self._relays.unused(run.plan.index for run in ended if run.outcome == "done" and not run.starts)

    def turn(self) -> float | None:
        """Let them look where that is due; seconds until the next time, or None: none of them waits for anything."""
        for task in list(self._relays.without()):
            if self._relays.is_over_without(task):
                self._receivers[task].end_without()
        if not self._senders:
            return _SOONEST if self._relays.without() else None
        now, still = time.monotonic(), self._board.still_s()
        if now >= self._due or self._is_hurried:
            if self._is_hurried or now - self._looked >= min(still, _ANYWAY):
                self._looked, self._is_hurried = now, False
                for run in self._senders:
                    run.poll_at = 0.0
            least = max(_SOONEST, _OF_EACH * len(self._senders))
            self._due = now + max(least, min(_LATEST, _OF_STILL * still))
        return self._due - now
