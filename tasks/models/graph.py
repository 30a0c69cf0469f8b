"""A model as a graph of layers, and the hash of a layer: equal hashes are equal graphs up to and with this layer.

The hash of a layer is H(operation, configuration, hashes of its inputs), a Merkle tree; of layers before it
that have its tensors, too, the hashes are in it as well. What a layer is called, and the values of its tensors, are no
part of it; shapes and types of its tensors are, in its configuration.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from wilkins.tasks.checkpoint.state import checked_json
from wilkins.tasks.models.errors import ModelError

Traced = Literal["fx", "export", "chain", "names"]
"""How a graph was found: by torch.fx, by torch.export, as the chain of a model's modules, or from names of tensors."""
INPUT = "input"
"""The operation of a layer that stands for what the model is given."""
_COMPILED = "_orig_mod"
"""What `torch.compile` puts before the names of a module."""
_LAYER = checked_json.record(
    {
        "name": checked_json.text,
        "operation": checked_json.text,
        "configuration": checked_json.table(checked_json.text, lambda value, _: value),
        "inputs": checked_json.items(checked_json.text),
        "tensors": checked_json.table(checked_json.text, checked_json.text),
        "commutative": checked_json.truth,
        "tied": checked_json.table(checked_json.text, checked_json.text),
    },
    optional=("configuration", "inputs", "tensors", "commutative", "tied"),
)
_GRAPH = checked_json.record(
    {"traced": checked_json.one_of(*get_args(Traced)), "layers": checked_json.items(_LAYER, least=1)}
)


@dataclass(frozen=True, slots=True)
class Layer:
    """A step from inputs to an output."""

    name: str
    operation: str
    """What it does, such as `torch.nn.modules.linear.Linear` or `_operator.add`."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """Values of JSON: what else its outputs depend on, but for its inputs and its tensors' values."""
    inputs: tuple[str, ...] = ()
    """Names of the layers whose outputs it takes."""
    tensors: Mapping[str, str] = field(default_factory=dict)
    """Its parameters and buffers: names in the model's state by what it calls them, such as `weight`."""
    commutative: bool = False
    """Whether the order of its inputs does not matter."""
    tied: Mapping[str, str] = field(default_factory=dict)
    """Of its tensors, those that have another name in the state, too: the first one, by what the layer calls them."""


@dataclass(frozen=True, slots=True)
class Graph:
    """The layers of a model, each after its inputs.

    Raises:
        ModelError: two layers have one name, or a layer takes from one that does not come before it.
    """

    layers: tuple[Layer, ...]
    traced: Traced

    def __post_init__(self) -> None:
        before: set[str] = set()
        for layer in self.layers:
            if layer.name in before:
                raise ModelError(f"two layers are called {layer.name!r}; give each a name of its own")
            if missing := [one for one in layer.inputs if one not in before]:
                raise ModelError(
                    f"the layer {layer.name!r} takes from {missing[0]!r}, which does not come before it; list layers "
                    "in the order in which they are computed"
                )
            before.add(layer.name)

    def hashes(self) -> dict[str, str]:
        """The hash of each layer, by its name, in their order; all differ.

        Of layers that do the same with the same inputs, but are several with tensors of their own, each has a number in
        its hash. A layer that has a tensor of one before it says of which: a graph that uses one layer twice is another
        than one with two layers.
        """
        found: dict[str, str] = {}
        owners: dict[str, list[str]] = {}
        twins: Counter[str] = Counter()
        for layer in self.layers:
            inputs = [found[one] for one in layer.inputs]
            if layer.commutative:
                inputs.sort()
            held = {role: layer.tied.get(role, name) for role, name in layer.tensors.items()}
            shared = {role: owners[name] for role, name in held.items() if name in owners}
            digest = _digest([layer.operation, layer.configuration, inputs, *([shared] if shared else [])])
            twins[digest] += 1
            found[layer.name] = digest if twins[digest] == 1 else _digest([digest, twins[digest]])
            for role, name in held.items():
                owners.setdefault(name, [found[layer.name], role])
        return found

    def upstream(self) -> dict[str, int]:
        """How many layers there are up to and with each layer, by its name."""
        return {name: bin(one).count("1") for name, one in self._upstream_sets().items()}

    def _upstream_sets(self) -> dict[str, int]:
        """The layers up to and with each layer: a bit for each place."""
        sets: dict[str, int] = {}
        for place, layer in enumerate(self.layers):
            mine = 1 << place
            for one in layer.inputs:
                mine |= sets[one]
            sets[layer.name] = mine
        return sets

    def layers_that(self, has: Callable[[str], bool]) -> list[str]:
        """The layers of which something holds that holds of all layers before them, too; of a chain, by few questions.

        Args:
            has: whether it holds of a layer, by its name.
        """
        upstream = list(self._upstream_sets().values())
        downstream = self._downstream_sets()
        found, unknown = 0, (1 << len(self.layers)) - 1
        while unknown:
            middle = (_lowest(unknown) + unknown.bit_length()) // 2
            place = middle + _lowest(unknown >> middle)
            if has(self.layers[place].name):
                found |= upstream[place]
                unknown &= ~upstream[place]
            else:
                unknown &= ~downstream[place]
        return [layer.name for place, layer in enumerate(self.layers) if found >> place & 1]

    def _downstream_sets(self) -> list[int]:
        """The layers that take from each layer, by way of others or not, and with it."""
        places = {layer.name: place for place, layer in enumerate(self.layers)}
        sets = [1 << place for place in range(len(self.layers))]
        for place in range(len(self.layers) - 1, -1, -1):
            for one in self.layers[place].inputs:
                sets[places[one]] |= sets[place]
        return sets

    def plain(self) -> dict[str, Any]:
        """Values of JSON, for `restored`; what is empty is left out."""
        layers = [
            {
                name: list(value) if name == "inputs" else dict(value) if isinstance(value, Mapping) else value
                for name in Layer.__slots__
                if (value := getattr(layer, name))
            }
            for layer in self.layers
        ]
        return {"traced": self.traced, "layers": layers}

    def after_preprocessing(self, *steps: tuple[str, Mapping[str, Any]]) -> Graph:
        """The same model behind steps that prepare its inputs, each an operation with its configuration.

        Models whose inputs are prepared otherwise have no layer in common: neither learned what the other did.
        """
        if not steps:
            return self
        taken = {layer.name for layer in self.layers}
        layers: list[Layer] = []
        instead: dict[str, str] = {}
        for layer in self.layers:
            layers.append(replace(layer, inputs=tuple(instead.get(one, one) for one in layer.inputs)))
            if layer.operation != INPUT:
                continue
            last = layer.name
            for number, (operation, configuration) in enumerate(steps):
                name = f"{layer.name}.preprocessing.{number}"
                if name in taken:
                    raise ModelError(f"the model has a layer {name!r} already; preprocessing is given once")
                layers.append(Layer(name, operation, configuration, (last,)))
                last = name
            instead[layer.name] = last
        return Graph(tuple(layers), self.traced)


def restored(value: Any, where: str = "graph") -> Graph:
    """A graph from what `Graph.plain` gave.

    Raises:
        Wrong: it is something else.
    """
    values = _GRAPH(value, where)
    try:
        return Graph(tuple(Layer(**one) for one in values["layers"]), values["traced"])
    except ModelError as error:
        raise checked_json.Wrong(f"{where}: {error}") from error


def common(one: Graph, other: Graph) -> dict[str, str]:
    """The layers of `one` that `other` has, too, with all before them: their names there by their names here."""
    there = {digest: name for name, digest in other.hashes().items()}
    return {name: there[digest] for name, digest in one.hashes().items() if digest in there}


def common_tensors(one: Graph, other: Graph) -> dict[str, str]:
    """The tensors of the layers that two graphs have in common: their names in `other` by their names in `one`."""
    mine, its = ({layer.name: layer.tensors for layer in graph.layers} for graph in (one, other))
    return {name: its[there][role] for here, there in common(one, other).items() for role, name in mine[here].items()}


def common_prefix(one: Graph, other: Graph) -> int:
    """How many layers of `one` there are up to the last one, by these numbers, that `other` has, too."""
    size = one.upstream()
    return max((size[name] for name in common(one, other)), default=0)


def without_compiled(name: str) -> str:
    """The name of a module or a tensor without what `torch.compile` has put before it, wherever that was done."""
    return ".".join(part for part in name.split(".") if part != _COMPILED) if _COMPILED in name else name


def chain_of_names(tensors: Mapping[str, tuple[str, Sequence[int]]], configuration: Mapping[str, Any]) -> Graph:
    """The graph of a model of which only its tensors are known: layers by their names, one after the other.

    Args:
        tensors: type and shape of each, by its name.
        configuration: what else is known of the model; only models of which the same is known have layers in common.
    """
    layers = [Layer(INPUT, INPUT, configuration)]
    by_layer: dict[str, dict[str, str]] = {}
    for name in sorted(tensors, key=_in_order):
        layer, _, role = name.rpartition(".")
        by_layer.setdefault(layer, {})[role] = name
    for layer, roles in by_layer.items():
        shapes = {role: [tensors[name][0], list(tensors[name][1])] for role, name in roles.items()}
        name = layer or "model"
        while name == INPUT or (name != layer and name in by_layer):
            name += ".module"
        layers.append(Layer(name, "tensors", {"tensors": shapes}, (layers[-1].name,), roles))
    return Graph(tuple(layers), "names")


def _lowest(bits: int) -> int:
    """The place of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def _in_order(name: str) -> list[tuple[int, str]]:
    """Sorts names with numbers as people do: layer 2 before layer 10."""
    return [(int(part), "") if re.fullmatch(r"\d{1,18}", part) else (-1, part) for part in name.split(".")]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
