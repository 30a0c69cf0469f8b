"""Learners and buffers on a GPU: draws as on the CPU, restarts to the same bits, ranks that share a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from continual.learning import BATCH, CLASSES, FEATURES, blobs, buffer_options, torch, weights
from continual.training import blobs as points_of_classes
from continual.training import version, work, write_step

from support.running import MPIEXEC, run_tree
from wilkins.tasks import continual
from wilkins.tasks.continual import RehearsalBuffer

pytestmark = pytest.mark.needs("python:torch")

PROGRAM = Path(__file__).resolve().parent.parent / "programs" / "rehearsal" / "together.py"


def learner_on(device: str, name: str, kept: str, **options: Any) -> Any:
    """A learner whose model draws dropout and keeps running statistics, both on the device."""
    nn = torch().nn
    torch().manual_seed(4)
    model = nn.Sequential(
        nn.Linear(FEATURES, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, CLASSES)
    ).to(device)  # fmt: skip
    optimizer = torch().optim.Adam(model.parameters(), 0.01, fused=True)
    name, _, regulariser = name.partition("/")
    strategy = continual.make_strategy(name, buffer_options(device=kept, **options))
    added = {"ewc": [continual.EWC(30, samples=9)], "lwf": [continual.LwF()], "": []}
    given: dict[str, Any] = {"regularise": added[regulariser], "seed": 3, "batch": BATCH, "device": device}
    return continual.Learner(model, strategy, optimizer, **given)


@pytest.mark.usual("cpu-host-der++", "cpu-same-rehearsal")
@pytest.mark.parametrize(
    "name", ["incremental", "from-scratch", "rehearsal", "der", "der++", "gdumb", "incremental/ewc", "rehearsal/lwf"]
)
@pytest.mark.parametrize("kept", ["host", "same"])
def test_a_learner_goes_on_to_the_same_bits(tmp_path: Path, torch_device: str, kept: str, name: str) -> None:
    """Saved in the middle of an experience, with its buffer in host memory or beside the model."""
    kept = torch_device if kept == "same" else "host"
    expected: list[float] = []
    with learner_on(torch_device, name, kept) as learner:

        def save(step: Any) -> None:
            if step.number == 11:
                learner.save(tmp_path)
            if step.number > 11:
                expected.append(float(step.objective))

        for experience in blobs(0):
            learner.experience(experience.as_batch(), after_step=save)
        ended = weights(learner.model)
    with learner_on(torch_device, name, kept) as learner:
        assert learner.load(tmp_path) == {} and learner.steps == 11
        found: list[float] = []
        for experience in blobs(0)[learner.position.experience :]:
            learner.experience(experience.as_batch(), after_step=lambda step: found.append(float(step.objective)))
        assert found == expected
        assert torch().equal(weights(learner.model), ended)


@pytest.mark.parametrize("given", ["host", "same"])
def test_a_buffer_on_the_device_draws_what_one_in_host_memory_draws(torch_device: str, given: str) -> None:
    """The same samples in the same order, whole, for batches from host memory and the device, overwritten at once."""
    place = torch_device if given == "same" else "cpu"
    drawn: dict[str, list[Any]] = {}
    for kept in ("host", torch_device):
        drawn[kept] = []
        with RehearsalBuffer(buffer_options(device=kept, seed=5)) as buffer:
            for step in range(60):
                x = torch().arange(BATCH * 300.0).reshape(BATCH, 300).add_(1000 * step).to(place)
                batch = {"x": x, "y": torch().arange(BATCH) % CLASSES}
                recalled = buffer.update(batch)
                x.fill_(-1)
                assert recalled["x"].device == x.device
                rows = recalled["x"].cpu()
                assert bool((rows - rows[:, :1] == torch().arange(300.0)).all()), "a sample in pieces"
                drawn[kept].append((rows[:, 0].tolist(), recalled["y"].tolist()))
                recalled["x"].fill_(-2)  # it is the caller's
    assert drawn["host"] == drawn[torch_device]
    assert sum(len(one[0]) for one in drawn["host"]) > 500


def test_outputs_are_kept_as_they_were(torch_device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of der++ on a GPU they come by pinned memory beside `backward`; what is recalled is what the model gave then."""
    kept: dict[float, Any] = {}

    class Telling(torch().nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch().nn.Linear(3, 2000)

        def forward(self, x: Any) -> Any:
            outputs = self.linear(x)
            for name, row in zip(x[:, 0].tolist(), outputs.detach().cpu(), strict=True):
                kept.setdefault(name, row.clone())
            return outputs

    torch().manual_seed(1)
    model = Telling()
    strategy = continual.make_strategy("der++", buffer_options(batch=BATCH, samples=30))
    recalled: list[Any] = []
    recall = strategy.recall

    def noted() -> Any:
        recalled.append(recall())
        return recalled[-1]

    monkeypatch.setattr(strategy, "recall", noted)
    optimizer = torch().optim.SGD(model.parameters(), 0.1)
    with continual.Learner(model, strategy, optimizer, batch=BATCH, device=torch_device) as learner:
        for step in range(40):
            x = np.random.default_rng(step).standard_normal((BATCH, 3)).astype("f4")
            x[:, 0] = np.arange(BATCH) + BATCH * step
            learner.step({"x": x, "y": np.arange(BATCH) % CLASSES})
    compared = 0
    for samples in recalled:
        for x, row in zip(samples.get("x", []), samples.get("logits", []), strict=True):
            assert torch().equal(row.cpu(), kept[float(x[0])])
            compared += 1
    assert len(kept) == 40 * BATCH and compared > 300


def test_a_trainer_of_a_workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch_device: str) -> None:
    """`func: wilkins.tasks.continual` with `device`, restarted; it trains to what an undisturbed one trains to."""
    device, kept = ("cpu", "host") if torch_device == "cpu" else ("cuda", torch_device)
    section = (
        "model: 'net.py:perceptron', inputs: /x, label: /y, batch: 12, optimizer: {name: adam, lr: 0.02}, passes: 4, "
        f"device: {device}, strategy: der++, buffer: {{samples: 60, device: '{kept}'}}"
    )
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
        for number in range(4):
            write_step(tmp_path / folder, number, **points_of_classes(number))
    work(tmp_path / "whole", "continual", f"{{{section}, publish: {{when: end}}}}", monkeypatch)
    stopped = f"{section}, publish: {{when: end}}, save: {{every: 7}}"
    work(tmp_path / "parts", "continual", f"{{{stopped}, stop: {{updates: 33}}}}", monkeypatch)
    work(tmp_path / "parts", "continual", f"{{{stopped}}}", monkeypatch)
    (attributes, whole), (_, parts) = version(tmp_path / "whole", 0), version(tmp_path / "parts", 2)
    assert attributes["error"] < 0.1
    assert all(np.array_equal(parts[name], values) for name, values in whole.items())


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
def test_ranks_that_share_a_device(tmp_path: Path, torch_device: str) -> None:
    """NCCL gives no two ranks one GPU: they average by gloo, and learn what one process would."""
    import json

    from continual.test_learner_ranks import alone

    command = [MPIEXEC, "-n", "2", sys.executable, str(PROGRAM), str(tmp_path), torch_device]
    finished = run_tree(command, 150, tmp_path, {"OMP_NUM_THREADS": "1"})
    assert finished.code == 0, finished.out + finished.err
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    model, evaluation = alone(2)
    np.testing.assert_allclose(told[0]["incremental"], weights(model).numpy(), atol=2e-5)
    assert told[0]["evaluation"][0] == evaluation.samples
    for name in ("rehearsal", "der", "der++"):
        assert told[0][name] == told[1][name], name
