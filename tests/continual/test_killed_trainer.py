"""A trainer that is killed at any moment of a workflow, and run again, ends with the same model, bit by bit."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from support.running import MPIEXEC, WILKINS, Finished, run_tree

SOURCE = """
import h5py, numpy
rng = numpy.random.default_rng(5)
for step in range(6):
    count = 1 if step == 3 else 25   # fewer samples than ranks, too
    y = rng.integers(0, 3, count)
    with h5py.File(f"s{step}.h5", "w") as file:
        file["x"], file["y"] = rng.normal(size=(count, 4)) + y[:, None], y
"""

NETWORK = """
import os, pathlib, signal, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.drop = torch.nn.Linear(4, 16), torch.nn.Linear(16, 3), torch.nn.Dropout(0.3)
        when = pathlib.Path("kill")
        self.left = int(when.read_text()) if when.exists() and os.environ.get("RANK", "0") in "%s" else 0

    def forward(self, x):
        if self.training and self.left:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.two(self.drop(torch.relu(self.one(x))))
"""

WORKFLOW = """
tasks:
  - func: source.py
    outports: [{filename: "s*.h5", mode: %s}]
  - func: wilkins.tasks.continual
    nprocs: %d
    inports: [{filename: "s*.h5"}]
    outports: [{filename: "model-*.h5"}]
    train:
      model: net.py:Net
      inputs: /x
      label: /y
      batch: 4
      passes: 2
      seed: 3
      strategy: %s
      optimizer: {name: adam, lr: 0.01}
      publish: {when: end}
      save: {every: 5}
      results: {}
"""

OWN = """
from wilkins.tasks.continual import Strategy, Term

class OnMistakes(Strategy):
    keeps_outputs = True
    mistakes = 0

    def remember(self, samples):
        wrong = samples["logits"].argmax(1) != samples["y"]
        self.mistakes += int(wrong.sum())
        super().remember({name: tensor[wrong] for name, tensor in samples.items()})

    def terms(self, new, recalled):
        return Term(0, new), Term(new, new + recalled, 1 / (1 + self.mistakes))

    def state_dict(self):
        return {"mistakes": self.mistakes}

    def load_state_dict(self, state):
        self.mistakes = state["mistakes"]

def choose(group, held, offered, rng):
    largest = max(held, key=held.get)
    return None if offered[group] % 3 == 0 else (largest, int(rng.integers(held[largest])))
"""

STRATEGIES = {
    "der++": "der++\n      buffer: {samples: 12}",
    "rehearsal": "rehearsal\n      buffer: {samples: 12}",
    "own": """own.py:OnMistakes
      buffer: {samples: 12, balance: step, eviction: own.py:choose}
      regularise: {name: ewc, strength: 10, args: {samples: 6}}
      schedule: {name: CosineAnnealingLR, args: {T_max: 50}}""",
    "lwf": """incremental
      regularise: {name: lwf}
      schedule: {name: ExponentialLR, args: {gamma: 0.7}, per: step}""",
}

UPDATES = {1: 72, 2: 42}
"""Optimiser steps of the whole training: 2 passes, and 7 or (on 2 ranks) 4 batches of each step, of one step 1."""


def prepared(folder: Path, ranks: int, mode: str, strategy: str) -> Path:
    folder.mkdir()
    (folder / "source.py").write_text(SOURCE)
    (folder / "net.py").write_text(NETWORK % (ranks - 1))
    (folder / "own.py").write_text(OWN)
    (folder / "workflow.yaml").write_text(WORKFLOW % (mode, ranks, STRATEGIES[strategy]))
    return folder


def run(folder: Path) -> Finished:
    return run_tree([*WILKINS, "run", "workflow.yaml"], 150, folder, {"OMP_NUM_THREADS": "1"})


def outcome(folder: Path) -> tuple[dict[str, Any], list[list[str]]]:
    """The last model's state, and the table of steps without their durations."""
    versions = []
    for path in folder.glob("model-*.h5"):
        with h5py.File(path) as file:
            state = {name: dset[()] for name, dset in file["state"].items()}
            versions.append((int(file.attrs["version"]), int(file.attrs["step"]), state))
    _, step, state = max(versions, key=lambda one: one[0])
    with (folder / "training.csv").open() as file:
        table = [[value for name, value in row.items() if name != "seconds"] for row in csv.DictReader(file)]
    return {"step": step, **state}, table


@pytest.mark.nightly
@pytest.mark.needs("python:torch", MPIEXEC)
@pytest.mark.timeout(700)
@pytest.mark.parametrize(
    ("ranks", "mode", "strategy", "kills"),
    [
        (1, "memory", "der++", 3),
        (2, "both", "rehearsal", 2),
        (2, "memory", "own", 2),
        (1, "memory", "lwf", 2),
    ],
)
def test_killed_at_any_moment(tmp_path: Path, ranks: int, mode: str, strategy: str, kills: int) -> None:
    """The producer writes its stream again; the trainer skips what it was trained on."""
    undisturbed = prepared(tmp_path / "undisturbed", ranks, mode, strategy)
    done = run(undisturbed)
    assert done.code == 0, done.out + done.err
    expected, expected_table = outcome(undisturbed)
    assert expected["step"] == UPDATES[ranks]
    killed = prepared(tmp_path / "killed", ranks, mode, strategy)
    moments = random.Random(ranks)
    for left in range(kills, 0, -1):
        (killed / "kill").write_text(str(moments.randint(6, UPDATES[ranks] // (kills + 1))))
        done = run(killed)
        assert done.code == 1, f"{left} kills left\n{done.out}{done.err}"
    (killed / "kill").unlink()
    done = run(killed)
    assert done.code == 0, done.out + done.err
    assert "goes on from" in done.out
    found, table = outcome(killed)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert np.array_equal(found[name], values), name
    assert table == expected_table
