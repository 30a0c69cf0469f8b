"""Two substances react and diffuse (Gray-Scott). Arguments: size, snapshots, feed, kill."""

import sys

import h5py
import numpy as np
from numpy.typing import NDArray

DIFFUSION_U, DIFFUSION_V = 0.2, 0.1
BETWEEN = 50


def diffused(field: NDArray[np.float64]) -> NDArray[np.float64]:
    """What flows into each cell from its neighbours; the borders meet."""
    neighbours = (np.roll(field, shift, axis) for shift in (1, -1) for axis in (0, 1))
    return sum(neighbours, -4 * field)


size, snapshots, feed, kill = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
rng = np.random.default_rng(7)
u, v = np.ones((size, size)), np.zeros((size, size))
for _ in range(12):
    row, column = rng.integers(0, size - 8, 2)
    u[row : row + 8, column : column + 8], v[row : row + 8, column : column + 8] = 0.5, 0.25

for snapshot in range(snapshots):
    with h5py.File(f"gs-{snapshot:04}.h5", "w") as file:
        file["u"], file["v"] = u, v
        file.attrs["time"] = snapshot * BETWEEN
    for _ in range(BETWEEN):
        reaction = u * v * v
        u, v = (
            u + DIFFUSION_U * diffused(u) - reaction + feed * (1 - u),
            v + DIFFUSION_V * diffused(v) + reaction - (feed + kill) * v,
        )
