"""Moments with checks: the sums are computed a second time, another way, and compared within rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.analysis.checks import Flipped, patterns, seal
from wilkins.tasks.analysis.moments import Moments

_BLOCK = 1 << 14
"""Elements at once: three arrays of them stay in a core's cache."""
_UNIT = 2.0**-53


def moments_checked(values: NDArray[Any]) -> tuple[Moments, int]:
    """As `Moments.of`, checked, and the seal of the values after it.

    Raises:
        Flipped: a result is not what the second way gives. Least, greatest and counts are compared exactly, sums
            within the rounding errors of both (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 4.2).
    """
    found = Moments.of(values)
    flat = values.reshape(-1)
    if found.count != flat.size:
        finite = np.isfinite(flat)
        nans = int(np.count_nonzero(np.isnan(flat)))
        flat = flat[finite]
        if (found.count, found.nans, found.infinite) != (flat.size, nans, len(finite) - flat.size - nans):
            raise Flipped("the counts of the elements are wrong")
    if not flat.size:
        return found, seal(values)
    if found.m2 < 0 or found.m4 < 0:
        raise Flipped("a sum of squares is negative")
    sums, least, greatest, after = _again(flat, found.mean)
    if flat.size != values.size:
        after = seal(values)
    if (least, greatest) != (found.least, found.greatest):
        raise Flipped("the least or greatest element is wrong")
    count, rounding = flat.size, _UNIT * (_BLOCK + flat.size / _BLOCK + 64)
    sizes = (
        math.sqrt(count * found.m2) + count * abs(found.mean),
        found.m2,
        math.sqrt(found.m2 * found.m4),
        found.m4,
    )
    for what, second, first, size in zip(
        ("mean", "variance", "skewness", "kurtosis"), sums, (0.0, found.m2, found.m3, found.m4), sizes, strict=True
    ):
        if not math.isfinite(second) and not math.isfinite(first):
            continue  # squares of huge numbers overflow either way
        if not abs(second - first) <= 2 * rounding * size + np.finfo(np.float64).tiny * count:
            raise Flipped(f"the sum of the {what} is wrong")
    return found, after


def _again(flat: NDArray[Any], mean: float) -> tuple[list[float], Any, Any, int]:
    """Sums of four powers of the distances from the mean, by BLAS, the least and greatest element, and the seal."""
    sums = np.zeros(4)
    ones = np.ones(_BLOCK)
    away, squares = np.empty(_BLOCK), np.empty(_BLOCK)
    least, greatest = [], []
    bits = patterns(flat)
    after = bits.dtype.type(0)
    wide = bits.size // flat.size
    for first in range(0, flat.size, _BLOCK):
        block = flat[first : first + _BLOCK]
        near, square = away[: block.size], squares[: block.size]
        np.subtract(block, mean, out=near, casting="unsafe", dtype=np.float64)
        np.multiply(near, near, out=square)
        sums += (ones[: block.size] @ near, near @ near, square @ near, square @ square)
        least.append(block.min())
        greatest.append(block.max())
        part = bits[first * wide : (first + _BLOCK) * wide]
        with np.errstate(over="ignore"):
            after += np.add.reduce(part, dtype=bits.dtype)
    return sums.tolist(), min(least).item(), max(greatest).item(), int(after)
