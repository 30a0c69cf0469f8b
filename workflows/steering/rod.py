"""A rod is heated at one end and loses heat everywhere; it takes its power from a file, if there is one.

Writes rod.h5 at every step, and rod.csv. Arguments: cooling, steps.
"""

import sys
from pathlib import Path

import h5py
import numpy as np

CELLS, HEATED, DIFFUSION, SUBSTEPS = 50, 5, 8.0, 20

cooling, steps = float(sys.argv[1]), int(sys.argv[2])
heater = np.zeros(CELLS)
heater[:HEATED] = CELLS / HEATED  # its mean is 1
rod, power = np.zeros(CELLS), 0.0

with Path("rod.csv").open("w") as table:
    print("step,power,temperature", file=table)
    for step in range(steps):
        try:
            with h5py.File("power.h5", "r") as file:
                power = float(file["power"][()])
        except FileNotFoundError:
            print("nobody has set the power yet; it is 0")
        for _ in range(SUBSTEPS):
            around = np.pad(rod, 1, mode="edge")
            flow = DIFFUSION * (around[2:] + around[:-2] - 2 * rod)
            rod = rod + (flow + power * heater - cooling * rod) / SUBSTEPS
        with h5py.File("rod.h5", "w") as file:
            file["temperature"] = rod
            file.attrs["step"] = step
        print(f"{step},{power:.9g},{rod.mean():.9g}", file=table)
