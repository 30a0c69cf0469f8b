"""Reads the steps, each before a memcpy of the same bytes; prints the times in seconds as JSON."""

import json
import sys
import time

import h5py
import numpy as np

steps, mib = int(sys.argv[1]), int(sys.argv[2])
data = np.zeros(mib * 2**17)
copy = np.zeros_like(data)
times = []
for step in range(steps):
    with h5py.File(f"rate-{step:04d}.h5", "r") as f:
        dataset = f["x"]
        opened = time.perf_counter()
        dataset.read_direct(data)
        read = time.perf_counter()
    if data[0] != step:
        raise SystemExit(f"step {step}: read step {data[0]}")
    begin = time.perf_counter()
    np.copyto(copy, data)
    times.append((time.perf_counter() - begin, read - opened))
print(json.dumps(times))
