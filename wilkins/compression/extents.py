"""Where elements of datasets lie in the bytes of an HDF5 file, of which rules say that they may be compressed.

Only bytes that hold nothing but elements count: contiguous datasets, and chunks without filters. Beside such bytes a
file holds checksums of its metadata alone. So these bytes may change, and the rest of the file stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import h5py
import numpy as np

from wilkins.compression.bounds import Rule, rules_of, span
from wilkins.compression.errors import CannotCopy
from wilkins.compression.objects import (
    blocks,
    chunk_of,
    holds_pointers,
    is_hollow,
    names_of,
    number_of,
    text,
)
from wilkins.contents.in_memory import opened

_LEAST = 4096
"""Bytes below which a dataset is left as it is."""
_BLOCK = 1 << 20
"""Bytes of a block, at most: what a core's cache holds."""


class Block(NamedTuple):
    """Bytes of a file that are compressed as one."""

    begin: int
    end: int
    shape: tuple[int, int, int]
    """Of its elements."""
    kind: str
    """NumPy's name of their type: ``<f4``, ``<f8``, or bytes of a size, such as ``V12``."""
    bound: float
    """The largest difference of an element; 0: none."""


def blocks_of(data: memoryview, rules: Sequence[Rule]) -> tuple[list[Block], set[Rule]]:
    """The blocks of an HDF5 file that rules let be compressed, in the order of their places, and the rules that do so;
    no blocks overlap.

    Args:
        data: the bytes of the file.
        rules: the first one that fits a path counts; of those of several paths of a dataset, the strictest.

    Raises:
        CannotCopy: this is no HDF5 file, or one whose datasets are nowhere that could be found.
    """
    try:
        return _found(data, rules)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise error if isinstance(error, CannotCopy) else CannotCopy(f"HDF5 cannot read it: {error}") from error


def _found(data: memoryview, rules: Sequence[Rule]) -> tuple[list[Block], set[Rule]]:
    found, used = list[Block](), set[Rule]()
    with h5py.File(opened(data)) as file:
        if file.userblock_size:
            raise CannotCopy("it has a user block")
        for paths in names_of(file).values():
            fitting = rules_of(map(text, paths), rules)
            item = h5py.h5o.open(file.id, paths[0]) if fitting else None
            if isinstance(item, h5py.h5d.DatasetID):
                some = list(_of_dataset(item, fitting))
                found += some
                used |= set(fitting if some else ())
    found.sort()
    ends = [0, *(block.end for block in found)]
    if any(block.begin < end for block, end in zip(found, ends, strict=False)) or ends[-1] > len(data):
        raise CannotCopy("its datasets lie over each other, or beyond its end")
    return found, used


def _of_dataset(dataset: h5py.h5d.DatasetID, rules: Sequence[Rule]) -> Iterator[Block]:
    kind, properties = dataset.get_type(), dataset.get_create_plist()
    if not dataset.shape or holds_pointers(kind) or properties.get_nfilters() or properties.get_external_count():
        return
    size = kind.get_size()
    if math.prod(dataset.shape) * size < _LEAST or is_hollow(dataset):
        return
    if properties.get_layout() == h5py.h5d.CONTIGUOUS:
        shape, offset = tuple(dataset.shape), dataset.get_offset()
        runs = iter([] if offset is None else [(int(offset), shape)])
    elif properties.get_layout() == h5py.h5d.CHUNKED:
        shape = tuple(properties.get_chunk())
        runs = _runs(_chunks(dataset), math.prod(shape) * size, shape)
    else:
        return
    bound, name = _bound(dataset, rules)
    for begin, one in runs:
        yield from _cut(begin, one, size, name, bound)


def _bound(dataset: h5py.h5d.DatasetID, rules: Sequence[Rule]) -> tuple[float, str]:
    """The bound of a dataset, and the type of its elements, as NumPy has it."""
    number = number_of(dataset.get_type())
    plain = f"V{dataset.get_type().get_size()}"
    if number is None or not all(rule.lossy for rule in rules):
        return 0.0, plain
    low, high = math.inf, -math.inf
    if any(rule.relative is not None for rule in rules):
        for _, block in blocks(dataset, chunk_of(dataset)):
            one = span(block.view(number))
            low, high = min(low, one[0]), max(high, one[1])
    bound = min(rule.bound(np.dtype(number), low, high) for rule in rules)
    return (bound, number) if bound > 0 else (0.0, plain)


def _chunks(dataset: h5py.h5d.DatasetID) -> list[int]:
    """Where its chunks are, in the order of their places."""
    found: list[Any] = []
    if hasattr(dataset, "chunk_iter"):
        dataset.chunk_iter(found.append)
    else:
        found = [dataset.get_chunk_info(number) for number in range(dataset.get_num_chunks())]
    return sorted(one.byte_offset for one in found if one.byte_offset is not None)


def _runs(places: Sequence[int], length: int, shape: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Chunks that follow each other without a gap, as one array: where it begins, and its shape."""
    begin, count = 0, 0
    for place in places:
        if count and place != begin + count * length:
            yield begin, (count * shape[0], *shape[1:])
            count = 0
        begin, count = (begin, count + 1) if count else (place, 1)
    if count:
        yield begin, (count * shape[0], *shape[1:])


def _cut(begin: int, shape: tuple[int, ...], size: int, kind: str, bound: float) -> Iterator[Block]:
    """An array in blocks: as many rows, of as many axes, as a block holds."""
    axis = next((k for k in range(len(shape)) if math.prod(shape[k:]) * size <= _BLOCK), len(shape))
    row = shape[axis:]
    length = math.prod(row) * size
    rows = math.prod(shape[:axis])
    each = max(1, _BLOCK // length)
    for first in range(0, rows, each):
        count = min(each, rows - first)
        *above, down, across = (1, count, *row) if axis else (1, *row)
        at = begin + first * length
        yield Block(at, at + count * length, (math.prod(above), down, across), kind, bound)
