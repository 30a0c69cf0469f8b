"""Reads the wave's slope with netCDF4, which reads HDF5 files too, into slopes.csv: step, steepest, mean."""

import netCDF4
import numpy as np

rows = []
for step in range(5):
    with netCDF4.Dataset(f"wave-{step}.h5") as file:
        slope = file["slope"][:]
    rows.append((step, np.abs(slope).max(), slope.mean(dtype="f8")))
    print(f"step {step}: steepest {rows[-1][1]:.6f}")

np.savetxt("slopes.csv", rows, fmt=["%d", "%.9f", "%.9f"], delimiter=",")
