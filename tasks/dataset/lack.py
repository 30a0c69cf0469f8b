"""What a process lacks of its samples, and how many reading threads processes have of what each lacks: no I/O.

Training on several ranks waits in each step for the slowest one, so that threads belong where samples would come late.
The idea is that of "Lobster: Load Balance-Aware I/O for Distributed DNN Training" (Liu, Nicolae, Li, ICPP 2022).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple


class Lack(NamedTuple):
    """What a process lacks."""

    threads: float
    """Seconds for which threads have to read until it can train on one sample more; 0: all that it asked for is read.
    Ranks that go from sample to sample together need threads in this proportion."""
    reads: int
    """How many could be at work."""


def shares(lacks: Sequence[Lack], budget: int) -> list[int]:
    """How many of `budget` threads each process has.

    One after the other goes to the process that lacks most for each thread that it has (Adams' method). So the slowest
    process is as fast as it can be; each that lacks any has one, if there are enough; none has more than it can use.
    """
    given = [0] * len(lacks)
    worst = [(-math.inf, -lack.threads, at) for at, lack in enumerate(lacks) if lack.threads > 0 and lack.reads > 0]
    heapq.heapify(worst)
    for _ in range(budget):
        if not worst:
            break
        _, lacked, at = heapq.heappop(worst)
        given[at] += 1
        if given[at] < lacks[at].reads:
            heapq.heappush(worst, (lacked / given[at], lacked, at))
    return given


class Ahead:
    """What a process has asked for, window by window."""

    REMEMBERED = 4.0
    """Seconds of reading from which is known how long a sample takes, or half of them."""

    def __init__(self) -> None:
        self._windows: deque[Window] = deque()
        self._seconds, self._samples = 1e-3, 1.0
        """In which threads have read samples, of late."""

    def begin(self) -> None:
        """An epoch begins."""
        self._windows.clear()

    def ask(self, end: int) -> Window:
        """Samples are asked for, the last of which is number `end` of the epoch, counted from 1."""
        self._windows.append(Window(end))
        return self._windows[-1]

    def come(self) -> None:
        """The first window has come that was asked for."""
        self._windows.popleft()

    def read(self, window: Window, samples: int, seconds: float) -> None:
        """A thread has read some of them."""
        window.left -= samples
        window.reads -= 1
        self._seconds, self._samples = self._seconds + seconds, self._samples + samples
        if self._seconds > self.REMEMBERED:
            self._seconds, self._samples = self._seconds / 2, self._samples / 2

    def lack(self, done: int) -> Lack:
        """What it lacks when `done` samples of the epoch were handed out."""
        if not self._windows:
            return Lack(0, 0)
        left = sum(window.left for window in self._windows) * self._seconds / self._samples
        return Lack(left / max(1, self._windows[-1].end - done), sum(window.reads for window in self._windows))


class Window:
    """Samples that were asked for at once."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.left = 0
        """Samples that are not read."""
        self.reads = 0
        """In how many reads."""
