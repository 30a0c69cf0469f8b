"""Moments of a stream of numbers in one pass: parts are summed up by themselves and merged without loss of digits.

P. Pébay, Formulas for Robust, One-Pass Parallel Computation of Covariances and Arbitrary-Order Statistical Moments,
Sandia report SAND2008-6212 (2008); T. F. Chan, G. H. Golub, R. J. LeVeque, Updating Formulae and a Pairwise Algorithm
for Computing Sample Variances, Stanford report STAN-CS-79-773 (1979).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Moments:
    """The count and the mean of numbers, and the sums of powers of their distances from it."""

    count: int = 0
    """Finite numbers; only these enter the rest."""
    nans: int = 0
    infinite: int = 0
    mean: float = 0.0
    m2: float = 0.0
    m3: float = 0.0
    m4: float = 0.0
    least: float | None = None
    greatest: float | None = None

    @classmethod
    def of(cls, values: NDArray[Any]) -> Moments:
        """The moments of an array of integers or floating-point numbers."""
        flat = values.reshape(-1)
        nans = infinite = 0
        if flat.dtype.kind == "f":
            finite = np.isfinite(flat)
            if not finite.all():
                nans = int(np.isnan(flat).sum())
                infinite = flat.size - int(finite.sum()) - nans
                flat = flat[finite]
        if not flat.size:
            return cls(nans=nans, infinite=infinite)
        least, greatest = flat.min().item(), flat.max().item()
        numbers = flat.astype(np.float64)
        # Around a first mean, then around the mean of the rest: the mean of large numbers is not exact.
        mean = float(numbers.mean())
        distance = numbers - mean
        mean += float(distance.mean())
        distance = numbers - mean
        square = distance * distance
        return cls(
            count=flat.size,
            nans=nans,
            infinite=infinite,
            mean=mean,
            m2=float(square.sum()),
            m3=float((square * distance).sum()),
            m4=float((square * square).sum()),
            least=least,
            greatest=greatest,
        )

    def __add__(self, other: Moments) -> Moments:
        """The moments of both sets of numbers together."""
        nans, infinite = self.nans + other.nans, self.infinite + other.infinite
        if not self.count or not other.count:
            whole = self if self.count else other
            return Moments(**{**asdict(whole), "nans": nans, "infinite": infinite})
        a, b = self.count, other.count
        n = a + b
        delta = other.mean - self.mean
        part = delta / n
        return Moments(
            count=n,
            nans=nans,
            infinite=infinite,
            mean=self.mean + b * part,
            m2=self.m2 + other.m2 + a * b * delta * part,
            m3=self.m3 + other.m3 + a * b * (a - b) * delta * part**2 + 3 * part * (a * other.m2 - b * self.m2),
            m4=self.m4
            + other.m4
            + a * b * (a * a - a * b + b * b) * delta * part**3
            + 6 * part**2 * (a * a * other.m2 + b * b * self.m2)
            + 4 * part * (a * other.m3 - b * self.m3),
            least=min(_known(self.least), _known(other.least)),
            greatest=max(_known(self.greatest), _known(other.greatest)),
        )

    @property
    def variance(self) -> float:
        """Mean square distance from the mean (division by n)."""
        return self.m2 / self.count if self.count else math.nan

    @property
    def skewness(self) -> float:
        """Third standardised moment; NaN if all numbers are equal."""
        return math.sqrt(self.count) * self.m3 / self.m2**1.5 if self.m2 > 0 else math.nan

    @property
    def kurtosis(self) -> float:
        """Fourth standardised moment, less 3: 0 for a normal distribution; NaN if all numbers are equal."""
        return self.count * self.m4 / self.m2**2 - 3 if self.m2 > 0 else math.nan

    def results(self) -> dict[str, float]:
        """The results to write, by name."""
        nothing = math.nan
        return {
            "count": self.count,
            "nans": self.nans,
            "infinite": self.infinite,
            "min": nothing if self.least is None else self.least,
            "max": nothing if self.greatest is None else self.greatest,
            "mean": self.mean if self.count else nothing,
            "variance": self.variance,
            "skewness": self.skewness,
            "kurtosis": self.kurtosis,
        }


def merged(parts: list[Moments]) -> Moments:
    """The moments of all parts together."""
    return reduce(Moments.__add__, parts, Moments())


def _known(value: float | None) -> float:
    assert value is not None
    return value
