"""The errors a user can meet: each says who, what was attempted, why it is wrong and how to mend it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import ClassVar

from wilkins.values import dataclass


class WilkinsError(Exception):
    """The root of all errors of Wilkins: shown to the user as it is, without a traceback."""

    exit_code: ClassVar[int] = 1
    """What the process exits with."""

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show of the error."""
        return [f"{type(self).__name__}: {self}"]


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


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a workflow file; line 0 means the file (or the command-line option) as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Problem:
    """One thing wrong in a workflow file: where, what, and how to mend it."""

    __slots__ = ("message", "position")

    def __init__(self, position: Position, message: str) -> None:
        self.position = position
        self.message = " ".join(message.split())

    def __str__(self) -> str:
        return f"{self.position}: error: {self.message}"


_CURES = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there",
    errno.EACCES: "give yourself the right to, or name another place",
    errno.EPERM: "give yourself the right to, or name another place",
    errno.EROFS: "name another place",
    errno.EMFILE: "let more files be open at once: ulimit -n",
    errno.ENFILE: "let more files be open at once on this machine",
    errno.EAGAIN: "let more processes run at once: ulimit -u",
    errno.ENOMEM: "free some memory",
    errno.EIO: "see to the disk",
    errno.ENAMETOOLONG: "use a shorter name",
}


def is_of_the_machine(error: OSError) -> bool:
    """Whether the system lacks something, or forbids it, so that its user can mend it whatever was attempted."""
    return error.errno in _CURES


def cure(error: OSError) -> str:
    """How to mend what the system refuses."""
    return _CURES.get(error.errno or 0, "see what has become of it")


def refused(path: object, act: str, error: OSError) -> ResourceError:
    """The error that the system refuses an act on a file: which one, what was attempted, why not, and the cure."""
    return ResourceError(f"{path}: cannot {act}: {error.strerror}; {cure(error)}")


def count_of(count: int, noun: str) -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def suggest(word: str, known: Sequence[str]) -> str:
    """``"; did you mean 'nprocs'?"``, or nothing if no known word is close."""
    import difflib

    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return f"; did you mean {lowered[close[0]]!r}?" if close else ""
