"""What goes wrong in a loop of one's own is said, with how to mend it: mostly it would make ranks differ silently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from wilkins.tasks.elastic import Elastic, ElasticError  # noqa: E402
from wilkins.tasks.elastic.__main__ import main  # noqa: E402
from wilkins.tasks.elastic.tensors import Contribution, as_bytes, from_bytes  # noqa: E402


def trained(act: Callable[[Elastic, Any], None], model: Any = None, **options: Any) -> None:
    """A training in which something is done in each step."""
    model = model or torch.nn.Linear(2, 2)
    elastic = Elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), **options)
    for _ in elastic.steps(2):
        act(elastic, model)


def backward(model: Any) -> None:
    model(torch.ones(1, 2)).sum().backward()


def twice(elastic: Elastic, model: Any) -> None:
    backward(model)
    elastic.commit(1)
    elastic.commit(1)


def steps_itself(elastic: Elastic, model: Any) -> None:
    backward(model)
    elastic.optimizer.step()


def trains_another_one(elastic: Elastic, model: Any) -> None:
    model.late = torch.nn.Linear(2, 2)
    elastic.optimizer.add_param_group({"params": model.late.parameters()})
    model.late(model(torch.ones(1, 2))).sum().backward()
    elastic.commit(1)


def sparse(elastic: Elastic, model: Any) -> None:
    model(torch.tensor([1])).sum().backward()
    elastic.commit(1)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (twice, "call `commit` once a step"),
        (lambda elastic, _: elastic.commit(-1), "-1 samples were given"),
        (steps_itself, r"call `elastic.commit\(samples\)` in its place"),
        (trains_another_one, "make Elastic last"),
    ],
)
def test_a_mistake_in_a_step_is_said(act: Callable[[Elastic, Any], None], message: str) -> None:
    with pytest.raises(ElasticError, match=message):
        trained(act)


def test_sparse_gradients_are_refused() -> None:
    with pytest.raises(ElasticError, match=r"'weight' has a sparse gradient.*sparse=False"):
        trained(sparse, torch.nn.Embedding(3, 2, sparse=True))


def test_what_cannot_be_trained_together_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    both = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(both)
    lazy = torch.nn.LazyLinear(2)
    whole = torch.nn.Sequential(model, other)
    for words, message in [
        ((model, both), "2 parameters that Linear has not"),
        ((whole, torch.optim.LBFGS(whole.parameters())), "LBFGS"),
        ((lazy, torch.optim.SGD(lazy.parameters(), lr=0.1)), "without a shape"),
        ((both, model), "give a torch.nn.Module"),
    ]:
        with pytest.raises(ElasticError, match=message):
            Elastic(*words)
    with pytest.raises(ElasticError, match="ReduceLROnPlateau"):
        Elastic(whole, both, schedule=plateau)
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ElasticError, match=r"python -m wilkins\.tasks\.elastic -n 4"):
        Elastic(whole, both)


def test_steps_after_the_end_are_refused() -> None:
    model = torch.nn.Linear(2, 2)
    elastic = Elastic(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in elastic.steps(2):
        backward(model)
        elastic.commit(1)
    elastic.end()
    with pytest.raises(ElasticError, match=r"steps\(2, more=True\)"):
        list(elastic.steps(2))


def test_a_state_with_foreign_objects_is_refused() -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(ElasticError, match=r"float\(x\) for a number of NumPy"):
        from_bytes(as_bytes({"lr": numpy.float64(0.1)}))


def test_a_program_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-n", "2", "nowhere.py"], ["-n", "0", "train.py"], ["-n", "1", "no-such-command"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "give" in capsys.readouterr().err


def test_buffers_that_nobody_changes_stay_as_they_are() -> None:
    kept = {
        "mean": torch.randn(1000),
        "ids": torch.arange(10) + 2**30 + 1,
        "mask": torch.tensor([float("-inf"), 0.0]),
        "phase": torch.randn(3, dtype=torch.complex64),
        "wide": torch.randn(100, dtype=torch.float64),
    }
    parts = []
    for samples in (7, 6):
        model = torch.nn.Linear(2, 2)
        for name, value in {**kept, "count": torch.tensor(2**30)}.items():
            model.register_buffer(name, value.clone())
        contribution = Contribution(model)
        contribution.begin()
        model.count += 1
        contribution.fill(samples)
        parts.append((model, contribution))
    total = parts[0][1].sum + parts[1][1].sum
    for model, contribution in parts:
        contribution.sum.copy_(total)
        assert contribution.give() == 13
        assert model.count == 2**30 + 1
        for name, value in kept.items():
            assert torch.equal(getattr(model, name), value), name


def test_complex_gradients_and_learning_rates_go_over_whole() -> None:
    model = torch.nn.Module()
    model.register_parameter("weight", torch.nn.Parameter(torch.randn(3, dtype=torch.complex64)))
    model.weight.grad = torch.randn(3, dtype=torch.complex64)
    gradient = model.weight.grad.clone()
    contribution = Contribution(model, 2)
    contribution.fill(4, rates=[0.1, 1 / 3e7])
    assert contribution.rates == [0.1, 1 / 3e7]
    contribution.give()
    assert torch.allclose(model.weight.grad, gradient)
