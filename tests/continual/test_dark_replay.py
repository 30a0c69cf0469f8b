"""DER and DER++ do what the paper says: against a loop in plain torch that was written for the test.

The objective is compared step by step, with the same draws; accuracies are compared over seeds, each loop with draws of
its own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from continual.learning import BATCH, blobs, buffer_options, perceptron, sgd, torch, weights

from wilkins.tasks import continual

pytestmark = pytest.mark.needs("python:torch")

ALPHA, BETA = 1.0, 0.7
WEIGHTS: dict[str, Any] = {"der": {"alpha": ALPHA}, "der++": {"alpha": ALPHA, "beta": BETA}}
EPOCHS, RATE = 5, 0.1


@pytest.mark.parametrize(("name", "draws"), [("der", 1), ("der++", 2)])
def test_every_step_is_that_of_the_paper(name: str, draws: int) -> None:
    """Losses and parameters, over all steps; and what is recalled are outputs the model once gave for the sample."""
    nn = torch().nn.functional
    model, plain = perceptron(3), perceptron(3)
    optimizer = sgd(plain)
    strategy = continual.make_strategy(name, buffer_options(balance="proportional"), **WEIGHTS[name])
    recalled: list[Mapping[str, Any]] = []
    recall = strategy.recall
    strategy.recall = lambda: (recalled.append(recall()), recalled[-1])[1]  # type: ignore[func-returns-value, method-assign]
    given: dict[int, list[Any]] = {}
    compared = 0
    with continual.Learner(model, strategy, sgd(model), seed=3) as learner:
        for step in range(50):
            experience = blobs(0)[step % 50 // 20]
            chosen = np.random.default_rng(step).choice(len(experience.y), BATCH, replace=False)
            batch = {"x": torch().from_numpy(experience.x[chosen]), "y": torch().from_numpy(experience.y[chosen])}
            batch["number"] = torch().from_numpy(chosen + 1000 * (step // 20))
            made = learner.step(batch)

            outputs = plain(batch["x"])
            loss = nn.cross_entropy(outputs, batch["y"])
            past = recalled[-1]
            count = len(past["x"]) if past else 0
            if count:
                half = (count + 1) // 2 if draws == 2 else count
                for number, kept in zip(past["number"].tolist(), past["logits"], strict=True):
                    assert min(float((kept - one).abs().max()) for one in given[number]) < 1e-4
                    compared += 1
                loss = loss + ALPHA * nn.mse_loss(plain(past["x"][:half]), past["logits"][:half])
                if draws == 2:
                    loss = loss + BETA * nn.cross_entropy(plain(past["x"][half:]), past["y"][half:])
            for number, one in zip(batch["number"].tolist(), outputs.detach(), strict=True):
                given.setdefault(number, []).append(one)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert float(made.objective) == pytest.approx(float(loss.detach()), rel=1e-4)
            assert made.recalled == count
            assert torch().allclose(weights(model), weights(plain), atol=1e-5)
    assert compared > 40 * draws * BATCH


class Reservoir:
    """The buffer of the reference loop: reservoir sampling over everything that was offered."""

    def __init__(self, room: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.room, self.seen = room, 0
        self.kept: list[tuple[Any, Any, Any]] = []

    def add(self, x: Any, y: Any, logits: Any) -> None:
        for one in zip(x, y, logits, strict=True):
            place = self.seen if self.seen < self.room else self.rng.randrange(self.seen + 1)
            if place == len(self.kept):
                self.kept.append(one)
            elif place < self.room:
                self.kept[place] = one
            self.seen += 1

    def draw(self, count: int) -> list[Any]:
        chosen = self.rng.sample(self.kept, min(count, len(self.kept)))
        return [torch().stack(parts) for parts in zip(*chosen, strict=True)]


def reference(seed: int, alpha: float, beta: float) -> float:
    """Dark experience replay as in the paper's algorithms 1 and 2; the accuracy at the end."""
    nn = torch().nn.functional
    model = perceptron(seed)
    optimizer, buffer = sgd(model, RATE), Reservoir(60, seed)
    for experience in blobs(seed):
        x, y = torch().from_numpy(experience.x), torch().from_numpy(experience.y)
        for _ in range(EPOCHS):
            order = torch().randperm(len(y))
            for chosen in order.split(BATCH):
                outputs = model(x[chosen])
                loss = nn.cross_entropy(outputs, y[chosen])
                if buffer.kept:
                    past, _, logits = buffer.draw(BATCH)
                    loss = loss + alpha * nn.mse_loss(model(past), logits)
                if buffer.kept and beta:
                    past, labels, _ = buffer.draw(BATCH)
                    loss = loss + beta * nn.cross_entropy(model(past), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                buffer.add(x[chosen], y[chosen], outputs.detach())
    return accuracy(model)


def accuracy(model: Any) -> float:
    """On samples of all classes that were not trained on."""
    right = [model(torch().from_numpy(one.x)).argmax(1).numpy() == one.y for one in blobs(999)]
    return float(np.concatenate(right).mean())


def ours(name: str, seed: int, **given: Any) -> float:
    """The same by our loop."""
    model = perceptron(seed)
    options = buffer_options(balance="proportional", seed=seed, label=None)
    strategy = continual.make_strategy(name, options, **given)
    with continual.Learner(model, strategy, sgd(model, RATE), seed=seed, batch=BATCH) as learner:
        for experience in blobs(seed):
            learner.experience(experience.as_batch(), EPOCHS)
    return accuracy(model)


SEEDS = range(12)


@pytest.fixture(scope="module")
def forgetful() -> Any:
    """Accuracies without replay."""
    return np.array([ours("incremental", seed) for seed in SEEDS])


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "beta"), [("der", 0.0), ("der++", BETA)])
def test_accuracies_are_those_of_a_reference_loop(forgetful: Any, name: str, beta: float) -> None:
    """Over seeds the means differ by less than chance explains (three standard errors), and both are far from what the
    same loops reach without replay."""
    expected = np.array([reference(seed, ALPHA, beta) for seed in SEEDS])
    found = np.array([ours(name, seed, **WEIGHTS[name]) for seed in SEEDS])
    error = np.sqrt((expected.var(ddof=1) + found.var(ddof=1)) / len(SEEDS))
    told = f"reference {expected.mean():.3f}, ours {found.mean():.3f}, error {error:.3f}, none {forgetful.mean():.3f}"
    print(told)
    assert abs(expected.mean() - found.mean()) < 3 * error + 0.005, told
    assert found.mean() - forgetful.mean() > 10 * error, told
