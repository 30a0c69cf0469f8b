"""A resumed trainer publishes every version once, as an undisturbed one does; who predicts has a model at once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from support.running import WILKINS, processes_in, run_tree, started_tree, wait_for
from wilkins.transport import points

pytestmark = pytest.mark.needs("python:torch")

SOURCE = """
import os, time
import h5py, numpy as np
first = 0
if "WILKINS_RESTART" in os.environ:
    with h5py.File(os.environ["WILKINS_RESTART"]) as file:
        first = int(file.attrs["step"]) + 1
for step in range(first, 24):
    rng = np.random.default_rng(step)
    with h5py.File(f"s{step}.h5", "w") as file:
        file["x"] = rng.normal(size=(20, 3))
        file["y"] = file["x"][:].sum(axis=1, keepdims=True)
        file.attrs["step"] = step
    time.sleep(0.05)
"""
NETWORK = """
import torch

def network():
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(8, 1))
"""
VERSIONS = """
import hashlib, pathlib
import h5py
import wilkins.transport
pathlib.Path("versions").mkdir(exist_ok=True)
for step in wilkins.transport.open("model-*.h5"):
    with step:
        digest = hashlib.sha256(b"".join(step[name].tobytes() for name in step.names())).hexdigest()
        place = pathlib.Path("versions", step.filename).with_suffix(".txt")  # not a name of the port
        told = f"{step.attrs['version']} {step.attrs['step']} {step.attrs['steps_seen']} {digest}"
        assert not place.exists() or place.read_text() in ("", told), f"{step.filename} came twice, and differs"
        place.write_text(told)
"""
PREDICTED = """
import pathlib
import wilkins.transport
pathlib.Path("predicted").mkdir(exist_ok=True)
for step in wilkins.transport.open("p-*.h5"):
    with step:
        told = f"{step.attrs['step']} {step['x'].sum()!r} {step.attrs['model_version']}"
        pathlib.Path("predicted", step.filename).with_suffix(".txt").write_text(told)
"""
WORKFLOW = """
tasks:
  - func: source.py
    outports: [{filename: "s*.h5", mode: both}]
    restart: {files: "s*.h5"}
  - name: train
    func: wilkins.tasks.continual
    threads: 1
    inports: [{filename: "s*.h5"}]
    outports: [{filename: "model-*.h5"}]
    train:
      model: net.py:network
      inputs: /x
      targets: /y
      loss: mse
      batch: 5
      strategy: der
      buffer: {samples: 30}
      publish: {when: update, every: 3}
      save: {every: 4}
  - func: wilkins.tasks.inference
    threads: 1
    inports: [{filename: "s*.h5"}, {filename: "model-*.h5", io_freq: latest}]
    outports: [{filename: "p-*.h5"}]
    inference: {models: "model-*.h5", model: "net.py:network", inputs: /x, dsets: [/x]}
  - func: versions.py
    inports: [{filename: "model-*.h5"}]
    restart: each-step
  - func: predicted.py
    inports: [{filename: "p-*.h5"}]
    restart: each-step
"""
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}


def prepared(folder: Path) -> Path:
    folder.mkdir()
    programs = {"source": SOURCE, "net": NETWORK, "versions": VERSIONS, "predicted": PREDICTED}
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    return folder


def run(folder: Path, *words: str) -> None:
    done = run_tree([*WILKINS, "run", *words], 150, folder, ENVIRONMENT)
    assert done.code == 0, done.out + done.err


def told(folder: Path, what: str) -> dict[str, Any]:
    return {path.name: path.read_text() for path in (folder / what).iterdir()}


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_every_version_once(tmp_path: Path) -> None:
    """Those that a reader has had are not given to it again, and are what they were if they are made again."""
    whole = prepared(tmp_path / "whole")
    run(whole, "workflow.yaml")
    expected = told(whole, "versions")
    assert len(expected) == 24 * 4 // 3
    folder = prepared(tmp_path / "killed")
    saved = folder / "wilkins-runs" / "latest" / "points" / "train.jsonl"
    moments = random.Random(5)
    for words in (("workflow.yaml",), ("--resume", "wilkins-runs/latest")):
        with started_tree([*WILKINS, "run", *words], folder, ENVIRONMENT) as tree:
            before = len(points.read(saved)) if len(words) == 1 else 0
            wanted = before + moments.randint(2, 5)
            launched = tree.process.pid
            wait_for(lambda w=wanted: len(points.read(saved)) >= w, 90, f"{wanted} saves of process {launched}")
            for pid in processes_in(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    run(folder, "--resume", "wilkins-runs/latest")
    assert told(folder, "versions") == expected
    found = [text.split() for _, text in sorted(told(folder, "predicted").items())]
    assert [int(step) for step, _, _ in found] == list(range(24))
    undisturbed = [text.split() for _, text in sorted(told(whole, "predicted").items())]
    assert [total for _, total, _ in found] == [total for _, total, _ in undisturbed]
    by = [int(version) for _, _, version in found]
    first = next((place for place, version in enumerate(by) if version >= 0), len(by))
    assert all(version >= 0 for version in by[first:]), f"a resumed service had no model: {by}"
