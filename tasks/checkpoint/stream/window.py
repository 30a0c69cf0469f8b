"""The newest steps of a stream, held in memory; which of them goes to storage next, and which never does."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

LATE = 1.0
"""Seconds after a request to end in which further steps are waited for: they were on their way."""

_TRIES = 2
"""How often the last step is tried to be stored: there may be room the second time."""


class Bytes(Protocol):
    """A file in memory, until it is closed."""

    name: str
    sequence: int
    address: int
    size: int

    def close(self) -> None:
        """Release the step."""


@dataclass(slots=True, eq=False)
class Held:
    """A step in memory."""

    step: Bytes
    index: int
    """0, 1, ... as it came."""
    due: bool
    """Whether it is to go to storage."""
    stored: bool = field(default=False)
    tries: int = field(default=0)


class Window:
    """Steps, from the thread that takes them to the one that stores them.

    At most `most` wait, and one more is being stored. When a step comes and the window is full, the oldest is
    released; with `block`, the window waits if the oldest is to be stored. The last step is always to be stored.
    """

    def __init__(self, most: int, *, block: bool) -> None:
        self._most, self._block = most, block
        self._held: deque[Held] = deque()
        self._last: Held | None = None
        self._storing: Held | None = None
        self._changed = threading.Condition()
        self._ended = False
        self._until: float | None = None
        self.left_out = 0
        """Steps that were to be stored and were not: storage was too slow, or there was no time."""

    @property
    def last(self) -> Held | None:
        """The step that came last."""
        with self._changed:
            return self._last

    def add(self, new: Held) -> None:
        """Hold a step; waits for room with `block`, unless everything is to end."""
        with self._changed:
            while self._block and self._until is None and self._is_full() and self._held[0].due:
                self._changed.wait()
            while self._is_full():
                old = self._held.popleft()
                self.left_out += old.due
                if old is not self._storing:
                    old.step.close()
            self._held.append(new)
            self._last = new
            self._changed.notify_all()

    def end(self) -> None:
        """No more steps come."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def hurry(self) -> None:
        """There is little time: only the newest step counts."""
        with self._changed:
            if self._until is None:
                self._until = time.monotonic() + LATE
            self._changed.notify_all()

    def next(self) -> Held | None:
        """The step to store now, once there is one; None when there will be none. Call `done` with it."""
        with self._changed:
            while (found := self._choose()) is None:
                if self._ended:
                    return None
                rest = None if self._until is None else self._until - time.monotonic()
                if rest is not None and rest <= 0:
                    return None
                self._changed.wait(rest)
            found.due = False
            found.tries += 1
            self._storing = found
            self._changed.notify_all()
            return found

    def done(self, held: Held, *, stored: bool) -> None:
        """The step is on storage, or cannot be stored."""
        with self._changed:
            held.stored = stored
            self._storing = None
            if held not in self._held:
                held.step.close()
            self._changed.notify_all()

    def _is_full(self) -> bool:
        return len(self._held) >= self._most

    def _choose(self) -> Held | None:
        newest = self._held[-1] if self._held else None
        if newest is not None and (self._ended or self._until is not None) and not newest.stored:
            newest.due = newest.tries < _TRIES
        if self._until is not None:
            for old in list(self._held)[:-1]:
                self.left_out += old.due
                old.due = False
        return next((one for one in self._held if one.due), None)
