"""The loop: what a step trains on, every strategy, experiences, evaluation, and words for what does not fit."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from continual.learning import BATCH, CLASSES, FEATURES, blobs, buffer_options, perceptron, sgd, torch, weights

from wilkins.tasks import continual

pytestmark = pytest.mark.needs("python:torch")

NAMES = ["from-scratch", "incremental", "rehearsal", "der", "der++"]


def learner_of(name: str = "incremental", **given: Any) -> Any:
    """A learner with a small model."""
    model = given.pop("model", None) or perceptron(3)
    options = buffer_options(**given.pop("options", {}))
    strategy = continual.make_strategy(name, options)
    return continual.Learner(model, strategy, sgd(model), given.pop("loss", "cross_entropy"), seed=3, **given)


def batch(step: int = 0, samples: int = BATCH) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    return {"x": rng.standard_normal((samples, FEATURES)).astype("f4"), "y": rng.integers(0, CLASSES, samples)}


def test_incremental_is_plain_training() -> None:
    model = perceptron(3)
    optimizer = sgd(model)
    with learner_of() as learner:
        for step in range(5):
            made = learner.step(batch(step))
            x, y = torch().from_numpy(batch(step)["x"]), torch().from_numpy(batch(step)["y"])
            outputs = model(x)
            loss = torch().nn.functional.cross_entropy(outputs, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert torch().equal(weights(model), weights(learner.model))
            assert torch().equal(made.outputs, outputs.detach())  # from before the step: the error on unseen data
            assert (made.number, made.samples, made.recalled) == (step + 1, BATCH, 0)
            assert "tensor" not in repr(made).replace("objective=tensor", "")  # not every output of every sample


def test_rehearsal_trains_on_b_and_r() -> None:
    """With c and r as given: after the first steps b + r samples, one mean over all of them."""
    sizes = []
    with learner_of("rehearsal", options={"candidates": 4, "representatives": 7, "samples": 30}) as learner:
        learner.model.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
        for step in range(40):
            made = learner.step(batch(step))
        learner.strategy.recall()
        statistics = learner.strategy.statistics()
    assert sizes[:3] == [BATCH, BATCH, BATCH + 4]
    assert sizes[3:] == [BATCH + 7] * 37
    assert made.recalled == 7
    assert statistics.candidates == 40 * 4
    assert statistics.size == 30
    assert statistics.drawn == 0 + 4 + 39 * 7 - 7


def test_rehearsal_is_the_mean_over_joined_samples() -> None:
    model = perceptron(3)
    optimizer = sgd(model)
    with learner_of("rehearsal", options={"representatives": 3}) as learner:
        recall = learner.strategy.recall
        for step in range(6):
            drawn = recall()
            learner.strategy.recall = lambda drawn=drawn: drawn
            learner.step(batch(step))
            x, y = (torch().from_numpy(batch(step)[name]) for name in ("x", "y"))
            if drawn:
                x, y = torch().cat([x, drawn["x"]]), torch().cat([y, drawn["y"]])
            optimizer.zero_grad()
            torch().nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            assert torch().allclose(weights(model), weights(learner.model), atol=1e-7)


@pytest.mark.usual("rehearsal", "der++")
@pytest.mark.parametrize("name", [*NAMES, "gdumb"])
def test_seeds_decide(name: str) -> None:
    """The same seed gives the same bits, another one does not; dropout included."""
    found = []
    for seed in (5, 5, 6):
        model = torch().nn.Sequential(perceptron(1), torch().nn.Dropout(0.3))
        strategy = continual.make_strategy(name, buffer_options(seed=seed))
        with continual.Learner(model, strategy, sgd(model), seed=seed, batch=BATCH) as learner:
            for experience in blobs(0, 15):
                learner.experience(experience.as_batch(), 2)
        found.append(weights(model))
    assert torch().equal(found[0], found[1])
    assert not torch().equal(found[0], found[2])


def test_from_scratch_begins_anew_with_all_samples() -> None:
    """After the last experience the model is that of one training, from the same start, on all there is."""
    seen: list[list[float]] = []
    with learner_of("from-scratch", batch=BATCH) as learner:
        stream = blobs(0, 10)
        for number, experience in enumerate(stream):
            began, count = weights(learner.model), len(seen)
            learner.model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][:, 0].tolist()))
            learner.experience(experience.as_batch(), 1)
            for hooks in learner.model._forward_pre_hooks.copy():
                learner.model._forward_pre_hooks.pop(hooks)
            expected = np.concatenate([one.x[:, 0] for one in stream[: number + 1]])
            assert sorted(value for one in seen[count:] for value in one) == sorted(expected.tolist())
            assert number == 0 or not torch().equal(began, weights(learner.model))
    alone = perceptron(3)
    with continual.Learner(alone, continual.FromScratch(), sgd(alone), seed=3, batch=BATCH) as other:
        other.position = continual.Position(experience=2)  # the same order of samples
        whole = {name: np.concatenate([one.as_batch()[name] for one in stream]) for name in ("x", "y")}
        other.experience(whole, 1)
    assert torch().allclose(weights(alone), weights(learner.model), atol=1e-6)


def test_every_sample_once_an_epoch() -> None:
    """In another order each time, in steps of nearly equal size; and offered to the buffer in the first one only."""
    seen: list[list[int]] = []
    number = np.arange(23)
    data = batch(0, 23) | {"number": number}
    with learner_of("rehearsal", options={"samples": 100, "representatives": 1}) as learner:
        step = learner.step

        def noted(one: Any, *, offer: bool = True) -> Any:
            seen.append(one["number"].tolist())
            return step(one, offer=offer)

        learner.step = noted
        learner.experience(data, 3)
        learner.strategy.recall()
        assert learner.strategy.statistics().size == 23
    assert [len(one) for one in seen] == [7, 8, 8] * 3
    epochs = [[value for one in seen[begin : begin + 3] for value in one] for begin in (0, 3, 6)]
    assert [sorted(one) for one in epochs] == [number.tolist()] * 3
    assert len({str(one) for one in epochs}) == 3


def test_regression_and_a_loss_of_ones_own() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, FEATURES))  # in double precision, as simulations write
    y = x[:, :2] @ np.array([[1.0, 0.5], [-0.3, 2.0]])
    for loss in ("mse", "torch.nn.functional:l1_loss", lambda outputs, targets: (outputs - targets).abs().max()):
        for name in NAMES:
            with learner_of(name, loss=loss, options={"label": None}, model=perceptron(3, outputs=2)) as learner:
                before = learner.evaluate({"x": x, "y": y}).loss
                learner.experience({"x": x, "y": y}, 10)
                after = learner.evaluate({"x": x, "y": y})
            assert after.loss < 0.95 * before
            assert np.isnan(after.accuracy)


def test_evaluation_goes_by_inputs_and_targets() -> None:
    """Other tensors that samples of the stream have, such as tasks, it does without."""
    given = batch() | {"task": np.zeros(BATCH, int)}
    with learner_of() as learner:
        assert learner.evaluate(batch()).samples == BATCH
        learner.step(given)
        assert learner.evaluate(batch()) == learner.evaluate(given)
        with pytest.raises(continual.BadBatch, match=r"step 1, tensor 'x': samples are float32 \(5,\), earlier ones"):
            learner.evaluate(bad(x=np.zeros((BATCH, 5), "f4")))


def test_evaluation_by_hand() -> None:
    nn = torch().nn
    model = nn.Linear(2, 2, bias=False)
    model.weight.data = torch().eye(2)
    data = {"x": np.array([[2, 0], [0, 1], [3, 1], [0, 5]], "f4"), "y": np.array([0, 1, 1, 1])}
    with continual.Learner(model, continual.Incremental(), sgd(model)) as learner:
        model.train()
        found = learner.evaluate(data, batch=3)
        assert model.training
    losses = [np.log(1 + np.exp(-2)), np.log(1 + np.exp(-1)), 2 + np.log(1 + np.exp(-2)), np.log(1 + np.exp(-5))]
    assert found.samples == 4
    assert found.accuracy == 0.75
    assert found.loss == pytest.approx(np.mean(losses))


@pytest.mark.parametrize("name", NAMES)
def test_empty_batches(name: str) -> None:
    """A rank may have nothing at any time, also at first; parameters stay as they are if there is nothing to recall."""
    with learner_of(name) as learner:
        before = weights(learner.model)
        made = learner.step(batch(0, 0))
        assert (made.samples, made.recalled, made.outputs) == (0, 0, None)
        assert torch().equal(before, weights(learner.model))
        for step in range(4):
            learner.step(batch(step, 3 * (step % 2)))
        assert not torch().equal(before, weights(learner.model))


def test_arrays_that_are_only_read() -> None:
    """Views of a step are not written to, and give no warning; byte order is that of the file."""
    given = batch(0)
    given["x"] = given["x"].astype(">f8")
    given["y"] = given["y"].astype(np.uint8)
    for array in given.values():
        array.flags.writeable = False
    with learner_of("rehearsal") as learner:
        for _ in range(3):
            made = learner.step(given)
    assert made.recalled > 0


def bad(**changes: Any) -> dict[str, Any]:
    return batch() | changes


def with_nan() -> Any:
    x = batch()["x"]
    x[7, 2] = np.nan
    return x


@pytest.mark.parametrize(
    ("first", "given", "message"),
    [
        ({}, bad(x=with_nan()), r"port 'd-\?.h5', step 0, tensor 'x': sample 7 holds NaN"),
        ({}, bad(y=np.full(BATCH, 6)), "step 0, tensor 'y': sample 0 has label 6, but the model knows classes 0 to 5"),
        ({}, bad(y=np.full(BATCH, -1)), "sample 0 has label -1"),
        (
            {},
            bad(y=np.zeros(BATCH)),
            r"a sample's target is float64 \(\), but the loss 'cross_entropy' needs",
        ),
        ({}, bad(y=np.zeros((BATCH, 2), int)), r"a sample's target is int64 \(2,\)"),
        ({}, bad(y=np.zeros(BATCH - 1, int)), "tensor 'y': holds 9 samples, tensor 'x' 10"),
        ({}, {"x": batch()["x"]}, "tensor 'y': is missing: a batch has inputs 'x' and targets 'y', this one x"),
        ({}, bad(x=np.zeros((BATCH, 5), "f4")), r"does not take samples of float32 \(5,\): mat1 and mat2"),
        ({}, bad(x=np.zeros((BATCH, FEATURES), "S3")), r"step 0, tensor 'x': torch knows no type"),
        (batch(), bad(x=np.zeros((BATCH, 5), "f4")), r"step 1, tensor 'x': samples are float32 \(5,\), earlier ones"),
        (batch(), bad(z=np.zeros(BATCH)), "step 1, tensor 'z': is not expected"),
    ],
)
def test_bad_batches(first: dict[str, Any], given: dict[str, Any], message: str) -> None:
    """The error says port, step and tensor; never torch's own words alone."""
    with (
        pytest.raises(continual.LearningError, match=message),
        learner_of(port="d-?.h5") as learner,
    ):
        if first:
            learner.step(first)
        learner.step(given)


def test_models_and_losses_that_do_not_fit() -> None:
    nn = torch().nn

    def told(loss: Any = "cross_entropy", model: Any = None, y: Any = None) -> str:
        with pytest.raises(continual.LearningError) as caught, learner_of(loss=loss, model=model) as learner:
            learner.step(batch() if y is None else bad(y=y))
        return str(caught.value)

    frozen = perceptron(1).requires_grad_(False)
    assert "(6,): for the loss 'mse' they must be the same" in told("mse", y=np.zeros(BATCH))
    assert "has no parameters that can be trained" in told(model=frozen)
    assert "gives a tuple for 10 samples" in told(model=nn.LSTM(FEATURES, 3))
    assert "gives (6,) for 10 samples" in told(model=nn.Sequential(perceptron(1), nn.Flatten(0), nn.Linear(60, 6)))
    assert "(10, 6); it must give one number" in told(lambda outputs, _: outputs)
    assert "there is none of this name" in told("crossentropy")
    assert "module 'numpy' has no 'huber'" in told("numpy:huber")
    assert "cannot be imported" in told("no_such_module:loss")
    assert "is a float, not a function" in told("math:pi")
    assert "the objective is nan" in told(lambda outputs, _: outputs.mean() * float("nan"))


def test_divergence_is_told() -> None:
    model = perceptron(3, outputs=1)
    data = {"x": batch()["x"] * 1e4, "y": np.ones((BATCH, 1), "f4")}
    strategy = continual.Incremental()
    with (
        pytest.raises(continual.LearningError, match=r"step \d+: the objective is (inf|nan); training has diverged"),
        continual.Learner(model, strategy, sgd(model, 10.0), "mse") as learner,
    ):
        for _ in range(20):
            learner.step(data)


def test_an_experience_without_samples() -> None:
    with (
        pytest.raises(continual.LearningError, match="experience 0 has no samples on any rank"),
        learner_of() as learner,
    ):
        learner.experience(batch(0, 0))


def test_strategies_by_name() -> None:
    known = importlib.import_module("wilkins.tasks.continual.learner.by_name").STRATEGIES
    assert sorted(known) == sorted([*NAMES, "gdumb"])
    assert {name: continual.make_strategy(name, buffer_options()).name for name in known} == {one: one for one in known}
    with pytest.raises(ValueError, match="there is no strategy 'replay'"):
        continual.make_strategy("replay")
    with pytest.raises(ValueError, match="'der' needs a rehearsal buffer"):
        continual.make_strategy("der")
    with pytest.raises(ValueError, match="'gdumb' needs room, and classes, steps or tasks"):
        continual.make_strategy("gdumb", buffer_options(balance="proportional"))
    with pytest.raises(ValueError, match="must not be negative"):
        continual.DarkReplay(buffer_options(), alpha=-1)
