"""Copies of arrays that may change at once, made while the program waits: of tens of thousands in some milliseconds."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint.state.sources import Bytes, differs, frozen
from wilkins.tasks.checkpoint.state.survey import Survey

_LIBC = ctypes.PyDLL(None)  # keeps the interpreter's lock: a thread that takes it would keep the program waiting
_COPY = _LIBC.memcpy
_COPY.argtypes, _COPY.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), None
_COMPARE = _LIBC.memcmp
_COMPARE.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Pool:
    """Memory for the copies of one state, used again for the next one: new memory takes longer than the copies."""

    def __init__(self) -> None:
        self._memory: Bytes = np.empty(0, np.uint8)

    def room(self, sizes: Sequence[int]) -> list[int]:
        """Addresses of so many bytes each, which nothing else has until the next call."""
        if (total := sum(sizes)) > self._memory.nbytes:
            self._memory = np.empty(total, np.uint8)
        return list(accumulate(sizes[:-1], initial=self._memory.ctypes.data)) if sizes else []


class Copies:
    """Copies of some arrays of a state. Those of small ones in main memory are in a pool."""

    def __init__(self, arrays: list[Any], at: Survey, wanted: set[int], small: int, pool: Pool) -> None:
        pooled = [one for one in wanted if at.nbytes[one] <= small and at.in_main_memory[one] and at.in_one_piece[one]]
        self._froms, self._sizes = [at.addresses[one] for one in pooled], [at.nbytes[one] for one in pooled]
        self._tos = pool.room(self._sizes)
        apart = wanted.difference(pooled)
        self._apart = {one: arrays[one] for one in apart if at.in_main_memory[one]}
        self.of: dict[int, Any] = dict(zip(pooled, self._tos, strict=True))
        """By the array's place: the address of its bytes, or an array."""
        self.of.update((one, frozen(arrays[one])) for one in apart)
        self._copy_pooled()

    def differ(self) -> bool:
        """Whether an array in main memory is other than its copy."""
        return any(map(_COMPARE, self._tos, self._froms, self._sizes)) or any(
            differs(array, self.of[one]) for one, array in self._apart.items()
        )

    def renew(self) -> None:
        """Copy the arrays in main memory again."""
        self.of.update((one, frozen(array)) for one, array in self._apart.items())
        self._copy_pooled()

    def _copy_pooled(self) -> None:
        deque(map(_COPY, self._tos, self._froms, self._sizes), maxlen=0)
