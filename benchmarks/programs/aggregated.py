"""A rank that saves checkpoints into a number of files; rank 0 writes what they took as JSON.

Arguments: files, how they are written (empty, `memory`, `leaders`), MiB per rank, checkpoints, seconds between a save
and its update, a folder for checkpoints, the file of results.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

from wilkins.tasks.checkpoint import Checkpointer
from wilkins.tasks.checkpoint.storage import versions

WARM = 1


def main() -> None:
    """Save one checkpoint after the other, each when the one before is on storage."""
    files, way, mib, steps, compute, folder, result = sys.argv[1:]
    world = MPI.COMM_WORLD
    rng = np.random.default_rng(world.rank)
    state = {"x": [rng.integers(0, 256, 1 << 20, np.uint8) for _ in range(int(mib))]}
    blocked: list[float] = []
    durable: list[float] = []
    with Checkpointer(
        folder, ranks=world, files=int(files), memory=bool(way), leaders=way == "leaders"
    ) as checkpointer:
        for step in range(WARM + int(steps)):
            world.Barrier()
            checkpointer.save(step, state)
            time.sleep(float(compute))
            checkpointer.wait_captured()
            checkpointer.wait()
            saved = checkpointer.history[-1]
            assert saved.durable is not None
            blocked.append(world.allreduce(saved.blocked, MPI.MAX))
            durable.append(world.allreduce(saved.durable, MPI.MAX))
        version = versions.versions(Path(folder))[-1].path
        count = len(list(version.glob("data-*.bin")))
    if world.rank == 0:
        Path(result).write_text(json.dumps({"files": count, "blocked": blocked[WARM:], "durable": durable[WARM:]}))


if __name__ == "__main__":
    main()
