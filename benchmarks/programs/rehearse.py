"""A training loop with a rehearsal buffer: `rehearse.py STEPS MS SAMPLE_BYTES BACKGROUND FOLDER`; writes `<rank>.json`.

A step multiplies matrices for MS milliseconds, then averages a gradient over the ranks, as data-parallel training does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
from mpi4py import MPI

from wilkins.tasks.continual import RehearsalBuffer, RehearsalOptions, concatenate

WARM_UP = 10


def main() -> None:
    """Train, measure, report."""
    steps, seconds, sample_bytes = int(sys.argv[1]), float(sys.argv[2]) / 1000, int(sys.argv[3])
    world = MPI.COMM_WORLD
    options = RehearsalOptions(
        batch=56, candidates=14, representatives=8, samples=500, label="y", background=sys.argv[4] == "1"
    )
    rng = np.random.default_rng(world.rank)
    x = rng.random((56, sample_bytes // 4), np.float32)
    weights = rng.random((96, 96), np.float32)
    gradient, total = np.zeros(100_000, np.float32), np.zeros(100_000, np.float32)
    began = calls = 0.0
    before = None
    with RehearsalBuffer(options, world) as buffer:
        for step in range(WARM_UP + steps):
            if step == WARM_UP:
                world.Barrier()
                before, began, calls = buffer.statistics(), time.perf_counter(), 0.0
            entered = time.perf_counter()
            batch = {"x": x, "y": rng.integers(0, 10, 56)}
            representatives = buffer.update(batch)
            calls += time.perf_counter() - entered
            joined = concatenate(batch, representatives)
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                weights = np.tanh(weights @ weights.T / len(joined["x"]))
            world.Allreduce(gradient, total)
        lasted = time.perf_counter() - began
        after = asdict(buffer.statistics())
    assert before is not None
    results = {
        name: after[name] - getattr(before, name)
        for name in ("wait_seconds", "round_seconds", "drawn", "drawn_elsewhere")
    }
    results |= {"longest_wait": after["longest_wait"], "seconds": lasted, "call_seconds": calls}
    (Path(sys.argv[5]) / f"{world.rank}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
