"""Kinds of values that are sections of the workflow file: each is read into a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from wilkins.schema.kinds import WHOLE_FILE
from wilkins.schema.reading import INVALID, Kind, Reader
from wilkins.values import fields


class SectionList(Kind):
    """A list of sections, each read into a dataclass."""

    def __init__(self, cls: type, noun: str, label: Callable[[str, dict[str, str]], str], minimum: int = 0) -> None:
        self.cls = cls
        self.noun = noun
        self.label = label
        self.minimum = minimum
        self.meaning = f"a list of {noun}s"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            return reader.problem(node, f"{who} must be {self.meaning}, each beginning with '- '")
        if len(node.value) < self.minimum:
            return reader.problem(node, f"{who} is empty; give at least {self.minimum} {self.noun}")
        context = who.rpartition(": ")[0]
        context = "" if context == WHOLE_FILE else context
        read: list[Any] = []
        for number, item in enumerate(node.value, 1):
            fallback = f"{context + ': ' if context else ''}{self.noun} {number}"

            def label(texts: dict[str, str], fallback: str = fallback) -> str:
                return self.label(context, texts) or fallback

            read.append(reader.section(self.cls, item, fallback, label))
        return INVALID if INVALID in read else tuple(read)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"$ref": f"#/$defs/{self.cls.__name__}"}, "minItems": self.minimum}


class Section(Kind):
    """One section, read into a dataclass."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        keys = ", ".join(item.name for item in fields(cls) if "kind" in item.metadata)
        self.meaning = f"a mapping with {keys}"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        return reader.section(self.cls, node, who)

    def schema(self) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{self.cls.__name__}"}


class SectionMap(Kind):
    """A mapping of names to sections, each read into a dataclass."""

    def __init__(self, cls: type, noun: str) -> None:
        self.cls = cls
        self.noun = noun
        self.meaning = f"a mapping of names to {noun}s"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return reader.problem(node, f"{who} must be {self.meaning}")
        read = {
            name: reader.section(self.cls, value, f"{self.noun} {name!r}")
            for name, (_, value) in reader.pairs(node, who).items()
        }
        return INVALID if any(value is INVALID for value in read.values()) else read

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"$ref": f"#/$defs/{self.cls.__name__}"}}
