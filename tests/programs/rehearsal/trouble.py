"""Rank 1 goes wrong at step 5: `trouble.py KIND`; each rank writes what error reached it, as JSON, to `told-<rank>`.

KIND: `shape` or `nan` (a bad batch), `other` (an error of the training loop), `ends` (fewer batches), `layout`
(rank 1's samples are unlike rank 0's from the beginning).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

from wilkins.tasks.continual import RehearsalBuffer, RehearsalOptions


def train(kind: str, wrong: bool) -> None:
    """Twenty steps, of which the sixth goes wrong on one rank."""
    options = RehearsalOptions(batch=4, candidates=4, representatives=3, samples=20)
    with RehearsalBuffer(options, MPI.COMM_WORLD, port="plt*.h5") as buffer:
        for step in range(20):
            x = np.zeros((4, 3 if wrong and kind == "layout" else 2))
            if wrong and step == 5:
                if kind == "shape":
                    x = np.zeros((4, 9))
                elif kind == "nan":
                    x[2, 1] = np.nan
                elif kind == "other":
                    raise ArithmeticError("the loss is not finite")
                elif kind == "ends":
                    return
            buffer.update({"x": x})


def main() -> None:
    """Train and report."""
    rank = MPI.COMM_WORLD.rank
    try:
        train(sys.argv[1], wrong=rank == 1)
        told = ["nothing", ""]
    except Exception as error:
        told = [type(error).__name__, str(error)]
    Path(f"told-{rank}").write_text(json.dumps([rank, *told]))


if __name__ == "__main__":
    main()
