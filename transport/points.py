"""Restart points: what a program that knows of Wilkins tells of its saved states, and which one it is to go back to.

A point says what a saved state has seen of the program's ports. `wilkins run --resume` chooses one for each task, so
that together no step is lost and none comes twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from wilkins.values import asdict, dataclass, field

POINTS = "WILKINS_POINTS"
"""Names the file that a task's points are added to, a line each; not set where nobody asks for them."""

CHOSEN = "WILKINS_RESTART_POINT"
"""In a resumed run, holds the line of the point that a task goes back to; empty: it begins anew."""


@dataclass(frozen=True, slots=True)
class Point:
    """A state that a task can be started from again."""

    label: str
    """By which the task finds the state."""
    consumed: Mapping[str, int] = field(default_factory=dict)
    """By in-port: the state contains all that the task does with steps of lower numbers, and nothing of later ones."""
    published: Mapping[str, int] = field(default_factory=dict)
    """By out-port: a task started from the state publishes the step of this number next."""
    file: str = ""
    """Where the state is, if that is one file."""
    opened: Mapping[str, int] = field(default_factory=dict)
    """By in-port, instead of `consumed`: how many of its steps the state contains, in the order in which they came."""


def tell(
    label: str,
    consumed: Mapping[str, int] | None = None,
    published: Mapping[str, int] | None = None,
    file: str | os.PathLike[str] = "",
    opened: Mapping[str, int] | None = None,
) -> None:
    """Say that a state is saved, after it is durable: a crash of the machine just after this call must leave it whole.

    Where nobody asks for points, outside of a run or in a task without ``restart:``, this does nothing. Of a task with
    several ranks, one rank tells, when all have saved. The line is on disk when this returns.

    Args:
        label: by which the task will find the state again.
        consumed: by in-port (its ``filename``): how many steps were consumed, that is, the number
            (`wilkins.transport.Step.sequence`) of the last one that the state contains, plus one. An in-port that is
            left out counts as one of which nothing was consumed.
        published: by out-port: how many steps were published when the state was as it is, those of the runs that
            this one goes on with included. One that is left out: nothing.
        file: the state's file, for messages, and to be given to `{file}` of ``restart:``.
        opened: for in-ports that several producers write to, instead of `consumed`: how many steps the task has had
            from the port, all in all and with those of the runs before, if the state contains the first so many that
            it has opened and nothing of later ones.

    Raises:
        ValueError: a count is negative, or an in-port is in both `consumed` and `opened`.
        OSError: the line could not be written.
    """
    place = os.environ.get(POINTS)
    if not place:
        return
    point = Point(label, dict(consumed or {}), dict(published or {}), os.fspath(file), dict(opened or {}))
    for pattern, count in (*point.consumed.items(), *point.published.items(), *point.opened.items()):
        if count < 0:
            raise ValueError(f"restart point {label!r}: {pattern!r} cannot be at step {count}")
    if both := point.consumed.keys() & point.opened.keys():
        raise ValueError(f"restart point {label!r}: {min(both)!r} is in 'consumed' and in 'opened'; leave one out")
    data = (line(point) + "\n").encode()
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        written = os.write(descriptor, data)
        if written != len(data):
            os.write(descriptor, b"\n")  # what is half there is no point; the next one begins a line of its own
            raise OSError(f"restart point {label!r}: {place} took {written} of {len(data)} bytes")
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def chosen() -> Point | None:
    """The point that this task is to go back to; None if it begins anew.

    Raises:
        ValueError: the variable that the launcher sets holds something else.
    """
    text = os.environ.get(CHOSEN)
    return parsed(text) if text else None


def resumed() -> bool:
    """Whether the run goes on with another one; then `chosen` alone says what to go on from, whatever lies there."""
    return CHOSEN in os.environ


def line(point: Point) -> str:
    """A point as one line of JSON."""
    return json.dumps(asdict(point), separators=(",", ":"))


def parsed(text: str) -> Point:
    """The point that `line` wrote.

    Raises:
        ValueError: the text is none.
    """
    try:
        data = json.loads(text)
        consumed, published, opened = dict(data["consumed"]), dict(data["published"]), dict(data["opened"])
        point = Point(str(data["label"]), consumed, published, str(data["file"]), opened)
        counts = (*consumed.values(), *published.values(), *opened.values())
        if any(not isinstance(count, int) or count < 0 for count in counts):
            raise ValueError("a count of steps is no number")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a restart point: {text[:200]!r} ({error})") from error
    return point


def read(place: str | os.PathLike[str]) -> list[Point]:
    """The points reported so far, the oldest first. Lines that a kill or a full disk has cut short are passed over."""
    try:
        text = Path(place).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [point for point in map(_if_whole, text.split("\n")) if point]


def _if_whole(text: str) -> Point | None:
    try:
        return parsed(text)
    except ValueError:
        return None
