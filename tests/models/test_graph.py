"""Layers and their hashes: equal hashes are equal graphs up to there, whatever names, values and orders are."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wilkins.tasks.models import Graph, Layer, ModelError
from wilkins.tasks.models.graph import chain_of_names, common, common_prefix, restored, without_compiled

torch: Any = pytest.importorskip("torch", reason="needs python:torch")
nn: Any = torch.nn


def traced(model: Any, *arguments: Any, **named: Any) -> Graph:
    from wilkins.tasks.models import graph_of

    return graph_of(model, *arguments, **named)


class Sum(nn.Module):  # type: ignore[misc]
    """Two branches, whose outputs are added; `forward` leaves something behind."""

    def __init__(self, width: int = 8, *, swapped: bool = False, twice: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, width), nn.Linear(4, width), nn.Linear(width, 2)
        self.scale = nn.Parameter(torch.ones(4))
        self.swapped, self.twice, self.calls, self.seen = swapped, twice, 0, None

    def forward(self, x: Any) -> Any:
        self.calls, self.seen = self.calls + 1, x
        x = x * self.scale
        one, other = self.first(x), (self.first if self.twice else self.second)(x)
        return self.last(2 + (other + one if self.swapped else one + other))


class Branches(nn.Module):  # type: ignore[misc]
    """What no tracer can trace."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first, self.inner = nn.Linear(4, width), nn.Sequential(nn.ReLU(), nn.Linear(width, 2))

    def forward(self, x: Any) -> Any:
        return self.inner(self.first(x)) if float(x.sum()) > 0 else x


def digests(graph: Graph) -> list[str]:
    return list(graph.hashes().values())


def test_names_values_and_the_order_of_commutative_inputs_do_not_matter() -> None:
    graph = traced(Sum())
    assert graph.traced == "fx"
    assert digests(graph) == digests(traced(Sum(swapped=True))) == digests(traced(Sum()))
    other = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    named = nn.Sequential()
    named.add_module("a", nn.Linear(4, 3))
    named.add_module("b", nn.ReLU())
    assert digests(traced(other)) == digests(traced(named))


def test_what_a_layer_computes_does_matter() -> None:
    base = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 3))
    for place, layer in (
        (0, nn.Linear(4, 3, bias=False)),
        (0, nn.Linear(4, 3, dtype=torch.float64)),
        (1, nn.Dropout()),
    ):
        changed = copy.deepcopy(base)
        changed[place] = layer
        same = [one == other for one, other in zip(digests(traced(base)), digests(traced(changed)), strict=True)]
        assert same == ([True] * 4 if isinstance(layer, nn.Dropout) else [n <= place for n in range(4)])


def test_one_layer_used_twice_is_not_two_layers() -> None:
    two, one = traced(Sum()), traced(Sum(twice=True))
    assert len(set(digests(two))) == len(two.layers)
    used = [layer for layer in one.layers if layer.tensors.get("weight") == "first.weight"]
    assert [layer.name for layer in used] == ["first", "first@2"]


def test_a_model_is_not_changed_by_being_traced() -> None:
    model, state = Sum(), torch.random.get_rng_state()
    traced(model)
    assert model.calls == 0 and model.seen is None and torch.equal(torch.random.get_rng_state(), state)
    assert not any(one.is_meta for one in model.parameters())


def test_prefixes_of_compiled_modules_are_left_out() -> None:
    model = Sum()
    inside = copy.deepcopy(model)
    inside.first = torch.compile(inside.first)
    for compiled in (torch.compile(model), inside, torch.compile(inside)):
        assert traced(compiled) == traced(model)
    assert without_compiled("_orig_mod.net._orig_mod.0.weight") == "net.0.weight"


def test_a_chain_of_modules_where_nothing_can_be_traced() -> None:
    graph = traced(Branches(), example=[torch.ones(2, 4)])
    assert graph.traced == "chain"
    assert [layer.name for layer in graph.layers] == ["input", "first", "inner.0", "inner.1"]
    assert {name for layer in graph.layers for name in layer.tensors.values()} == set(Branches().state_dict())
    assert common_prefix(graph, traced(Branches(5))) == 1

    class Others(Branches):
        pass

    assert common(graph, traced(Others())) == {}  # nobody knows what their `forward` does


def test_torch_export_where_there_is_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    from wilkins.tasks.models import tracing

    monkeypatch.setattr(tracing, "_by_fx", lambda _: None)
    model = Sum()
    graph = traced(model, [torch.ones(2, 4)])
    assert graph.traced == "export" and model.seen is None
    assert digests(graph) == digests(traced(Sum(swapped=True), [torch.ones(2, 4)]))
    assert {name for layer in graph.layers for name in layer.tensors.values()} == set(Sum().state_dict())
    assert traced(Sum()).traced == "chain"


def test_preprocessing_is_a_layer() -> None:
    plain = traced(Sum())
    scaled = [traced(Sum(), preprocessing=[("scale", {"by": by})]) for by in (2, 2, 3)]
    assert len(scaled[0].layers) == len(plain.layers) + 1
    assert digests(scaled[0]) == digests(scaled[1])
    assert common_prefix(scaled[0], scaled[2]) == common_prefix(scaled[0], plain) == 1


def test_a_graph_is_what_it_was_after_json() -> None:
    for graph in (traced(Sum()), traced(Branches()), traced(Sum(), preprocessing=[("scale", {"by": 2})])):
        assert restored(graph.plain()) == replace(graph, layers=tuple(restored(graph.plain()).layers))
        assert digests(restored(graph.plain())) == digests(graph)


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        ([Layer("a", "input"), Layer("a", "relu")], "two layers are called 'a'"),
        ([Layer("a", "relu", {}, ("b",)), Layer("b", "input")], "takes from 'b', which does not come before it"),
    ],
)
def test_graphs_that_are_none(layers: Sequence[Layer], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        Graph(tuple(layers), "fx")


def test_layers_from_names_of_tensors() -> None:
    names = {f"net.{n}.{role}": ("float32", [2]) for n in (10, 9, 2) for role in ("weight", "bias")}
    graph = chain_of_names(names, {})
    assert [layer.name for layer in graph.layers] == ["input", "net.2", "net.9", "net.10"]
    assert common_prefix(graph, chain_of_names(names | {"net.11.weight": ("float32", [2])}, {})) == 4


def test_names_of_tensors_that_look_like_names_of_layers() -> None:
    """No tensor takes the place of another one, and no two layers get one name."""
    names = ["weight", "model.weight", "input.weight", "input.module.weight", "model.module.bias", f"{'9' * 5000}.w"]
    graph = chain_of_names({name: ("float32", [place]) for place, name in enumerate(names)}, {})
    assert sorted(name for layer in graph.layers for name in layer.tensors.values()) == sorted(names)


@st.composite
def graphs(draw: Callable[..., Any]) -> Graph:
    """Random layers of few kinds, so that graphs have some in common."""
    layers = [Layer("x0", "input", {"position": 0})]
    for place in range(1, draw(st.integers(2, 9))):
        count = draw(st.integers(1, min(2, place)))
        inputs = tuple(f"x{draw(st.integers(max(0, place - 3), place - 1))}" for _ in range(count))
        layers.append(Layer(f"x{place}", draw(st.sampled_from("ab")), {"k": count}, inputs, {}, count == 2))
    return Graph(tuple(layers), "fx")


@given(graphs(), graphs())
def test_what_holds_of_layers_is_found_by_few_questions(one: Graph, other: Graph) -> None:
    pairs = common(one, other)
    asked: list[str] = []

    def has(name: str) -> bool:
        asked.append(name)
        return name in pairs

    assert one.layers_that(has) == [layer.name for layer in one.layers if layer.name in pairs]
    assert len(asked) == len(set(asked)) <= len(one.layers)


def test_of_a_long_chain_few_layers_are_asked_for() -> None:
    graph = Graph(tuple(Layer(f"x{n}", "f", {}, (f"x{n - 1}",) if n else ()) for n in range(1000)), "fx")
    asked: list[str] = []
    found = graph.layers_that(lambda name: asked.append(name) or int(name[1:]) < 637)  # type: ignore[func-returns-value]
    assert found == [f"x{n}" for n in range(637)] and len(asked) <= 11


@pytest.mark.timeout(10)
def test_of_many_branches_the_layers_are_found_in_time() -> None:
    branches = (Layer(f"x{place}", "f", {"place": place}, ("input",)) for place in range(6000))
    graph = Graph((Layer("input", "input"), *branches), "fx")
    assert graph.layers_that(lambda name: name == "input") == ["input"]


@given(graphs(), graphs())
def test_what_two_graphs_have_in_common_is_closed_upstream(one: Graph, other: Graph) -> None:
    pairs = common(one, other)
    by_name = [{layer.name: layer for layer in graph.layers} for graph in (one, other)]
    for mine, its in pairs.items():
        layers = by_name[0][mine], by_name[1][its]
        assert layers[0].operation == layers[1].operation and layers[0].configuration == layers[1].configuration
        assert sorted(pairs[name] for name in layers[0].inputs) == sorted(layers[1].inputs)
    assert {its: mine for mine, its in pairs.items()} == common(other, one)
    assert common_prefix(one, other) == common_prefix(other, one) <= len(pairs)
    assert common_prefix(one, one) == max(one.upstream().values())
