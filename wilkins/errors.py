"""The errors a user can meet: each says who, what was attempted, why it is wrong and how to mend it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from wilkins.positions import Position


class WilkinsError(Exception):
    """An error to be shown to the user as it is, without a traceback."""

    exit_code: ClassVar[int] = 1
    """What the process exits with."""


class TaskFailed(WilkinsError):
    """A task ended with an error."""

    exit_code = 1


class UsageError(WilkinsError):
    """The command line asks for something that cannot be done."""

    exit_code = 2


class WorkflowError(WilkinsError, ValueError):
    """The workflow file is wrong; holds everything found wrong, one line each."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class ResourceError(WilkinsError):
    """The machine or the job does not offer what the workflow needs."""

    exit_code = 3


class StuckError(WilkinsError):
    """The run cannot go on, or took longer than it was given."""

    exit_code = 4


class Problem:
    """One thing wrong in a workflow file: where, what, and how to mend it."""

    __slots__ = ("message", "position")

    def __init__(self, position: Position, message: str) -> None:
        self.position = position
        self.message = " ".join(message.split())

    def __str__(self) -> str:
        return f"{self.position}: error: {self.message}"


def count_of(count: int, noun: str) -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def suggest(word: str, known: Sequence[str]) -> str:
    """``"; did you mean 'nprocs'?"``, or nothing if no known word is close."""
    import difflib

    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return f"; did you mean {lowered[close[0]]!r}?" if close else ""
