"""Samples a wave: each step at random places of one strip of the basin, strip after strip. Arguments: steps, samples,
seconds per step. A model that learns from new samples only would forget the strips before."""

import sys
import time

import h5py
import numpy as np
from known import height

steps, samples, pace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
strips = 8
rng = np.random.default_rng(0)

for step in range(steps):
    time.sleep(pace)
    place = rng.uniform(-1, 1, (samples, 3))
    strip = step % strips
    place[:, 0] = -1 + 2 * (strip + rng.uniform(0, 1, samples)) / strips
    with h5py.File(f"wave-{step:05}.h5", "w") as file:
        file["place"] = place
        file["height"] = height(place)
        file.attrs["strip"] = strip
