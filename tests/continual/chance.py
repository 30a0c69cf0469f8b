"""Tests of chance for samplers: how likely counts as uneven, or as even, as those seen are for an exact sampler."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

LEVEL = 1e-3
"""How often a whole family of tests may reject an exact sampler, before seeds were fixed."""


def tail(value: float, freedom: int) -> float:
    """Probability that chi-square exceeds a value (Numerical Recipes, section 6.2: series and continued fraction)."""
    a, x = freedom / 2, value / 2
    if x <= 0:
        return 1.0
    scale = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        step = a
        while term > total * 1e-15:
            step += 1
            term *= x / step
            total += term
        return 1 - total * scale
    b = x + 1 - a
    c, d = 1e300, 1 / b
    result = d
    for i in range(1, 10_000):
        factor = -i * (i - a)
        b += 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        result *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return scale * result


def two_sided(value: float, freedom: int) -> float:
    """Probability of a chi-square at least as far out, on either side: too even is as suspicious as too uneven."""
    above = tail(value, freedom)
    return min(1.0, 2 * min(above, 1 - above))


def uniform_inclusion(counts: NDArray[np.int64], rounds: int) -> float:
    """How likely such counts are, if every round draws r of N samples without replacement, all sets equally likely.

    The counts then have covariance rounds * r/N * (1 - r/N) * N/(N-1) * (identity - 1/N): hence the statistic.
    """
    population, drawn = len(counts), int(counts.sum())
    share = drawn / rounds / population
    spread = rounds * share * (1 - share) * population / (population - 1)
    return two_sided(float(((counts - drawn / population) ** 2).sum() / spread), population - 1)


def equal_cells(counts: NDArray[np.int64]) -> float:
    """How likely such counts are, if every independent trial hits each cell with equal probability."""
    expected = counts.sum() / len(counts)
    return two_sided(float(((counts - expected) ** 2).sum() / expected), len(counts) - 1)


def rejected(chances: Mapping[str, float]) -> dict[str, float]:
    """Those of a family of tests that reject, corrected for their number (Bonferroni)."""
    return {name: chance for name, chance in chances.items() if chance < LEVEL / len(chances)}
