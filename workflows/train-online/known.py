"""The function that is to be learned: a wave that runs along a basin of length 2 and width 2."""

import numpy as np
from numpy.typing import NDArray


def height(place: NDArray[np.float64]) -> NDArray[np.float64]:
    """Heights of rows (x, y, time), each from -1 to 1."""
    x, y, time = place.T
    heights: NDArray[np.float64] = np.sin(2 * x - 1.5 * time) * np.cos(y)
    return heights[:, None]
