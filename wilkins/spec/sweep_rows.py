"""How the parameters of a sweep become the instances of an ensemble."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from wilkins.errors import Position, count_of, refused
from wilkins.names import text_of
from wilkins.schema.kinds import integer
from wilkins.schema.reading import INVALID, Reader, describe
from wilkins.spec.ensemble import Instances

MOST = 10_000
"""Instances of a sweep."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TAKEN = ("instance", "filename", "file")
"""Words that stand for something else in braces."""

_LONGEST = 80
"""Characters of what tells an instance from the others."""
_ROOM = 125
"""Characters of the name of an instance, with its brackets."""

Rows = Iterable[Iterable[str]]


def labelled(instances: Instances, task: str) -> Instances:
    """The instances of a sweep with what tells them apart: ``dt=0.1,seed=2``; where that is long, or that of several,
    behind their number."""
    room = min(_LONGEST, _ROOM - len(task))
    labels = [
        ",".join(f"{name}={_short(value)}" for name, value in zip(instances.names, row, strict=True))
        for row in instances.rows
    ]
    several = {label for label in labels if len(label) > room} | _twice(labels)
    fitting = (f"{n},{label}"[:room] if label in several else label for n, label in enumerate(labels))
    return Instances(instances.names, instances.rows, tuple(fitting))


def _twice(labels: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {label for label in labels if label in seen or seen.add(label)}  # type: ignore[func-returns-value]


def _short(value: str) -> str:
    """A value as it may stand in the name of a file: of a path, the last part."""
    return re.sub(r"[^\w.+-]", "_", text_of(value).rstrip("/").rpartition("/")[2])


def _grid(reader: Reader, node: yaml.Node, who: str) -> tuple[Sequence[str], Rows]:
    """Each value with each; the last parameter changes fastest."""
    lists = _lists(reader, node, who)
    if _is_too_many(reader, node, who, math.prod(map(len, lists.values()))):
        return (), ()
    return tuple(lists), product(*lists.values())


def _zip(reader: Reader, node: yaml.Node, who: str) -> tuple[Sequence[str], Rows]:
    """The first values together, then the second ones."""
    lists = _lists(reader, node, who)
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        first = next(iter(lengths))
        other = next(name for name in lengths if lengths[name] != lengths[first])
        where = next(value for name, value in node.value if name.value == other)
        reader.problem(
            where,
            f"{who}: {other!r} has {count_of(lengths[other], 'value')}, but {first!r} has {lengths[first]}; give each "
            "as many",
        )
        return (), ()
    if _is_too_many(reader, node, who, next(iter(lengths.values()), 0)):
        return (), ()
    return tuple(lists), zip(*lists.values(), strict=True)


def _list(reader: Reader, node: yaml.Node, who: str) -> tuple[Sequence[str], Rows]:
    """An instance for each mapping."""
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        cure = "a list with a mapping of parameters to values for each instance, such as [{dt: 0.1}, {dt: 0.2}]"
        reader.problem(node, f"{who} must be {cure}")
        return (), ()
    if _is_too_many(reader, node, who, len(node.value)):
        return (), ()
    names: Sequence[str] = ()
    rows: list[list[str]] = []
    for number, item in enumerate(node.value, 1):
        one = f"{who} item {number}"
        if not isinstance(item, yaml.MappingNode):
            reader.problem(item, f"{one} must be a mapping of parameters to values, not {describe(item)}")
            continue
        pairs = reader.pairs(item, one)
        names = names or [name for name in pairs if _is_name(reader, pairs[name][0], one, name)]
        if set(pairs) != set(names) or not pairs:
            what = f"{', '.join(pairs) or 'nothing'}, and the first one {', '.join(names)}"
            reader.problem(item, f"{one} gives {what}; give all the same parameters")
            continue
        rows.append([reader.text(pairs[name][1], f"{one} {name!r}", "a value") for name in names])
    return names, rows


def _csv(reader: Reader, node: yaml.Node, who: str) -> tuple[Sequence[str], Rows]:
    """An instance for each row of a file, whose first line names the parameters."""
    import csv

    name = reader.text(node, who, "the path of a file, relative to the workflow file")
    if name is INVALID:
        return (), ()
    path = Path(reader.file).parent / Path(name).expanduser()
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            lines = csv.reader(file, strict=True)
            try:
                return _table(reader, lines, str(path), who)
            except csv.Error as error:
                reader.problem(Position(str(path), lines.line_num, 1), f"{who}: cannot read the line: {error}")
    except FileNotFoundError:
        reader.problem(node, f"{who}: there is no file {str(path)!r}; mend the path, or write the file")
    except OSError as error:
        reader.problem(node, f"{who}: {refused(path, 'read it', error)}")
    return (), ()


def _table(reader: Reader, lines: Any, file: str, who: str) -> tuple[Sequence[str], Rows]:
    names: list[str] = []
    rows: list[list[str]] = []
    for row in lines:
        where = Position(file, lines.line_num, 1)
        before = len(reader.problems)
        if any("\0" in value for value in row):
            reader.problem(where, f"{who}: the line holds a zero byte; remove it")
        elif not names:
            names = [name.strip() for name in row]
            _check_names(reader, where, who, names)
        elif row and len(row) != len(names):
            has = f"the line has {count_of(len(row), 'value')}, and the first one names {len(names)}"
            reader.problem(where, f"{who}: {has} ({', '.join(names)}); give one for each")
        elif row:
            rows.append(row)
        if len(rows) > MOST:
            reader.problem(where, f"{who}: the file has more than {MOST} rows, the most that a sweep may have")
        if len(reader.problems) > before:
            return (), ()
    if not rows:
        cure = "write the names of the parameters into the first line, and a line of values for each instance"
        reader.problem(Position(file), f"{who}: the file has no row of values; {cure}")
    return names, rows


def _check_names(reader: Reader, where: Position, who: str, names: Sequence[str]) -> None:
    """The first line of a file."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if all(_is_name(reader, where, who, name) for name in names) and twice:
        reader.problem(where, f"{who}: two columns are named {twice!r}; rename one")


def _random(reader: Reader, node: yaml.Node, who: str) -> tuple[Sequence[str], Rows]:
    """As many as wanted, drawn at random, the same for the same seed.

    One number in [0, 1) is taken from the Mersenne Twister (`random.Random(seed).random()`) for each parameter of each
    instance, in the order of the file; each distribution makes its value from that.
    """
    pairs = reader.pairs(node, who) if isinstance(node, yaml.MappingNode) else {}
    missing = [name for name in ("count", "seed") if name not in pairs]
    if missing or len(pairs) < 3:
        such = "{count: 24, seed: 7, dt: {uniform: [0, 1]}}"
        reader.problem(node, f"{who} must have a count, a seed and a parameter or more, such as {such}")
        return (), ()
    count = integer(1).read(reader, pairs["count"][1], f"{who} 'count'")
    seed = integer(0).read(reader, pairs["seed"][1], f"{who} 'seed', that of the generator,")
    draws: dict[str, Callable[[float], str]] = {}
    for name, (name_node, value) in pairs.items():
        if name not in ("count", "seed") and _is_name(reader, name_node, who, name):
            draws[name] = _draw(reader, value, f"{who} {name!r}")
    if INVALID in (count, seed, *draws.values()) or _is_too_many(reader, pairs["count"][1], who, count):
        return (), ()
    return tuple(draws), _drawn(count, seed, tuple(draws.values()))


def _drawn(count: int, seed: int, draws: Sequence[Callable[[float], str]]) -> Iterator[list[str]]:
    import random

    generator = random.Random(seed)
    for _ in range(count):
        yield [draw(generator.random()) for draw in draws]


def _draw(reader: Reader, node: yaml.Node, who: str) -> Any:
    """What makes a value from a number in [0, 1)."""
    pairs = reader.pairs(node, who) if isinstance(node, yaml.MappingNode) else {}
    known = ("uniform", "loguniform", "integer", "choice")
    if len(pairs) != 1 or next(iter(pairs)) not in known:
        such = "{uniform: [0, 1]}, {loguniform: [1e-5, 1e-1]}, {integer: [1, 8]} or {choice: [a, b]}"
        return reader.problem(node, f"{who} must be a distribution: {such}")
    how, (_, value) = next(iter(pairs.items()))
    if how == "choice":
        options = _values(reader, value, f"{who} {how!r}")
        return INVALID if options is INVALID else lambda u: options[int(u * len(options))]
    limits = _limits(reader, value, f"{who} {how!r}", whole=how == "integer")
    if limits is INVALID:
        return INVALID
    low, high = limits
    if how == "integer":
        return lambda u: str(low + int(u * (high - low + 1)))
    if how == "uniform":
        return lambda u: f"{low + (high - low) * u:.6g}"
    if low <= 0:
        return reader.problem(value, f"{who} {how!r}: the lower limit is {low:g}, and must be above 0")
    bottom, top = math.log(low), math.log(high)
    return lambda u: f"{math.exp(bottom + (top - bottom) * u):.6g}"


def _limits(reader: Reader, node: yaml.Node, who: str, *, whole: bool) -> Any:
    """Two numbers, the lower one first."""
    what = "whole numbers" if whole else "numbers"
    problem = f"{who} must be a list of two {what}, the lower one first, such as [1, 8]"
    texts = _values(reader, node, who)
    if texts is INVALID:
        return INVALID
    try:
        limits = [int(text) if whole else float(text) for text in texts]
    except ValueError:
        return reader.problem(node, problem)
    if len(limits) != 2 or not all(map(math.isfinite, limits)) or limits[0] > limits[1]:
        return reader.problem(node, problem)
    return limits


def _lists(reader: Reader, node: yaml.Node, who: str) -> Mapping[str, Sequence[str]]:
    """Values by parameter."""
    if not isinstance(node, yaml.MappingNode) or not node.value:
        such = "{dt: [0.1, 0.2], seed: [1, 2, 3]}"
        reader.problem(node, f"{who} must be a mapping of parameters to lists of values, such as {such}")
        return {}
    pairs = reader.pairs(node, who)
    lists = {
        name: _values(reader, value, f"{who} {name!r}")
        for name, (name_node, value) in pairs.items()
        if _is_name(reader, name_node, who, name)
    }
    return {} if INVALID in lists.values() else lists


def _values(reader: Reader, node: yaml.Node, who: str) -> Any:
    """A list of values, at least one."""
    if not isinstance(node, yaml.SequenceNode):
        such = f", such as [{node.value}]" if isinstance(node, yaml.ScalarNode) and node.value else ""
        return reader.problem(node, f"{who} must be a list of values{such}, not {describe(node)}")
    if not node.value:
        return reader.problem(node, f"{who} is empty; give at least one value, or remove it")
    values = [reader.text(item, f"{who} value {number}", "a value") for number, item in enumerate(node.value, 1)]
    return INVALID if INVALID in values else values


def _is_name(reader: Reader, where: yaml.Node | Position, who: str, name: str) -> bool:
    """Whether a parameter may be called that; reports why not."""
    if not re.fullmatch(_NAME, name):
        why = "has only letters, digits and '_', and no digit first"
        reader.problem(where, f"{who}: the name of a parameter {why}, unlike {name!r}; rename it")
    elif name in _TAKEN:
        reader.problem(where, f"{who}: {{{name}}} stands for something else; give the parameter another name")
    else:
        return True
    return False


def _is_too_many(reader: Reader, node: yaml.Node, who: str, count: int) -> bool:
    if count > MOST:
        reader.problem(node, f"{who} makes {count} instances, more than the {MOST} that a sweep may have")
    return count > MOST


WAYS: Mapping[str, Callable[[Reader, yaml.Node, str], tuple[Sequence[str], Rows]]] = {
    "grid": _grid,
    "zip": _zip,
    "list": _list,
    "random": _random,
    "csv": _csv,
}
