"""Trains on a stream by the learner: `learner.py FOLDER STRATEGY[/REGULARISER] [KILL RANK WHERE]`.

Goes on from what FOLDER holds. With KILL, rank RANK kills itself in that step: `train` after it, `save` while it saves,
with its own part written, of which no version is made yet. Appends to FOLDER/log-<rank> what was recalled in each step
and a digest of the model after it.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mpi4py import MPI

from wilkins.tasks import continual
from wilkins.tasks.checkpoint.engine.flush import Flush
from wilkins.tasks.continual.learner.positions import Step
from wilkins.tasks.continual.scenarios import class_incremental

SAVE_EVERY = 4
EPOCHS = {"from-scratch": 1}
"""Of each experience, 2 if it is not said; from scratch an epoch has twice as many steps."""


def digest(model: torch.nn.Module) -> str:
    """Of the bits of all parameters and buffers."""
    found = hashlib.sha256()
    for tensor in model.state_dict().values():
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    """Restore, train, save."""
    torch.set_num_threads(1)
    folder, name = Path(sys.argv[1]), sys.argv[2]
    kill, victim, where = (int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]) if len(sys.argv) > 3 else (-1, 0, "")
    world = MPI.COMM_WORLD
    rng = np.random.default_rng(3)
    y = np.arange(66) % 6
    x = (rng.standard_normal((66, 5)) + y[:, None]).astype("f4")
    stream = [one.share(world.rank, world.size) for one in class_incremental(x, y, 3, shuffle=1)]
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 6)
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    options = continual.RehearsalOptions(batch=4, candidates=3, representatives=3, samples=9, label="y", seed=9)
    with continual.process_group(world), (folder / f"log-{world.rank}").open("a") as log:
        name, _, regulariser = name.partition("/")
        strategy = continual.make_strategy(name, options, world)
        added = {"ewc": continual.EWC(20, samples=5), "lwf": continual.LwF()}
        regularise = [added[regulariser]] if regulariser else []
        with continual.Learner(model, strategy, optimizer, regularise=regularise, batch=4, seed=2) as learner:
            extra = learner.load(folder / "saved")
            logged = 0 if extra is None else extra["logged"]

            def die() -> None:
                os.kill(os.getpid(), signal.SIGKILL)

            def after(step: Step) -> None:
                nonlocal logged
                logged += 1
                print(
                    step.number, step.recalled, float(step.objective).hex(), digest(model), logged, file=log, flush=True
                )
                doomed = (step.number, world.rank) == (kill, victim)
                if doomed and where == "train":
                    die()
                if step.number % SAVE_EVERY == 0:
                    if doomed and where == "save":
                        Flush._write = dying(Flush._write, die)  # type: ignore[method-assign]
                    learner.save(folder / "saved", {"logged": logged})

            for experience in stream[learner.position.experience :]:
                learner.experience(experience.as_batch(), EPOCHS.get(name, 2), after_step=after)


def dying(write: Callable[..., Any], die: Callable[[], None]) -> Callable[..., Any]:
    """Writes this rank's own part, and dies before anything else."""

    def write_once(*arguments: object) -> None:
        write(*arguments)
        die()

    return write_once


if __name__ == "__main__":
    main()
