"""Follows the heat: how much there is, and its mean square distance from the middle; writes follow.csv."""

import itertools
from pathlib import Path

import h5py
import numpy as np

times: list[float] = []
spreads: list[float] = []
with Path("follow.csv").open("w") as table:
    print("time,heat,spread", file=table)
    for step in itertools.count():
        try:
            with h5py.File(f"coarse-{step:04}.h5", "r") as file:
                plate = file["temperature"][:]
                time, block = file.attrs["time"], file.attrs["block"]
        except FileNotFoundError:
            break
        y, x = (np.indices(plate.shape) - (np.array(plate.shape)[:, None, None] - 1) / 2) * block
        heat = plate.sum() * block**2
        spread = (plate * (x**2 + y**2)).sum() * block**2 / heat
        print(f"{time:g},{heat:.9g},{spread:.9g}", file=table)
        times.append(time)
        spreads.append(spread)

if len(times) > 1:
    slope = np.polyfit(times, spreads, 1)[0]
    print(f"{len(times)} snapshots: the mean square distance of the heat grows by {slope:.4g} per unit of time")
