"""Trains with ranks that bring different numbers of samples: `together.py FOLDER [DEVICE]`; writes `<rank>.json`.

Rank k's share of every batch is given by SHARES; what the ranks learn is compared with one process by the test.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from wilkins.tasks import continual

FEATURES, CLASSES, STEPS = 7, 4, 12
SHARES = ((5, 3, 1), (0, 6, 2), (4, 4, 4), (0, 0, 7), (9, 0, 0), (0, 0, 0))
"""Samples of up to three ranks in each step, in turn."""


def model_of(seed: int) -> torch.nn.Module:
    """A small model; what is random in it follows from the seed."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, 16), torch.nn.Tanh(), torch.nn.Linear(16, CLASSES))


def batch_of(step: int, rank: int) -> dict[str, np.ndarray]:
    """What a rank brings to a step."""
    rng = np.random.default_rng([step, rank])
    samples = SHARES[step % len(SHARES)][rank]
    return {"x": rng.standard_normal((samples, FEATURES)).astype("f4"), "y": rng.integers(0, CLASSES, samples)}


def main() -> None:
    """Train incrementally, with every buffer and an experience of unequal shares, and with regularisers."""
    from mpi4py import MPI

    torch.set_num_threads(1)
    world = MPI.COMM_WORLD
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    told: dict[str, object] = {}
    with continual.process_group(world, device):
        model = model_of(5 + world.rank)  # rank 0's counts
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with continual.Learner(model, continual.Incremental(), optimizer, device=device) as learner:
            for step in range(STEPS):
                learner.step(batch_of(step, world.rank))
            found = learner.evaluate(batch_of(2, world.rank))
            told["evaluation"] = [found.samples, found.loss, found.accuracy]
        told["incremental"] = torch.cat([one.flatten() for one in model.parameters()]).tolist()
        for name in ("rehearsal", "der", "der++"):
            options = continual.RehearsalOptions(batch=6, candidates=6, representatives=4, samples=20, label="y")
            model = model_of(5)
            strategy = continual.make_strategy(name, options, world)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            with continual.Learner(model, strategy, optimizer, device=device) as learner:
                for step in range(STEPS):
                    learner.step(batch_of(step, world.rank))
                rng = np.random.default_rng(world.rank)
                count = (40, 13, 0)[world.rank]
                share = {"x": rng.random((count, FEATURES), "f4"), "y": rng.integers(0, CLASSES, count)}
                learner.experience(share, 2)
                told[name] = torch.cat([one.flatten() for one in model.parameters()]).tolist()
                told[f"{name} steps"] = learner.steps
        for name, made in (("ewc", continual.EWC), ("lwf", continual.LwF)):
            model = model_of(5)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            with continual.Learner(
                model, continual.Incremental(), optimizer, regularise=[made(3.0)], batch=100, device=device
            ) as learner:
                for step in range(3):  # all samples in one batch
                    learner.experience(batch_of(step, world.rank), 3)
            told[name] = torch.cat([one.flatten() for one in model.parameters()]).tolist()
    (Path(sys.argv[1]) / f"{world.rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
