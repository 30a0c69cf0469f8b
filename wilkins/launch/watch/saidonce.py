"""What is said once while a run goes on: hints, and that a process stands still with the board."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from wilkins.launch.programs.output import Terminal
from wilkins.launch.programs.process import GRACE
from wilkins.transport.board import Board, BoardHeldError
from wilkins.transport.report_table import Report

_HELD_FOR = 5.0
"""Seconds for which a process may stand still with the board before that is said."""

HELD_AGAIN = 0.1
"""Seconds until the board is asked again."""

FindHints = Callable[[Report], list[str]]


class Hints:
    """What the user should be told while the run goes on."""

    def __init__(self, terminal: Terminal, find: FindHints | None) -> None:
        """`find`: finds hints in a report of the board."""
        self._terminal = terminal
        self._find = find
        self._said: set[str] = set()

    def tell(self, report: Report) -> None:
        """Say what was not said before."""
        for hint in self._find(report) if self._find else ():
            if hint not in self._said:
                self._said.add(hint)
                self._terminal.say(hint)


class HeldBoard:
    """A process stands still with the board, which can be neither asked nor told meanwhile."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._since = float("inf")
        self._said = False
        self.error: BoardHeldError | None = None
        """Who holds it; None: nobody."""

    def note(self, now: float, error: BoardHeldError) -> None:
        """The board is held; say so if that lasts."""
        self.error = error
        self._since = min(self._since, now)
        if now - self._since >= _HELD_FOR and not self._said:
            self._said = True
            self._terminal.say(str(error))

    def is_over(self) -> None:
        """The board could be asked."""
        self.error, self._since = None, float("inf")


def failure_on(board: Board) -> str | None:
    """The error on the board; None also where that cannot be asked."""
    with contextlib.suppress(BoardHeldError):
        return board.failure()
    return None


def report_of(board: Board) -> Report | None:
    """What the board knows; None if it cannot be asked now."""
    with contextlib.suppress(BoardHeldError):
        return board.report()
    return None


def last_report(board: Board) -> Report:
    """What the board says when all programs have ended.

    Raises:
        BoardHeldError: a process that could not be ended stands still with it.
    """
    until = time.monotonic() + GRACE
    while time.monotonic() < until:
        with contextlib.suppress(BoardHeldError):
            return board.report()
    return board.report()
