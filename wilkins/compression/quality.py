"""How far the fields of a file are from what they were: largest and mean error, and peak signal-to-noise ratio."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from wilkins.compression.bounds import Difference, Rule, span

_AT_ONCE = 1 << 23
"""Bytes that are compared at once, about."""


class Quality(NamedTuple):
    """Of a dataset."""

    dset: str
    why: str = ""
    """Why it was not compared; empty: it was."""
    low: float = math.inf
    high: float = -math.inf
    """Its least and greatest finite element before."""
    largest: float = 0.0
    """The largest error of an element,"""
    mean: float = 0.0
    """the mean of all errors,"""
    psnr: float = math.inf
    """and the ratio of the range to the root of their mean square, in dB; infinite: all are the same."""
    strange: int = 0
    """Elements that are infinite or NaN in one file, and something else in the other; they count in no error."""


def qualities(before: h5py.File, after: h5py.File, pattern: str = "*") -> Iterator[Quality]:
    """How numbers differ, dataset by dataset.

    Args:
        before: as they were.
        after: as they are.
        pattern: of the paths of datasets.
    """
    wanted, names = Rule(pattern), list[str]()
    before.visit(names.append)
    for name in names:
        one = before[name]
        if isinstance(one, h5py.Dataset) and wanted.means(f"/{name}"):
            yield _quality(f"/{name}", one, after.get(name))
    names.clear()
    after.visit(names.append)
    for name in names:
        if isinstance(after[name], h5py.Dataset) and wanted.means(f"/{name}") and name not in before:
            yield Quality(f"/{name}", "is only in the other file")


@np.errstate(all="ignore")
def _quality(path: str, before: h5py.Dataset, after: Any) -> Quality:
    if not isinstance(after, h5py.Dataset):
        return Quality(path, "is not in the other file")
    if before.dtype.kind not in "fiu":
        return Quality(path, f"is not compared: it is {before.dtype}, and only whole and real numbers are")
    if after.shape != before.shape or after.dtype.kind not in "fiu":
        return Quality(path, f"is {before.dtype} {before.shape}, and {after.dtype} {after.shape} in the other file")
    found, unit, strange = Difference(), 0.0, 0
    low, high = math.inf, -math.inf
    for one, other in _pieces(before, after):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        finite = np.isfinite(one) & np.isfinite(other)
        strange += int((~finite & ~same).sum())
        least, most = span(one)
        low, high = min(low, least), max(high, most)
        apart = np.abs(other[finite] - one[finite])
        largest = float(apart.max(initial=0.0))
        if largest > unit:  # the squares are in units of the largest error: their own might be no numbers of 8 bytes
            found, unit = found._replace(squares=found.squares * (unit / largest) ** 2), largest
        squares = float(np.square(apart / unit).sum()) if unit else 0.0
        found |= Difference(largest, float(apart.sum()), squares, apart.size)
    mean = found.total / found.elements if found.elements else 0.0
    return Quality(path, "", low, high, found.largest, mean, found.psnr(low, high, unit), strange)


def _pieces(before: h5py.Dataset, after: h5py.Dataset) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Parts of both, as real numbers that hold each of their values."""
    narrow = all(one.dtype.itemsize < 8 or one.dtype == np.float64 for one in (before, after))
    kind = np.float64 if narrow else np.longdouble
    if before.shape is None:
        return
    if not before.shape:
        yield np.atleast_1d(before[()]).astype(kind), np.atleast_1d(after[()]).astype(kind)
        return
    rows = max(1, _AT_ONCE // (8 * max(1, math.prod(before.shape[1:]))))
    for first in range(0, before.shape[0], rows):
        some = slice(first, first + rows)
        yield before[some].astype(kind), after[some].astype(kind)
