"""Simulates a ptychography experiment: scans one specimen after the other and writes the diffraction patterns.

Frame k is the scan of one specimen: scan-0000.h5 holds its patterns, and truth-0000.h5 the object, which an experiment
would not know. The specimens drift: after some frames they come from another family.
"""

import argparse
import time

import h5py
import numpy as np

import objects
import optics

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--frames", type=int, default=120, help="specimens that are scanned")
parser.add_argument("--families", default="smooth,grains,smooth", help=f"of {', '.join(objects.FAMILIES)}")
parser.add_argument("--stage", type=int, default=40, help="frames until the next family")
parser.add_argument("--size", type=int, default=32, help="pixels of a pattern, in each direction")
parser.add_argument("--grid", type=int, default=8, help="positions of the probe, in each direction")
parser.add_argument("--photons", type=float, default=1e6, help="photons that fall on the object for each pattern")
parser.add_argument("--exact", action="store_true", help="patterns without the noise of counting photons")
parser.add_argument("--seed", type=int, default=1, help="all that is random follows from this")
parser.add_argument("--interval", type=float, default=0.0, help="seconds from one frame to the next, at least")
given = parser.parse_args()

families = given.families.split(",")
for family in families:
    if family not in objects.FAMILIES:
        parser.error(f"there is no family {family!r}; choose of {', '.join(objects.FAMILIES)}")
light = optics.probe(given.size, given.photons)
step = given.size / 8
pixels = optics.extent(given.grid, step, 1.0, given.size)

for frame in range(given.frames):
    begun = time.monotonic()
    rng = np.random.default_rng([given.seed, frame])
    family = families[frame // given.stage % len(families)]
    field = objects.FAMILIES[family].transmission(pixels, rng)
    positions = optics.scan(given.grid, step, 1.0, rng)
    patterns = optics.diffraction(field, light, positions, None if given.exact else rng)
    with h5py.File(f"truth-{frame:04}.h5", "w") as file:
        file["field"] = field.astype("c8")
        file.attrs["family"] = family
    with h5py.File(f"scan-{frame:04}.h5", "w") as file:
        file["patterns"] = patterns
        file["positions"] = positions
        file["probe"] = light.astype("c8")
        file.attrs["frame"] = frame
    time.sleep(max(0.0, begun + given.interval - time.monotonic()))

print(f"{given.frames} frames of {len(positions)} patterns each")
