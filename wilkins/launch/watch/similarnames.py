"""Names that a program used, and that are similar to the pattern of a port without matching it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from wilkins.schema.patterns import is_wild

_ALIKE = 0.75
_MOST_NAMED = 3


def pattern_of(name: str) -> str:
    """A pattern for all names that differ from this one in their numbers alone; its suffix stays, as in ``.h5``."""
    stem, dot, suffix = name.rpartition(".")
    return re.sub(r"\d+", "*", stem) + dot + suffix if dot and stem else re.sub(r"\d+", "*", name)


def as_next(name: str, port: str) -> str:
    """The remedy for a program that opens its next step by a name that no step has. `port`: the in-port, in words.

    A name with a number is rather one of a series, in which numbers or letters are others.
    """
    stands = f"give {port} `as: {name}`"
    if pattern_of(name) == name:
        return f"if {name!r} means the next step, whatever that is called, {stands}"
    return f"compare their letters and numbers; only if every step is opened by the one name {name!r}, {stands}"


def nearest(pattern: str, names: Sequence[str]) -> str | None:
    """A pattern for those names that differ from a port's pattern in little but spelling; None if none does."""
    import difflib
    import glob

    wanted = _letters(pattern)
    found = [
        (ratio, name)
        for name in names
        if (ratio := difflib.SequenceMatcher(None, wanted, _letters(name)).ratio()) >= _ALIKE
    ]
    if not found:
        return None
    best = max(found, key=lambda pair: pair[0])[1]
    several = [name for name in names if pattern_of(name) == pattern_of(best)]
    escaped = glob.escape(best)  # a bracket of a folder's name is no wildcard
    return pattern_of(escaped) if len(several) > 1 or is_wild(pattern) else escaped


def is_one_letter_off(name: str, other: str) -> bool:
    """Whether the last components of two names have the same numbers, and differ in one letter, which one has more or
    other, or in the order of two."""
    one, two = PurePosixPath(name).name, PurePosixPath(other).name
    if one == two or re.findall(r"\d+", one) != re.findall(r"\d+", two):
        return False
    while one and two and one[0] == two[0]:
        one, two = one[1:], two[1:]
    while one and two and one[-1] == two[-1]:
        one, two = one[:-1], two[:-1]
    return max(len(one), len(two)) == 1 or (len(one) == 2 and one == two[::-1])


def some_of(names: Sequence[str]) -> str:
    """Names in words, the first few of many."""
    few = ", ".join(repr(name) for name in names[:_MOST_NAMED])
    return few + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


def _letters(name: str) -> str:
    return re.sub(r"[\d*?\[\]]", "", PurePosixPath(name).name)
