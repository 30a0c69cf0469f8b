"""What differs between the instances of a task: values among its arguments, and what its placeholders stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import yaml

from wilkins.errors import Position
from wilkins.schema.kinds import Words
from wilkins.schema.reading import INVALID, Kind, Reader
from wilkins.values import dataclass

INSTANCE = "{instance}"
"""Stands for the number of the instance."""

_PLACEHOLDER = r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}"
"""Not that of ``${NAME}``, which is a shell's."""


@dataclass(frozen=True, slots=True)
class Instances:
    """The instances of a task: what ``{instance}`` and, in a sweep, ``{parameter}`` stand for in each."""

    names: tuple[str, ...] = ()
    """The parameters of a sweep, in the order of the file."""
    rows: tuple[tuple[str, ...], ...] = ()
    """By instance: their values, as they are written."""
    labels: tuple[str, ...] = ()
    """By instance of a sweep: what tells it from the others, ``dt=0.1,seed=2``."""

    def label(self, instance: int) -> str:
        """What stands in brackets behind the task's name."""
        return self.labels[instance] if self.labels else str(instance)

    def parameters(self, instance: int) -> dict[str, str]:
        """The parameters of an instance; empty but for a sweep."""
        return dict(zip(self.names, self.rows[instance], strict=True)) if self.rows else {}

    def fill(self, text: str, instance: int, number: int | None = None) -> str:
        """The text for one instance. `number`: what ``{instance}`` stands for, if not for the instance's number."""
        if "{" not in text:
            return text
        values = {"instance": str(instance if number is None else number), **self.parameters(instance)}
        return re.sub(_PLACEHOLDER, lambda found: values.get(found[1], found[0]), text)

    def differs(self, text: str) -> bool:
        """Whether the text holds a placeholder, so that it is each instance's own."""
        return any(name == "instance" or name in self.names for name in placeholders(text))

    def general(self, pattern: str) -> str:
        """A pattern that covers that of every instance."""
        known = {"instance", *self.names}
        return re.sub(_PLACEHOLDER, lambda found: "*" if found[1] in known else found[0], pattern)


def placeholders(text: str) -> list[str]:
    """The words in braces of a text."""
    return re.findall(_PLACEHOLDER, text) if "{" in text else []


@dataclass(frozen=True, slots=True)
class PerInstance:
    """One value for each instance."""

    values: tuple[str, ...]
    position: Position


class Arguments(Kind):
    """Arguments; each may be a list with a word for each instance."""

    meaning = "a list of words, or one text split like a shell's"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            return Words().read(reader, node, who)
        words = [self._item(reader, item, f"{who} item {number}") for number, item in enumerate(node.value, 1)]
        return INVALID if any(word is INVALID for word in words) else tuple(words)

    def _item(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            return reader.text(node, who, "a text, or a list with a text for each instance")
        values = [reader.text(item, f"{who} value {number}", "a text") for number, item in enumerate(node.value, 1)]
        return INVALID if INVALID in values else PerInstance(tuple(values), reader.position(node))

    def schema(self) -> dict[str, Any]:
        scalar = {"type": ["string", "number", "boolean"]}
        items = {"anyOf": [scalar, {"type": "array", "items": scalar, "minItems": 1}]}
        return {"anyOf": [{"type": "array", "items": items}, scalar]}


class Numbers(Kind):
    """Different whole numbers."""

    meaning = "a list of different whole numbers of 0 or more"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            return reader.problem(node, f"{who} must be {self.meaning}, such as [10, 11, 12]")
        first: dict[int, int] = {}
        for place, item in enumerate(node.value, 1):
            text = reader.text(item, f"{who} item {place}", "a whole number")
            if text is INVALID:
                return INVALID
            if not re.fullmatch(r"[0-9]{1,18}", text):
                return reader.problem(item, f"{who} item {place} must be a whole number of 0 or more, not {text!r}")
            if int(text) in first:
                twice = f"items {first[int(text)]} and {place} are both {int(text)}"
                return reader.problem(item, f"{who}: {twice}, and two instances would share their files; change one")
            first[int(text)] = place
        return tuple(first)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True}


def numbers_text(numbers: Sequence[int]) -> str:
    """``[3]``, ``[0..4]`` or ``[0..2,5]`` of ascending numbers."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return "[" + ",".join(f"{run[0]}..{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) + "]"


def braced(words: Sequence[str]) -> str:
    """One argument of all instances: the word they share, or ``{1.0,2.0,...,9.0}``."""
    different = list(dict.fromkeys(words))
    if len(different) == 1:
        return different[0]
    return "{" + ",".join(different if len(different) <= 4 else [*different[:2], "...", different[-1]]) + "}"


@dataclass(frozen=True, slots=True)
class Join:
    """Instances that are joined alike: every writer to every reader or, one by one, each to the one in its place."""

    writers: tuple[int, ...]
    readers: tuple[int, ...]
    each: bool = False


def joins(pairs: Iterable[tuple[int, int]]) -> list[Join]:
    """Pairs of a writing and a reading instance in few lines.

    (0, 0), (0, 1), (1, 2) gives 0 to 0 and 1, and 1 to 2; (0, 0), (1, 1), (2, 2) gives each of 0, 1, 2 to its own.
    """
    readers: dict[int, list[int]] = {}
    for writer, reader in sorted(set(pairs)):
        readers.setdefault(writer, []).append(reader)
    alike = [
        Join(tuple(writer for writer, _ in group), tuple(shared))
        for shared, group in groupby(readers.items(), lambda item: item[1])
    ]
    lines: list[Join] = []
    for apart, run in groupby(alike, _apart):
        found = list(run)
        if apart is not None and len(found) > 1:
            found = [Join(tuple(join.writers[0] for join in found), tuple(join.readers[0] for join in found), True)]
        lines += found
    return lines


def _apart(join: Join) -> int | None:
    """How far the numbers of a single writer and its single reader are apart."""
    return join.readers[0] - join.writers[0] if len(join.writers) == len(join.readers) == 1 else None
