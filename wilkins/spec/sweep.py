"""The key `sweep` of a task, and what its parameters stand for where it is written."""

from __future__ import annotations

from typing import Any

import yaml

from wilkins.errors import suggest
from wilkins.schema.kinds import integer
from wilkins.schema.reading import INVALID, Kind, Reader, describe
from wilkins.spec.ensemble import Instances, placeholders


class Sweep(Kind):
    """An ensemble with parameters."""

    meaning = "a mapping with one of grid, zip, list, random and csv"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return reader.problem(node, f"{who} must be {self.meaning}, not {describe(node)}")
        from wilkins.spec.sweep_rows import WAYS

        pairs = reader.pairs(node, who)
        for name, (name_node, _) in pairs.items():
            if name not in WAYS:
                hint = suggest(name, list(WAYS)) or f"; known are {', '.join(WAYS)}"
                return reader.problem(name_node, f"{who}: unknown key {name!r}{hint}")
        if len(pairs) != 1:
            return reader.problem(node, f"{who} must be {self.meaning}, and has {' and '.join(pairs) or 'none'}")
        way, (_, value) = next(iter(pairs.items()))
        before = len(reader.problems)
        names, rows = WAYS[way](reader, value, f"{who} {way!r}")
        if len(reader.problems) > before:
            return INVALID
        return Instances(tuple(names), tuple(tuple(row) for row in rows))

    def schema(self) -> dict[str, Any]:
        scalar = {"type": ["string", "number", "boolean"]}
        lists = {"type": "object", "additionalProperties": {"type": "array", "items": scalar, "minItems": 1}}
        range_of = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
        draws = dict.fromkeys(("uniform", "loguniform", "integer"), range_of)
        draws["choice"] = {"type": "array", "items": scalar, "minItems": 1}
        drawn = {"type": "object", "properties": draws, "minProperties": 1, "maxProperties": 1}
        drawn["additionalProperties"] = False
        ways: dict[str, Any] = {
            "grid": lists,
            "zip": lists,
            "list": {"type": "array", "minItems": 1, "items": {"type": "object", "additionalProperties": scalar}},
            "random": {
                "type": "object",
                "properties": {"count": integer(1).schema(), "seed": integer(0).schema()},
                "required": ["count", "seed"],
                "additionalProperties": drawn,
            },
            "csv": {"type": "string", "minLength": 1},
        }
        one = {"minProperties": 1, "maxProperties": 1, "additionalProperties": False}
        return {"type": "object", "properties": ways, **one}


def holds_placeholder(node: yaml.Node, instances: Instances) -> bool:
    """Whether a parameter of a sweep stands somewhere in it."""
    if isinstance(node, yaml.ScalarNode):
        return any(name in instances.names for name in placeholders(node.value))
    if isinstance(node, yaml.MappingNode):
        return any(holds_placeholder(value, instances) for _, value in node.value)
    return any(holds_placeholder(item, instances) for item in node.value)


def filled_node(node: yaml.Node, instances: Instances, instance: int) -> yaml.Node:
    """What is written there for one instance: a text that is a parameter alone becomes its value, as if unquoted."""
    if isinstance(node, yaml.MappingNode):
        pairs = [(name, filled_node(value, instances, instance)) for name, value in node.value]
        return yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark)
    if isinstance(node, yaml.SequenceNode):
        items = [filled_node(item, instances, instance) for item in node.value]
        return yaml.SequenceNode(node.tag, items, node.start_mark, node.end_mark)
    text = instances.fill(node.value, instance)
    if text == node.value:
        return node
    alone = node.value[1:-1] in (*instances.names, "instance")
    style = None if alone else getattr(node, "style", None)
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, node.start_mark, node.end_mark, style)
