"""Checks /rows of all steps with h5py: rows_read.py PATTERN STEPS [PARTS]; PATTERN is a format of `step` and `part`."""

import sys

import h5py
import numpy as np

pattern, steps, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
for step in range(steps):
    first = 0
    for part in range(parts):
        with h5py.File(pattern.format(step=step, part=part), "r") as f:
            data = f["rows"][:]
        expected = step * 1e6 + (first + np.arange(len(data)))[:, None] * 1000.0 + np.arange(12)
        np.testing.assert_array_equal(data, expected)
        first += len(data)
print(f"h5py read {steps} steps")
