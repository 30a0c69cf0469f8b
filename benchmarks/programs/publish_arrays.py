"""Publishes steps of one dataset, by one copy and filled in place by turns; prints the times in seconds as JSON."""

import json
import sys
import time

import numpy as np

import wilkins.transport
from wilkins.transport.memory import bytes_moved

steps, mib = int(sys.argv[1]), int(sys.argv[2])
data = np.random.default_rng(0).random(mib * 2**17)
copy = np.zeros_like(data)
times = []
for step in range(steps):
    data[0] = step
    begin = time.perf_counter()
    np.copyto(copy, data)
    copied = time.perf_counter()
    wilkins.transport.publish(f"array-{2 * step:04d}.h5", {"x": data}, {"step": 2 * step})
    published = time.perf_counter()
    moved = bytes_moved()
    with wilkins.transport.create(f"array-{2 * step + 1:04d}.h5") as new:
        array = new.empty("x", data.shape)
        made = time.perf_counter()
        np.copyto(array, data)  # stands for the program's own work
        new.attrs["step"] = 2 * step + 1
        filled = time.perf_counter()
    ended = time.perf_counter()
    times.append((copied - begin, published - copied, made - published + ended - filled, bytes_moved() - moved))
print(json.dumps(times))
