"""`schedule:` changes the learning rate as torch's schedules do, per optimiser step or step of the stream."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from continual.learning import BATCH, perceptron, torch, weights
from continual.learning import blobs as experiences_of
from continual.training import blobs, version, work, write_step

from wilkins.errors import WorkflowError
from wilkins.tasks import continual
from wilkins.tasks.errors import TaskError

pytestmark = pytest.mark.needs("python:torch")

SCHEDULES: dict[str, dict[str, Any]] = {
    "StepLR": {"step_size": 3, "gamma": 0.5},
    "MultiStepLR": {"milestones": [2, 5, 5, 9], "gamma": 0.7},
    "ConstantLR": {"factor": 0.3, "total_iters": 4},
    "LinearLR": {"start_factor": 0.1, "total_iters": 9},
    "ExponentialLR": {"gamma": 0.9},
    "PolynomialLR": {"total_iters": 14, "power": 2.0},
    "CosineAnnealingLR": {"T_max": 10},
    "CosineAnnealingWarmRestarts": {"T_0": 4, "T_mult": 2},
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 3},
    "OneCycleLR": {"max_lr": 0.3, "total_steps": 40},
}


def learner_of(name: str, per: Any, strategy: str = "incremental") -> Any:
    model = perceptron(3)
    optimizer = torch().optim.SGD(model.parameters(), 0.1, momentum=0.8)
    schedule = getattr(torch().optim.lr_scheduler, name)(optimizer, **SCHEDULES[name])
    chosen = continual.make_strategy(strategy)
    return continual.Learner(model, chosen, optimizer, seed=3, batch=BATCH, schedule=schedule, per=per)


def course(learner: Any, folder: Path, last: int = -1) -> list[tuple[float, float]]:
    """Train on three experiences, or until a step after which it saves; rate and momentum in every step."""

    class Ended(Exception):
        pass

    rates = []

    def after(step: Any) -> None:
        group = learner.optimizer.param_groups[0]
        rates.append((float(group["lr"]), float(group["momentum"])))
        if step.number == last:
            learner.save(folder)
            raise Ended

    with learner, contextlib.suppress(Ended):
        learner.load(folder)
        for experience in experiences_of(0, 15)[learner.position.experience :]:
            learner.experience(experience.as_batch(), 2, after_step=after)
    return rates


@pytest.mark.usual("StepLR-update", "StepLR-step", "CosineAnnealingWarmRestarts-step", "OneCycleLR-update")
@pytest.mark.parametrize("per", ["update", "step"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_torch_s_and_a_restart_keeps_them(tmp_path: Path, name: str, per: str) -> None:
    whole = learner_of(name, per)
    rates = course(whole, tmp_path / "none")
    assert len(rates) == 18
    other = perceptron(3)
    optimizer = torch().optim.SGD(other.parameters(), 0.1, momentum=0.8)
    schedule = getattr(torch().optim.lr_scheduler, name)(optimizer, **SCHEDULES[name])
    expected = []
    for step in range(18):
        optimizer.step()
        if per == "update" or (step and step % 6 == 0):
            schedule.step()
        expected.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))
    assert np.allclose(rates, expected)
    found = []
    for last in (1, 6, 11, -1):
        learner = learner_of(name, per)
        found += course(learner, tmp_path / "parts", last)
    assert found == rates
    assert torch().equal(weights(learner.model), weights(whole.model))


def test_from_scratch_begins_it_anew(tmp_path: Path) -> None:
    rates = course(learner_of("ExponentialLR", "update", "from-scratch"), tmp_path)
    ends = [0, 6, 18, 36]
    for begin, end in itertools.pairwise(ends):
        assert np.allclose([rate for rate, _ in rates[begin:end]], 0.1 * 0.9 ** np.arange(1, end - begin + 1))


def test_a_save_with_another_schedule(tmp_path: Path) -> None:
    course(learner_of("StepLR", "update"), tmp_path, 2)
    model = perceptron(3)
    optimizer = torch().optim.SGD(model.parameters(), 0.1, momentum=0.8)
    with (
        continual.Learner(model, continual.Incremental(), optimizer) as learner,
        pytest.raises(continual.CheckpointError, match="saved with a schedule; give the same"),
    ):
        learner.load(tmp_path)


TRAIN = "model: 'net.py:perceptron', inputs: /x, label: /y, batch: 12, optimizer: {lr: 0.3}"


def test_in_a_workflow_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of nothing from the second step of the stream on: the model stays. A user's function, too."""
    (tmp_path / "own.py").write_text(
        "import torch\n"
        "def until(optimizer, last):\n"
        "    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: float(number < last))\n"
    )
    for number in range(3):
        write_step(tmp_path, number, **blobs(number))
    for schedule in ("{name: StepLR, args: {step_size: 1, gamma: 0}, per: step}",
                     "{name: 'own.py:until', args: {last: 5}}"):  # fmt: skip
        work(tmp_path, "continual", f"{{{TRAIN}, schedule: {schedule}}}", monkeypatch)
        found = [version(tmp_path, number)[1] for number in range(3)]
        for name, values in found[0].items():
            assert (values == found[1][name]).all() and (values == found[2][name]).all()


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("{name: CosineLR}", "'OneCycleLR', or 'module:name' or 'file.py:name', not 'CosineLR' (did you mean"),
        ("{name: StepLR, args: {size: 3}}", "'schedule: StepLR' cannot be made: TypeError: "),
        ("{name: 'own.py:none'}", "'schedule: own.py:none' gives a int; give a schedule of torch.optim.lr_scheduler"),
        ("{name: 'own.py:plateau'}", "gives a ReduceLROnPlateau; give a schedule of torch.optim.lr_scheduler that "),
        ("{name: StepLR, args: {step_size: 3}, per: step}, strategy: from-scratch",
         "'from-scratch' begins the schedule anew with each step; set 'per: update'"),
    ],
)  # fmt: skip
def test_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: str, words: str) -> None:
    (tmp_path / "own.py").write_text(
        "import torch\ndef none(optimizer): return 3\nplateau = torch.optim.lr_scheduler.ReduceLROnPlateau\n"
    )
    write_step(tmp_path, 0, **blobs(0))
    with pytest.raises((TaskError, WorkflowError)) as caught:
        work(tmp_path, "continual", f"{{{TRAIN}, schedule: {schedule}}}", monkeypatch)
    assert words in str(caught.value)
