"""Turns YAML nodes into frozen dataclasses: each field says once what it accepts, its default and what it means."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import yaml

from wilkins.errors import Position, Problem, suggest
from wilkins.schema.positions import position_of
from wilkins.values import dataclass, field, fields, is_dataclass

if TYPE_CHECKING:
    from dataclasses import Field

INVALID: Any = object()
"""The result of reading a value whose problem has been reported."""

REQUIRED: Any = object()

_NULL = "tag:yaml.org,2002:null"
_VARIABLE = r"\$(\$)?\{([^{}]*)\}"
_NAME = r"(?s:([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?)"


@dataclass(frozen=True, slots=True)
class Where:
    """Positions of a section and of its values."""

    position: Position
    keys: Mapping[str, Position] = field(default_factory=dict)

    def of(self, key: str) -> Position:
        """The position of a key's value, or of the section if the key is not written."""
        return self.keys.get(key, self.position)

    def __contains__(self, key: str) -> bool:
        return key in self.keys


class Kind(ABC):
    """The kind of values that a key accepts."""

    meaning: str
    """For error messages and the reference: ``a whole number of 1 or more``."""

    @abstractmethod
    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        """The value, or `INVALID` after reporting a problem."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the value."""


NAMED_KINDS: dict[str, Callable[..., Kind]] = {}
"""Kinds that a table names which cannot import them."""


def key(kind: Kind, *, default: Any = REQUIRED, doc: str, unused: str = "") -> Any:
    """Declares a key of the workflow file.

    Args:
        unused: the key is accepted and has no effect; why, for the note the user gets.
    """
    metadata = {"kind": kind, "doc": doc, "unused": unused, "required": default is REQUIRED}
    return field(default=None if default is REQUIRED else default, metadata=metadata)


def keys_of(section: type) -> Iterator[Field[Any]]:
    """The fields of a spec dataclass that are keys of the workflow file."""
    return (item for item in fields(section) if "kind" in item.metadata)


def kind_of(item: Field[Any]) -> Kind:
    """The kind of values that the key accepts."""
    kind = item.metadata["kind"]
    return kind if isinstance(kind, Kind) else NAMED_KINDS[kind[0]](*kind[1:])


def key_of(item: Field[Any]) -> str:
    """The key that a field is for: its name, without the `_` at the end of one that is a word of Python."""
    return item.name.removesuffix("_")


def plain(value: Any) -> Any:
    """A section, or a value in it, as data for JSON: mappings, lists and scalars."""
    if is_dataclass(value):
        return {key_of(item): plain(getattr(value, item.name)) for item in keys_of(type(value))}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def more_sections(cls: type) -> Mapping[str, type]:
    """Sections that a mapping may hold beside the keys it declares, by name; looked up only when one is met."""
    found: Callable[[], Mapping[str, type]] | None = getattr(cls, "more_sections", None)
    return found() if found else {}


class Reader:
    """Collects problems and notes while nodes are read."""

    def __init__(self, file: str, environment: Mapping[str, str] | None = None) -> None:
        self.file = file
        self.environment = os.environ if environment is None else environment
        self.parameters: Mapping[str, str] = {}
        """Values that ``${name}`` stands for, before variables of the environment."""
        self.used: set[str] = set()
        """The parameters that some value has used."""
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def position(self, node: yaml.Node) -> Position:
        """Where the node stands."""
        return position_of(node, self.file)

    def problem(self, where: Position | yaml.Node, message: str) -> Any:
        """Reports a problem; returns `INVALID`."""
        position = where if isinstance(where, Position) else self.position(where)
        self.problems.append(Problem(position, message))
        return INVALID

    def note(self, where: Position, message: str) -> None:
        """Something the user should know; not an error."""
        self.notes.append(f"{where}: note: {message}")

    def text(self, node: yaml.Node, who: str, meaning: str) -> Any:
        """The text of a scalar with ``${VAR}`` expanded, or INVALID."""
        if not isinstance(node, yaml.ScalarNode):
            found = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
            return self.problem(node, f"{who} must be {meaning}, not {found}")
        if node.tag == _NULL:
            return self.problem(node, f"{who} has no value; it must be {meaning}")
        return self.expand(node, node.value, who)

    def expand(self, node: yaml.Node, text: str, who: str) -> Any:
        """``${VAR}`` and ``${VAR:-default}`` from parameters and the environment; ``$${VAR}`` stands for ``${VAR}``."""
        if "\0" in text:
            return self.problem(node, f"{who} holds a zero byte; remove it")
        missing: list[str] = []

        def replace(found: re.Match[str]) -> str:
            if found[1]:
                return "${" + found[2] + "}"
            name = re.fullmatch(_NAME, found[2])
            if not name:
                missing.append(
                    f"'${{{found[2]}}}' in {who} is not a variable; write ${{NAME}}, or $${{...}} for the text"
                )
                return ""
            self.used.add(name[1])
            value = self.parameters.get(name[1], self.environment.get(name[1], name[2]))
            if value is None:
                hint = suggest(name[1], list(self.parameters)) or f"; export it or write ${{{name[1]}:-default}}"
                what = "a parameter or environment variable" if self.parameters else "the environment variable"
                missing.append(f"{who} uses {what} {name[1]!r}, which is not set{hint}")
            return value or ""

        expanded = re.sub(_VARIABLE, replace, text) if "$" in text else text
        for message in missing:
            self.problem(node, message)
        return INVALID if missing else expanded

    def pairs(self, node: yaml.MappingNode, who: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """The mapping's entries by name, ``<<`` merged; duplicate keys are problems."""
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: list[tuple[yaml.Node, yaml.Node]] = []
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                self.problem(name, f"{who}: a key must be a word, not a list or mapping")
            elif name.tag == "tag:yaml.org,2002:merge":
                sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
                merged.extend(pair for source in sources for pair in self._merge(source, who))
            elif name.value in found:
                first = self.position(found[name.value][0])
                self.problem(name, f"{who}: the key {name.value!r} is given twice (first at {first}); remove one")
            else:
                found[name.value] = (name, value)
        for name, value in merged:
            found.setdefault(name.value, (name, value))
        return found

    def _merge(self, source: yaml.Node, who: str) -> list[tuple[yaml.Node, yaml.Node]]:
        if isinstance(source, yaml.MappingNode):
            return list(self.pairs(source, who).values())
        self.problem(source, f"{who}: '<<' must be followed by an alias of a mapping")
        return []

    def section(
        self, cls: type, node: yaml.Node, who: str, label: Callable[[dict[str, str]], str] | None = None
    ) -> Any:
        """Reads a mapping into a spec dataclass."""
        if not isinstance(node, yaml.MappingNode):
            return self.problem(
                node, f"{who} must be a mapping of keys to values, not {describe(node)}{_as_one(cls, node)}"
            )
        if label:
            who = label(scalars(node))
        pairs = self.pairs(node, who)
        known = {key_of(item): item for item in keys_of(cls)}
        before = len(self.problems)
        values: dict[str, Any] = {}
        sections: dict[str, yaml.Node] = {}
        positions: dict[str, Position] = {}
        for name, (name_node, value) in pairs.items():
            item = known.get(name)
            if item is None and name in (more := more_sections(cls)):
                positions[name] = self.position(value)
                sections[name] = value
                continue
            if item is None:
                offered = [*more, *known]
                hint = suggest(name, offered) or f"; known are {', '.join(offered)}"
                self.problem(name_node, f"{who}: unknown key {name!r}{hint}")
                continue
            positions[name] = self.position(value)
            values[item.name] = kind_of(item).read(self, value, f"{who}: {name!r}")
            if item.metadata["unused"]:
                self.note(
                    self.position(name_node), f"{who}: {name!r} is accepted and not used: {item.metadata['unused']}"
                )
        for name, item in known.items():
            if item.metadata["required"] and name not in pairs:
                meant = suggest(name, list(pairs)).replace("did you mean", "or is it what you mean by")
                self.problem(node, f"{who}: the key {name!r} is missing; add '{name}: ...'{meant}")
        if sections and len(self.problems) == before:
            values |= self._more_sections(cls, values, sections, who)
        if len(self.problems) > before:
            return INVALID
        return cls(**values, where=Where(self.position(node), positions))

    def _more_sections(
        self, cls: type, values: Mapping[str, Any], nodes: Mapping[str, yaml.Node], who: str
    ) -> dict[str, Any]:
        """The fields ``sections`` and, if the values of other keys stand in them, ``variants``."""
        more = more_sections(cls)
        variants_of: Callable[..., Iterator[Mapping[str, yaml.Node]]] | None = getattr(cls, "variants_of", None)
        found: list[dict[str, Any]] = []
        for one in variants_of(values, nodes) if variants_of else (nodes,):
            before = len(self.problems)
            found.append({name: self.section(more[name], node, f"{who}, {name}") for name, node in one.items()})
            if len(self.problems) > before:
                break
        return {"sections": found[0]} | ({"variants": tuple(found)} if len(found) > 1 else {})


def scalars(node: yaml.MappingNode) -> dict[str, str]:
    """The plain entries of a mapping, as they are written."""
    both = yaml.ScalarNode
    return {name.value: value.value for name, value in node.value if isinstance(name, both) and isinstance(value, both)}


def _as_one(cls: type, node: yaml.Node) -> str:
    """How the section is written that a plain text may stand for: one that needs a single key."""
    needed = [key_of(item) for item in keys_of(cls) if item.metadata["required"]]
    if not isinstance(node, yaml.ScalarNode) or node.tag == _NULL or len(needed) != 1:
        return ""
    return f"; write {{{needed[0]}: {json.dumps(node.value)}}}"


def describe(node: yaml.Node) -> str:
    """A node in an error message."""
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "nothing" if node.tag == _NULL else repr(node.value)
