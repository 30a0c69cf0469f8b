#!/usr/bin/env python3
"""A simulation: samples of a noisy linear law, one file per step."""

import sys

import h5py
import numpy

draw = numpy.random.default_rng(7)
law = draw.normal(size=(6, 2))
for step in range(int(sys.argv[1])):
    x = draw.normal(size=(48, 6))
    with h5py.File(f"samples{step:03d}.h5", "w") as file:
        file["x"] = x
        file.create_dataset("y", data=x @ law + 0.01 * draw.normal(size=(48, 2)), chunks=(16, 2), compression="gzip")
