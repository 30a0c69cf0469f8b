"""Histograms that are counted in parts and added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.analysis.checks import Flipped, seal, twice

_CHUNK = 1 << 16
"""Elements sorted at once."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers per bin, and those that are in none."""

    bins: NDArray[np.int64]
    below: int = 0
    above: int = 0
    nans: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.bins + other.bins, self.below + other.below, self.above + other.above, self.nans + other.nans
        )


def edges_between(low: float, high: float, bins: int) -> NDArray[np.float64]:
    """The borders of bins of equal width; where there is but one value, it lies in the middle of a width of 1."""
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)


def count(values: NDArray[Any], edges: NDArray[np.float64]) -> Counts:
    """Counts numbers: each bin holds its lower border, the last one its upper border too."""
    flat = values.reshape(-1)
    nans = np.isnan(flat) if flat.dtype.kind == "f" else np.zeros(0, bool)
    if nans.any():
        flat = flat[~nans]
    return Counts(
        np.histogram(flat, edges)[0].astype(np.int64),
        int((flat < edges[0]).sum()),
        int((flat > edges[-1]).sum()),
        int(nans.sum()),
    )


def count_checked(values: NDArray[Any], edges: NDArray[np.float64]) -> tuple[Counts, int]:
    """As `count`, checked, and the seal of the values after it.

    Elements are sorted, which keeps the sum of their bits, and the borders are found among them twice.

    Raises:
        Flipped: a bit has flipped in a copy of them, or in the counts.
    """
    flat = values.reshape(-1)
    found = nothing(len(edges) - 1)
    for first in range(0, flat.size, _CHUNK):
        found += _sorted_count(flat[first : first + _CHUNK], edges)
    total = int(found.bins.sum()) + found.below + found.above + found.nans
    if total != flat.size or found.below < 0 or found.above < 0 or (found.bins < 0).any():
        raise Flipped("the counts of the bins are not those of the elements")
    return found, seal(values)


def _sorted_count(chunk: NDArray[Any], edges: NDArray[np.float64]) -> Counts:
    """Counts a part of the elements.

    Raises:
        Flipped: as in `count_checked`.
    """
    size = chunk.size
    if chunk.dtype.kind == "f":
        nans = np.isnan(chunk)
        if nans.any():  # sorted, they would have other bits
            chunk = chunk[~nans]
            if int(np.count_nonzero(nans)) != size - chunk.size:
                raise Flipped("the count of NaN is wrong")
    ordered = np.sort(chunk)
    if seal(ordered) != seal(chunk):
        if not (np.signbit(chunk) & (chunk == 0)).any():  # zeros may change their signs
            raise Flipped("a bit of the elements has flipped while they were sorted")
        chunk = chunk + chunk.dtype.type(0)
        ordered = np.sort(chunk)
        if seal(ordered) != seal(chunk):
            raise Flipped("a bit of the elements has flipped while they were sorted")
    if not (ordered[:-1] <= ordered[1:]).all():
        raise Flipped("elements are out of order after sorting")

    def borders() -> NDArray[np.int64]:
        inner = np.searchsorted(ordered, edges[:-1], "left")
        return np.append(inner, np.searchsorted(ordered, edges[-1:], "right")).astype(np.int64)

    ends = twice(borders)
    return Counts(np.diff(ends), int(ends[0]), int(ordered.size - ends[-1]), size - ordered.size)


def nothing(bins: int) -> Counts:
    """No number at all."""
    return Counts(np.zeros(bins, np.int64))
