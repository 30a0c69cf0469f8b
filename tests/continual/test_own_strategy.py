"""`strategy: module:Class`: a strategy of a user's own trains as those by name do, and goes on exactly after an end."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from continual.learning import BATCH, CLASSES, FEATURES, on_mistakes, perceptron, sgd, torch, weights
from continual.training import blobs, version, work, write_step

from wilkins.errors import WorkflowError
from wilkins.tasks import continual
from wilkins.tasks.errors import TaskError

pytestmark = pytest.mark.needs("python:torch")

TRAIN = "model: 'net.py:perceptron', inputs: /x, label: /y, batch: 12, passes: 2, optimizer: {lr: 0.3, momentum: 0.5}"
OWN = """
    import torch
    from wilkins.tasks.continual import Strategy, Term

    class OnMistakes(Strategy):
        keeps_outputs = True

        def __init__(self, *given, weight=1.0, **named):
            super().__init__(*given, **named)
            self.weight, self.mistakes = weight, 0

        def remember(self, samples):
            wrong = samples["logits"].argmax(1) != samples["y"]
            self.mistakes += int(wrong.sum())
            super().remember({name: tensor[wrong] for name, tensor in samples.items()})

        def terms(self, new, recalled):
            return Term(0, new), Term(new, new + recalled, self.weight / (1 + self.mistakes))

        def state_dict(self):
            return {"mistakes": self.mistakes}

        def load_state_dict(self, state):
            self.mistakes = state["mistakes"]

    class Late(Strategy):
        def begin(self, data, again=False):
            raise ArithmeticError("not today")

    class Outside(Strategy):
        def terms(self, new, recalled):
            return (Term(0, new + 1),)

    class Empty(Strategy):
        def terms(self, new, recalled):
            return ()

    class Recalled(Strategy):
        def terms(self, new, recalled):
            return (Term(0, new, 1.0, lambda outputs, samples: samples["logits"].sum()),)

    class Wide(Strategy):
        def terms(self, new, recalled):
            return (Term(0, new, 1.0, lambda outputs, samples: outputs),)

    def nothing(*given, **named):
        return 3

    number = 4
"""


def prepared(folder: Path, steps: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(textwrap.dedent(OWN))
    for number in range(steps):
        write_step(folder, number, **blobs(number))
    return folder


def test_it_trains_and_goes_on_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its arguments and a buffer; its own state is in the save: without it the weight of a term would differ."""
    strategy = "strategy: 'own.py:OnMistakes', strategy_args: {weight: 4.0}, buffer: {samples: 20}"
    section = f"{TRAIN}, {strategy}, publish: {{when: end}}, save: {{every: 4}}"
    whole, parts = prepared(tmp_path / "whole"), prepared(tmp_path / "parts")
    work(whole, "continual", f"{{{section}, results: {{}}}}", monkeypatch)
    for updates in (4, 9, 10, 26):
        work(parts, "continual", f"{{{section}, stop: {{updates: {updates}}}}}", monkeypatch)
    work(parts, "continual", f"{{{section}}}", monkeypatch)
    attributes, expected = version(whole, 0)
    found_attributes, found = version(parts, len(list(parts.glob("model-*.h5"))) - 1)
    assert attributes["step"] == found_attributes["step"] == 30
    for name, values in expected.items():
        assert np.array_equal(found[name], values), name
    assert '"strategy": "OnMistakes"' in (whole / "training.json").read_text()


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("own.py:Late", "port 's*.h5', step 0 (s0.h5): training fails: ArithmeticError: not today ("),
        ("own.py:Outside", "step 0 (s0.h5): a term has the rows 0 to 13, and there are 12"),
        ("own.py:Empty", "step 0 (s0.h5): the strategy gives no term, so that nothing would be learned"),
        ("own.py:Recalled", "step 0 (s0.h5): training fails: KeyError: 'logits (only recalled samples have it)' ("),
        ("own.py:Wide", "Wide.terms.<locals>.<lambda>' gives a tensor of shape (12, 3); it must give one number"),
        ("own.py:nothing", "'strategy: own.py:nothing' gives a int, and a strategy is needed; derive the class from "),
        ("own.py:number", "'strategy: own.py:number': 'number' is a int; name a function or a class"),
        ("own.py:Nowhere", "'strategy: own.py:Nowhere': own.py has no 'Nowhere'; it has "),
        ("own.py:OnMistakes', strategy_args: {wait: 3}, passes: '1", "called with (options, comm, port=..., wait=3) it "
         "fails: TypeError: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, words: str) -> None:
    prepared(tmp_path, 1)
    train = TRAIN.replace("passes: 2, ", "")
    with pytest.raises(TaskError) as caught:
        work(tmp_path, "continual", f"{{{train}, strategy: '{strategy}'}}", monkeypatch)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("strategy: rehersal", "or 'module:name' or 'file.py:name', not 'rehersal' (did you mean 'rehearsal'?)"),
        ("strategy: der, buffer: {samples: 9}, strategy_args: {alpha: 1}", "are of a strategy of your own, and 'der'"),
    ],
)  # fmt: skip
def test_what_is_found_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, words: str) -> None:
    prepared(tmp_path, 1)
    with pytest.raises(WorkflowError) as caught:
        work(tmp_path, "continual", f"{{{TRAIN}, {section}}}", monkeypatch)
    assert words in str(caught.value)


def test_terms_are_weighted_means_of_their_rows() -> None:
    """Against a loop in plain torch, with losses of the samples' other tensors."""
    nn = torch().nn.functional
    rows: list[Any] = []

    class Own(continual.Strategy):
        def recall(self) -> Any:
            return rows[-1] if rows else {}

        def terms(self, new: int, recalled: int) -> Any:
            def far(outputs: Any, samples: Any) -> Any:
                assert set(samples) == {"x", "y", "mark"} and len(samples) == 3
                return (outputs[:, 0] * samples["mark"]).mean()

            return continual.Term(0, new), continual.Term(new // 2, new + recalled, 0.3, far)

    model, plain = perceptron(3), perceptron(3)
    optimizer = sgd(plain)
    with continual.Learner(model, Own(), sgd(model)) as learner:
        for step in range(4):
            rng = np.random.default_rng(step)
            batch = {"x": rng.standard_normal((BATCH, FEATURES)).astype("f4"), "y": rng.integers(0, CLASSES, BATCH)}
            batch["mark"] = rng.standard_normal(BATCH).astype("f4")
            made = learner.step(batch)
            mine = {name: torch().from_numpy(array) for name, array in batch.items()}
            both = {name: torch().cat([mine[name], *(one[name] for one in rows[-1:])]) for name in mine}
            outputs = plain(both["x"])
            loss = nn.cross_entropy(outputs[:BATCH], mine["y"])
            loss = loss + 0.3 * (outputs[BATCH // 2 :, 0] * both["mark"][BATCH // 2 :]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert float(made.objective) == pytest.approx(float(loss.detach()), rel=1e-5)
            assert torch().allclose(weights(model), weights(plain), atol=1e-6)
            rows.append(mine)
    assert on_mistakes().name == "OnMistakes"
