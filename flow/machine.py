"""Reference state machine of one channel's queue for one source: events in, instructions out, no I/O.

The native layer implements the same machine on shared memory. A reading rank's *mark* is the number of the next step it
has not opened; a step is queued while some rank's mark is at or below its number. A step that any rank has opened is
committed: it is never dropped, so all ranks read the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from wilkins.flow.policy import FlowPolicy

SPARE_STEPS = 12
"""Steps beyond the queue by which a producer may be ahead of the slowest rank. A channel that drops steps keeps those
that a faster rank of the same task has opened; memory is reserved for this number of them."""


class Go(NamedTuple):
    """The producer may create its next step."""


class Wait(NamedTuple):
    """The caller waits until another event changes the state: for ``room``, for ``data``, or for ``memory``, which the
    queue of one channel knows nothing of."""

    what: Literal["room", "data", "memory"]


class Kept(NamedTuple):
    """The published step is queued; ``dropped`` is an older one given up for it."""

    step: int
    dropped: int | None = None


class Skipped(NamedTuple):
    """The published step is not for this channel (``every``, ``offset``; the queue is full and the newest is dropped;
    or the consumer read it before the run was resumed)."""

    step: int


class Opened(NamedTuple):
    """The rank reads this step now."""

    step: int


class Ended(NamedTuple):
    """No further step will come."""


class ChannelQueue:
    """The queue between one source and the reading ranks of one task."""

    def __init__(self, policy: FlowPolicy, readers: int = 1, begin: int = 0, first: int = 0) -> None:
        """In a run that goes on with another one, `begin` is the number of the producer's first step, and `first` that
        of the first step that the consumer has not read yet: the steps between are made again, and not kept."""
        self.policy = policy
        self.marks = [0] * readers
        self.kept: list[int] = []
        self.published = begin
        self.first = first
        self.ended = False

    def queued(self) -> list[int]:
        """Steps that some reading rank has not opened."""
        return [step for step in self.kept if step >= min(self.marks)]

    def held(self) -> list[int]:
        """Steps whose memory is needed: the queued ones, and those a rank has opened last and may still read."""
        return [step for step in self.kept if step >= min(self.marks) or any(step == self._last(m) for m in self.marks)]

    def create(self) -> Go | Wait:
        """The producer wants to write a step."""
        queued = len(self.queued())
        full = self.policy.when_full == "block" and queued >= self.policy.queue and self._wanted()
        return Wait("room") if full or queued >= self.policy.queue + SPARE_STEPS else Go()

    def publish(self) -> Kept | Skipped:
        """The producer has closed a step."""
        step = self.published
        wanted = self._wanted() and step >= self.first
        self.published += 1
        if not wanted:
            return Skipped(step)
        dropped = None
        if self.policy.when_full != "block" and len(self._uncommitted()) >= self.policy.queue:
            if self.policy.when_full == "drop-newest":
                return Skipped(step)
            dropped = self._uncommitted()[0]
            self.kept.remove(dropped)
        self.kept.append(step)
        return Kept(step, dropped)

    def open(self, rank: int) -> Opened | Wait | Ended:
        """A reading rank opens its next step."""
        for step in self.kept:
            if step >= self.marks[rank]:
                self.marks[rank] = step + 1
                return Opened(step)
        return Ended() if self.ended else Wait("data")

    def restart(self) -> None:
        """The reading task's program has ended and is started again: its ranks come level with the farthest."""
        self.marks = [max(self.marks)] * len(self.marks)

    def leave(self, ranks: Iterable[int] | None = None) -> None:
        """The reading task, or only some of its ranks, are done with every step, also those to come."""
        for rank in range(len(self.marks)) if ranks is None else ranks:
            self.marks[rank] = 2**63

    @property
    def left(self) -> bool:
        """Whether the reading task has ended."""
        return all(mark == 2**63 for mark in self.marks)

    def end(self) -> None:
        """The producer has ended."""
        self.ended = True

    def _wanted(self) -> bool:
        return self.policy.keeps(self.published) and any(mark < 2**63 for mark in self.marks)

    def _uncommitted(self) -> list[int]:
        active = [mark for mark in self.marks if mark < 2**63]
        return [step for step in self.kept if active and step >= max(active)]

    def _last(self, mark: int) -> int | None:
        before = [step for step in self.kept if step < mark < 2**63]
        return before[-1] if before else None
