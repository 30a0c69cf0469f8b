"""Copies of arrays that may change at once, made while the program waits: of tens of thousands in some milliseconds."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from wilkins.tasks.checkpoint.state.sources import Bytes, differs, frozen
from wilkins.tasks.checkpoint.state.survey import Survey

_TOGETHER = 1 << 19
"""Bytes that one `bytes.join` gathers. From a mebibyte on, it gives up the interpreter's lock, and a thread that takes
it would keep the program waiting."""

_COMPARE = ctypes.PyDLL(None).memcmp  # keeps the lock, too
_COMPARE.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Chosen(NamedTuple):
    """Which arrays of a state are copied at once, by their places in it: the same for all states of one form."""

    pooled: list[int]
    """Small ones in main memory and in one piece: their copies are in a pool."""
    sizes: list[int]
    """Bytes of those."""
    apart: list[int]
    """Others that are copied."""
    others: list[int]
    """Those that are not."""
    in_main_memory: list[bool]
    """All arrays of the state."""
    nbytes: list[int]


def chosen(at: Survey, eager: set[int], small: int) -> Chosen:
    """Choose arrays of up to `small` bytes, those not in one piece in main memory, and `eager` ones."""
    places = range(len(at.nbytes))
    pooled = [one for one in places if at.nbytes[one] <= small and at.in_main_memory[one] and at.in_one_piece[one]]
    scattered = {one for one in places if at.in_main_memory[one] and not at.in_one_piece[one]}
    apart = ({one for one in places if at.nbytes[one] <= small} | scattered | eager).difference(pooled)
    others = sorted(set(places).difference(pooled, apart))
    return Chosen(pooled, [at.nbytes[one] for one in pooled], sorted(apart), others, at.in_main_memory, at.nbytes)


class Pool:
    """Copies of the small arrays of one state, in memory that is used again for the next one: new memory takes longer
    than the copies."""

    def __init__(self) -> None:
        self._memory: Bytes = np.empty(0, np.uint8)
        self._froms: Sequence[int] = ()
        self._sizes: Sequence[int] = ()
        self._arrays: list[ctypes.Array[ctypes.c_ubyte]] = []
        self._pieces: list[tuple[int, int, int, int]] = []
        """Of arrays that are copied together: the first one, the end, and the same of their bytes in the pool."""

    def choose(self, froms: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Take the arrays at these addresses; where their copies will be, until the next call."""
        if sizes != self._sizes:
            self._sizes, self._froms = sizes, ()
            if (total := sum(sizes)) > self._memory.nbytes:
                self._memory = np.empty(total, np.uint8)
            self._pieces = _pieces(sizes)
        if froms != self._froms:
            self._arrays = [(ctypes.c_ubyte * size).from_address(at) for at, size in zip(froms, sizes, strict=True)]
            self._froms = froms
        return list(accumulate(sizes[:-1], initial=self._memory.ctypes.data)) if sizes else []

    def copy(self) -> None:
        """Copy them."""
        memory = self._memory.data
        for first, end, begin, until in self._pieces:
            memory[begin:until] = b"".join(self._arrays[first:end])

    def differ(self) -> bool:
        """Whether one is other than its copy."""
        address = self._memory.ctypes.data
        return any(
            _COMPARE(b"".join(self._arrays[first:end]), address + begin, until - begin)
            for first, end, begin, until in self._pieces
        )


def _pieces(sizes: Sequence[int]) -> list[tuple[int, int, int, int]]:
    found: list[tuple[int, int, int, int]] = []
    first = begin = end = 0
    for place, size in enumerate(sizes):
        if end + size - begin > _TOGETHER:
            found.append((first, place, begin, end))
            first, begin = place, end
        end += size
    return [*found, (first, len(sizes), begin, end)]


class Copies:
    """Copies of some arrays of a state."""

    def __init__(self, arrays: list[Any], addresses: list[int], which: Chosen, pool: Pool) -> None:
        self._pool = pool
        places = pool.choose([addresses[one] for one in which.pooled], which.sizes)
        self._apart = {one: arrays[one] for one in which.apart if which.in_main_memory[one]}
        self.of: dict[int, Any] = dict(zip(which.pooled, places, strict=True))
        """By the array's place: the address of its bytes, or an array."""
        self.of.update((one, frozen(arrays[one])) for one in which.apart)
        pool.copy()

    def differ(self) -> bool:
        """Whether an array in main memory is other than its copy."""
        return self._pool.differ() or any(differs(array, self.of[one]) for one, array in self._apart.items())

    def renew(self) -> None:
        """Copy the arrays in main memory again."""
        self.of.update((one, frozen(array)) for one, array in self._apart.items())
        self._pool.copy()
