"""Folds names that differ in numbers alone into patterns. Pure code."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from wilkins.schema.patterns import intersect

_NUMBER = re.compile(r"[0-9]+")


def fold(names: Iterable[str]) -> dict[str, list[str]]:
    """Patterns and the names that each stands for, in the order of their first names.

    Names of one folder that are alike but for their numbers are one pattern: numbers that differ become ``*``, or
    ``[0-9]*`` where ``*`` would match a name of another pattern.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        folder, last = posixpath.split(name)
        groups.setdefault((folder, *_NUMBER.split(last)), []).append(name)
    everything = [name for group in groups.values() for name in group]
    found = {}
    for group in groups.values():
        pattern = _pattern(group, "*")
        if any(intersect(pattern, name) for name in everything if name not in group):
            pattern = _pattern(group, "[0-9]*")
        found[pattern] = group
    return found


def _pattern(names: list[str], wild: str) -> str:
    folder, last = posixpath.split(names[0])
    if len(names) == 1:
        return names[0]
    numbers = zip(*(_NUMBER.findall(posixpath.basename(name)) for name in names), strict=True)
    filled = [each[0] if len(set(each)) == 1 else wild for each in numbers]
    texts = _NUMBER.split(last)
    return posixpath.join(folder, "".join(text + number for text, number in zip(texts, [*filled, ""], strict=True)))
