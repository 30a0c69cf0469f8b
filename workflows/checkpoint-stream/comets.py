"""Comets around a star, by the leapfrog method; writes its state as it goes, and goes on from such a file."""

import csv
import sys
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

COMETS, STEPS = 40, 2000  # steps of an orbit, which takes all of them the same time

orbits, snapshots, restart = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
time_step = 2 * np.pi / STEPS


def pull(position: NDArray[np.float64]) -> NDArray[np.float64]:
    """The star's, with the units chosen so that an orbit of half-axis 1 takes 2 pi."""
    towards: NDArray[np.float64] = -position / np.linalg.norm(position, axis=1, keepdims=True) ** 3
    return towards


eccentricity = np.linspace(0, 0.6, COMETS)
zero = np.zeros(COMETS)
start = position = np.stack([1 - eccentricity, zero], axis=1)
velocity = np.stack([zero, np.sqrt((1 + eccentricity) / (1 - eccentricity))], axis=1)
step = 0
if Path(restart).exists():
    with h5py.File(restart) as file:
        position, velocity, step = file["position"][:], file["velocity"][:], int(file.attrs["step"])
    print(f"goes on after step {step}", flush=True)

while step < orbits * STEPS:
    velocity = velocity + time_step / 2 * pull(position)
    position = position + time_step * velocity
    velocity = velocity + time_step / 2 * pull(position)
    step += 1
    if step % (STEPS // snapshots) == 0 or step == orbits * STEPS:
        with h5py.File("comets.h5", "w") as file:
            file["position"], file["velocity"] = position, velocity
            file.attrs["step"] = step

energy = (velocity**2).sum(axis=1) / 2 - 1 / np.linalg.norm(position, axis=1)
with Path("comets.csv").open("w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["eccentricity", "x", "y", "energy", "off"])
    off = np.linalg.norm(position - start, axis=1)
    rows.writerows(np.column_stack([eccentricity, position, energy, off]).tolist())
print(f"{COMETS} comets after {orbits} orbits: no energy has changed by more than {np.abs(energy + 0.5).max():.2g}")
