"""How a run is stopped: its programs are asked to end, calls that wait for steps fail, and what is left is killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence

from wilkins.launch.programs import process
from wilkins.launch.programs.leftovers import Segments
from wilkins.launch.programs.output import Terminal
from wilkins.launch.programs.process import GRACE, Children
from wilkins.launch.watch.taskrun import TaskRun, pids
from wilkins.transport.board import Board
from wilkins.values import dataclass

_RELEASE = 0.5
"""Seconds after the polite request until calls that wait for steps fail; most programs are gone by then."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run is stopped, and what its launcher exits with."""

    code: int
    reason: str
    goes_on: bool = False
    """Its tasks are to go back together to where none of them misses a step, since one could not do so by itself."""


class Stopping:
    """Stops a crew's programs, for the first reason that there is."""

    def __init__(
        self,
        crew: Sequence[TaskRun],
        board: Board,
        terminal: Terminal,
        children: Children,
        segments: Segments,
        on_stop: Callable[[Stop], None] | None,
    ) -> None:
        """`on_stop` is called when this crew is what stops the run."""
        self._crew = crew
        self._board = board
        self._terminal = terminal
        self._children = children
        self._segments = segments
        self._on_stop = on_stop
        self._release_at = float("inf")
        self._kill_at = float("inf")
        self.why: Stop | None = None
        """None: the run goes on."""

    @property
    def due(self) -> float:
        """When there is something to do next, in monotonic time."""
        return min(self._release_at, self._kill_at)

    def stop(self, code: int, reason: str, *, goes_on: bool = False) -> None:
        """Say why, and end everything."""
        if self.why is not None:
            return
        self.why = Stop(code, reason, goes_on)
        self._terminal.say(reason)
        if self._on_stop:
            self._on_stop(self.why)
        self._end_programs()

    def join(self, stop: Stop) -> None:
        """End everything because another launcher of the run does."""
        if self.why is None:
            self.why = stop
            self._end_programs()

    def kill_now(self, now: float) -> None:
        """Kill what is left now."""
        self._kill_at = now

    def turn(self, now: float) -> None:
        """Do what is due."""
        if now >= self._release_at:
            self._release_at = float("inf")
            self._board.stop()
        if now >= self._kill_at:
            self._kill_at = now + GRACE
            process.send(pids(self._crew), signal.SIGKILL, group=True)
            process.send(self._children.remaining(), signal.SIGKILL)

    def _end_programs(self) -> None:
        """Ask politely; what programs say to that goes to their logs alone, so that the reason stays in sight."""
        now = time.monotonic()
        self._segments.look(now, at_once=True)
        process.send(pids(self._crew), signal.SIGTERM, group=True)
        self._release_at = now + _RELEASE
        self._kill_at = now + GRACE
        for run in self._crew:
            if run.program is not None:
                run.log.mute()
            if run.state == "waiting":
                run.abandon("stopped")
