"""Flips bits of arrays, as a memory or a processor that is damaged does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def flip(values: NDArray[Any], place: int, bit: int) -> None:
    """Flips a bit of one element, in place."""
    assert values.flags.c_contiguous
    patterns = values.reshape(-1).view(f"u{values.dtype.itemsize}")
    patterns[place] ^= patterns.dtype.type(1 << bit)


def places(values: NDArray[Any], count: int, random: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Elements and bits to flip: each bit as often, in random elements."""
    bits = values.dtype.itemsize * 8
    for number in range(count):
        yield int(random.integers(values.size)), number % bits
