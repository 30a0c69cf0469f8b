"""`balance: step` and `balance: task` give steps of the stream, or tasks, equal room; a user's function may choose."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from continual.learning import BATCH, blobs, buffer_options, perceptron, sgd
from continual.training import work, write_step

from wilkins.tasks import continual
from wilkins.tasks.continual.errors import RehearsalError
from wilkins.tasks.continual.rehearsal.population import Population
from wilkins.tasks.errors import TaskError


def held_after(batches: list[dict[str, Any]], name: str, **changes: Any) -> Counter[int]:
    """How many samples of each value of a tensor a buffer of 30 holds in the end: all are drawn."""
    options = buffer_options(**{"samples": 30, "representatives": 30, "background": False} | changes)
    with continual.RehearsalBuffer(options) as buffer:
        for batch in batches:
            buffer.update(batch)
        drawn = buffer.update({key: array[:0] for key, array in batches[-1].items()})
        drawn = buffer.take()
    assert len(drawn["x"]) == 30
    return Counter(drawn[name].tolist())


def stream(counts: tuple[int, ...] = (12, 3, 6)) -> list[dict[str, Any]]:
    """Batches of some steps of unequal length, whose samples are of two tasks, one of them rare, and of one class."""
    found = []
    for step, batches in enumerate(counts):
        for number in range(batches):
            rare = (np.arange(BATCH) + number) % 10 == 0
            x = np.full((BATCH, 2), step, "f4")
            found.append({"x": x, "y": np.zeros(BATCH, int), "step": np.full(BATCH, step), "task": 4 - rare})
    return found


@pytest.mark.parametrize("eviction", ["reservoir", "random", "fifo"])
def test_equal_room(eviction: str) -> None:
    """Also for a step or task that brought few samples; by share of the stream only where that is asked for."""
    given: dict[str, Any] = {"eviction": eviction, "candidates": BATCH}
    assert held_after(stream(), "step", balance="step", **given) == {0: 10, 1: 10, 2: 10}
    assert held_after(stream(), "task", balance="task", **given) == {3: 15, 4: 15}
    assert held_after(stream((1, 30)), "step", balance="step", **given) == {0: 10, 1: 20}
    if eviction == "reservoir":
        found = held_after(stream((12, 0, 6)), "step", balance="proportional", **given)
        assert 12 <= found[0] <= 28


def largest_first(group: int, held: Mapping[int, int], offered: Mapping[int, int], rng: Any) -> tuple[int, int] | None:
    """A user's: the oldest sample of a largest group, for every other candidate."""
    if offered[group] % 2:
        return None
    largest = max(held.values())
    return rng.choice([one for one, count in held.items() if count == largest]), 0


def test_a_function_chooses() -> None:
    """Positions are in the order of arrival, and a state gives the same choices again."""
    population, rng = Population(6, largest_first), np.random.default_rng(3)
    for group in (0, 0, 0, 1, 1, 1):
        population.insert([group], rng)
    assert population.insert([2], rng).slots.tolist() == []  # its first: of odd number
    again = Population(6, largest_first)
    again.restore(population.state())
    groups = [2, 2, 2, 0, 1, 1, 2, 2, 0, 0]
    first = population.insert(groups, np.random.default_rng(7))
    second = again.insert(groups, np.random.default_rng(7))
    assert [one.tolist() for one in first[:2]] == [one.tolist() for one in second[:2]]
    assert (population.counts() == again.counts()).all() and population.counts()[:, 1].sum() == 6
    assert first.slots[0] in (0, 3)
    for chosen in ((7, 0), (0, 9), (0, -1)):
        wrong = Population(1, lambda *_, one=chosen: one)
        wrong.insert([0], rng)
        with pytest.raises(RehearsalError, match=r"'eviction: .*lambda.* chose sample .* of group . to make room, and"):
            wrong.insert([0], rng)


def test_what_does_not_fit() -> None:
    with pytest.raises(continual.BadSample, match="'task': 'balance: task' goes by this tensor, but the batch holds"):
        held_after([{"x": np.zeros((BATCH, 2)), "y": np.zeros(BATCH, int)}], "y", balance="task")
    with pytest.raises(ValueError, match="'balance' must be one of class, step, task, proportional, not 'classes'"):
        buffer_options(balance="classes")


@pytest.mark.needs("python:torch")
def test_a_learner_tells_the_step() -> None:
    """By the number of the experience, also where the batches do not say it."""
    model = perceptron(3)
    options = buffer_options(samples=30, representatives=30, balance="step")
    with continual.Learner(model, continual.make_strategy("rehearsal", options), sgd(model), batch=BATCH) as learner:
        for experience in blobs(0):
            learner.experience(experience.as_batch())
        steps = learner.strategy.recall()["step"]
    # What was drawn while the last batch was trained: before that was offered.
    assert Counter(steps.tolist()) == {0: 10, 1: 10, 2: 10}


TRAIN = "model: 'net.py:perceptron', inputs: /x, label: /y, batch: 12, optimizer: {lr: 0.3}, strategy: rehearsal"
CHOICE = """
import json, pathlib
def choose(group, held, offered, rng):
    pathlib.Path("held.json").write_text(json.dumps({str(key): value for key, value in held.items()}))
    return max(held, key=held.get), 0
def fails(group, held, offered, rng):
    raise LookupError("no choice")
"""


@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("one", [True, False])
def test_tasks_in_a_workflow_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: bool) -> None:
    """One number for the whole step, or one for each sample; and a function that sees how many there are of each."""
    (tmp_path / "own.py").write_text(CHOICE)
    for number in range(5):
        x = np.random.default_rng(number).standard_normal((36, 2))
        task = 0 if number < 4 else 7
        write_step(tmp_path, number, x=x, y=np.arange(36) % 3, task=task if one else np.full(36, task, "u1"))
    buffer = "buffer: {samples: 20, candidates: 12, balance: task, eviction: 'own.py:choose'}"
    work(tmp_path, "continual", f"{{{TRAIN}, task: /task, {buffer}, results: {{}}}}", monkeypatch)
    held = json.loads((tmp_path / "held.json").read_text())
    assert held.keys() == {"0", "7"} and sum(held.values()) == 20
    assert all(9 <= count <= 11 for count in held.values())  # by turns, once there are equally many
    assert json.loads((tmp_path / "training.json").read_text())["buffer"]["size"] == 20


@pytest.mark.needs("python:torch")
@pytest.mark.parametrize(
    ("section", "task", "words"),
    [
        ("task: /task, buffer: {samples: 5, eviction: 'own.py:fails'}", 0, "training fails: LookupError: no choice ("),
        ("task: /task, buffer: {samples: 5, eviction: 'own.py:chose'}", 0, "'eviction: own.py:chose': own.py has no"),
        ("task: /task, buffer: {samples: 5, balance: task}", -1, "tensor '/task': there is a sample of class -1"),
        ("task: /task, buffer: {samples: 5, balance: task}", 0.5, "tensor '/task': it holds float64, and classes are"),
        ("task: /tasks, buffer: {samples: 5, balance: task}", 0, "tensor '/tasks': there is no such dataset"),
        ("buffer: {samples: 5, balance: task}", 0, "'balance: task' needs to know the tasks; add 'task: PATH' beside"),
    ],
)
def test_what_is_wrong_in_a_workflow_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, task: float, words: str
) -> None:
    (tmp_path / "own.py").write_text(CHOICE)
    write_step(tmp_path, 0, x=np.random.default_rng(0).standard_normal((36, 2)), y=np.arange(36) % 3, task=task)
    with pytest.raises((TaskError, ValueError)) as caught:
        work(tmp_path, "continual", f"{{{TRAIN}, {section}}}", monkeypatch)
    assert words in str(caught.value)
