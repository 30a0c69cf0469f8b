"""Where bytes go: which rank writes what of the replicas, how a rank's stream is laid out, which file takes it. Pure.

A rank writes one stream: its share of the replicated arrays, then its own arrays and shards. The replicated bytes of
all arrays, taken as one row, are cut into as many equal shares as there are ranks, so shares are disjoint and differ
by an alignment at most. Streams of several ranks go into one file, at offsets that are prefix sums of their lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

BLOCK = 8 << 20
"""Bytes of a block: the unit of copying, of digests and of writing."""
PAGE = 4096
"""Streams begin and end at multiples of it, so that they can be written past the page cache."""
ALIGN = 64
"""Arrays begin at multiples of it in a stream."""


class Extent(NamedTuple):
    """Some bytes of an array in a rank's stream."""

    array: int
    """Number of the array."""
    start: int
    """First byte of it."""
    length: int
    offset: int
    """Where they stand in the stream."""


def up(value: int, unit: int) -> int:
    """The least multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


def shares(sizes: Sequence[int], ranks: int) -> list[list[Extent]]:
    """Which bytes of the replicated arrays, of `sizes` bytes, each rank writes, and where in its stream.

    `array` counts along `sizes`. Arrays of no bytes have no extent.
    """
    begins = [0]
    for size in sizes:
        begins.append(begins[-1] + up(size, ALIGN))
    step = up(-(-begins[-1] // ranks), ALIGN)
    found: list[list[Extent]] = []
    array = 0
    for rank in range(ranks):
        low, high = rank * step, min((rank + 1) * step, begins[-1])
        while array and begins[array] > low:
            array -= 1
        extents = []
        while array < len(sizes) and begins[array] < high:
            start = max(low - begins[array], 0)
            length = min(sizes[array], high - begins[array]) - start
            if length > 0:
                extents.append(Extent(array, start, length, begins[array] + start - low))
            array += 1
        found.append(extents)
    return found


def share_bytes(extents: Sequence[Extent]) -> int:
    """Bytes that a rank's share takes at the begin of its stream."""
    return up(extents[-1].offset + extents[-1].length, ALIGN) if extents else 0


def append(offset: int, sizes: Sequence[tuple[int, int]]) -> tuple[list[Extent], int]:
    """Lay whole arrays, given as (number, bytes), out from `offset` on; returns also where they end."""
    extents = []
    for array, size in sizes:
        if size:
            extents.append(Extent(array, 0, size, offset))
            offset += up(size, ALIGN)
    return extents, offset


def blocks(extents: Sequence[Extent], length: int, block: int = BLOCK) -> list[list[Extent]]:
    """The extents cut at the blocks of a stream of `length` bytes; `offset` then counts within the block."""
    found: list[list[Extent]] = [[] for _ in range(-(-length // block))]
    for extent in extents:
        start, offset, left = extent.start, extent.offset, extent.length
        while left:
            index, within = divmod(offset, block)
            size = min(left, block - within)
            found[index].append(Extent(extent.array, start, size, within))
            start, offset, left = start + size, offset + size, left - size
    return found


class Place(NamedTuple):
    """Where a rank's stream stands."""

    file: int
    offset: int


def places(lengths: Sequence[int], files: int) -> tuple[list[Place], list[int]]:
    """Where each rank's stream goes in `files` files (at most one per rank), and the files' sizes.

    Neighbouring ranks share a file; offsets are the prefix sums of the lengths, at multiples of a page.
    """
    count = len(lengths)
    files = max(1, min(files, count))
    sizes = [0] * files
    found = []
    for rank, length in enumerate(lengths):
        file = rank * files // count
        found.append(Place(file, sizes[file]))
        sizes[file] += up(length, PAGE)
    return found, sizes


def names_of(ranks: int) -> int:
    """Files and folders that a version has at most: data and index of each rank, manifest, folder and link."""
    return 2 * ranks + 3


def led_by(rank: int, files: Sequence[str]) -> list[int]:
    """The streams that a rank writes if each file has a leader; `files` says where each rank's stream goes.

    The first rank of a file leads, so what it writes is in one piece, from the begin of the file to its end.
    """
    return [stream for stream, file in enumerate(files) if files.index(file) == rank]
