"""Trains a small model with a rehearsal buffer and saves both: `trainer.py FOLDER STEPS [KILL RANK WHERE]`.

Goes on from what FOLDER holds. With KILL, rank RANK kills itself in that step: `train` before it trains, `save` when it
has saved the buffer but not the model. Appends to FOLDER/log-<rank> what it drew in each step and the model after it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

from wilkins.tasks.continual import RehearsalBuffer, RehearsalOptions, concatenate

SAVE_EVERY = 5


def main() -> None:
    """Restore, train, save."""
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    kill, victim, where = (int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]) if len(sys.argv) > 3 else (-1, 0, "")
    world = MPI.COMM_WORLD

    def die(step: int, place: str) -> None:
        if (step, world.rank, place) == (kill, victim, where):
            os.kill(os.getpid(), signal.SIGKILL)

    options = RehearsalOptions(batch=6, candidates=4, representatives=5, samples=15, label="y", seed=9)
    weights = np.zeros(3)
    models = sorted(folder.glob("model-*.npy"))
    with RehearsalBuffer(options, world) as buffer, (folder / f"log-{world.rank}").open("a") as log:
        begin = 0
        if models:
            weights = np.load(models[-1])
            begin = buffer.load(folder / "buffer", step=int(models[-1].stem.partition("-")[2]))
        for step in range(begin, steps):
            number = np.arange(6) + 100 * step + 100_000 * world.rank
            batch = {"x": np.stack([np.sin(number), np.cos(number), number % 7], 1), "y": number % 4, "number": number}
            drawn = buffer.update(batch)
            die(step, "train")
            joined = concatenate(batch, drawn)
            gradient = (joined["x"] * (joined["x"] @ weights - joined["y"])[:, None]).mean(0)
            total = np.empty_like(gradient)
            world.Allreduce(gradient, total)
            weights = weights - 0.01 * total / world.size
            print(step, drawn["number"].tolist(), weights.tolist(), file=log, flush=True)
            if (step + 1) % SAVE_EVERY == 0:
                buffer.save(folder / "buffer")
                die(step, "save")
                if world.rank == 0:
                    part = folder / "part.npy"
                    np.save(part, weights)
                    part.replace(folder / f"model-{step + 1:06}.npy")


if __name__ == "__main__":
    main()
