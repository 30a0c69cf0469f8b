"""Writes (w) or reads (r) tiny steps as fast as it can; prints seconds and CPU seconds per step.

The first tenth is left out.
"""

from __future__ import annotations

import sys
import time

import h5py


def main() -> None:
    """Arguments: w or r, and the number of steps."""
    role, steps = sys.argv[1], int(sys.argv[2])
    began = used = 0.0
    for step in range(steps):
        if step == steps // 10:
            began, used = time.perf_counter(), time.process_time()
        with h5py.File(f"tiny-{step}.h5", role) as file:
            if role == "w":
                file["x"] = step
            else:
                assert file["x"][()] == step
    counted = steps - steps // 10
    print((time.perf_counter() - began) / counted, (time.process_time() - used) / counted)


if __name__ == "__main__":
    main()
