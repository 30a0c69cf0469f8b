"""Incremental training, the same with larger batches, and rehearsal, by the learner, in turn.

`learn.py ROUNDS STEPS MS SAMPLE_BYTES DEVICE KEPT FOLDER` writes `<rank>.json`: trained on DEVICE, with the buffer in
`host` memory or on a device. The model multiplies each sample by matrices, as
often as it takes for an incremental step of MS milliseconds. The larger batches have as many samples as rehearsal
trains on: what they take beyond their share is the model's, not rehearsal's. Rounds alternate, so that other load on
the machine meets all.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
import torch
from mpi4py import MPI
from torch import Tensor, nn

from wilkins.tasks import continual

BATCH, CANDIDATES, REPRESENTATIVES = 56, 14, 8
CLASSES, WIDTH = 10, 256
WARM_UP = 8


class Model(nn.Module):
    """Its time is proportional to the number of samples: every sample is a matrix that is multiplied some times."""

    def __init__(self, features: int, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.rows = features // WIDTH
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs for samples."""
        hidden = x.reshape(len(x) * self.rows, WIDTH)
        for _ in range(self.depth):
            hidden = torch.tanh(self.inner(hidden))
        outputs: Tensor = self.last(hidden.reshape(len(x), self.rows, WIDTH).mean(1))
        return outputs


class Course:
    """One strategy's learner, and what its steps took."""

    def __init__(
        self, strategy: continual.Strategy, features: int, depth: int, device: str, rank: int, samples: int = BATCH
    ) -> None:
        torch.manual_seed(1)
        model = Model(features, depth).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        self.learner = continual.Learner(model, strategy, optimizer, device=device)
        self._done: Callable[[], object] = torch.cuda.synchronize if device != "cpu" else int
        self.seconds: list[float] = []
        self._rng = np.random.default_rng(rank)
        self._x = self._rng.random((samples, features), np.float32)

    def run(self, steps: int) -> None:
        """Make some steps and note the time of each."""
        for _ in range(steps):
            batch = {"x": self._x, "y": self._rng.integers(0, CLASSES, len(self._x))}
            began = time.perf_counter()
            self.learner.step(batch)
            self._done()
            self.seconds.append(time.perf_counter() - began)


def depth_for(seconds: float, features: int, device: str, world: MPI.Intracomm) -> int:
    """How deep the model has to be for incremental steps that last so long on every rank."""
    depth = 0
    while True:
        depth += 1 + depth // 8
        course = Course(continual.Incremental(), features, depth, device, world.rank)
        with course.learner:
            course.run(4)
        if world.allreduce(min(course.seconds), MPI.MIN) >= seconds:
            return depth


def main() -> None:
    """Find the depth, train in turns, report."""
    rounds, steps = int(sys.argv[1]), int(sys.argv[2])
    seconds, features = float(sys.argv[3]) / 1000, int(sys.argv[4]) // 4
    device, kept, folder = sys.argv[5], sys.argv[6], Path(sys.argv[7])
    torch.set_num_threads(1)
    world = MPI.COMM_WORLD
    options = continual.RehearsalOptions(
        batch=BATCH, candidates=CANDIDATES, representatives=REPRESENTATIVES, samples=500, label="y", device=kept
    )
    with continual.process_group(world, device):
        depth = depth_for(seconds, features, device, world)
        incremental = Course(continual.Incremental(), features, depth, device, world.rank)
        larger = Course(continual.Incremental(), features, depth, device, world.rank, BATCH + REPRESENTATIVES)
        rehearsal = Course(continual.Rehearsal(options, world), features, depth, device, world.rank)
        with incremental.learner, larger.learner, rehearsal.learner:
            for course in (incremental, larger, rehearsal):
                course.run(WARM_UP)
                course.seconds.clear()
            before = rehearsal.learner.strategy.statistics()
            for _ in range(rounds):
                for course in (incremental, larger, rehearsal):
                    world.Barrier()
                    course.run(steps)
            after = rehearsal.learner.strategy.statistics()
    assert before is not None and after is not None
    results = {
        "depth": depth,
        "incremental": incremental.seconds,
        "larger": larger.seconds,
        "rehearsal": rehearsal.seconds,
        "wait_seconds": after.wait_seconds - before.wait_seconds,
        "drawn": after.drawn - before.drawn,
        "drawn_elsewhere": after.drawn_elsewhere - before.drawn_elsewhere,
    }
    (folder / f"{world.rank}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
