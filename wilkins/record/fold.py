"""Folds names that differ in numbers alone into patterns. Pure code."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wilkins.schema.patterns import intersect

_NUMBER = re.compile(r"[0-9]+")


def fold(names: Iterable[str]) -> dict[str, list[str]]:
    """Patterns and the names that each stands for, in the order of their first names.

    Names that are alike but for their numbers are one pattern: numbers that differ become ``*``, or ``[0-9]*`` where
    ``*`` would match a name of another pattern, or every name.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(_NUMBER.split(name)), []).append(name)
    everything = [name for group in groups.values() for name in group]
    found = {}
    for group in groups.values():
        pattern = _pattern(group, "*")
        others = (name for name in everything if name not in group)
        if pattern.endswith("/*") or any(intersect(pattern, name) for name in others):
            pattern = _pattern(group, "[0-9]*")
        found[pattern] = group
    return found


def _pattern(names: list[str], wild: str) -> str:
    numbers = zip(*map(_NUMBER.findall, names), strict=True)
    filled = [each[0] if len(set(each)) == 1 else wild for each in numbers]
    return "".join(text + number for text, number in zip(_NUMBER.split(names[0]), [*filled, ""], strict=True))
