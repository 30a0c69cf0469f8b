"""Handwritten digits as a stream: five files, each with samples of two classes to train on and to test with.

`digits.py [SEED]`: the seed says which classes come when, and which samples are for testing.
"""

import sys

import h5py
import numpy as np
from sklearn.datasets import load_digits

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
rng = np.random.default_rng(seed)
pictures, classes = load_digits(return_X_y=True)
order = rng.permutation(len(classes))
pictures, classes = (pictures[order] / 16).astype("f4"), classes[order]
for_training = np.arange(len(classes)) >= len(classes) // 5

for number, pair in enumerate(rng.permutation(10).reshape(5, 2)):
    with h5py.File(f"digits-{number}.h5", "w") as file:
        for name, chosen in (("train", for_training), ("test", ~for_training)):
            mine = chosen & np.isin(classes, pair)
            file[f"{name}/x"] = pictures[mine]
            file[f"{name}/y"] = classes[mine]
        file.attrs["classes"] = np.sort(pair)
    print(f"wrote digits {min(pair)} and {max(pair)}", flush=True)
