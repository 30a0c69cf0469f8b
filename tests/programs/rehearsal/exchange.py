"""Fills a buffer on all ranks and checks what comes back: `exchange.py STEPS [KIND]`.

KIND: `unequal` gives rank 1 only empty batches; `many` has 37 classes; `torch` gives tensors. Every tensor of a sample
follows from its number. Each rank writes its statistics as JSON to `told-<rank>`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from wilkins.tasks.continual import RehearsalBuffer, RehearsalOptions


def main() -> None:
    """Offer, check, report."""
    steps, kind = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    world = MPI.COMM_WORLD
    options = RehearsalOptions(
        batch=8, candidates=3, representatives=6, samples=80 if kind == "many" else 20, label="y"
    )
    elsewhere = 0
    classes = 37 if kind == "many" else 3
    with RehearsalBuffer(options, world) as buffer:
        for step in range(steps):
            size = 0 if kind == "unequal" and world.rank == 1 else 8
            number = np.arange(size) + 1000 * step + 100_000 * world.rank
            batch: dict[str, Any] = {
                "x": np.tile(number[:, None], (1, 5)).astype("f8"),
                "y": number % classes,
                "number": number,
            }
            if kind == "torch":
                import torch

                batch = {name: torch.from_numpy(array) for name, array in batch.items()}
            drawn = buffer.update(batch)
            if kind == "torch":
                assert all(tensor.__module__ == "torch" for tensor in map(type, drawn.values()))
                drawn = {name: tensor.numpy() for name, tensor in drawn.items()}
            assert (drawn["y"] == drawn["number"] % classes).all()
            assert (drawn["x"] == drawn["number"][:, None]).all()
            assert (drawn["number"] % 100_000 // 1000 <= step - 2).all(), "drawn before it was inserted"
            assert len(set(drawn["number"].tolist())) == len(drawn["number"])
            elsewhere += int((drawn["number"] // 100_000 != world.rank).sum())
        buffer.take()
        statistics = buffer.statistics()
    told = asdict(statistics) | {"rank": world.rank, "checked_elsewhere": elsewhere}
    Path(f"told-{world.rank}").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
