"""EWC and LwF add to any strategy's objective what their papers say: against loops in plain torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from continual.learning import BATCH, CLASSES, buffer_options, perceptron, sgd, torch, weights
from continual.learning import blobs as experiences_of
from continual.training import blobs, version, work, write_step

from wilkins.errors import WorkflowError
from wilkins.tasks import continual
from wilkins.tasks.errors import TaskError

pytest.importorskip("torch")  # a class below needs it already while this file is read


def test_the_penalty_by_hand() -> None:
    """Of a line with squared error: the gradient of a sample's loss is (2 e x, 2 e), e being its error."""
    rng = np.random.default_rng(3)
    model = torch().nn.Linear(2, 1).double()
    ewc = continual.EWC(strength=0.7, samples=1000)
    terms: list[tuple[Any, Any]] = []
    optimizer = sgd(model, 0.1)
    with continual.Learner(model, continual.Incremental(), optimizer, "mse", regularise=[ewc], batch=50) as learner:
        for step in range(4):
            x = rng.standard_normal((20 + step, 2))
            y = x @ rng.standard_normal((2, 1)) + step
            learner.experience({"x": x, "y": y}, 3)
            error = 2 * (x @ model.weight.detach().numpy().T + model.bias.detach().numpy() - y)
            fisher = (np.concatenate([error * x, error], 1) ** 2).mean(0)
            terms.append((fisher, weights(model).numpy()))
            with torch().no_grad():
                model.weight += 0.3 + step
            now = weights(model).numpy()
            expected = 0.7 / 2 * sum((one * (now - then) ** 2).sum() for one, then in terms)
            penalty = ewc.penalty()
            assert penalty is not None and float(penalty.detach()) == pytest.approx(expected)
            (gradient,) = torch().autograd.grad(penalty, [model.weight])
            by_hand = 0.7 * sum(one * (now - then) for one, then in terms)
            assert np.allclose(gradient.numpy()[0], by_hand[:2])


def test_ewc_step_by_step() -> None:
    """Parameters and objective of every step, with cross entropy, rehearsed samples, dropout left out of the estimate,
    and a parameter that is not trained."""
    nn = torch().nn.functional
    model, plain = perceptron(3), perceptron(3)
    for one in (model, plain):
        one[0].bias.requires_grad_(False)
    optimizer = sgd(plain)
    strategy = continual.make_strategy("rehearsal", buffer_options(representatives=4, background=False))
    recalled: list[Any] = []
    recall = strategy.recall
    strategy.recall = lambda: (recalled.append(recall()), recalled[-1])[1]  # type: ignore[func-returns-value, method-assign]
    trained = [one for one in plain.parameters() if one.requires_grad]
    kept: list[tuple[list[Any], list[Any]]] = []

    def penalty() -> Any:
        parts = [
            (fisher * (one - then) ** 2).sum()
            for fishers, before in kept
            for fisher, one, then in zip(fishers, trained, before, strict=True)
        ]
        return 40 / 2 * torch().stack(parts).sum() if parts else torch().zeros(())

    ewc = continual.EWC(40, samples=8)
    with continual.Learner(model, strategy, sgd(model), regularise=[ewc], seed=3, batch=BATCH) as learner:
        step = learner.step

        def compared(batch: Any, *, offer: bool = True) -> Any:
            made = step(batch, offer=offer)
            x, y = (torch().cat([one[name] for one in (batch, recalled[-1]) if one]) for name in ("x", "y"))
            loss = nn.cross_entropy(plain(x), y) + penalty()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert float(made.objective) == pytest.approx(float(loss.detach()), rel=1e-4)
            assert torch().allclose(weights(model), weights(plain), atol=1e-5)
            return made

        learner.step = compared  # type: ignore[method-assign]
        for experience in experiences_of(0, 15):
            learner.experience(experience.as_batch(), 2)
            fishers = [torch().zeros_like(one) for one in trained]
            for row in np.arange(8) * 30 // 8:
                loss = nn.cross_entropy(
                    plain(torch().from_numpy(experience.x[row : row + 1])), torch().tensor([experience.y[row]])
                )
                for total, one in zip(fishers, torch().autograd.grad(loss, trained), strict=True):
                    total += one**2 / 8
            kept.append((fishers, [one.detach().clone() for one in trained]))
    assert float(penalty().detach()) > 0


@pytest.mark.parametrize("classes", [True, False])
def test_lwf_step_by_step(classes: bool) -> None:
    """Outputs for the classes seen before are held to those of the model before; for numbers, all of them."""
    nn = torch().nn.functional
    model, plain = perceptron(3), perceptron(3)
    optimizer = sgd(plain)
    before: Any = None
    seen: list[int] = []
    lwf = continual.LwF(1.5, temperature=3.0)
    loss_name = "cross_entropy" if classes else "mse"
    with continual.Learner(
        model, continual.Incremental(), sgd(model), loss_name, regularise=[lwf], batch=BATCH
    ) as learner:
        step = learner.step

        def compared(batch: Any, *, offer: bool = True) -> Any:
            made = step(batch, offer=offer)
            outputs = plain(batch["x"])
            loss = (nn.cross_entropy if classes else nn.mse_loss)(outputs, batch["y"])
            if before is not None:
                with torch().no_grad():
                    old = before(batch["x"])
                if classes:
                    target = torch().softmax(old[:, seen] / 3, 1)
                    loss = loss - 1.5 * (target * torch().log_softmax(outputs[:, seen] / 3, 1)).sum(1).mean()
                else:
                    loss = loss + 1.5 * (outputs - old).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert float(made.objective) == pytest.approx(float(loss.detach()), rel=1e-4)
            assert torch().allclose(weights(model), weights(plain), atol=1e-5)
            return made

        learner.step = compared  # type: ignore[method-assign]
        for experience in experiences_of(0, 15):
            y = experience.y if classes else np.eye(CLASSES, dtype="f4")[experience.y]
            learner.experience({"x": experience.x, "y": y}, 2)
            before = perceptron(3)
            before.load_state_dict(plain.state_dict())
            seen = sorted({*seen, *experience.y.tolist()})


class Anchor(continual.Regulariser):
    """A user's own."""

    def __init__(self, strength: float = 2.0) -> None:
        self.strength, self.steps = strength, 0

    def penalty(self) -> Any:
        return self.strength * self.steps * sum(one.square().sum() for one in self.learner.model.parameters())

    def end(self, data: Any) -> None:
        self.steps += len(data["x"]) > 0

    def state_dict(self) -> Any:
        return {"steps": self.steps}

    def load_state_dict(self, state: Any) -> None:
        self.steps = state["steps"]


def test_two_of_one_name() -> None:
    model = perceptron(3)
    with pytest.raises(continual.LearningError, match=r"two regularisers of one name in \['ewc', 'lwf', 'ewc'\]"):
        continual.Learner(
            model, continual.Incremental(), sgd(model), regularise=[continual.EWC(), continual.LwF(), continual.EWC()]
        )


TRAIN = "model: 'net.py:perceptron', inputs: /x, label: /y, batch: 12, optimizer: {lr: 0.05}, publish: {when: end}"


@pytest.mark.parametrize(
    "regularise",
    [
        "{name: ewc, strength: 5, args: {samples: 20}}, strategy: rehearsal, buffer: {samples: 20}",
        "{name: lwf, strength: 0.5}, strategy: der, buffer: {samples: 20}",
        "{name: 'continual.test_regularisers:Anchor', strength: 0.01}",
    ],
)
def test_in_a_workflow_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regularise: str) -> None:
    """It changes what is learned, and a trainer that ends at any step goes on exactly."""
    section = f"{TRAIN}, regularise: {regularise}"
    folders = [tmp_path / name for name in ("whole", "parts", "none")]
    for folder in folders:
        folder.mkdir()
        for number in range(3):
            write_step(folder, number, **blobs(number))
    work(folders[0], "continual", f"{{{section}}}", monkeypatch)
    for updates in (3, 5, 6, 12):
        work(folders[1], "continual", f"{{{section}, save: {{}}, stop: {{updates: {updates}}}}}", monkeypatch)
    work(folders[1], "continual", f"{{{section}, save: {{}}}}", monkeypatch)
    work(folders[2], "continual", f"{{{TRAIN}{regularise.partition('}')[2].removeprefix('}')}}}", monkeypatch)
    _, expected = version(folders[0], 0)
    _, found = version(folders[1], len(list(folders[1].glob("model-*.h5"))) - 1)
    for name, values in expected.items():
        assert np.array_equal(found[name], values), name
    assert not np.array_equal(version(folders[2], 0)[1]["0.weight"], expected["0.weight"])


@pytest.mark.parametrize(
    ("regularise", "words"),
    [
        ("{name: ewc, args: {sample: 3}}", "'regularise: ewc' cannot be made: TypeError: "),
        ("{name: lwf, args: {temperature: -1}}", "'regularise: lwf' cannot be made: ValueError: 'strength' (1.0) must"),
        ("{name: si}", "must be 'ewc', 'lwf', or 'module:name' or 'file.py:name', not 'si'"),
        ("{name: ewc, strength: 0}", "must be a number above 0"),
        ("{name: 'net.py:perceptron'}", "gives a Sequential, and a regulariser is needed; derive the class from"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regularise: str, words: str) -> None:
    write_step(tmp_path, 0, **blobs(0))
    with pytest.raises((TaskError, WorkflowError)) as caught:
        work(tmp_path, "continual", f"{{{TRAIN}, regularise: {regularise}}}", monkeypatch)
    assert words in str(caught.value)
