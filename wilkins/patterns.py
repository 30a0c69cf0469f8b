"""Shell patterns of file names: which names they match, and whether two of them can match the same name.

Patterns are compared on their last components, as many as the shorter one has; an absolute pattern is a whole name.
``*`` and ``?`` do not match a ``/``. Names are bytes, as for the layer in the tasks: ``?`` stands for one of them.
"""

from __future__ import annotations

import os
import posixpath
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Generic, NamedTuple, TypeVar

MAX_BYTES = 511


class _Class(NamedTuple):
    """A set of bytes as ranges."""

    ranges: tuple[tuple[int, int], ...]


Item = TypeVar("Item")

_STAR = None
_Token = _Class | None
_LAST = 0xFF
_ANY = _Class(((0, 0x2E), (0x30, _LAST)))


def pattern_problem(pattern: str) -> str | None:
    """What keeps a text from being the name or pattern of files, with its cure; None if nothing does."""
    if len(_bytes(pattern)) > MAX_BYTES:
        return f"a file name may have at most {MAX_BYTES} bytes; shorten it"
    if pattern.endswith("/") or posixpath.normpath(pattern) in (".", "..", "/"):
        return "this names a folder; give the name or pattern of files, such as 'out/*.h5'"
    if not posixpath.normpath(pattern).strip("*?/"):
        return "this matches every file that the program opens, its own libraries too; narrow it, such as '*.h5'"
    if any(ord(letter) < 32 for letter in pattern):
        return "a control character cannot be part of the name; remove it"
    return None


def _bytes(name: str) -> str:
    """The bytes of a name, each as a letter."""
    return name if name.isascii() else os.fsencode(name).decode("latin-1")


@cache
def components(pattern: str) -> tuple[bool, tuple[str, ...]]:
    """Whether the normalised pattern is absolute, and the bytes of its components, the last one first."""
    normal = posixpath.normpath(_bytes(pattern))
    return normal.startswith("/"), tuple(part for part in reversed(normal.split("/")) if part)


def is_wild(pattern: str) -> bool:
    """True for a pattern, False for a fixed name."""
    return any(letter in pattern for letter in "*?[")


@lru_cache(maxsize=65536)
def intersect(one: str, other: str) -> bool:
    """True if some file name is matched by both patterns."""
    (absolute, mine), (other_absolute, others) = components(one), components(other)
    if (absolute and len(others) > len(mine)) or (other_absolute and len(mine) > len(others)):
        return False
    return all(_component(a, b) for a, b in zip(mine, others, strict=False))


class PatternIndex(Generic[Item]):
    """Items by their patterns, to find those that a pattern can meet without trying all.

    Two patterns can only meet if what precedes the first wildcard of one begins with that of the other, so items are
    kept by that head of the last component of their pattern.
    """

    def __init__(self, items: Iterable[tuple[str, Item]]) -> None:
        self._by_head: dict[str, list[tuple[str, Item]]] = defaultdict(list)
        for pattern, item in items:
            self._by_head[self._head(pattern)].append((pattern, item))
        self._heads = sorted(self._by_head)

    def meeting(self, pattern: str) -> Iterator[Item]:
        """The items whose pattern can match a name that this one matches, in no particular order."""
        head = self._head(pattern)
        heads = [head[:length] for length in range(len(head)) if head[:length] in self._by_head]
        for longer in self._heads[bisect_left(self._heads, head) :]:
            if not longer.startswith(head):
                break
            heads.append(longer)
        return (item for one in heads for other, item in self._by_head[one] if intersect(other, pattern))

    @staticmethod
    def _head(pattern: str) -> str:
        return _literal_head(components(pattern)[1][0])


def covers(one: str, other: str) -> bool:
    """True if two dataset paths meet: equal, matching as patterns, or one a group above the other."""
    mine, others = ([part for part in _bytes(path).split("/") if part] for path in (one, other))
    return all(_component(a, b) for a, b in zip(mine, others, strict=False))


def _component(one: str, other: str) -> bool:
    if not is_wild(one) and not is_wild(other):
        return one == other
    head, other_head = _literal_head(one), _literal_head(other)
    if not (head.startswith(other_head) or other_head.startswith(head)):
        return False
    tail, other_tail = _literal_tail(one), _literal_tail(other)
    if not (tail.endswith(other_tail) or other_tail.endswith(tail)):
        return False
    return _meet(_tokens(one), _tokens(other))


def _literal_head(pattern: str) -> str:
    """What precedes the first wildcard."""
    return pattern[: min((pattern.find(letter) for letter in "*?[" if letter in pattern), default=len(pattern))]


def _literal_tail(pattern: str) -> str:
    if "[" in pattern:
        return ""
    return pattern[max(pattern.rfind("*"), pattern.rfind("?")) + 1 :]


def _meet(one: tuple[_Token, ...], other: tuple[_Token, ...]) -> bool:
    """Whether two token sequences have a common word: reachability in the product of their automata."""
    seen: set[tuple[int, int]] = set()
    stack = [(0, 0)]
    while stack:
        i, j = stack.pop()
        if (i, j) in seen:
            continue
        seen.add((i, j))
        if i == len(one) and j == len(other):
            return True
        star, other_star = i < len(one) and one[i] is _STAR, j < len(other) and other[j] is _STAR
        if star:
            stack.append((i + 1, j))
            if j < len(other) and not other_star:
                stack.append((i, j + 1))
        if other_star:
            stack.append((i, j + 1))
            if i < len(one) and not star:
                stack.append((i + 1, j))
        if i < len(one) and j < len(other) and not star and not other_star and _overlap(one[i], other[j]):
            stack.append((i + 1, j + 1))
    return False


def _overlap(one: _Token, other: _Token) -> bool:
    assert one is not None and other is not None
    return any(max(a, c) <= min(b, d) for a, b in one.ranges for c, d in other.ranges)


@lru_cache(maxsize=65536)
def _tokens(pattern: str) -> tuple[_Token, ...]:
    tokens: list[_Token] = []
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        position += 1
        if letter == "*":
            if not tokens or tokens[-1] is not _STAR:
                tokens.append(_STAR)
        elif letter == "?":
            tokens.append(_ANY)
        elif letter == "[" and (end := _class_end(pattern, position)) > 0:
            tokens.append(_class(pattern[position:end]))
            position = end + 1
        else:
            tokens.append(_Class(((ord(letter), ord(letter)),)))
    return tuple(tokens)


def _class_end(pattern: str, start: int) -> int:
    """Where the ``]`` of a class stands, or -1: then the bracket is an ordinary character."""
    first = start + 1 if pattern[start : start + 1] in ("!", "^") else start
    return pattern.find("]", first + 1)


def _class(body: str) -> _Class:
    negated = body[0] in "!^"
    letters = body[1:] if negated else body
    ranges: list[tuple[int, int]] = []
    position = 0
    while position < len(letters):
        low = high = ord(letters[position])
        if letters[position + 1 : position + 2] == "-" and position + 2 < len(letters):
            high = ord(letters[position + 2])
            position += 2
        position += 1
        if low <= high:
            ranges.append((low, high))
    return _Class(_complement(ranges) if negated else tuple(ranges))


def _complement(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    start = 0
    for low, high in sorted([*ranges, (0x2F, 0x2F)]):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    if start <= _LAST:
        found.append((start, _LAST))
    return tuple(found)
