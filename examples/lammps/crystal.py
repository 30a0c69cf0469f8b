"""Counts the crystalline atoms of every frame, and the distances between atoms in the first and the last.

In a close-packed crystal an atom has twelve neighbours, and with each of them it shares four more
(Honeycutt and Andersen, J. Phys. Chem. 91, 4950 (1987)). Thermal motion spoils a few of these pairs, so nine suffice.
"""

import h5py
import numpy as np

REACH = 1.38  # between the first and the second shell of neighbours
EDGES = np.linspace(0.8, 4.0, 161)


def distances(positions: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Distances of every atom to every other, in a periodic box."""
    apart = positions[:, None] - positions
    apart -= box * np.round(apart / box)
    return np.sqrt((apart**2).sum(axis=2))


def crystalline(apart: np.ndarray) -> np.ndarray:
    """Which atoms share four neighbours with at least nine of their neighbours."""
    neighbours = (apart < REACH) & (apart > 0)
    shared = neighbours.astype("f4") @ neighbours
    return ((shared == 4) & neighbours).sum(axis=1) >= 9


def radial_distribution(apart: np.ndarray, box: np.ndarray) -> np.ndarray:
    """The density of atoms at a distance from an atom, over the mean density."""
    counts, _ = np.histogram(apart, EDGES)
    shells = 4 / 3 * np.pi * np.diff(EDGES**3)
    return counts * box.prod() / (shells * len(apart) ** 2)


rows, profiles = [], []
while True:
    try:
        file = h5py.File(f"frame-{len(rows):03d}.h5", "r")
    except FileNotFoundError:
        break
    with file:
        step, box = file.attrs["step"], file["box"][:]
        apart = distances(file["positions"][:], box)
    fraction = crystalline(apart).mean()
    print(f"time step {step:5d}: {fraction:4.0%} crystalline")
    profiles.append(radial_distribution(apart, box))
    rows.append((step, fraction))

np.savetxt("fraction.csv", rows, fmt="%.6g", delimiter=",", header="step,crystalline", comments="")
np.savetxt("distances.csv", np.transpose([EDGES[1:], profiles[0], profiles[-1]]), fmt="%.6g", delimiter=",")
