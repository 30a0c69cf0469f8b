"""The ring: memory set aside once, in blocks, that states are captured in on their way to storage."""

from __future__ import annotations

import contextlib
import mmap
import threading
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint.state.sources import Bytes
from wilkins.tasks.checkpoint.storage.layout import BLOCK


class Ring:
    """`size` bytes of memory, rounded up to whole blocks. The first state's copies make its pages, behind the program.

    Anonymous memory of this process in large pages, which programs that it forks do not get; with `pinned`, memory
    that a GPU copies to by itself.
    """

    def __init__(self, size: int, *, pinned: bool = False, block: int = BLOCK) -> None:
        count = max(2, -(-size // block))
        self.block = block
        self._tensor: Any = None
        self._memory: Bytes
        if pinned:
            import torch

            self._tensor = torch.empty(count * block, dtype=torch.uint8, pin_memory=True)
            self._memory = self._tensor.numpy()
        else:
            self._memory = np.frombuffer(_anonymous(count * block), np.uint8)
        self._address = self._memory.ctypes.data
        self._free = list(range(count - 1, -1, -1))
        self._changed = threading.Condition()
        self.count = count

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * self.block

    def take(self, *, wait: bool = True) -> int | None:
        """A free block's number; None if there is none now and `wait` is false."""
        with self._changed:
            while not self._free:
                if not wait:
                    return None
                self._changed.wait()
            return self._free.pop()

    def give(self, slot: int) -> None:
        """The block is free again."""
        with self._changed:
            self._free.append(slot)
            self._changed.notify()

    def address(self, slot: int) -> int:
        """Where a block begins in memory: at a page."""
        return self._address + slot * self.block

    def view(self, slot: int, length: int) -> memoryview:
        """The first bytes of a block."""
        begin = slot * self.block
        return self._memory[begin : begin + length].data

    def tensor(self, slot: int) -> Any:
        """A block as a pinned tensor, for copies from a GPU."""
        return self._tensor.narrow(0, slot * self.block, self.block)


def _anonymous(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for advice in ("MADV_HUGEPAGE", "MADV_DONTFORK"):
        with contextlib.suppress(OSError, AttributeError):  # kernels and Pythons without it
            memory.madvise(getattr(mmap, advice))
    return memory
