"""Models that compute something else have other hashes, however alike they look."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from wilkins.tasks.models import Graph

torch: Any = pytest.importorskip("torch", reason="needs python:torch")
nn: Any = torch.nn
EXAMPLE = [torch.ones(2, 4)]
Forward = Callable[[Any, Any], Any]


class Model(nn.Module):  # type: ignore[misc]
    """Two layers, a parameter and a buffer; what it does with them is given."""

    def __init__(self, computed: Forward, *, persistent: bool = True) -> None:
        super().__init__()
        self.a, self.b, self._computed = nn.Linear(4, 4), nn.Linear(4, 4), computed
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.ones(4), persistent=persistent)

    def forward(self, x: Any) -> Any:
        return self._computed(self, x)


class Branching(Model):
    """What only torch.export can trace."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) if x.shape[0] < 100 else x


def traced(model: Any, example: Sequence[Any] | None = None) -> Graph:
    from wilkins.tasks.models import graph_of

    return graph_of(model, example)


def digests(model: Any, way: str = "fx") -> list[str]:
    graph = traced(model, EXAMPLE if way == "export" else None)
    assert graph.traced == way
    return list(graph.hashes().values())


def replaced(by: float) -> Forward:
    def forward(model: Any, x: Any) -> Any:
        model.shift = model.shift + by
        return x * model.shift

    return forward


def added(by: float) -> Forward:
    def forward(model: Any, x: Any) -> Any:
        model.shift.add_(by)
        return x * model.shift

    return forward


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda m, x: torch.sub(input=m.a(x), other=m.b(x)), lambda m, x: torch.sub(other=m.a(x), input=m.b(x))),
        (lambda m, x: x * (m.shift * 2), lambda m, x: x * (m.shift * 3)),
        (added(2), added(3)),
        (replaced(2), replaced(3)),
    ],
    ids=["named-arguments", "of-a-buffer", "in-a-buffer", "in-its-place"],
)
@pytest.mark.parametrize("persistent", [True, False])
def test_traced_by_fx(one: Forward, other: Forward, persistent: bool) -> None:
    assert digests(Model(one, persistent=persistent)) != digests(Model(other, persistent=persistent))
    assert digests(Model(one, persistent=persistent)) == digests(Model(one, persistent=persistent))


def test_what_is_computed_of_a_copy_without_values_is_not_traced_by_fx() -> None:
    assert traced(Model(lambda m, x: x + sum(one.sum() for one in m.parameters()))).traced == "chain"


def test_a_buffer_may_be_cut_to_the_size_of_an_input() -> None:
    digests(Model(lambda m, x: x + m.shift[: x.size(1)]))


def without_gradients(by: float) -> Forward:
    def forward(model: Any, x: Any) -> Any:
        with torch.no_grad():
            return x * by + model.scale

    return forward


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda m, x: m.scale - x, lambda m, x: x - m.scale),
        (
            lambda m, x: x + torch.addcmul(m.scale, m.shift, m.scale),
            lambda m, x: x + torch.addcmul(m.scale, m.shift, m.shift),
        ),
        (without_gradients(2), without_gradients(3)),
        (
            lambda _, x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)),
            lambda _, x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 2, (x,)),
        ),
    ],
    ids=["order", "twice", "inner-graph", "branch"],
)
def test_traced_by_export(one: Forward, other: Forward) -> None:
    assert digests(Branching(one), "export") != digests(Branching(other), "export")
    assert digests(Branching(one), "export") == digests(Branching(one), "export")


def tied(model: Any) -> Any:
    model.b.weight = model.a.weight
    return model


@pytest.mark.parametrize("way", ["fx", "export"])
def test_layers_that_share_tensors_are_not_layers_with_their_own(way: str) -> None:
    kind = Model if way == "fx" else Branching
    twice = digests(kind(lambda m, x: m.a(m.a(x))), way)
    two = digests(kind(lambda m, x: m.b(m.a(x))), way)
    both = digests(tied(kind(lambda m, x: m.b(m.a(x)))), way)
    assert twice[:2] == two[:2] == both[:2]
    assert len({one[-1] for one in (twice, two, both)}) == 3
    assert digests(kind(lambda m, x: m.a(x) * 2 - m.a(x)), way) != digests(kind(lambda m, x: m.a(x) * 2 - m.b(x)), way)


def test_a_layer_is_filled_with_what_it_learned_only() -> None:
    """Where one layer is used twice, the second of two layers had taken its place."""
    from wilkins.tasks.models.graph import common_tensors

    twice, two = traced(Model(lambda m, x: m.a(m.a(x)))), traced(Model(lambda m, x: m.b(m.a(x))))
    assert common_tensors(twice, two) == {"a.weight": "a.weight", "a.bias": "a.bias"}
    assert common_tensors(two, twice) == {"a.weight": "a.weight", "a.bias": "a.bias"}


def test_a_chain_says_which_tensors_are_tied() -> None:
    graphs = [traced(change(Model(lambda _, x: x if x.sum() > 0 else -x))) for change in (tied, lambda model: model)]
    assert [graph.traced for graph in graphs] == ["chain"] * 2
    assert graphs[0].hashes()["b"] != graphs[1].hashes()["b"]


OTHER_CODE = {
    "function": """
        def act(x): return x * BY
        def made(): return nn.Sequential(nn.TransformerEncoderLayer(4, 2, activation=act))
    """,
    "partial": """
        def made(): return nn.TransformerEncoder(nn.TransformerEncoderLayer(
            4, 2, activation=functools.partial(F.leaky_relu, negative_slope=BY)), 1)
    """,
    "enclosed": """
        def around(by): return lambda x: x * by
        def made(): return nn.Sequential(nn.TransformerEncoderLayer(4, 2, activation=around(BY)))
    """,
    "hook": """
        def made():
            model = nn.Sequential(nn.Linear(4, 4))
            model[0].register_forward_hook(lambda _, given, found: found * BY)
            return model
    """,
    "parametrization": """
        class Times(nn.Module):
            def forward(self, x): return x * BY
        def made():
            model = nn.Sequential(nn.Linear(4, 4))
            parametrize.register_parametrization(model[0], "weight", Times())
            return model
    """,
    "branches": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def times(self, x): return self.a(x) * BY
            def forward(self, x): return self.times(x) if x.sum() > 0 else x
        def made(): return Net()
    """,
    "private attribute of a part": """
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self._by, self.a = BY, nn.Linear(4, 4)
            def forward(self, x): return self.a(x) * self._by if x.sum() > 0 else x
        def made(): return nn.Sequential(Part())
    """,
    "array of a part": """
        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.by = np.zeros(5000)
                self.by[2000] = BY
            def forward(self, x): return x * self.by[2000] if x.sum() > 0 else x
        def made(): return nn.Sequential(Part())
    """,
    "script": """
        class Net(nn.Module):
            def forward(self, x): return x * BY
        def made(): return torch.jit.trace(Net(), torch.ones(2, 4))
    """,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", OTHER_CODE)
def test_functions_and_classes_of_one_name_and_other_code(what: str) -> None:
    found = []
    for by in (2, 2, 3):
        text = textwrap.dedent(OTHER_CODE[what]).replace("BY", str(by))
        space: dict[str, Any] = {"__name__": "network"}
        exec("\n" * by + IMPORTS + text, space)
        found.append(list(traced(space["made"]()).hashes().values()))
    assert found[0] == found[1] != found[2]


IMPORTS = """
import functools
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
"""
