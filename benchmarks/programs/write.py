"""Writes steps of one dataset, each after a memcpy of the same bytes; prints the times in seconds as JSON."""

import json
import sys
import time

import h5py
import numpy as np

steps, mib = int(sys.argv[1]), int(sys.argv[2])
data = np.random.default_rng(0).random(mib * 2**17)
copy = np.zeros_like(data)
times = []
for step in range(steps):
    data[0] = step
    begin = time.perf_counter()
    np.copyto(copy, data)
    middle = time.perf_counter()
    with h5py.File(f"rate-{step:04d}.h5", "w") as f:
        dataset = f.create_dataset("x", data.shape, data.dtype)
        opened = time.perf_counter()
        dataset.write_direct(data)
        written = time.perf_counter()
    times.append((middle - begin, written - opened))
print(json.dumps(times))
