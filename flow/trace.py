"""The trace of a run: what happened when, one event per line of ``trace.tsv`` in the run's directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

from wilkins.errors import WilkinsError
from wilkins.flow import TRACE_FILE

Kind = Literal[
    "start",
    "end",
    "done",
    "file",
    "wait-room",
    "wait-data",
    "wait-memory",
    "go",
    "create",
    "publish",
    "remake",
    "back",
    "drop",
    "skip",
    "open",
    "close",
]
_KINDS = frozenset(get_args(Kind))

AGAIN = "again"
"""A line that stands where a process was killed as it wrote lines. These come again; the line before it is empty, or
one of them that is cut short."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the trace; its fields are the line's columns, in this order.

    ======================  ==============================================================================
    ``start``, ``end``      a program of the task; ``name`` of an end: its exit code or signal
    ``done``                the task has done all it will do, and has not failed
    ``file``                the rank has written a whole file to disk, which takes its name now: that is ``name``, with
                            its folder; its number in the file system is in the place of ``sequence``. Only where the
                            run can be resumed
    ``wait-room``           the rank begins to wait until it may create a step,
    ``wait-data``           until a step comes, or
    ``wait-memory``         until there is memory for what it writes
    ``go``                  that wait is over
    ``create``              the rank begins to write a step
    ``publish``             a step is complete and there for its consumers
    ``back``                the task is started again after a failure, and the rank's next step has this number again
    ``remake``              a step is complete that was published before such a start, and is there for nobody
    ``skip``, ``drop``      a published step that the task will not get, because of ``every`` or a full queue
    ``open``                the rank takes a step
    ``close``               the rank closes a handle on a step that it reads; the last one counts
    ======================  ==============================================================================
    """

    time_ns: int
    """Time of the monotonic clock, which all processes of a node share."""
    event: Kind
    task: str
    """Name of the task's instance, to which the rank and the pattern belong."""
    rank: int
    """Rank within the task; -1 for the whole task."""
    pattern: str
    """The port's; ``-`` where there is none."""
    name: str
    """The file's; ``-`` where there is none."""
    sequence: int = -1
    """Number of the step within what its rank of the producer publishes on its port; -1 where there is none."""
    bytes: int = -1
    """Size of the step; -1 where there is none."""


class BrokenTraceError(WilkinsError, ValueError):
    """A line of a trace is none, as where a disk was full for a while; the message names it."""

    def __init__(self, message: str, before: list[Event]) -> None:
        super().__init__(message)
        self.before = before
        """What can be read: the events of the lines before, in the order of their times."""


def line(event: Event) -> str:
    """The event as a line of the file, with its end."""
    return "\t".join(_clean(str(value)) for value in astuple(event)) + "\n"


def _clean(text: str) -> str:
    return "".join("?" if character < " " else character for character in text)


def read_trace(path: str | Path) -> list[Event]:
    """The events of a trace file (or of the one in a run's directory), in the order of their times.

    A last line that is still being written is passed over, and what a killed process wrote is given once.

    Raises:
        OSError: there is no such file.
        BrokenTraceError: a line of the file is not one of a trace.
    """
    path = Path(path)
    path = path / TRACE_FILE if path.is_dir() else path
    whole, _, _ = os.fsdecode(path.read_bytes()).rpartition("\n")
    events: list[Event] = []
    for number, text in _once(whole.split("\n") if whole else []):
        words = text.split("\t")
        try:
            if len(words) != 8 or words[1] not in _KINDS:
                raise ValueError
            time_ns, kind, task, rank, pattern, name, sequence, size = words
            events.append(Event(int(time_ns), kind, task, int(rank), pattern, name, int(sequence), int(size)))  # type: ignore[arg-type]
        except ValueError:
            message = f"{path}:{number}: not a line of a run's trace: {text[:80]!r}"
            raise BrokenTraceError(message, _in_time(events)) from None
    return _in_time(events)


def _once(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines and their numbers, without the marks, what stands cut short before one, and what comes twice."""
    if AGAIN not in lines:
        yield from enumerate(lines, start=1)
        return
    seen: set[str] = set()
    for number, (text, following) in enumerate(pairwise([*lines, ""]), start=1):
        if text and AGAIN not in (text, following) and text not in seen:
            seen.add(text)
            yield number, text


def _in_time(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.time_ns)
