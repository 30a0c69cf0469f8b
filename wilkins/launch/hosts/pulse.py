"""Signs of life of a launcher, by a small process of its own.

A launcher that starts many programs, or waits for a file system, sends nothing meanwhile. So a process beside it, which
touches no file and starts nothing, sends a message a beat on its connections, as long as the launcher itself has done
something within its patience: one that hangs is not to look alive. Both write whole messages in turns, by a lock of
POSIX's on a byte of memory that they share, which the kernel gives back for a process that has died.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

BEAT = 1.0
"""Seconds between heartbeats, of both sides, and of the processes beside them."""

_MOVED = struct.Struct("q")
"""At the beginning of the memory: when the launcher has moved last, by the monotonic clock in nanoseconds. The bytes
behind it are locks, one for each connection."""


class Pulse:
    """The process beside this one."""

    def __init__(self, descriptors: Sequence[int], patience: float) -> None:
        """`descriptors`: of the connections; they do not block. `patience`: seconds."""
        self.places = {descriptor: _MOVED.size + place for place, descriptor in enumerate(descriptors)}
        self._memory = os.memfd_create("wilkins-pulse")
        os.truncate(self._memory, _MOVED.size + len(descriptors))
        self._moved = memoryview(mmap.mmap(self._memory, _MOVED.size)).cast("q")
        self.moved()
        alive, self._alive = os.pipe()
        words = [sys.executable, "-I", "-S", __file__, str(self._memory), str(alive), str(patience)]
        self._process = subprocess.Popen(
            [*words, *map(str, descriptors)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[self._memory, alive, *descriptors],
            start_new_session=True,  # signals of a terminal are for the launcher
        )
        os.close(alive)

    def moved(self) -> None:
        """The launcher has done something."""
        self._moved[0] = time.monotonic_ns()

    def take(self, descriptor: int) -> None:
        """Let nothing else be written to a connection until `give_back`."""
        if self._memory >= 0:
            fcntl.lockf(self._memory, fcntl.LOCK_EX, 1, self.places[descriptor])

    def give_back(self, descriptor: int) -> None:
        """A whole message was written."""
        if self._memory >= 0:
            fcntl.lockf(self._memory, fcntl.LOCK_UN, 1, self.places[descriptor])

    def __enter__(self) -> Pulse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        os.close(self._alive)
        self._process.wait()
        os.close(self._memory)
        self._memory = -1


def message(stands: float) -> bytes:
    """A sign of life of a launcher that has not moved for so many seconds: the line of `messages.Alive`."""
    return b'{"Alive": {"stands": %.1f}}\n' % stands


def _beat(memory: int, alive: int, patience: float, descriptors: list[int]) -> None:
    """Be the process: until the launcher has ended."""
    left: dict[int, Any] = {descriptor: _MOVED.size + place for place, descriptor in enumerate(descriptors)}
    while left and not select.select([alive], [], [], BEAT)[0]:
        stands = (time.monotonic_ns() - _MOVED.unpack(os.pread(memory, _MOVED.size, 0))[0]) / 1e9
        if stands < BEAT or stands > patience:
            continue
        for descriptor, place in list(left.items()):
            try:
                fcntl.lockf(memory, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except OSError:  # the launcher is in the middle of a message
                continue
            try:
                with contextlib.suppress(BlockingIOError):  # no room: the other side has enough to read
                    os.write(descriptor, message(stands))
            except OSError:
                del left[descriptor]
            fcntl.lockf(memory, fcntl.LOCK_UN, 1, place)


if __name__ == "__main__":
    _beat(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), list(map(int, sys.argv[4:])))
