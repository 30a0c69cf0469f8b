"""Runs the training and inference tasks of tests on files on disk, in this process, as `wilkins run --files` would."""

from __future__ import annotations

import importlib
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from wilkins.schema.reading import plain
from wilkins.spec.load import load
from wilkins.tasks.group import Group
from wilkins.tasks.registry import Ports, all_tasks

NETWORK = """
    import torch

    def perceptron(width=2, outputs=3, hidden=12):
        return torch.nn.Sequential(
            torch.nn.Linear(width, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, outputs)
        )
"""

INPORTS = {"continual": "[{filename: 's*.h5'}]", "inference": "[{filename: 's*.h5'}, {filename: 'model-*.h5'}]"}
OUTPORT = {"continual": "model-*.h5", "inference": "p*.h5"}
SECTION = {"continual": "train", "inference": "inference"}


def options_of(folder: Path, task: str, section: str) -> dict[str, Any]:
    """The options of a task as its processes get them, from the text of its section."""
    path = folder / "workflow.yaml"
    path.write_text(
        f"tasks:\n  - {{func: ./source, outports: {INPORTS[task]}}}\n"
        f"  - func: wilkins.tasks.{task}\n    inports: {INPORTS[task]}\n"
        f"    outports: [{{filename: '{OUTPORT[task]}'}}]\n    {SECTION[task]}: {section}\n"
    )
    found: dict[str, Any] = plain(load(path).workflow.tasks[1].sections[SECTION[task]])
    return found


def work(folder: Path, task: str, section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a task in a folder whose files are its in-ports' steps."""
    if not (folder / "net.py").exists():
        (folder / "net.py").write_text(textwrap.dedent(NETWORK))
    options = json.loads(json.dumps(options_of(folder, task, section)))
    monkeypatch.chdir(folder)
    inports = ("s*.h5",) if task == "continual" else ("s*.h5", "model-*.h5")
    ports = Ports(inports, (OUTPORT[task],), str(folder))
    importlib.import_module(all_tasks()[task].module).main(options, ports, Group())


def write_step(folder: Path, number: int, **arrays: Any) -> None:
    """A step of samples."""
    with h5py.File(folder / f"s{number}.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array


def blobs(number: int, count: int = 60, classes: int = 3) -> dict[str, Any]:
    """Samples of some classes, apart from each other."""
    rng = np.random.default_rng(number)
    y = rng.integers(0, classes, count)
    angle = 2 * np.pi * y / classes
    x = np.stack([np.cos(angle), np.sin(angle)], 1) * 2 + rng.normal(size=(count, 2)) * 0.3
    return {"x": x, "y": y}


def version(folder: Path, number: int) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Attributes and tensors of a model version."""
    with h5py.File(folder / f"model-{number:05}.h5") as file:
        return dict(file.attrs), {name: dset[()] for name, dset in file["state"].items()}
