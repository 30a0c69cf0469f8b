"""A producer or a consumer of steps at a given pace; prints as JSON when its first step began and its last one ended.

paced.py produce|consume STEPS PACE MIB FRIEND: PACE is a time per step in seconds, to sleep, or a number of matrix
products such as 400x, to compute. FRIEND is another's role, or -: both begin when both are up, which a file each says.
"""

import json
import sys
import time
from pathlib import Path

import h5py
import numpy as np

role, steps, pace, mib, friend = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), sys.argv[5]
data = np.zeros(int(mib * 2**17))
matrix = np.random.default_rng(0).random((200, 200)) / 100


def step() -> None:
    if pace.endswith("x"):
        product = matrix
        for _ in range(int(pace[:-1])):
            product = product @ matrix
    else:
        time.sleep(float(pace))


def queued() -> float:
    """Seconds that this thread was ready to run and other work had the processors; 0 where the system does not say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


Path(f"{role}.up").touch()
while friend != "-" and not Path(f"{friend}.up").exists():
    time.sleep(0.002)

began, cpu, delayed = time.monotonic(), time.process_time(), queued()
numbers = []
for number in range(steps):
    if role == "produce":
        step()
        with h5py.File("state.h5", "w") as file:
            file["x"] = data
            file["number"] = number
    else:
        try:
            with h5py.File("state.h5", "r") as file:
                file["x"].read_direct(data)
                number = int(file["number"][()])
        except FileNotFoundError:
            break
        step()
    numbers.append(number)
    ended, used, late = time.monotonic(), time.process_time() - cpu, queued() - delayed
print(json.dumps({"began": began, "ended": ended, "numbers": numbers, "cpu": used, "queued": late}))
