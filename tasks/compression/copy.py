"""A smaller copy of an HDF5 file: chosen datasets compressed, all else as it was, compared before it counts."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.compression.bounds import Difference, Rule, difference, span
from wilkins.tasks.compression.compressor import Compressor
from wilkins.tasks.compression.worker import filters
from wilkins.tasks.errors import TaskError

_LEAST = 4096
"""Bytes below which a dataset is left as it is."""
_CHUNK = 1 << 22
"""Bytes of a chunk, about, where the dataset has none that suit."""
_CHUNKS = range(1 << 16, 1 << 24)
"""Bytes of chunks that are kept as they are."""
_FORMATS = {2: h5py.h5f.LIBVER_V18, 3: h5py.h5f.LIBVER_V110}
"""By the version of a file's superblock: the oldest HDF5 that its objects are written for."""
_MOST_AXES = 4
"""Of a dataset that SZ3 takes."""


class CannotCopy(TaskError):
    """The file holds what a copy would not keep; says what. It can still be copied byte for byte."""


class Compressed(NamedTuple):
    """What became of a dataset."""

    dset: str
    bytes: int
    """Its elements'."""
    stored: int
    """What they take in the copy."""
    bound: float
    """The largest difference that was allowed; 0: none."""
    apart: Difference
    low: float
    high: float
    blocks: int
    kept: int
    """Of the blocks, those that keep every bit though there is a bound: SZ3 would have broken it, or gains nothing."""


def compressed_copy(
    source: h5py.File, target: Path, rules: Sequence[Rule], compressor: Compressor
) -> tuple[Compressed, ...]:
    """Copy a file, with the datasets compressed that the rules name; the first rule that fits a path counts.

    Every element of the copy is read again and compared: a dataset with a bound by that, everything else by its bits.

    Args:
        target: the new file; it is not to exist.

    Raises:
        CannotCopy: the file holds something that the copy would not have; `target` may exist.
        OSError: a file cannot be read or written.
    """
    if source.userblock_size:
        raise CannotCopy("the file has a user block")
    properties, access = _properties(source), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(
        _FORMATS.get(properties.get_version()[0], h5py.h5f.LIBVER_EARLIEST), h5py.h5f.LIBVER_LATEST
    )
    made = h5py.h5f.create(os.fsencode(target), h5py.h5f.ACC_EXCL, properties, access)
    with h5py.File(made) as copy:
        work = _Copy(source, copy, rules, compressor)
        work.all()
    with h5py.File(target) as copy:
        bounds = {one.dset: one.bound for one in work.found}
        apart = _Comparison(source, copy, bounds).all()
        stored = {one.dset: copy[one.dset].id.get_storage_size() for one in work.found}
    return tuple(one._replace(apart=apart[one.dset], stored=stored[one.dset]) for one in work.found)


class _Copy:
    """One copy being made."""

    def __init__(self, source: h5py.File, copy: h5py.File, rules: Sequence[Rule], compressor: Compressor) -> None:
        self._source, self._copy = source, copy
        self._rules = rules
        self._compressor = compressor
        self._made: dict[int, bytes] = {}
        """By the address of an object: its path."""
        self._objects: list[tuple[Any, Any, bytes]] = []
        self.found: list[Compressed] = []

    def all(self) -> None:
        """Make it: first all objects, then what may refer to any of them."""
        root = h5py.h5g.open(self._source.id, b"/")
        self._made[_address(root)] = b"/"
        new = h5py.h5g.open(self._copy.id, b"/")
        self._objects.append((root, new, b"/"))
        self._group(root, new, b"")
        for before, after, path in self._objects:
            self._attributes(before, after, path)
            if isinstance(before, h5py.h5d.DatasetID) and before.get_type().detect_class(h5py.h5t.REFERENCE):
                after.write(h5py.h5s.ALL, h5py.h5s.ALL, self._mapped(_values(before), path))

    def _group(self, before: h5py.h5g.GroupID, after: h5py.h5g.GroupID, path: bytes) -> None:
        for name in _links(before):
            info = before.links.get_info(name)
            here = path + b"/" + name
            own = h5py.h5p.create(h5py.h5p.LINK_CREATE)
            own.set_char_encoding(info.cset)
            if info.type == h5py.h5l.TYPE_SOFT:
                after.links.create_soft(name, before.links.get_val(name), own)
            elif info.type == h5py.h5l.TYPE_EXTERNAL:
                after.links.create_external(name, *before.links.get_val(name), own)
            elif info.type == h5py.h5l.TYPE_HARD:
                item = h5py.h5o.open(before, name)
                if (known := self._made.get(_address(item))) is not None:
                    after.links.create_hard(name, self._copy.id, known, own)
                else:
                    self._made[_address(item)] = here
                    self._object(item, before, after, name, here, own)
            else:
                raise CannotCopy(f"{_shown(here)} is a link of a kind that this HDF5 does not know")

    def _object(
        self,
        item: Any,
        before: h5py.h5g.GroupID,
        after: h5py.h5g.GroupID,
        name: bytes,
        path: bytes,
        link: h5py.h5p.PropLCID,
    ) -> None:
        if isinstance(item, h5py.h5g.GroupID):
            new: Any = h5py.h5g.create(after, name, link, gcpl=h5py.Group(item).id.get_create_plist())
            self._objects.append((item, new, path))
            self._group(item, new, path)
            return
        rule = self._rule(item, path) if isinstance(item, h5py.h5d.DatasetID) else None
        if rule is not None:
            new = self._dataset(item, after, name, path, link, rule)
        else:
            plain = h5py.h5p.create(h5py.h5p.OBJECT_COPY)
            plain.set_copy_object(h5py.h5o.COPY_WITHOUT_ATTR_FLAG)
            h5py.h5o.copy(before, name, after, name, plain, link)
            new = h5py.h5o.open(after, name)
        self._objects.append((item, new, path))

    def _rule(self, dataset: h5py.h5d.DatasetID, path: bytes) -> Rule | None:
        """How a dataset is compressed; None: not at all."""
        if dataset.get_create_plist().get_external_count():
            raise CannotCopy(f"{_shown(path)} has its data in other files")
        kind = dataset.get_type()
        movable = not (_holds_pointers(kind) or dataset.get_create_plist().get_layout() == h5py.h5d.VIRTUAL)
        size = math.prod(dataset.shape or ()) * kind.get_size()
        if not movable or not dataset.shape or size < _LEAST or kind.committed():
            return None
        return next((rule for rule in self._rules if rule.means(_text(path))), None)

    def _dataset(
        self,
        before: h5py.h5d.DatasetID,
        group: h5py.h5g.GroupID,
        name: bytes,
        path: bytes,
        link: h5py.h5p.PropLCID,
        rule: Rule,
    ) -> h5py.h5d.DatasetID:
        kind = before.get_type()
        low, high = math.inf, -math.inf
        number = _number_of(kind)
        if number is not None:
            for _, block in _blocks(before, _chunk_of(before)):
                one = span(block.view(number))
                low, high = min(low, one[0]), max(high, one[1])
        fits = number is not None and len(before.shape) <= _MOST_AXES and low <= high
        bound = rule.bound(np.dtype(number), low, high) if fits and number is not None else 0.0
        properties = before.get_create_plist().copy()
        properties.remove_filter(h5py.h5z.FILTER_ALL)
        chunk = _chunk_of(before)
        properties.set_chunk(chunk)
        properties.set_obj_track_times(False)  # it would have that of the copy
        filters(properties, bound)
        after = h5py.h5d.create(group, name, kind, before.get_space(), properties, link)
        blocks = kept = 0
        for offset, block in _blocks(before, chunk):
            blocks += 1
            if bound and number is not None:
                chunked = _padded(block.view(number), chunk)
                done = self._compressor.encoded(chunked, bound)
                kept += not done.lossy
                after.write_direct_chunk(offset, done.data, filter_mask=done.mask)
            else:
                place = h5py.h5s.create_simple(before.shape)
                place.select_hyperslab(offset, block.shape)
                after.write(h5py.h5s.create_simple(block.shape), place, block, kind)
        self.found.append(
            Compressed(
                _text(path),
                math.prod(before.shape) * kind.get_size(),
                0,
                bound,
                Difference(),
                low,
                high,
                blocks,
                kept,
            )
        )
        return after

    def _attributes(self, before: Any, after: Any, path: bytes) -> None:
        for name in _attribute_names(before):
            old = h5py.h5a.open(before, name)
            kind = old.get_type()
            new = h5py.h5a.create(after, name, kind, old.get_space())
            if old.get_space().get_simple_extent_type() == h5py.h5s.NULL:
                continue
            if _holds_pointers(kind):
                new.write(self._mapped(_values(old), path))
            else:
                new.write(_raw(old), mtype=kind)

    def _mapped(self, value: Any, path: bytes) -> Any:
        """Values with references to the copy's objects in the place of those to the source's."""
        if isinstance(value, h5py.RegionReference | h5py.Reference):
            return self._reference(value, path)
        if isinstance(value, np.ndarray) and value.dtype.names:
            made = np.empty_like(value)
            for name in value.dtype.names:
                made[name] = self._mapped(value[name], path)
            return made
        if isinstance(value, np.ndarray) and value.dtype == object:
            made = np.empty_like(value)
            for place in np.ndindex(value.shape):
                made[place] = self._mapped(value[place], path)
            return made
        return value

    def _reference(self, reference: Any, path: bytes) -> Any:
        if not reference:
            return reference
        try:
            item = h5py.h5r.dereference(reference, self._source.id)
            name = self._made[_address(item)]
            if isinstance(reference, h5py.RegionReference):
                region = h5py.h5r.get_region(reference, self._source.id)
                return h5py.h5r.create(self._copy.id, name, h5py.h5r.DATASET_REGION, region)
            return h5py.h5r.create(self._copy.id, name, h5py.h5r.OBJECT)
        except (KeyError, ValueError, RuntimeError) as error:
            raise CannotCopy(f"{_shown(path)} refers to an object that has no name in the file") from error


class _Comparison:
    """Of a file and its copy."""

    def __init__(self, before: h5py.File, after: h5py.File, bounds: Mapping[str, float]) -> None:
        self._before, self._after = before, after
        self._bounds = bounds
        self._apart: dict[str, Difference] = {}
        self._seen: dict[int, int] = {}
        """By the address of an object: that of the copy's."""
        self._pairs: list[tuple[Any, Any, bytes]] = []

    def all(self) -> dict[str, Difference]:
        """How the compressed datasets differ.

        Raises:
            CannotCopy: they differ by more than they may, or anything else differs.
        """
        self._objects(h5py.h5g.open(self._before.id, b"/"), h5py.h5g.open(self._after.id, b"/"), b"")
        for before, after, path in self._pairs:
            self._attributes(before, after, path)
            if isinstance(before, h5py.h5d.DatasetID):
                self._datasets(before, after, path)
        return self._apart

    def _objects(self, before: Any, after: Any, path: bytes) -> None:
        known = self._seen.setdefault(_address(before), _address(after))
        self._same(known == _address(after), path, "is another object")
        self._same(type(before) is type(after), path, "is of another kind")
        self._pairs.append((before, after, path))
        if isinstance(before, h5py.h5g.GroupID):
            self._groups(before, after, path)
        elif isinstance(before, h5py.h5t.TypeID):
            self._same(before.equal(after), path, "is another type")

    def _groups(self, before: h5py.h5g.GroupID, after: h5py.h5g.GroupID, path: bytes) -> None:
        names = _links(before)
        self._same(names == _links(after), path, "has other members")
        for name in names:
            one, other = before.links.get_info(name), after.links.get_info(name)
            here = path + b"/" + name
            self._same((one.type, one.cset) == (other.type, other.cset), here, "is another link")
            if one.type != h5py.h5l.TYPE_HARD:
                self._same(before.links.get_val(name) == after.links.get_val(name), here, "leads elsewhere")
                continue
            first = h5py.h5o.open(before, name)
            if _address(first) in self._seen:
                known = self._seen[_address(first)] == _address(h5py.h5o.open(after, name))
                self._same(known, here, "is another object")
            else:
                self._objects(first, h5py.h5o.open(after, name), here)

    def _datasets(self, before: h5py.h5d.DatasetID, after: h5py.h5d.DatasetID, path: bytes) -> None:
        kind = before.get_type()
        self._same(kind.equal(after.get_type()), path, "has another type")
        self._same(_extent(before) == _extent(after), path, "has another shape")
        self._same(_fill(before) == _fill(after), path, "has another fill value")
        if _holds_pointers(kind):
            self._same(self._alike(_values(before), _values(after)), path, "has other values")
            return
        bound = self._bounds.get(_text(path), 0.0)
        total = Difference()
        number = _number_of(kind) if bound else None
        chunk = _chunk_of(before) if before.shape else ()
        for (_, one), (_, other) in zip(_blocks(before, chunk), _blocks(after, chunk), strict=True):
            if number is not None:
                one, other = one.view(number), other.view(number)
            apart = difference(one, other, bound)
            if apart is None:
                raise CannotCopy(f"{_shown(path)} came back changed{' by more than its bound' if bound else ''}")
            total |= apart
        self._apart[_text(path)] = total

    def _attributes(self, before: Any, after: Any, path: bytes) -> None:
        names = _attribute_names(before)
        self._same(names == _attribute_names(after), path, "has other attributes")
        for name in names:
            one, other = h5py.h5a.open(before, name), h5py.h5a.open(after, name)
            kind = one.get_type()
            same = kind.equal(other.get_type()) and _extent(one) == _extent(other)
            if same and _extent(one)[0] != h5py.h5s.NULL:
                same = (
                    self._alike(_values(one), _values(other))
                    if _holds_pointers(kind)
                    else _raw(one).tobytes() == _raw(other).tobytes()
                )
            self._same(same, path, f"has another attribute {_text(name)!r}")

    def _alike(self, one: Any, other: Any) -> bool:
        """Whether values are the same, references by what they refer to."""
        if isinstance(one, h5py.Reference | h5py.RegionReference):
            same = bool(one) == bool(other)
            return same and (not one or self._leads(one, self._before) == self._leads(other, self._after))
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            if one.shape != other.shape or one.dtype.names != other.dtype.names:
                return False
            if one.dtype.names:
                return all(self._alike(one[name], other[name]) for name in one.dtype.names)
            if one.dtype == object:
                return all(self._alike(one[place], other[place]) for place in np.ndindex(one.shape))
            return one.dtype == other.dtype and one.tobytes() == other.tobytes()
        return bool(one == other)

    def _leads(self, reference: Any, file: h5py.File) -> Any:
        address = _address(h5py.h5r.dereference(reference, file.id))
        target = self._seen.get(address, -1) if file is self._before else address
        if not isinstance(reference, h5py.RegionReference):
            return target
        region = h5py.h5r.get_region(reference, file.id)
        return target, region.get_select_npoints(), region.get_select_bounds() if region.get_select_npoints() else None

    def _same(self, same: bool, path: bytes, what: str) -> None:
        if not same:
            raise CannotCopy(f"in the copy, {_shown(path)} {what}")


def _properties(file: h5py.File) -> h5py.h5p.PropFCID:
    """Those by which a file was made, with those of its root group, which HDF5 does not give with them."""
    properties, root = file.id.get_create_plist(), h5py.h5g.open(file.id, b"/").get_create_plist()
    properties.set_link_creation_order(root.get_link_creation_order())
    properties.set_attr_creation_order(root.get_attr_creation_order())
    return properties


def _address(item: Any) -> int:
    return int(h5py.h5o.get_info(item).addr)


def _links(group: h5py.h5g.GroupID) -> list[bytes]:
    """Names of its members, in the order of their creation where that is known."""
    names: list[bytes] = []
    ordered = group.get_create_plist().get_link_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
    group.links.iterate(names.append, idx_type=h5py.h5.INDEX_CRT_ORDER if ordered else h5py.h5.INDEX_NAME)
    return names


def _attribute_names(item: Any) -> list[bytes]:
    names: list[bytes] = []
    ordered = False
    if not isinstance(item, h5py.h5t.TypeID):
        ordered = bool(item.get_create_plist().get_attr_creation_order() & h5py.h5p.CRT_ORDER_TRACKED)
    h5py.h5a.iterate(item, lambda name, *_: names.append(name), index_type=_order(ordered))
    return names


def _order(by_creation: bool) -> int:
    return int(h5py.h5.INDEX_CRT_ORDER if by_creation else h5py.h5.INDEX_NAME)


def _holds_pointers(kind: h5py.h5t.TypeID) -> bool:
    """Whether its values lie elsewhere: texts and lists of any length, references."""
    if kind.detect_class(h5py.h5t.REFERENCE) or kind.detect_class(h5py.h5t.VLEN):
        return True
    if isinstance(kind, h5py.h5t.TypeStringID):
        return bool(kind.is_variable_str())
    if isinstance(kind, h5py.h5t.TypeCompoundID):
        return any(_holds_pointers(kind.get_member_type(number)) for number in range(kind.get_nmembers()))
    if isinstance(kind, h5py.h5t.TypeArrayID):
        return _holds_pointers(kind.get_super())
    return False


def _values(item: Any) -> Any:
    """Everything in a dataset or an attribute, as h5py has it."""
    found = np.empty(item.shape, item.dtype)
    if isinstance(item, h5py.h5a.AttrID):
        item.read(found)
    elif found.size:
        item.read(h5py.h5s.ALL, h5py.h5s.ALL, found)
    return found


def _raw(attribute: h5py.h5a.AttrID) -> NDArray[Any]:
    kind = attribute.get_type()
    found = np.zeros(attribute.get_space().shape, f"V{kind.get_size()}")
    attribute.read(found, mtype=kind)
    return found


def _number_of(kind: h5py.h5t.TypeID) -> str | None:
    """NumPy's name of a type that SZ3 takes."""
    known = ((h5py.h5t.IEEE_F32LE, "<f4"), (h5py.h5t.IEEE_F64LE, "<f8"))
    return next((name for one, name in known if kind.equal(one)), None)


def _chunk_of(dataset: h5py.h5d.DatasetID) -> tuple[int, ...]:
    """The shape of a dataset's chunks in a copy: its own, or whole rows of a few MB."""
    size, properties = dataset.get_type().get_size(), dataset.get_create_plist()
    if properties.get_layout() == h5py.h5d.CHUNKED:
        own = tuple(properties.get_chunk())
        if math.prod(own) * size in _CHUNKS:
            return own
    shape, chunk = dataset.shape, []
    room = max(1, _CHUNK // size)
    for length in reversed(shape):
        chunk.append(max(1, min(length, room)))
        room = max(1, room // chunk[-1])
    return tuple(reversed(chunk))


def _blocks(dataset: h5py.h5d.DatasetID, chunk: Sequence[int]) -> Iterator[tuple[tuple[int, ...], NDArray[Any]]]:
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


def _padded(block: NDArray[Any], chunk: Sequence[int]) -> NDArray[Any]:
    """A block as large as a chunk: beyond the dataset's end stand its last elements again, which compresses well."""
    more = [(0, side - length) for side, length in zip(chunk, block.shape, strict=True)]
    return np.pad(block, more, mode="edge") if any(after for _, after in more) else block


def _extent(item: Any) -> tuple[Any, ...]:
    space = item.get_space()
    kind = space.get_simple_extent_type()
    return kind, *(
        (space.get_simple_extent_dims(), space.get_simple_extent_dims(True)) if kind == h5py.h5s.SIMPLE else ()
    )


def _fill(dataset: h5py.h5d.DatasetID) -> bytes:
    if _holds_pointers(dataset.get_type()):
        return b""
    value = np.zeros((), f"V{dataset.get_type().get_size()}")
    properties = dataset.get_create_plist()
    if properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        value = np.zeros((), dataset.dtype)
        properties.get_fill_value(value)
    return value.tobytes()


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _shown(path: bytes) -> str:
    return repr(_text(path or b"/"))
