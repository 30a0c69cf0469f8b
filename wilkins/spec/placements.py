"""The key `placement` of the workflow file: how it is read."""

from __future__ import annotations

from typing import Any

import yaml

from wilkins.errors import WorkflowError, suggest
from wilkins.flow.placement import Rule
from wilkins.schema.positions import compose_option
from wilkins.schema.reading import INVALID, Kind, Reader

_WORDS = ("together", "spread")


def in_option(option: str) -> tuple[str, Rule]:
    """The task and its place that ``--set TASK.placement=...`` gives.

    Raises:
        WorkflowError: it says something else.
    """
    target, _, text = option.partition("=")
    task, _, key = target.rpartition(".")
    shown = f"--set {option}"
    reader = Reader(shown)
    node = compose_option(text, shown)
    if key != "placement" or not task:
        reader.problem(node, "of a run that is gone on with, only the placement can be set: TASK.placement=...")
    rule = Placement().read(reader, node, "'placement'")
    if reader.problems:
        raise WorkflowError(reader.problems)
    return task, rule


class Placement(Kind):
    """On which hosts a task runs."""

    meaning = "'together', 'spread', a list of hosts, a list of numbers of ranks by host, or {with: TASK}"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._beside(reader, node, who)
        if isinstance(node, yaml.SequenceNode):
            return self._listed(reader, node, who)
        value = reader.text(node, who, self.meaning)
        if value is INVALID:
            return INVALID
        if value not in _WORDS:
            return reader.problem(node, f"{who} must be {self.meaning}, not {value!r}{suggest(value, _WORDS)}")
        return Rule(spread=value == "spread")

    def _beside(self, reader: Reader, node: yaml.MappingNode, who: str) -> Any:
        pairs = reader.pairs(node, who)
        if list(pairs) != ["with"]:
            return reader.problem(
                node, f"{who} must be {self.meaning}, not a mapping of {', '.join(pairs) or 'nothing'}"
            )
        name = reader.text(pairs["with"][1], f"{who} 'with'", "the name of a task")
        return INVALID if name is INVALID else Rule(beside=name)

    def _listed(self, reader: Reader, node: yaml.SequenceNode, who: str) -> Any:
        words = [
            reader.text(item, f"{who} item {place}", "a host or a number") for place, item in enumerate(node.value, 1)
        ]
        if INVALID in words:
            return INVALID
        numbers = [word.isdecimal() for word in words]
        if not words or (any(numbers) and not all(numbers)):
            what = "is a mixture of hosts and numbers" if words else "is empty"
            return reader.problem(node, f"{who} {what}; it must be {self.meaning}")
        if all(numbers):
            counts = tuple(map(int, words))
            return Rule(counts=counts) if any(counts) else reader.problem(node, f"{who} gives no rank a host")
        if twice := next((word for place, word in enumerate(words) if word in words[:place]), None):
            return reader.problem(node, f"{who} names the host {twice!r} twice; remove one")
        return Rule(hosts=tuple(words))

    def schema(self) -> dict[str, Any]:
        texts = {"type": "string", "minLength": 1}
        return {
            "anyOf": [
                {"enum": list(_WORDS)},
                {"type": "array", "items": texts, "minItems": 1},
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
                {"type": "object", "properties": {"with": texts}, "required": ["with"], "additionalProperties": False},
            ]
        }
