"""Messages that are printed once while a run goes on: hints, and a process that holds the lock of the board."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from wilkins.launch.programs.output import Terminal
from wilkins.launch.programs.process import GRACE
from wilkins.transport.board import Board, BoardHeldError
from wilkins.transport.report_table import Report

_HELD_FOR = 5.0
"""Seconds for which a process may hold the lock of the board before that is printed."""

HELD_AGAIN = 0.1
"""Seconds until the board is read again."""

FindHints = Callable[[Report], list[str]]


class Hints:
    """Prints hints for the user while the run goes on, each of them once."""

    def __init__(self, terminal: Terminal, find: FindHints | None) -> None:
        """`find`: finds hints in a report of the board."""
        self._terminal = terminal
        self._find = find
        self._said: set[str] = set()

    def show(self, report: Report) -> None:
        """Print the hints that were not printed before."""
        for hint in self._find(report) if self._find else ():
            if hint not in self._said:
                self._said.add(hint)
                self._terminal.say(hint)


class HeldBoard:
    """A stopped process that holds the lock of the board, which cannot be read or changed meanwhile."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._since = float("inf")
        self._said = False
        self.error: BoardHeldError | None = None
        """The error that names the process which holds the lock; None: it is free."""

    def note(self, now: float, error: BoardHeldError) -> None:
        """The lock of the board is held; print that if it lasts."""
        self.error = error
        self._since = min(self._since, now)
        if now - self._since >= _HELD_FOR and not self._said:
            self._said = True
            self._terminal.say(str(error))

    def is_over(self) -> None:
        """The lock of the board was free."""
        self.error, self._since = None, float("inf")


def failure_on(board: Board) -> str | None:
    """The error on the board; None also if the board cannot be read now."""
    with contextlib.suppress(BoardHeldError):
        return board.failure()
    return None


def report_of(board: Board) -> Report | None:
    """The report of the board; None if the board cannot be read now."""
    with contextlib.suppress(BoardHeldError):
        return board.report()
    return None


def last_report(board: Board) -> Report:
    """The report of the board when all programs have ended.

    Raises:
        BoardHeldError: a process that could not be ended holds its lock.
    """
    until = time.monotonic() + GRACE
    while time.monotonic() < until:
        with contextlib.suppress(BoardHeldError):
            return board.report()
    return board.report()
