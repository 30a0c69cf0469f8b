"""Checks of what an analysis computes: flipped bits are found, and the work is done again; the second time is an error.

Algorithm-based fault tolerance: K.-H. Huang, J. A. Abraham, Algorithm-Based Fault Tolerance for Matrix Operations, IEEE
Transactions on Computers C-33 (1984). Arrays are sealed by the sum of their bit patterns, which has no rounding: one
flipped bit changes it by a power of two, so it is always found, and there is no false alarm.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wilkins.errors import WilkinsError
from wilkins.tasks.errors import TaskError

T = TypeVar("T")
Array = NDArray[Any]


class Flipped(WilkinsError):
    """Something is not what it was, or not what a second way to compute it gives; says what."""


def patterns(values: Array) -> Array:
    """An array's bits as whole numbers, in one dimension."""
    size = values.dtype.itemsize
    return np.ascontiguousarray(values).reshape(-1).view(f"u{size if size in (1, 2, 4, 8) else 8}")


def seal(values: Array) -> int:
    """The sum of an array's bit patterns, modulo two to the power of its elements' bits; the order does not matter.

    Every single flipped bit changes it. Two flips leave it as it was only if they cancel.
    """
    bits = patterns(values)
    return int(np.add.reduce(bits, dtype=bits.dtype))


class Watch:
    """What is said of flipped bits: the host, the rank, the step and the dataset."""

    def __init__(self, rank: int, dset: str) -> None:
        self._who = f"host {socket.gethostname()}, rank {rank}"
        self._dset = dset
        self.step = ""
        """The name of the step at hand."""
        self.count = 0
        """Faults that were found, and mended."""

    def note(self, what: object) -> None:
        """A fault that is mended by doing the work again; the task's output names it."""
        self.count += 1
        print(f"{self._who}: {self.step}, {self._dset!r}: {what}; done again", flush=True)

    def again(self, what: object) -> TaskError:
        """The error for a fault that has come again."""
        return TaskError(
            f"{self._who}: {self.step}, {self._dset!r}: {what}, again after the work was repeated; its memory or "
            "processor is damaged: run the task on another host"
        )

    def steady(self, read: Callable[[], Array], work: Callable[[Array], tuple[T, int]]) -> T:
        """What the work gives for values that are the same before and after it. A second attempt reads them again.

        Args:
            read: gives the values; they are sealed at once.
            work: gives a result, and the values' seal after it; may raise `Flipped`.

        Raises:
            TaskError: the second attempt fails, too.
        """
        for attempt in range(2):
            values = read()
            before = seal(values)
            try:
                found, after = work(values)
                if after != before:
                    raise Flipped("a bit of the elements has flipped while they were in use")
            except Flipped as fault:
                if attempt:
                    raise self.again(fault) from None
                self.note(fault)
            else:
                return found
        raise AssertionError


class Guarded:
    """A small array that is kept twice, with its seal: a flipped bit in either is mended from the other."""

    def __init__(self, values: Array, what: str) -> None:
        self._what = what
        self.put(values)

    def put(self, values: Array) -> None:
        """Replaces the array."""
        self.values = values
        self._spare = values.copy()
        self._seal = seal(values)

    def get(self, watch: Watch) -> Array:
        """The array, as it was put.

        Raises:
            TaskError: both copies have changed.
        """
        if seal(self.values) != self._seal:
            if seal(self._spare) != self._seal:
                raise watch.again(f"a bit of the {self._what} has flipped")
            watch.note(f"a bit of the {self._what} has flipped")
            self.values = self._spare.copy()
        return self.values


def twice(work: Callable[[], Array]) -> Array:
    """A small result that is computed twice, the same bit by bit.

    Raises:
        Flipped: it is not.
    """
    first, second = work(), work()
    if seal(first) != seal(second):
        raise Flipped("a result differs when it is computed again")
    return first
