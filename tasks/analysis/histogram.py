"""Histograms that are counted in parts and added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def nothing(bins: int) -> Counts:
    """No number at all."""
    return Counts(np.zeros(bins, np.int64))
