"""A rank, on a node of its own, that saves checkpoints to one level; rank 0 writes what they took as JSON.

Arguments: the level (`storage`, `memory`, `partners`), data and parity fragments, MiB per rank, checkpoints, seconds of
computing between a save and its update, a folder for storage, one for the nodes' memories, the file of results.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from wilkins.tasks.checkpoint import Checkpointer, Partners

WARM = 1


def main() -> None:
    """Save one checkpoint after the other, each when the one before is done."""
    level, data, parity, mib, steps, compute, folder, memory, result = sys.argv[1:]
    world = MPI.COMM_WORLD
    rng = np.random.default_rng(world.rank)
    state = {"x": [rng.integers(0, 256, 1 << 20, np.uint8) for _ in range(int(mib))]}
    options: dict[str, Any] = {}
    if level != "storage":
        node = f"node{world.rank}"
        options = {"memory": Path(memory) / node, "node": node, "storage_every": 1 << 30}
    if level == "partners":
        options["partners"] = Partners(int(data), int(parity))
    blocked: list[float] = []
    done: list[float] = []
    cpu: list[float] = []
    with Checkpointer(folder, ranks=world, **options) as checkpointer:
        for step in range(WARM + int(steps)):
            world.Barrier()
            began = sum(os.times()[:2])
            checkpointer.save(step, state)
            time.sleep(float(compute))
            checkpointer.wait_captured()
            checkpointer.wait()
            saved = checkpointer.history[-1]
            assert saved.durable is not None
            blocked.append(world.allreduce(saved.blocked, MPI.MAX))
            done.append(world.allreduce(saved.durable, MPI.MAX))
            cpu.append(world.allreduce(sum(os.times()[:2]) - began, MPI.SUM) / world.size)
    if world.rank == 0:
        found = {"blocked": blocked[WARM:], "done": done[WARM:], "cpu": cpu[WARM:]}
        Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
