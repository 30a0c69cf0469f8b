"""The packaged workflows that learn, killed again and again and resumed: they learn what an undisturbed run learns."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from support.analysis_results import rows_of
from support.resuming import killed_again_and_again, run, seeds
from support.running import WILKINS, must_run, started_tree, wait_for

pytestmark = [pytest.mark.nightly, pytest.mark.needs("python:torch"), pytest.mark.timeout(600)]

VICTIMS = ("everything", "everything", "the launcher", "wilkins.tasks")
PAIRS = """
import h5py

with h5py.File("answers.h5", "r") as file:
    x, y, solved = (file[name][:].reshape(-1, {questions}, *file[name].shape[1:]) for name in ("x", "y", "solved"))
for step in solved.all(axis=1).nonzero()[0]:
    with h5py.File(f"pair-{{step:05}}.h5", "w") as file:
        file["x"], file["y"] = x[step], y[step]
"""


def made(folder: Path, name: str, **defaults: object) -> Path:
    """A copy of a packaged workflow, with other defaults of its parameters."""
    must_run(folder.parent, *WILKINS, "init", "--from", name, folder.name)
    text = (folder / "workflow.yaml").read_text()
    for parameter, value in defaults.items():
        text, count = re.subn(rf"^(  {parameter}: \{{default: )[^,]+", rf"\g<1>{value}", text, flags=re.MULTILINE)
        assert count == 1
    (folder / "workflow.yaml").write_text(text)
    return folder


def learned(folder: Path) -> dict[str, Any]:
    """The trained model, as its last save holds it."""
    from wilkins.tasks.checkpoint import restore

    saved = restore(folder / "saved")
    assert saved is not None
    return {name: tensor.numpy().tobytes() for name, tensor in saved.state["model"].items()}


@seeds
def test_train_online(tmp_path: Path, seed: int) -> None:
    """Every step is trained on once, as if nothing had been, and every prediction is judged once.

    With which version a step is predicted depends on who is faster, in any two runs.
    """
    whole, killed = (made(tmp_path / name, "train-online", steps=14, pace=0.05) for name in ("whole", "killed"))
    assert run(whole).code == 0
    told = killed_again_and_again(killed, random.Random(seed), 30, (), VICTIMS)
    assert learned(killed) == learned(whole), told
    columns = ("step", "samples", "updates", "error", "loss")
    courses = [
        [[row[name] for name in columns] for row in rows_of(folder / "training.csv")] for folder in (killed, whole)
    ]
    assert courses[0] == courses[1], told
    assert [int(row["step"]) for row in rows_of(killed / "online.csv")] == list(range(14)), told


def test_a_save_is_enough_to_resume(tmp_path: Path) -> None:
    """No task says `restart`: the simulation begins anew, and what the trainer was given is left out for it."""
    whole, killed = (made(tmp_path / name, "train-online", steps=8, pace=0.2) for name in ("whole", "killed"))
    for folder in (whole, killed):
        text = (folder / "workflow.yaml").read_text()
        (folder / "workflow.yaml").write_text(re.sub(r"\n    restart: .*", "", text))
    assert run(whole).code == 0
    with started_tree([*WILKINS, "run", "workflow.yaml"], killed) as tree:
        wait_for(lambda: (killed / "saved" / "latest").exists(), 60, "a save")
        tree.process.kill()
        tree.wait(60)
    done = run(killed, "--resume", "latest")
    assert done.code == 0, done.err
    assert re.search(r"^train +\| goes on from ", done.out, re.MULTILINE)
    assert learned(killed) == learned(whole)


@seeds
def test_surrogate_switch(tmp_path: Path, seed: int) -> None:
    """Every question is answered once, and the network is the one that learns from these answers undisturbed.

    Which questions the network answers depends on who is faster, in any two runs.
    """
    folder = made(tmp_path / "killed", "surrogate-switch", steps=40, passes=8)
    told = killed_again_and_again(folder, random.Random(seed), 120, (), VICTIMS)
    with h5py.File(folder / "answers.h5") as file:
        x, y, solved = file["x"][:], file["y"][:], file["solved"][:]
    rng = np.random.default_rng(1)
    asked = [rng.random((16, 2)) for _ in range(40)]
    for step, questions in enumerate(asked):
        questions[:, 0] = (questions[:, 0] + (2 * step >= 40)) / 2
    assert x.tobytes() == np.concatenate(asked).astype("f4").tobytes(), told
    alone = made(tmp_path / "alone", "surrogate-switch", passes=8)
    (alone / "ask.py").write_text(PAIRS.format(questions=16))
    (folder / "answers.h5").rename(alone / "answers.h5")
    text = (alone / "workflow.yaml").read_text()
    head, tasks = text.split("tasks:\n")
    ask, _, _, train = re.split(r"\n(?=  - )", tasks)
    ask = re.sub("question-.*", '"pair-*.h5"', re.sub("    args.*\n", "", ask))
    train = re.sub("    outports:\n.*\n", "", train)
    (alone / "workflow.yaml").write_text(f"{head}tasks:\n{ask}\n{train}")
    done = run(alone)
    assert done.code == 0, done.out + done.err
    assert learned(folder) == learned(alone), told
    by_network = ~solved
    assert by_network.any()
    assert np.isfinite(y).all()
