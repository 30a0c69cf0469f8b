"""Asks: writes steps of random questions, each of two numbers. Arguments: steps, questions in a step.

The first half of the steps asks in one half of the unit square, the second half in the other: what was learned on one
is of no use for the other, and has to be learned again.
"""

import sys

import h5py
import numpy as np

steps, batch = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(1)

for step in range(steps):
    questions = rng.random((batch, 2))
    questions[:, 0] = (questions[:, 0] + (2 * step >= steps)) / 2
    with h5py.File(f"question-{step:05}.h5", "w") as file:
        file["x"] = questions.astype("f4")
