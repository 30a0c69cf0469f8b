"""A restart point of a task, as a value in the records of the run that resumes from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wilkins.flow.recovery import Position

Stream = tuple[int, int]
"""The steps of one rank on one out-port: the port's index in the plan, and the rank."""

Joined = tuple[int, Stream]
"""A stream on a channel: the channel's place in the plan, and the stream."""


@dataclass(frozen=True, slots=True)
class RestartPoint:
    """One of the points of a task."""

    how: Literal["start", "told", "file", "step", "ended"]
    """The beginning; a state that the task has reported; a checkpoint file; between two steps; the task's end."""
    position: Position[Stream] = field(default_factory=lambda: Position({}, {}))
    offered: Mapping[Joined, int] = field(default_factory=dict)
    """By channel and stream that begins here: how many steps of lower numbers had names for the channel's in-port."""
    file: str = ""
    inode: int = 0
    """The inode of a file that the program has written to disk itself."""
    line: str = ""
    """The line that the task has reported, as it gets it back."""

    @property
    def shown(self) -> str:
        """For people: what the task is started from."""
        if self.how != "ended" and not any((*self.position.consumed.values(), *self.position.published.values())):
            return "the beginning"
        if self.how == "told":
            return self.file or "its saved state"
        words = {"start": "the beginning", "step": "its next step", "ended": "nothing: it has ended"}
        return words.get(self.how, self.file)

    def record(self) -> dict[str, Any]:
        """The point as plain data."""
        consumed, published = self.position.consumed, self.position.published
        return {
            "how": self.how,
            "consumed": [[channel, *stream, count] for (channel, stream), count in consumed.items()],
            "published": [[*stream, count] for stream, count in published.items()],
            "offered": [[channel, *stream, count] for (channel, stream), count in self.offered.items()],
            "file": self.file,
            "inode": self.inode,
            "line": self.line,
        }

    @classmethod
    def restored(cls, data: Mapping[str, Any]) -> RestartPoint:
        """The point of a record."""
        return cls(
            data["how"],
            Position(
                {(channel, (port, rank)): count for channel, port, rank, count in data["consumed"]},
                {(port, rank): count for port, rank, count in data["published"]},
            ),
            {(channel, (port, rank)): count for channel, port, rank, count in data["offered"]},
            data["file"],
            data["inode"],
            data["line"],
        )
