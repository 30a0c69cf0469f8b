"""Which bytes of a file ranks write or read, and on which hosts these lie: equal pieces, in the order of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Range = tuple[int, int]
"""The first byte, and the one after the last."""
Ranges = tuple[Range, ...]
"""In order and apart."""


Rest = Sequence[tuple[int, int]]
"""Hosts, and how many bytes each of them has of what is wanted."""


def whole(size: int) -> Ranges:
    """All bytes of a file."""
    return joined([((0, size),)])


def piece(size: int, ranks: Iterable[int], of: int) -> Ranges:
    """The bytes of some of so many ranks."""
    return joined([((size * rank // of, size * (rank + 1) // of),) for rank in ranks])


def joined(some: Iterable[Ranges]) -> Ranges:
    """All of these together."""
    found: list[Range] = []
    for begin, end in sorted(one for ranges in some for one in ranges):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif begin < end:
            found.append((begin, end))
    return tuple(found)


def length(ranges: Ranges) -> int:
    """How many bytes they are."""
    return sum(end - begin for begin, end in ranges)


def both(some: Ranges, others: Ranges) -> int:
    """How many bytes are in both."""
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in some for b in others)


def elsewhere(wanted: Ranges, lies: Mapping[int, Ranges], here: Iterable[int]) -> Rest:
    """The other hosts that have some of the bytes, and how many. `lies`: by host; `here`: hosts that need not send."""
    without = set(here)
    found = ((host, both(wanted, ranges)) for host, ranges in lies.items() if host not in without)
    return [(host, count) for host, count in found if count]
