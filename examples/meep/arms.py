"""Adds up the field's intensity in both arms of the bend, for every field that Meep wrote, into arms.csv."""

import h5py
import numpy as np

RESOLUTION = 10


def index(position: float) -> int:
    """The grid point at a position of Meep's cell, whose middle is 0."""
    return round((position + 8) * RESOLUTION)


rows = []
for time in range(4, 201, 4):
    with h5py.File(f"waveguide-ez-{time:09.2f}.h5", "r") as file:
        intensity = file["ez"][:] ** 2
    before = intensity[index(-6) : index(3), index(-4) : index(-3)].sum()
    behind = intensity[index(3) : index(4), index(-3) : index(6)].sum()
    rows.append((time, before / RESOLUTION**2, behind / RESOLUTION**2))
    print(f"time {time:3d}: before the bend {rows[-1][1]:9.3e}, behind it {rows[-1][2]:9.3e}")

np.savetxt("arms.csv", rows, fmt="%.10g", delimiter=",", header="time,before,behind", comments="")
