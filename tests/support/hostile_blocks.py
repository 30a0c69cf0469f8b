"""Random blocks of data for compressors: smooth, noisy, constant, wide, with extremes here and there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXTREMES = (0.0, -0.0, 5e-324, 1e-310, 1e-45, 1e300, -1e300, 3.4e38, math.nan, math.inf, -math.inf)


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[NDArray[Any], float]:
    """A block of this shape, of type f4 or f8, and a bound."""
    place = np.indices(shape).sum(0) / 7
    with np.errstate(all="ignore"):
        made = [
            np.sin(place) * 10.0 ** rng.integers(-8, 8),
            rng.standard_normal(shape) * 10.0 ** rng.integers(-300, 300),
            np.full(shape, rng.standard_normal()),
            np.exp(rng.uniform(-700, 700, shape)),
            rng.uniform(0, 1e-310, shape),
            rng.integers(0, 2**63, shape).view("f8"),
            np.sin(place) + (rng.random(shape) < 0.01) * 1e30,
        ][rng.integers(7)]
        for extreme in rng.choice(EXTREMES, rng.integers(3)):
            made[rng.random(shape) < 0.05] = extreme
        made = made.astype(rng.choice(["<f4", "<f8"]))
    bound = float(10.0 ** rng.integers(-320, 300) if rng.random() < 0.3 else 10.0 ** rng.integers(-6, 3))
    return np.ascontiguousarray(made), bound or 1e-320
