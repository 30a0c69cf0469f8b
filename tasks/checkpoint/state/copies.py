"""Copies of arrays that may change at once, made while the program waits: of tens of thousands in some milliseconds."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numpy as np

from wilkins.tasks.checkpoint.state.sources import Bytes, address_of, differs, frozen, in_one_piece

_NBYTES: Callable[[Any], int] = attrgetter("nbytes")
_IS_CPU: Callable[[Any], bool] = attrgetter("is_cpu")
_ADDRESS: Callable[[Any], int] = methodcaller("data_ptr")
_IS_CONTIGUOUS: Callable[[Any], bool] = methodcaller("is_contiguous")
_IS_CONJ: Callable[[Any], bool] = methodcaller("is_conj")
_IS_NEG: Callable[[Any], bool] = methodcaller("is_neg")

_LIBC = ctypes.PyDLL(None)  # keeps the interpreter's lock: a thread that takes it would keep the program waiting
_COPY = _LIBC.memcpy
_COPY.argtypes, _COPY.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), None
_COMPARE = _LIBC.memcmp
_COMPARE.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Places(NamedTuple):
    """Where arrays are: of each, as they are met."""

    addresses: list[int]
    nbytes: list[int]
    in_main_memory: list[bool]
    in_one_piece: list[bool]
    """Its memory holds its values one after the other, and nothing else."""


def places(arrays: list[Any]) -> Places:
    """Ask each array; tensors alone are asked without a turn of Python for each."""
    nbytes = list(map(_NBYTES, arrays))
    if np.ndarray in set(map(type, arrays)):
        here = [type(one) is np.ndarray or one.is_cpu for one in arrays]
        return Places(list(map(address_of, arrays)), nbytes, here, list(map(in_one_piece, arrays)))
    lazy = any(map(_IS_CONJ, arrays)) or any(map(_IS_NEG, arrays))
    pieces = list(map(in_one_piece if lazy else _IS_CONTIGUOUS, arrays))
    return Places(list(map(_ADDRESS, arrays)), nbytes, list(map(_IS_CPU, arrays)), pieces)


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

    def __init__(self, arrays: list[Any], at: Places, wanted: set[int], small: int, pool: Pool) -> None:
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
