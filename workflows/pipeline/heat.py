"""Heat spreads in an insulated plate from its middle: one file per unit of time. Arguments: size, steps, diffusion."""

import sys

import h5py
import numpy as np

SUBSTEPS = 20

size, steps, diffusion = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
plate = np.zeros((size, size))
plate[size // 2 - 1 : size // 2 + 1, size // 2 - 1 : size // 2 + 1] = 25.0

for step in range(steps):
    with h5py.File(f"heat-{step:04}.h5", "w") as file:
        file["temperature"] = plate
        file.attrs["time"] = float(step)
    for _ in range(SUBSTEPS):
        around = np.pad(plate, 1, mode="edge")
        flow = around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2] - 4 * plate
        plate = plate + diffusion / SUBSTEPS * flow
