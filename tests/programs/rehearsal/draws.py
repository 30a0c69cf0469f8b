"""Counts how often each sample of a buffer is drawn: `draws.py PHASES R DRAWS FOLDER`, on any number of ranks.

PHASES is JSON: for each phase, for each rank, the numbers of samples to add of class 0, 1, ... Samples are numbered
through over phases, classes and ranks. After each phase batches are empty, so the population stays as it is, until all
ranks together have drawn DRAWS samples. Writes an array of counts per phase and rank.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

from wilkins.tasks.continual import RehearsalBuffer, RehearsalOptions


def main() -> None:
    """Fill, draw, count."""
    phases, r, draws, folder = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    world = MPI.COMM_WORLD
    options = RehearsalOptions(
        batch=1000, candidates=1000, representatives=r, samples=1000, label="class", seed=world.size
    )
    number = 0
    with RehearsalBuffer(options, world) as buffer:
        for phase, ranks in enumerate(phases):
            mine: dict[str, list[int]] = {"number": [], "class": []}
            for rank, classes in enumerate(ranks):
                for label, count in enumerate(classes):
                    if rank == world.rank:
                        mine["number"] += range(number, number + count)
                        mine["class"] += [label] * count
                    number += count
            buffer.update({name: np.array(values, np.int64) for name, values in mine.items()})
            none = {name: np.empty(0, np.int64) for name in mine}
            buffer.update(none)
            seen, places = np.zeros(number, np.int64), np.zeros((3, number), np.int64)
            rounds = draws // (r * world.size)
            for _ in range(rounds):
                drawn = buffer.update(none)["number"]
                assert len(set(drawn.tolist())) == len(drawn) == r, "a sample was drawn twice, or too few"
                seen[drawn] += 1
                places[range(3), drawn[[0, r // 2, -1]]] += 1
            np.save(folder / f"phase-{phase}.rank-{world.rank}.npy", seen)
            np.save(folder / f"phase-{phase}.rank-{world.rank}.places.npy", places)


if __name__ == "__main__":
    main()
