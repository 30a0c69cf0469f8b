"""The objects of an HDF5 file, by h5py's low level: names in order, types, and elements as they stand in the file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from wilkins.compression.errors import CannotCopy

_CHUNK = 1 << 22
"""Bytes of a chunk, about, where the dataset has none that suit."""
_CHUNKS = range(1 << 16, 1 << 24)
"""Bytes of chunks that are kept as they are."""
_MOST_NAMES = 100_000
"""That the objects of a file have beside their first ones; groups with several give all that is in them several."""
_HOLLOW = 1 << 30
"""Bytes that may be read of any dataset, however few of them were written."""


def address(item: Any) -> int:
    return int(h5py.h5o.get_info(item).addr)


def links(group: h5py.h5g.GroupID) -> list[bytes]:
    """Names of its members, in the order of their creation where that is known."""
    names: list[bytes] = []
    ordered = group.get_create_plist().get_link_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
    group.links.iterate(names.append, idx_type=h5py.h5.INDEX_CRT_ORDER if ordered else h5py.h5.INDEX_NAME)
    return names


def names_of(file: h5py.File) -> dict[int, list[bytes]]:
    """All paths of each object, by its address; those that go through a group twice are left out.

    Raises:
        CannotCopy: there are very many.
    """
    found: dict[int, list[bytes]] = {}
    root = h5py.h5g.open(file.id, b"/")
    waiting: list[tuple[h5py.h5g.GroupID, bytes, frozenset[int]]] = [(root, b"", frozenset([address(root)]))]
    most = _MOST_NAMES
    while waiting:
        group, path, above = waiting.pop()
        for name in links(group):
            if group.links.get_info(name).type != h5py.h5l.TYPE_HARD:
                continue
            info, here = h5py.h5o.get_info(group, name), path + b"/" + name
            most -= int(info.addr) in found
            found.setdefault(int(info.addr), []).append(here)
            if info.type == h5py.h5o.TYPE_GROUP and info.addr not in above:
                waiting.append((h5py.h5g.open(group, name), here, above | {int(info.addr)}))
        if most < 0:
            raise CannotCopy(f"its objects have more than {_MOST_NAMES} further names")
    return found


def attribute_names(item: Any) -> list[bytes]:
    names: list[bytes] = []
    ordered = False
    if not isinstance(item, h5py.h5t.TypeID):
        ordered = bool(item.get_create_plist().get_attr_creation_order() & h5py.h5p.CRT_ORDER_TRACKED)
    h5py.h5a.iterate(item, lambda name, *_: names.append(name), index_type=_order(ordered))
    return names


def _order(by_creation: bool) -> int:
    return int(h5py.h5.INDEX_CRT_ORDER if by_creation else h5py.h5.INDEX_NAME)


def holds_pointers(kind: h5py.h5t.TypeID) -> bool:
    """Whether its values lie elsewhere: texts and lists of any length, references."""
    if kind.detect_class(h5py.h5t.REFERENCE) or kind.detect_class(h5py.h5t.VLEN):
        return True
    if isinstance(kind, h5py.h5t.TypeStringID):
        return bool(kind.is_variable_str())
    if isinstance(kind, h5py.h5t.TypeCompoundID):
        return any(holds_pointers(kind.get_member_type(number)) for number in range(kind.get_nmembers()))
    if isinstance(kind, h5py.h5t.TypeArrayID):
        return holds_pointers(kind.get_super())
    return False


def values(item: Any) -> Any:
    """Everything in a dataset or an attribute, as h5py has it."""
    found = np.empty(item.shape, item.dtype)
    if isinstance(item, h5py.h5a.AttrID):
        item.read(found)
    elif found.size:
        item.read(h5py.h5s.ALL, h5py.h5s.ALL, found)
    return found


def raw(attribute: h5py.h5a.AttrID) -> NDArray[Any]:
    kind = attribute.get_type()
    found = np.zeros(attribute.get_space().shape, f"V{kind.get_size()}")
    attribute.read(found, mtype=kind)
    return found


def number_of(kind: h5py.h5t.TypeID) -> str | None:
    """NumPy's name of a type that SZ3 takes."""
    known = ((h5py.h5t.IEEE_F32LE, "<f4"), (h5py.h5t.IEEE_F64LE, "<f8"))
    return next((name for one, name in known if kind.equal(one)), None)


def chunk_of(dataset: h5py.h5d.DatasetID) -> tuple[int, ...]:
    """The shape of a dataset's chunks in a copy: its own, or whole rows of a few MB."""
    size, properties = dataset.get_type().get_size(), dataset.get_create_plist()
    if properties.get_layout() == h5py.h5d.CHUNKED:
        own = tuple(properties.get_chunk())
        if math.prod(own) * size in _CHUNKS:
            return _widened(dataset, own)
    shape, chunk = dataset.shape, []
    room = max(1, _CHUNK // size)
    for length in reversed(shape):
        chunk.append(max(1, min(length, room)))
        room = max(1, room // chunk[-1])
    return _widened(dataset, tuple(reversed(chunk)))


def _widened(dataset: h5py.h5d.DatasetID, chunk: tuple[int, ...]) -> tuple[int, ...]:
    """A chunk that SZ3's filter compresses: of one row, as (1, 1000), it takes the first length for the only one."""
    long = [axis for axis, side in enumerate(chunk) if side > 1]
    if chunk[0] > 1 or len(long) != 1 or number_of(dataset.get_type()) is None:
        return chunk
    most = dataset.get_space().get_simple_extent_dims(True)
    wide = [axis for axis, one in enumerate(most) if axis not in long and (one > 1 or one == h5py.h5s.UNLIMITED)]
    sides = list(chunk)
    if wide:
        sides[wide[0]], sides[long[0]] = 2, min(sides[long[0]], max(1, _CHUNK // dataset.get_type().get_size()))
    return tuple(sides)


def is_hollow(dataset: h5py.h5d.DatasetID) -> bool:
    """Whether it is large, and most of its elements were never written, or lie in other files: reading all of them
    takes far longer than the size of its own file lets expect."""
    size, properties = dataset.get_type().get_size(), dataset.get_create_plist()
    whole = math.prod(dataset.shape or (0,)) * size
    if whole < _HOLLOW:
        return False
    if properties.get_layout() == h5py.h5d.CHUNKED:
        return bool(dataset.get_num_chunks() * math.prod(properties.get_chunk()) * size < whole / 4)
    return bool(dataset.get_storage_size() < whole / 4)


def blocks(dataset: h5py.h5d.DatasetID, chunk: Sequence[int]) -> Iterator[tuple[tuple[int, ...], NDArray[Any]]]:
    """A dataset's elements as they stand in the file, chunk by chunk, with where each begins."""
    kind = dataset.get_type()
    if dataset.shape is None:
        return
    if not dataset.shape:
        found = np.zeros((), f"V{kind.get_size()}")
        dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, found, kind)
        yield (), found
        return
    for offset in product(*(range(0, length, side) for length, side in zip(dataset.shape, chunk, strict=True))):
        shape = tuple(min(side, length - at) for side, length, at in zip(chunk, dataset.shape, offset, strict=True))
        place = h5py.h5s.create_simple(dataset.shape)
        place.select_hyperslab(offset, shape)
        found = np.empty(shape, f"V{kind.get_size()}")
        dataset.read(h5py.h5s.create_simple(shape), place, found, kind)
        yield offset, found


def extent(item: Any) -> tuple[Any, ...]:
    space = item.get_space()
    kind = space.get_simple_extent_type()
    return kind, *(
        (space.get_simple_extent_dims(), space.get_simple_extent_dims(True)) if kind == h5py.h5s.SIMPLE else ()
    )


def fill(dataset: h5py.h5d.DatasetID) -> bytes:
    if holds_pointers(dataset.get_type()):
        return b""
    value = np.zeros((), f"V{dataset.get_type().get_size()}")
    properties = dataset.get_create_plist()
    if properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        value = np.zeros((), dataset.dtype)
        properties.get_fill_value(value)
    return value.tobytes()


def text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def shown(path: bytes) -> str:
    return repr(text(path or b"/"))
