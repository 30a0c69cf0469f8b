"""The kinds of values of the workflow file: how each is read, and how the schema and the reference show it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from wilkins.errors import suggest
from wilkins.flow.policy import FlowPolicy, from_flow, from_io_freq
from wilkins.flow.publish import PublishRule
from wilkins.schema.reading import INVALID, NAMED_KINDS, Kind, Reader
from wilkins.values import dataclass

WHOLE_FILE = "the workflow file"

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_BYTES = {"": 1, "b": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4} | {
    f"{letter}i": 1024**power for power, letter in enumerate("kmgt", start=1)
}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_VARIABLE_SCHEMA = {"type": "string", "pattern": r"\{"}
"""A value that ``${VAR}`` gives, or ``{parameter}`` of a sweep."""


class Parsed(Kind):
    """A single value, made from its text by a function that raises ValueError."""

    def __init__(self, meaning: str, schema: dict[str, Any], parse: Callable[[str], Any]) -> None:
        self.meaning = meaning
        self._schema = schema
        self._parse = parse

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        text = reader.text(node, who, self.meaning)
        if text is INVALID:
            return INVALID
        try:
            return self._parse(text)
        except ValueError as error:
            reason = f" ({error})" if str(error) else ""
            found = text if node.tag in _NUMBERS else repr(text)
            return reader.problem(node, f"{who} must be {self.meaning}, not {found}{reason}")

    def schema(self) -> dict[str, Any]:
        texts = self._schema.get("type") == "string"
        return self._schema if texts else {"anyOf": [self._schema, _VARIABLE_SCHEMA]}


def text() -> Kind:
    """Any text that is not empty."""

    def parse(value: str) -> str:
        if not value:
            raise ValueError
        return value

    return Parsed("a text", {"type": "string", "minLength": 1}, parse)


def integer(minimum: int, maximum: int = 2**31 - 1) -> Kind:
    """A whole number."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", value.strip()):
            raise ValueError
        if int(value[:20]) > maximum:
            raise ValueError(f"the most is {maximum}")
        if int(value[:20]) < minimum:
            raise ValueError
        return int(value)

    return Parsed(f"a whole number of {minimum} or more", {"type": "integer", "minimum": minimum}, parse)


def boolean() -> Kind:
    """True or false; 1 and 0 too."""

    def parse(value: str) -> bool:
        if value.lower() not in _TRUE + _FALSE:
            raise ValueError
        return value.lower() in _TRUE

    return Parsed("true or false", {"enum": [True, False, 0, 1]}, parse)


def choice(*values: str) -> Kind:
    """One of a few words."""

    def parse(value: str) -> str:
        if value not in values:
            raise ValueError(suggest(value, values).removeprefix("; "))
        return value

    return Parsed(" or ".join(f"'{value}'" for value in values), {"enum": list(values)}, parse)


def device() -> Kind:
    """Where a port's arrays are."""
    words = ("auto", "host", "pinned", "cuda")

    def parse(value: str) -> str:
        if value in words or re.fullmatch(r"cuda:[0-9]{1,4}", value):
            return value
        known = {"cpu": "host", "gpu": "cuda"}.get(value.lower())
        raise ValueError(f"did you mean {known!r}?" if known else suggest(value, words).removeprefix("; "))

    numbered = {"type": "string", "pattern": "^cuda:[0-9]{1,4}$"}
    meaning = "'auto', 'host', 'pinned', 'cuda' or 'cuda:k' with the number of a GPU"
    return Parsed(meaning, {"anyOf": [{"enum": list(words)}, numbered]}, parse)


def parse_duration(value: str) -> float:
    """Seconds from ``90``, ``30s``, ``10min``, ``2h``.

    Raises:
        ValueError: it is not a time longer than nothing.
    """
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([a-z]*)", value.strip().lower())
    if not found or found[2] not in _SECONDS or len(value) > 30 or not float(found[1]):
        raise ValueError
    return float(found[1]) * _SECONDS[found[2]]


def duration() -> Kind:
    """A time in seconds, or with a unit."""
    return Parsed("a time such as 90, 30s, 10min or 2h", {"type": ["number", "string"]}, parse_duration)


def time_span() -> Kind:
    """A time that may be nothing."""

    def parse(value: str) -> float:
        return 0.0 if re.fullmatch(r"0*\.?0+\s*[a-z]*", value.strip()) else parse_duration(value)

    return Parsed("a time such as 0.2s, 50ms or 10min", {"type": ["number", "string"]}, parse)


def parse_size(value: str) -> int:
    """Bytes from ``1073741824``, ``512MiB``, ``1 GB``.

    Raises:
        ValueError: it is not a size.
    """
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([kmgt]?i?)b?", value.strip().lower())
    if not found or found[2] not in _BYTES or len(value) > 30:
        raise ValueError
    return int(float(found[1]) * _BYTES[found[2]]) if "." in found[1] else int(found[1]) * _BYTES[found[2]]


RATE = "a rate in bytes (12GB/s) or bits (100Gbit/s, 100Gb/s) per second"
"""What `parse_rate` takes, in words."""


def parse_rate(value: str) -> int:
    """Bytes per second from ``12GB/s``, ``12GB``, ``100Gbit/s``, ``100Gb/s`` or ``100Gbps``: B are bytes, b are bits.

    Raises:
        ValueError: it is not a rate, or none at all.
    """
    found = re.fullmatch(r"(.*[0-9]\s*(?:[kmgt]i?)?)(b|bits?|bytes?)?(?:/s|ps)?", value.strip(), re.IGNORECASE)
    if not found:
        raise ValueError
    unit = found[2] or "B"
    rate = parse_size(found[1]) // (8 if unit == "b" or unit.lower().startswith("bit") else 1)
    if not rate:
        raise ValueError
    return rate


def size(meaning: str = "a number of bytes such as 500MB or 1GiB (0: no limit)") -> Kind:
    """A number of bytes."""
    return Parsed(meaning, {"type": ["integer", "string"]}, parse_size)


NAMED_KINDS.update(boolean=boolean, choice=choice, integer=integer, size=size, text=text, time_span=time_span)


def number() -> Kind:
    """A number."""

    def parse(value: str) -> float:
        found = typed(value)
        if isinstance(found, (bool, str)) or not math.isfinite(found):
            raise ValueError
        return float(found)

    return Parsed("a number", {"type": "number"}, parse)


def typed(value: str) -> bool | int | float | str:
    """The value of a text: a number, true or false, or the text itself."""
    if re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        return int(value)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", value):
        return float(value)
    return value.lower() == "true" if value.lower() in ("true", "false") else value


def scalar_text(value: bool | int | float | str) -> str:
    """A value as it would be written in the file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Scalar(Kind):
    """A number, true or false, or a text; what is quoted is a text."""

    meaning = "a number, true or false, or a text"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        value = reader.text(node, who, self.meaning)
        plain = isinstance(node, yaml.ScalarNode) and not node.style
        return typed(value) if value is not INVALID and plain else value

    def schema(self) -> dict[str, Any]:
        return {"type": ["number", "boolean", "string"]}


class ListOf(Kind):
    """A list of values of one kind; one alone need not be written as a list."""

    def __init__(self, kind: Kind, minimum: int = 0) -> None:
        self.kind = kind
        self.minimum = minimum
        self.meaning = f"a list, each item {kind.meaning}"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            value = self.kind.read(reader, node, who)
            return INVALID if value is INVALID else (value,)
        if len(node.value) < self.minimum:
            return reader.problem(node, f"{who} is empty; it must be {self.meaning}")
        values = [self.kind.read(reader, item, f"{who} item {place}") for place, item in enumerate(node.value, 1)]
        return INVALID if any(value is INVALID for value in values) else tuple(values)

    def schema(self) -> dict[str, Any]:
        one = self.kind.schema()
        return {"anyOf": [{"type": "array", "items": one, "minItems": self.minimum}, one]}


class Words(Kind):
    """A list of words, or one text that is split as a shell would."""

    def __init__(self, split: bool = True) -> None:
        self.meaning = "a list of words, or one text split like a shell's" if split else "a list of texts"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        import shlex

        if isinstance(node, yaml.SequenceNode):
            words = [reader.text(item, f"{who} item {number}", "a text") for number, item in enumerate(node.value, 1)]
            return INVALID if INVALID in words else tuple(words)
        value = reader.text(node, who, self.meaning)
        if value is INVALID:
            return INVALID
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            return reader.problem(node, f"{who}: cannot split {value!r} into words: {error}; write it as a list")

    def schema(self) -> dict[str, Any]:
        scalar = {"type": ["string", "number", "boolean"]}
        return {"anyOf": [{"type": "array", "items": scalar}, scalar]}


class Function(Words):
    """A module and one of its functions."""

    def __init__(self) -> None:
        super().__init__()
        self.meaning = "[module, function]"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        words = super().read(reader, node, who)
        if words is INVALID:
            return INVALID
        if len(words) != 2 or not all(words):
            return reader.problem(node, f"{who}: must be {self.meaning}, such as [actions, every_fourth_write]")
        module = words[0].removesuffix(".py")
        parts = module.split(".")
        if not all(re.fullmatch(r"\w[\w-]*", part) for part in parts) or not words[1].isidentifier():
            return reader.problem(
                node,
                f"{who}: {words[0]!r} must be the name of a Python file without its folder, and {words[1]!r} that of a "
                "function in it",
            )
        return module, words[1]


class TextMap(Kind):
    """A mapping of names to texts."""

    meaning = "a mapping of names to texts"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return reader.problem(node, f"{who} must be {self.meaning}")
        values: dict[str, str] = {}
        for name, (name_node, value) in reader.pairs(node, who).items():
            if not name or "=" in name or "\0" in name:
                reader.problem(name_node, f"{who}: {name!r} cannot be the name of a variable")
            empty = isinstance(value, yaml.ScalarNode) and not value.value
            values[name] = "" if empty else reader.text(value, f"{who} {name!r}", "a text")
        return INVALID if INVALID in values.values() else values

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}


class Values(Kind):
    """A mapping of names to values, which may be lists or mappings in turn; what is quoted is a text."""

    meaning = "a mapping of names to values: numbers, true or false, texts, lists and mappings of these"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return reader.problem(node, f"{who} must be {self.meaning}")
        return self._value(reader, node, who)

    def _value(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if isinstance(node, yaml.SequenceNode):
            items = [self._value(reader, item, f"{who} item {place}") for place, item in enumerate(node.value, 1)]
            return INVALID if any(item is INVALID for item in items) else tuple(items)
        if isinstance(node, yaml.MappingNode):
            pairs = reader.pairs(node, who)
            values = {name: self._value(reader, item, f"{who} {name!r}") for name, (_, item) in pairs.items()}
            return INVALID if any(value is INVALID for value in values.values()) else values
        if node.tag == "tag:yaml.org,2002:null":
            return None
        return Scalar().read(reader, node, who)

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


class Flow(Kind):
    """A flow policy in one of its short or long forms. The queue stays 0 where the file does not give it."""

    def __init__(self, short: bool) -> None:
        self.short = short
        self.meaning = "1 or 'all', n (the n-th step, the 2n-th, ...), or 'latest'"
        if not short:
            self.meaning += ", {some: n}, or {every: n, offset: k, queue: q, when_full: block|drop-oldest|drop-newest}"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        value: Any
        if isinstance(node, yaml.MappingNode) and not self.short:
            value = {
                name: _number(reader.text(item, f"{who} {name!r}", "a number or a word"))
                for name, (_, item) in reader.pairs(node, who).items()
            }
            if INVALID in value.values():
                return INVALID
        else:
            value = _number(reader.text(node, who, self.meaning))
        if value is INVALID:
            return INVALID
        try:
            policy = from_io_freq(value) if self.short else from_flow(value)
        except ValueError as error:
            return reader.problem(node, f"{who}: {error}")
        return policy, isinstance(value, dict) and "queue" in value

    def schema(self) -> dict[str, Any]:
        short: list[dict[str, Any]] = [{"type": "integer", "minimum": -1}, {"enum": ["all", "latest"]}]
        if self.short:
            return {"anyOf": short}
        number = {"type": "integer", "minimum": 1}
        full = {"enum": ["block", "drop-oldest", "drop-newest"]}
        long = {
            "every": number,
            "offset": {"type": "integer", "minimum": 0},
            "queue": number,
            "when_full": full,
            "some": number,
        }
        return {"anyOf": [*short, {"type": "object", "properties": long, "additionalProperties": False}]}


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value) else value


class Publish(Kind):
    """When a step is complete."""

    meaning = "'close', n (every n-th close), 'next', 'flush', {write: n, dset: PATH}, {file: PATTERN} or 'end'"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._long(reader, node, who)
        value = _number(reader.text(node, who, self.meaning))
        if value is INVALID:
            return INVALID
        try:
            if isinstance(value, int):
                return PublishRule("close", value)
            if value in _MOMENTS:
                return PublishRule(value)
        except ValueError as error:
            return reader.problem(node, f"{who}: {error}")
        return reader.problem(node, f"{who} must be {self.meaning}, not {value!r}{suggest(value, _MOMENTS)}")

    def _long(self, reader: Reader, node: yaml.MappingNode, who: str) -> Any:
        found = {
            name: (item, _number(reader.text(item, f"{who} {name!r}", "a number or a name")))
            for name, (_, item) in reader.pairs(node, who).items()
        }
        if any(value is INVALID for _, value in found.values()):
            return INVALID
        if set(found) == {"file"}:
            return PublishRule("file", file=str(found["file"][1]))
        unknown = set(found) - {"write", "dset"}
        if unknown or "write" not in found:
            what = f"has no {min(unknown)!r}" if unknown else "lacks 'write'"
            return reader.problem(node, f"{who} {what}; write {{write: n, dset: PATH}} or {{file: PATTERN}}")
        item, count = found["write"]
        if not isinstance(count, int) or count < 1:
            return reader.problem(item, f"{who} 'write' must be a whole number of 1 or more, not {count!r}")
        dset = str(found["dset"][1]) if "dset" in found else None
        return PublishRule("write", count, dset)

    def schema(self) -> dict[str, Any]:
        number = {"type": "integer", "minimum": 1}
        long = {"write": number, "dset": {"type": "string", "minLength": 1}}
        return {
            "anyOf": [
                {"enum": list(_MOMENTS)},
                number,
                {"type": "object", "properties": long, "required": ["write"], "additionalProperties": False},
                {
                    "type": "object",
                    "properties": {"file": {"type": "string", "minLength": 1}},
                    "required": ["file"],
                    "additionalProperties": False,
                },
            ]
        }


@dataclass(frozen=True, slots=True)
class Image:
    """A container as the workflow file gives it."""

    name: str
    """``docker://NAME``, or the path of a file or folder."""
    binds: tuple[str, ...] = ()
    """``PATH``, or ``PATH:PATH`` with the path in the container."""


class Container(Kind):
    """An image, alone or with folders."""

    meaning = "an image, or {image: IMAGE, binds: [PATH, ...]}"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if not isinstance(node, yaml.MappingNode):
            name = reader.text(node, who, self.meaning)
            return self._image(reader, node, who, name, ())
        pairs = reader.pairs(node, who)
        for name, (name_node, _) in pairs.items():
            if name not in _IMAGE_KEYS:
                hint = suggest(name, _IMAGE_KEYS) or f"; it is {self.meaning}"
                return reader.problem(name_node, f"{who} has no {name!r}{hint}")
        if "image" not in pairs:
            return reader.problem(node, f"{who} lacks 'image'; write {self.meaning}")
        name = reader.text(pairs["image"][1], f"{who} 'image'", "a text")
        listed = pairs["binds"][1] if "binds" in pairs else None
        items = listed.value if isinstance(listed, yaml.SequenceNode) else [listed] if listed is not None else []
        binds = tuple(reader.text(item, f"{who} 'binds' item {place}", "a path") for place, item in enumerate(items, 1))
        return self._image(reader, node, who, name, binds)

    def _image(self, reader: Reader, node: yaml.Node, who: str, name: Any, binds: tuple[Any, ...]) -> Any:
        if name is INVALID or INVALID in binds:
            return INVALID
        if not name or not all(binds):
            return reader.problem(node, f"{who} must be {self.meaning}")
        for bind in binds:
            _, _, inside = bind.partition(":")
            if bind.count(":") > 1 or (":" in bind and not inside.startswith("/")):
                return reader.problem(node, f"{who}: {bind!r} must be PATH, or PATH:PATH with an absolute second path")
        return Image(name, binds)

    def schema(self) -> dict[str, Any]:
        name = {"type": "string", "minLength": 1}
        many = {"anyOf": [{"type": "array", "items": name}, name]}
        full = {"type": "object", "properties": {"image": name, "binds": many}, "required": ["image"]}
        return {"anyOf": [name, {**full, "additionalProperties": False}]}


_IMAGE_KEYS = ("image", "binds")
_MOMENTS = ("close", "next", "flush", "end")

FlowValue = tuple[FlowPolicy, bool]
"""A policy, and whether its queue was written."""


def words_of(values: Sequence[str]) -> str:
    """Words as one would type them in a shell."""
    import shlex

    return " ".join(shlex.quote(value) for value in values)
