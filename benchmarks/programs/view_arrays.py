"""Makes arrays and tensors of steps; prints the times in seconds, and the bytes copied for them, as JSON."""

import json
import sys
import time

import numpy as np

import wilkins.transport
from wilkins.transport.memory import bytes_moved

with_torch = sys.argv[1] == "torch"
if with_torch:
    import torch

    torch.set_num_threads(1)
times = []
for step in wilkins.transport.open("array-*.h5"):
    moved = bytes_moved()
    begin = time.perf_counter()
    array = step.torch("x") if with_torch else step["x"]  # opens the file, too
    first = time.perf_counter()
    again = step.torch("x") if with_torch else step["x"]
    second = time.perf_counter()
    moved = bytes_moved() - moved
    stored = step._stored
    start = np.asarray(array).ctypes.data
    if not stored or not stored.address <= start < stored.address + stored.size:
        raise SystemExit(f"{step}: the array is not in the step's memory")
    if array[0] != step.index // 2 or array[1] != again[1]:
        raise SystemExit(f"{step}: the array holds another step's values")
    del again
    begin_pass = time.perf_counter()
    np.add.reduce(np.asarray(array))
    times.append((first - begin, second - first, time.perf_counter() - begin_pass, moved))
print(json.dumps(times))
