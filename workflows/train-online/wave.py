"""Samples a wave: each step at random places of one strip of the basin, strip after strip. Arguments: steps, samples,
seconds per step, and to go on, a file that says with which step. A model that learns from new samples only would forget
the strips before."""

import sys
import time
from pathlib import Path

import h5py
import numpy as np
from known import height

steps, samples, pace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
first = int(Path(sys.argv[4]).read_text()) if len(sys.argv) > 4 else 0
strips = 8

for step in range(first, steps):
    time.sleep(pace)
    rng = np.random.default_rng((0, step))
    place = rng.uniform(-1, 1, (samples, 3))
    strip = step % strips
    place[:, 0] = -1 + 2 * (strip + rng.uniform(0, 1, samples)) / strips
    with h5py.File(f"wave-{step:05}.h5", "w") as file:
        file["place"] = place
        file["height"] = height(place)
        file.attrs["strip"] = strip
    if step % 5 == 4:
        Path("next-step.txt").write_text(str(step + 1))
