"""The parameters of a workflow: declared at the top of its file, used as ``${name}`` below, set with ``--set``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from wilkins.schema.kinds import Scalar, scalar_text, typed
from wilkins.schema.reading import INVALID, Reader
from wilkins.spec.workflow import Parameter

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TITLES: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def declared_in(root: yaml.Node) -> tuple[str, ...]:
    """The names under ``parameters:``, of a document that may be wrong elsewhere."""
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    node = next((value for name, value in pairs if name.value == "parameters"), None)
    return tuple(str(name.value) for name, _ in node.value) if isinstance(node, yaml.MappingNode) else ()


def resolve(
    reader: Reader, declared: Mapping[str, Parameter], settings: Mapping[str, yaml.Node], taken: Sequence[str]
) -> dict[str, str]:
    """The value of every parameter, as text; what is wrong with one is reported.

    Args:
        settings: values given with ``--set``, which count instead of the defaults.
        taken: names that ``--set`` uses for something else.
    """
    values = {}
    for name, parameter in declared.items():
        who = f"parameter {name!r}"
        values[name] = scalar_text(parameter.default)
        if not re.fullmatch(_NAME, name):
            reader.problem(
                parameter.where.position, f"{who}: a name has only letters, digits and '_', and no digit first"
            )
        elif name in taken:
            reader.problem(parameter.where.position, f"{who}: {name!r} is also a key of the file; give it another name")
        if not _check_declaration(reader, parameter, who):
            continue
        value, where = parameter.default, parameter.where.of("default")
        if name in settings:
            value, where = Scalar().read(reader, settings[name], who), reader.position(settings[name])
            value = _as_type_of(parameter.default, value)
            if value is INVALID:
                given = settings[name].value if isinstance(settings[name], yaml.ScalarNode) else "a list or mapping"
                reader.problem(where, f"{who} must be {_meaning(parameter)}, not {given!r}")
                continue
        if not _allows(parameter, value):
            reader.problem(where, f"{who} must be {_meaning(parameter)}, not {value!r}")
        values[name] = scalar_text(value)
    return values


def described(name: str, parameter: Parameter) -> tuple[str, str, str]:
    """A row for a list of parameters: ``name=default``, what is allowed, what it means."""
    return f"{name}={scalar_text(parameter.default)}", _meaning(parameter), parameter.doc or ""


def _check_declaration(reader: Reader, parameter: Parameter, who: str) -> bool:
    """Whether the limits fit the default's type and each other."""
    before = len(reader.problems)
    numeric = isinstance(parameter.default, (int, float)) and not isinstance(parameter.default, bool)
    for key in ("min", "max"):
        if getattr(parameter, key) is not None and not numeric:
            reader.problem(
                parameter.where.of(key), f"{who}: {key!r} is for numbers, and the default is none; remove it"
            )
    low, high = parameter.min, parameter.max
    if low is not None and high is not None and low > high:
        reader.problem(parameter.where.of("min"), f"{who}: 'min' is {low:g}, more than 'max', {high:g}; exchange them")
    for choice in parameter.choices:
        if _as_type_of(parameter.default, choice) is INVALID:
            title = _TITLES[type(parameter.default)]
            reader.problem(
                parameter.where.of("choices"), f"{who}: the choice {choice!r} is not {title}, as the default is"
            )
    return len(reader.problems) == before


def _allows(parameter: Parameter, value: Any) -> bool:
    if parameter.choices:
        return value in [_as_type_of(parameter.default, choice) for choice in parameter.choices]
    below = parameter.min is not None and value < parameter.min
    above = parameter.max is not None and value > parameter.max
    return not below and not above


def _as_type_of(default: Any, value: Any) -> Any:
    """The value as the default's type, or INVALID."""
    kind = type(default)
    if value is INVALID or (isinstance(value, float) and not math.isfinite(value)):
        return INVALID
    if kind is str:
        return scalar_text(value)
    if isinstance(value, str):
        value = typed(value)
    if type(value) is kind:
        return value
    return float(value) if kind is float and type(value) is int else INVALID


def _meaning(parameter: Parameter) -> str:
    if parameter.choices:
        return "one of " + ", ".join(scalar_text(choice) for choice in parameter.choices)
    title = _TITLES[type(parameter.default)]
    if parameter.min is not None and parameter.max is not None:
        return f"{title} from {parameter.min:g} to {parameter.max:g}"
    if parameter.min is not None:
        return f"{title} of {parameter.min:g} or more"
    return title if parameter.max is None else f"{title} of at most {parameter.max:g}"
