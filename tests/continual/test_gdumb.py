"""`strategy: gdumb`: a greedy sampler keeps classes in balance, and the model begins anew on what it kept."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from continual.chance import rejected, uniform_inclusion
from continual.learning import BATCH, buffer_options, perceptron, sgd, torch, weights
from continual.learning import blobs as experiences_of
from continual.training import blobs, work, write_step

from wilkins.errors import WorkflowError
from wilkins.tasks import continual

pytestmark = pytest.mark.needs("python:torch")


def reference(labels: list[int], room: int, rng: Any) -> list[int]:
    """Algorithm 1 of the paper, line by line; positions of what is kept in the end."""
    kept: list[int] = []
    count: dict[int, int] = {}
    for place, label in enumerate(labels):
        count.setdefault(label, 0)
        share = room / len(count)
        if count[label] < share:
            if sum(count.values()) >= room:
                largest = max(count, key=lambda one: count[one])
                victim = rng.choice([one for one in kept if labels[one] == largest])
                kept.remove(victim)
                count[largest] -= 1
            kept.append(place)
            count[label] += 1
    return kept


def chosen(labels: list[int], room: int, rng: Any, batches: int = 3) -> list[int]:
    """The same by our sampler, batch by batch."""
    from wilkins.tasks.continual.learner.gdumb import greedy_choice

    kept: list[int] = []
    seen: list[int] = []
    for part in np.array_split(np.arange(len(labels)), batches):
        every = [*kept, *part.tolist()]
        rows = greedy_choice([labels[one] for one in kept], [labels[one] for one in part], seen, room, rng)
        kept = [every[row] for row in rows]
        seen = list(dict.fromkeys(labels[: part[-1] + 1] if len(part) else labels[:0])) or seen
    return kept


def test_the_sampler_is_that_of_the_paper() -> None:
    """It keeps as many of each class, for any order of classes; and each sample of a class that shrank as often."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        labels = rng.integers(0, int(rng.integers(1, 6)), int(rng.integers(1, 60))).tolist()
        room = int(rng.integers(1, 20))
        expected = Counter(labels[one] for one in reference(labels, room, rng))
        assert Counter(labels[one] for one in chosen(labels, room, rng)) == expected
    often = np.zeros((2, 18), int)
    for _ in range(4000):
        for row, sampler in enumerate((reference, chosen)):
            for one in sampler([0] * 12 + [1] * 6, 8, rng):
                often[row, one] += one < 8
    assert not rejected({str(row): uniform_inclusion(often[row, :8], 4000) for row in range(2)})


@pytest.mark.parametrize("balance", ["step", "task"])
def test_steps_and_tasks_in_balance(balance: str) -> None:
    """Where all steps have the same classes, as with changing inputs."""
    model = perceptron(3)
    strategy = continual.GDumb(buffer_options(samples=31, balance=balance, label=None))
    with continual.Learner(model, strategy, sgd(model), batch=BATCH) as learner:
        for number, experience in enumerate(experiences_of(0)):
            more = {"task": np.full(len(experience.y), 5 - number)} if balance == "task" else {}
            learner.experience(experience.as_batch() | more)
    counts = strategy.statistics().classes
    assert list(counts) == ([0, 1, 2] if balance == "step" else [3, 4, 5])
    assert sorted(counts.values()) == [10, 10, 11]


def test_it_trains_anew_on_what_is_kept() -> None:
    """The model after an experience is that of one training, from the start, on the samples kept."""
    model = perceptron(3)
    strategy = continual.GDumb(buffer_options(samples=30))
    with continual.Learner(model, strategy, sgd(model), seed=3, batch=BATCH) as learner:
        for experience in experiences_of(0):
            learner.experience(experience.as_batch(), 3)
        assert strategy.statistics().classes == dict.fromkeys(range(6), 5)
        assert learner.steps == 3 * 3 * 3  # passes over 30 samples, in batches of 10
        kept = strategy.begin({}, again=True)
    other = perceptron(3)
    with continual.Learner(other, continual.Incremental(), sgd(other), seed=3, batch=BATCH) as learner:
        learner.position = continual.Position(experience=2)  # the same order of samples
        learner.experience(kept, 3)
    assert torch().equal(weights(model), weights(other))


TRAIN = "model: 'net.py:perceptron', inputs: /x, batch: 12, passes: 10, optimizer: {lr: 0.5}, strategy: gdumb"


def test_in_a_workflow_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        write_step(tmp_path, number, **blobs(number))
    work(tmp_path, "continual", f"{{{TRAIN}, label: /y, buffer: {{bytes: 960B}}, results: {{}}}}", monkeypatch)
    results = json.loads((tmp_path / "training.json").read_text())
    assert results["error"] < 0.05
    assert results["buffer"]["classes"] == {"0": 10, "1": 10, "2": 10}


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("label: /y", "'gdumb' needs a buffer; add 'buffer: {samples: 1000}'"),
        (
            "targets: /y, loss: mse, buffer: {samples: 9}",
            "'gdumb' balances classes; add 'label: PATH', or 'bal",
        ),
        ("label: /y, buffer: {samples: 9, balance: proportional}", "'gdumb' gives equal room to what it keeps; set"),
        ("label: /y, buffer: {samples: 9, candidates: 3}", "'gdumb' takes only 'samples' or 'bytes', and 'balance'"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, words: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        work(tmp_path, "continual", f"{{{TRAIN}, {section}}}", monkeypatch)
    assert words in str(caught.value)
