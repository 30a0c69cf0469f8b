"""Whether arrays were written since a moment, whoever wrote them: as Linux tells it of whole pages.

torch counts most changes of a tensor and NumPy counts none, but no write gets past the page tables. A userfaultfd in
asynchronous write-protect mode (Linux 6.7) marks pages; the kernel takes the mark off at the first write, by itself,
whether a thread, a system call or another process through the kernel wrote. Nobody is stopped, no signal is sent, and
`PAGEMAP_SCAN` tells which marks are gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import re
import struct
import threading
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from wilkins.tasks.checkpoint.state import own_memory

PAGE = mmap.PAGESIZE
NEAR = 1 << 18
"""Arrays with so few bytes between them are marked in one call, with what lies between: to mark more is harmless."""
PIECE = 1 << 25
"""Bytes that marks are taken off in one call: about a millisecond."""

_SYSCALL = {"x86_64": 323, "aarch64": 282, "riscv64": 282}
_USER_MODE_ONLY = 1
"""Needs no privilege; what is asynchronous works for writes by the kernel all the same."""
_WP_UNPOPULATED, _WP_ASYNC = 1 << 13, 1 << 15


def _request(direction: int, kind: int, number: int, size: int) -> int:
    return direction << 30 | size << 16 | kind << 8 | number


_API = _request(3, 0xAA, 0x3F, 24)
_REGISTER = _request(3, 0xAA, 0x00, 32)
_UNREGISTER = _request(2, 0xAA, 0x01, 16)
_MODE_WP = 2
_SCAN = _request(3, ord("f"), 16, 96)
_WRITTEN = 2
_MARK, _CHECK_ASYNC = 1, 2
"""Mark the pages; fail where memory is not, or no longer, such that it can be marked."""
_PRIVATE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw.p \S+ \S+ 0(?: |$)", re.MULTILINE)
"""Memory of this process alone. What it shares with others, or with a file, they may write through theirs."""


class _Marks:
    """Marks on pages, which the first write takes off.

    Raises:
        OSError: here and in `mark`: this kernel has no such marks, or does not let this process set them.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        self._fault = _userfault()
        try:
            self._pages = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._fault)
            raise

    def mark(self, low: int, high: int) -> None:
        """Mark the pages from `low` to `high`."""
        fcntl.ioctl(self._fault, _REGISTER, bytearray(struct.pack("QQQQ", low, high - low, _MODE_WP, 0)))
        self._ranges.append((low, high))
        # UFFDIO_WRITEPROTECT does the same, and takes eight times as long: it looks at each page's own record.
        scan = bytearray(struct.pack("12Q", 96, _MARK | _CHECK_ASYNC, low, high, *[0] * 8))
        fcntl.ioctl(self._pages, _SCAN, scan)
        if struct.unpack_from("12Q", scan)[4] != high:
            raise OSError(0, "not all pages were marked")

    def written(self, low: int, high: int) -> bool:
        """Whether any page from `low` to `high` was written since it was marked, or is another one now."""
        if low >= high:
            return False
        found = (ctypes.c_uint64 * 3)()
        scan = (96, _CHECK_ASYNC, low, high, 0, ctypes.addressof(found), 1, 1, 0, _WRITTEN, 0, _WRITTEN)
        try:
            return bool(fcntl.ioctl(self._pages, _SCAN, bytearray(struct.pack("12Q", *scan))))
        except OSError:
            return True

    def close(self) -> None:
        """Take them off: who writes from then on has no fault."""
        # Closing does it, too, but at once, while other threads cannot get memory; and not while a forked process has
        # the descriptor.
        for begin, end in self._ranges:
            for low in range(begin, end, PIECE):
                with contextlib.suppress(OSError):
                    fcntl.ioctl(self._fault, _UNREGISTER, bytearray(struct.pack("QQ", low, min(PIECE, end - low))))
        os.close(self._fault)
        os.close(self._pages)


class Watch:
    """Arrays that are watched from when it is made until `close`.

    They must be in one piece. Pages at their ends hold other things, too, therefore the bytes there are copied.
    """

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        """Watch `spans`, addresses and bytes, as far as that is possible: `covers` tells."""
        self._edges: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        self._marks: _Marks | None = None
        self._lock = threading.Lock()
        wanted = sorted(set(spans))
        kept, ranges = _private(wanted) if wanted and supported() else ([], [])
        try:
            if ranges:
                self._marks = _Marks()
                for low, high in ranges:
                    self._marks.mark(low, high)
        except OSError:  # such as: another watch is there
            self.close()
        else:
            self._edges = {span: _edges(*span) for span in kept}

    def covers(self, address: int, length: int) -> bool:
        """Whether that array is watched."""
        return (address, length) in self._edges

    def moved(self) -> bool:
        """Copy the arrays' ends again; returns whether they are others than when they were last copied."""
        before = self._edges
        self._edges = {span: _edges(*span) for span in before}
        return self._edges != before

    def copy(self, to: int, address: int, length: int, start: int, count: int) -> bool:
        """Copy `count` bytes from the `start`-th on of the array that is watched at `address`.

        Returns whether they are those that were there when the watch began.
        """
        if not own_memory.copy(to, address + start, count):
            return False
        head, tail = self._edges[address, length]
        if start < len(head):
            ctypes.memmove(to, head[start:], min(count, len(head) - start))
        first = length - len(tail)
        if start + count > first:
            begin = max(start, first)
            ctypes.memmove(to + begin - start, tail[begin - first :], start + count - begin)
        low, high = _pages_within(address, length)
        begin, end = (address + start) // PAGE * PAGE, -(-(address + start + count) // PAGE) * PAGE
        return self._marks is not None and not self._marks.written(max(low, begin), min(high, end))

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Watch no more. Nothing may be copied meanwhile."""
        with self._lock:
            marks, self._marks = self._marks, None
        if marks is not None:
            marks.close()


@lru_cache(maxsize=1)
def supported() -> bool:
    """Whether this kernel lets this process watch its memory, found out by trying."""
    memory = mmap.mmap(-1, 4 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[0] = 1  # the others have no memory yet
    pages = [ctypes.addressof(ctypes.c_char.from_buffer(memory)) + number * PAGE for number in range(5)]
    try:
        marks = _Marks()
    except OSError:
        return False
    try:
        marks.mark(pages[0], pages[4])
        quiet = memory[PAGE] == 0 and not marks.written(pages[0], pages[4])
        memory[0], memory[2 * PAGE] = 2, 1
        return quiet and [marks.written(*pages[one : one + 2]) for one in range(4)] == [True, False, True, False]
    except OSError:
        return False
    finally:
        marks.close()


def _userfault() -> int:
    """A descriptor through which pages are marked.

    Raises:
        OSError: this kernel has none that is asynchronous, or does not give it to this process.
    """
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(0, "the number of the system call is not known here")
    fault = ctypes.CDLL(None, use_errno=True).syscall(number, os.O_CLOEXEC | os.O_NONBLOCK | _USER_MODE_ONLY)
    if fault < 0:
        raise OSError(ctypes.get_errno(), "no userfaultfd")
    try:
        fcntl.ioctl(fault, _API, bytearray(struct.pack("QQQ", 0xAA, _WP_UNPOPULATED | _WP_ASYNC, 0)))
    except OSError:
        os.close(fault)
        raise
    return int(fault)


def _private(spans: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The `spans` that lie in memory of this process alone, in order, and the pages that hold them all."""
    runs = _private_memory()
    begins = [begin for begin, _ in runs]
    kept: list[tuple[int, int]] = []
    ranges: list[tuple[int, int]] = []
    for address, length in spans:
        low, high = _pages_within(address, length)
        run = bisect_right(begins, low) - 1
        if low >= high or run < 0 or high > runs[run][1]:
            continue
        kept.append((address, length))
        if ranges and runs[run][0] <= ranges[-1][0] and low - ranges[-1][1] <= NEAR:
            ranges[-1] = ranges[-1][0], max(high, ranges[-1][1])
        else:
            ranges.append((low, high))
    return kept, ranges


def _private_memory() -> list[tuple[int, int]]:
    """Where memory of this process alone begins and ends, in order; what adjoins is one."""
    runs: list[tuple[int, int]] = []
    for begin, end in _PRIVATE.findall(Path("/proc/self/maps").read_bytes()):
        low, high = int(begin, 16), int(end, 16)
        if runs and runs[-1][1] == low:
            runs[-1] = runs[-1][0], high
        else:
            runs.append((low, high))
    return runs


def _pages_within(address: int, length: int) -> tuple[int, int]:
    """The pages that are the array's alone."""
    low, high = -(-address // PAGE) * PAGE, (address + length) // PAGE * PAGE
    return low, max(low, high)


def _edges(address: int, length: int) -> tuple[bytes, bytes]:
    """What stands before and behind the pages that are the array's alone."""
    low, high = _pages_within(address, length)
    return ctypes.string_at(address, low - address), ctypes.string_at(high, address + length - high)
