"""Follows the heat: how hot the plate's middle is, how far the heat has come, and a cut through the middle."""

import h5py
import numpy as np

cuts = []
for step in range(5):
    with h5py.File(f"heat-{step}.h5", "r") as file:
        plate = file["temperature"][:]
    y, x = np.indices(plate.shape) - 100
    spread = np.sqrt((plate * (x**2 + y**2)).sum() / plate.sum())
    print(f"step {step}: {plate[100, 100]:6.2f} degrees in the middle, spread {spread:5.1f}")
    cuts.append(plate[100])

np.savetxt("cuts.csv", np.transpose(cuts), fmt="%.4f", delimiter=",")
