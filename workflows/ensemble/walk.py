"""Walkers start at one point and step at random along both axes. Arguments: member, walkers, snapshots, stride."""

import sys

import h5py
import numpy as np

BETWEEN = 10

member, walkers, snapshots = (int(word) for word in sys.argv[1:4])
length = 1 + member * float(sys.argv[4])
rng = np.random.default_rng(member)
position = np.zeros((walkers, 2))

for snapshot in range(snapshots):
    with h5py.File(f"walk-{member}-{snapshot:04}.h5", "w") as file:
        file["position"] = position
        file.attrs["time"] = snapshot * BETWEEN
        file.attrs["length"] = length
    for _ in range(BETWEEN):
        position += length * rng.choice((-1.0, 1.0), position.shape)
