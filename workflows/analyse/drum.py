"""A square drum after it was struck: the wave equation, 30 snapshots."""

import h5py
import numpy as np

SIZE, SNAPSHOTS, BETWEEN, COURANT = 80, 30, 5, 0.5

y, x = np.indices((SIZE, SIZE))
height = np.exp(-((x - 25.0) ** 2 + (y - 40.0) ** 2) / 20)
height[[0, -1], :] = height[:, [0, -1]] = 0
before = height.copy()

for snapshot in range(SNAPSHOTS):
    with h5py.File(f"drum-{snapshot:03}.h5", "w") as file:
        file.create_dataset("height", data=height, compression="gzip")
        file.attrs["step"] = snapshot * BETWEEN
    for _ in range(BETWEEN):
        after = np.zeros_like(height)
        inner = height[1:-1, 1:-1]
        bent = height[2:, 1:-1] + height[:-2, 1:-1] + height[1:-1, 2:] + height[1:-1, :-2] - 4 * inner
        after[1:-1, 1:-1] = 2 * inner - before[1:-1, 1:-1] + COURANT**2 * bent
        before, height = height, after
