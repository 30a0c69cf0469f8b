"""The sheet of a measurement, for Python; `sheet.h` says what it is."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence

BEGIN, CREATED, WRITTEN, RELEASED, WAITING, OPENING, OPENED, READ = range(8)
COLUMNS = 8
AHEAD = 3
"""Steps that a producer without a layer may be ahead of its consumer."""


class Sheet:
    """A line of times for each step, in memory that producer and consumer share."""

    def __init__(self, words: Sequence[str]) -> None:
        self.path = words[0]
        self.steps, self.warm, self.paced = map(int, words[1:4])
        bytes_ = self.steps * COLUMNS * 8
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, bytes_)
        self._times = memoryview(mmap.mmap(descriptor, bytes_)).cast("d")
        os.close(descriptor)

    def note(self, step: int, column: int) -> None:
        """Write down that this happened now."""
        self._times[step * COLUMNS + column] = time.perf_counter()

    def wait_for(self, step: int, column: int) -> None:
        """Wait until this has happened."""
        while not self._times[step * COLUMNS + column]:
            os.sched_yield()

    def pace(self, step: int, has_consumer: bool = True) -> None:
        """Let a paced step begin after a pause, when its consumer, if it has one, has been waiting for a while."""
        if self.warm <= step < self.warm + self.paced:
            if has_consumer:
                self.wait_for(step, WAITING)
            time.sleep(0.002)
