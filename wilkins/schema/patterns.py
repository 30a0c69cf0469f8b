"""Shell patterns of file names: which names they match, and whether two of them can match the same name.

Patterns are compared on their last components, as many as the shorter one has; an absolute pattern is a whole name.
``*`` and ``?`` do not match a ``/``; a folder ``**`` stands for any number of folders, also for none. Names are
bytes, as for the layer in the tasks: ``?`` stands for one of them.
"""

from __future__ import annotations

import os
import posixpath
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Generic, NamedTuple, TypeVar

MAX_BYTES = 511


class _Class(NamedTuple):
    """A set of bytes as ranges."""

    ranges: tuple[tuple[int, int], ...]


Item = TypeVar("Item")

_ANY_FOLDERS = "**"
_STAR = None
_Token = _Class | None
_LAST = 0xFF
_ANY = _Class(((0, 0x2E), (0x30, _LAST)))


def pattern_problem(pattern: str) -> str | None:
    """Why a text is no name or pattern of files, with the cure; None if it is one."""
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


def is_folder(pattern: str) -> bool:
    """True for a name or pattern of folders: each folder is a step."""
    return pattern.endswith("/")


def is_wild(pattern: str) -> bool:
    """True for a pattern, False for a fixed name."""
    return any(letter in pattern for letter in "*?[")


@lru_cache(maxsize=65536)
def intersect(one: str, other: str) -> bool:
    """True if some file name is matched by both patterns."""
    (absolute, mine), (other_absolute, others) = components(one), components(other)
    if _ANY_FOLDERS in mine[1:] or _ANY_FOLDERS in others[1:]:
        return _meet_below(absolute, mine, other_absolute, others)
    if (absolute and len(others) > len(mine)) or (other_absolute and len(mine) > len(others)):
        return False
    return all(_component(a, b) for a, b in zip(mine, others, strict=False))


def _meet_below(absolute: bool, mine: Sequence[str], other_absolute: bool, others: Sequence[str]) -> bool:
    """Whether two patterns match a common name from here towards the root; one of them has folders of any number."""
    if not mine:
        return not absolute or all(part == _ANY_FOLDERS for part in others)
    if mine[0] == _ANY_FOLDERS:
        if _meet_below(absolute, mine[1:], other_absolute, others):
            return True
        return _meet_below(absolute, mine, other_absolute, others[1:]) if others else not other_absolute
    if not others or others[0] == _ANY_FOLDERS:
        return _meet_below(other_absolute, others, absolute, mine)
    return _component(mine[0], others[0]) and _meet_below(absolute, mine[1:], other_absolute, others[1:])


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
        """The items whose pattern shares a matching name with this one, in any order."""
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
    return one == other if not is_wild(one) and not is_wild(other) else _meet(_shape(one), _shape(other))


def _literal_head(pattern: str) -> str:
    """The part before the first wildcard."""
    return pattern[: min((pattern.find(letter) for letter in "*?[" if letter in pattern), default=len(pattern))]


class _Shape(NamedTuple):
    """A component between its stars."""

    pieces: tuple[tuple[_Class, ...], ...]
    """The pieces before, between and after the stars; one piece: no stars."""
    head: str
    """The first piece, if only letters are in it, and the last one as `tail`; else empty."""
    tail: str
    impossible: bool
    """True if it has a class without letters, and matches nothing."""


@lru_cache(maxsize=65536)
def _shape(pattern: str) -> _Shape:
    pieces: list[list[_Class]] = [[]]
    for token in _tokens(pattern):
        if token is _STAR:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return _Shape(
        tuple(map(tuple, pieces)),
        _letters(pieces[0]),
        _letters(pieces[-1]),
        any(not token.ranges for piece in pieces for token in piece),
    )


def _letters(piece: Sequence[_Class]) -> str:
    alone = all(len(token.ranges) == 1 and token.ranges[0][0] == token.ranges[0][1] for token in piece)
    return "".join(chr(token.ranges[0][0]) for token in piece) if alone else ""


def _meet(one: _Shape, other: _Shape) -> bool:
    """Whether two components have a common word.

    Two with stars have one if what precedes their first stars, and what follows their last ones, do not exclude each
    other: a word that begins and ends with the longer ones may hold all that stands between the stars of both, one
    after the other. If only one has stars, each piece between them is best placed as far to the left as it can be.
    """
    if one.impossible or other.impossible:
        return False
    stars, other_stars = len(one.pieces) > 1, len(other.pieces) > 1
    if stars and other_stars:
        head, other_head, tail, other_tail = one.head, other.head, one.tail, other.tail
        if head and other_head and not (head.startswith(other_head) or other_head.startswith(head)):
            return False
        if tail and other_tail and not (tail.endswith(other_tail) or other_tail.endswith(tail)):
            return False
        return _fit(one.pieces[0], other.pieces[0]) and _fit(one.pieces[-1][::-1], other.pieces[-1][::-1])
    if stars or other_stars:
        return _holds(other.pieces[0], one.pieces) if stars else _holds(one.pieces[0], other.pieces)
    return len(one.pieces[0]) == len(other.pieces[0]) and _fit(one.pieces[0], other.pieces[0])


def _fit(one: Sequence[_Class], other: Sequence[_Class]) -> bool:
    """Whether the beginnings of two pieces, as long as the shorter one, have a common word."""
    return all(a is b or _overlap(a, b) for a, b in zip(one, other, strict=False))


def _holds(word: Sequence[_Class], pieces: Sequence[Sequence[_Class]]) -> bool:
    """Whether a piece has a word that matches pieces with stars between them."""
    first, *inner, last = pieces
    begin, end = len(first), len(word) - len(last)
    if begin > end or not _fit(first, word) or not _fit(last, word[end:]):
        return False
    for piece in inner:
        while begin + len(piece) <= end and not _fit(piece, word[begin:]):
            begin += 1
        begin += len(piece)
        if begin > end:
            return False
    return True


def _overlap(one: _Class, other: _Class) -> bool:
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
