"""A smaller copy of an HDF5 file: chosen datasets compressed, all else as it was."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from wilkins.compression.bounds import Difference, Rule, rules_of, span
from wilkins.compression.errors import CannotCopy
from wilkins.compression.objects import (
    address,
    attribute_names,
    blocks,
    chunk_of,
    holds_pointers,
    is_hollow,
    links,
    names_of,
    number_of,
    raw,
    shown,
    text,
    values,
)
from wilkins.tasks.compression.comparison import differences
from wilkins.tasks.compression.compressor import Compressor
from wilkins.tasks.compression.worker import filters

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_LEAST = 4096
"""Bytes below which a dataset is left as it is."""
_FORMATS = {2: h5py.h5f.LIBVER_V18, 3: h5py.h5f.LIBVER_V110}
"""By the version of a file's superblock: the oldest HDF5 that its objects are written for."""
_MOST_AXES = 4
"""Of a dataset that SZ3 takes."""


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
    rules: tuple[Rule, ...]
    """Those that fit its names."""


def compressed_copy(
    source: h5py.File, target: Path, rules: Sequence[Rule], compressor: Compressor
) -> tuple[Compressed, ...]:
    """Copy a file, with the datasets compressed that the rules name; the first rule that fits a path counts. Of those
    of several paths of a dataset, the strictest.

    Every element of the copy is read again and compared: a dataset with a bound by that, everything else by its bits.

    Args:
        target: the new file; it is not to exist.

    Raises:
        CannotCopy: the file holds something that the copy would not have; `target` may exist.
        OSError: a file cannot be read or written.
    """
    if source.userblock_size:
        raise CannotCopy("the file has a user block")
    with _New(target) as new:
        with h5py.File(_created(new, source)) as copy:
            work = _Copy(source, copy, rules, compressor)
            work.all()
        if new.error is not None:
            raise new.error
    with h5py.File(target) as copy:
        bounds = {one.dset: one.bound for one in work.found}
        apart = differences(source, copy, bounds)
        stored = {one.dset: copy[one.dset].id.get_storage_size() for one in work.found}
    return tuple(one._replace(apart=apart[one.dset], stored=stored[one.dset]) for one in work.found)


class _New(io.FileIO):
    """A new file. HDF5 does not hear of a full disk: it would crash as it closes the file, which then stays open."""

    error: OSError | None = None
    """Why what was written is not all there."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "x+")

    def write(self, data: ReadableBuffer, /) -> int:
        """All of it, unless the disk is full."""
        rest = whole = memoryview(data).cast("B")
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return len(whole)

    def truncate(self, size: int | None = None, /) -> int:
        """Give it a length, unless that is refused."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0


class _Copy:
    """One copy being made."""

    def __init__(self, source: h5py.File, copy: h5py.File, rules: Sequence[Rule], compressor: Compressor) -> None:
        self._source, self._copy = source, copy
        self._rules = rules
        self._compressor = compressor
        self._made: dict[int, bytes] = {}
        """By the address of an object: its path."""
        self._names = names_of(source)
        self._types: dict[int, h5py.h5t.TypeID] = {}
        """Named types of the copy that are made before their place is reached, by their addresses in the source."""
        self._objects: list[tuple[Any, Any, bytes]] = []
        self.found: list[Compressed] = []

    def all(self) -> None:
        """Make it: first all objects, then what may refer to any of them."""
        root = h5py.h5g.open(self._source.id, b"/")
        self._made[address(root)] = b"/"
        new = h5py.h5g.open(self._copy.id, b"/")
        self._objects.append((root, new, b"/"))
        self._group(root, new, b"")
        for before, after, path in self._objects:
            self._attributes(before, after, path)
            if isinstance(before, h5py.h5d.DatasetID) and before.get_type().detect_class(h5py.h5t.REFERENCE):
                after.write(h5py.h5s.ALL, h5py.h5s.ALL, self._mapped(values(before), path))
        for number in range(len(self._types)):
            new.unlink(self._passing(number))

    def _group(self, before: h5py.h5g.GroupID, after: h5py.h5g.GroupID, path: bytes) -> None:
        for name in links(before):
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
                if (known := self._made.get(address(item))) is not None:
                    after.links.create_hard(name, self._copy.id, known, own)
                else:
                    self._made[address(item)] = here
                    self._object(item, before, after, name, here, own)
            else:
                raise CannotCopy(f"{shown(here)} is a link of a kind that this HDF5 does not know")

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
        rules = self._rules_of(item, path) if isinstance(item, h5py.h5d.DatasetID) else ()
        if rules:
            new = self._dataset(item, after, name, path, link, rules)
        elif isinstance(item, h5py.h5d.DatasetID) and item.get_type().committed():
            new = self._of_named_type(item, after, name, link)
        elif address(item) in self._types:
            new = self._types[address(item)]
            h5py.h5o.link(new, after, name, link)
        else:
            h5py.h5o.copy(before, name, after, name, _plain(), link)
            new = h5py.h5o.open(after, name)
        self._objects.append((item, new, path))

    def _of_named_type(
        self, before: h5py.h5d.DatasetID, group: h5py.h5g.GroupID, name: bytes, link: h5py.h5p.PropLCID
    ) -> h5py.h5d.DatasetID:
        """A dataset that is not compressed. HDF5 itself would give it a type of its own."""
        kind, properties = before.get_type(), before.get_create_plist().copy()
        after = h5py.h5d.create(group, name, self._named(kind), before.get_space(), properties, link)
        if holds_pointers(kind):
            if before.shape is not None and not kind.detect_class(h5py.h5t.REFERENCE):
                after.write(h5py.h5s.ALL, h5py.h5s.ALL, values(before))
        elif properties.get_layout() != h5py.h5d.VIRTUAL:
            for offset, block in blocks(before, chunk_of(before) if before.shape else ()):
                _put(after, offset, block, kind)
        return after

    def _named(self, kind: h5py.h5t.TypeID) -> h5py.h5t.TypeID:
        """A named type in the copy, made under a passing name where its place was not reached yet."""
        place = address(kind)
        if place in self._made:
            return h5py.h5o.open(self._copy.id, self._made[place])
        if place not in self._types:
            root, name = h5py.h5g.open(self._copy.id, b"/"), self._passing(len(self._types))
            h5py.h5o.copy(kind, b".", root, name, _plain())
            self._types[place] = h5py.h5o.open(root, name)
        return self._types[place]

    def _passing(self, number: int) -> bytes:
        """A name that no member of the source's root group has."""
        return b"%s-%d" % (max(links(h5py.h5g.open(self._source.id, b"/")), default=b"") + b"~", number)

    def _rules_of(self, dataset: h5py.h5d.DatasetID, path: bytes) -> tuple[Rule, ...]:
        """How a dataset is compressed: by the strictest of these; none: not at all."""
        if dataset.get_create_plist().get_external_count():
            raise CannotCopy(f"{shown(path)} has its data in other files")
        if is_hollow(dataset):
            raise CannotCopy(f"most elements of {shown(path)} were never written, or are in other files")
        kind = dataset.get_type()
        movable = not (holds_pointers(kind) or dataset.get_create_plist().get_layout() == h5py.h5d.VIRTUAL)
        size = math.prod(dataset.shape or ()) * kind.get_size()
        if not movable or not dataset.shape or size < _LEAST or kind.committed():
            return ()
        return rules_of(map(text, self._names[address(dataset)]), self._rules)

    def _dataset(
        self,
        before: h5py.h5d.DatasetID,
        group: h5py.h5g.GroupID,
        name: bytes,
        path: bytes,
        link: h5py.h5p.PropLCID,
        rules: tuple[Rule, ...],
    ) -> h5py.h5d.DatasetID:
        kind = before.get_type()
        low, high = math.inf, -math.inf
        number = number_of(kind)
        if number is not None and all(rule.lossy for rule in rules):
            for _, block in blocks(before, chunk_of(before)):
                one = span(block.view(number))
                low, high = min(low, one[0]), max(high, one[1])
        fits = number is not None and len(before.shape) <= _MOST_AXES and low <= high
        known = np.dtype(number) if fits else None
        bound = 0.0 if known is None else min(rule.bound(known, low, high) for rule in rules)
        properties = before.get_create_plist().copy()
        properties.remove_filter(h5py.h5z.FILTER_ALL)
        chunk = chunk_of(before)
        properties.set_chunk(chunk)
        properties.set_obj_track_times(False)  # it would have that of the copy
        filters(properties, bound)
        after = h5py.h5d.create(group, name, kind, before.get_space(), properties, link)
        count = kept = 0
        for offset, block in blocks(before, chunk):
            count += 1
            if bound and number is not None:
                chunked = _padded(block.view(number), chunk)
                done = self._compressor.encoded(chunked, bound)
                kept += not done.lossy
                after.write_direct_chunk(offset, done.data, filter_mask=done.mask)
            else:
                _put(after, offset, block, kind)
        self.found.append(
            Compressed(
                text(path),
                math.prod(before.shape) * kind.get_size(),
                0,
                bound,
                Difference(),
                low,
                high,
                count,
                kept,
                rules,
            )
        )
        return after

    def _attributes(self, before: Any, after: Any, path: bytes) -> None:
        for name in attribute_names(before):
            old = h5py.h5a.open(before, name)
            kind = old.get_type()
            new = h5py.h5a.create(after, name, self._named(kind) if kind.committed() else kind, old.get_space())
            if old.get_space().get_simple_extent_type() == h5py.h5s.NULL:
                continue
            if holds_pointers(kind):
                new.write(self._mapped(values(old), path))
            else:
                new.write(raw(old), mtype=kind)

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
            name = self._made[address(item)]
            if isinstance(reference, h5py.RegionReference):
                region = h5py.h5r.get_region(reference, self._source.id)
                return h5py.h5r.create(self._copy.id, name, h5py.h5r.DATASET_REGION, region)
            return h5py.h5r.create(self._copy.id, name, h5py.h5r.OBJECT)
        except (KeyError, ValueError, RuntimeError) as error:
            raise CannotCopy(f"{shown(path)} refers to an object that has no name in the file") from error


def _put(dataset: h5py.h5d.DatasetID, offset: Sequence[int], block: NDArray[Any], kind: h5py.h5t.TypeID) -> None:
    """Write elements of a type, as they stand in a file, to a place of a dataset."""
    place = dataset.get_space()
    if block.shape:
        place.select_hyperslab(tuple(offset), block.shape)
    dataset.write(h5py.h5s.create_simple(block.shape) if block.shape else place, place, block, kind)


def _plain() -> h5py.h5p.PropCopyID:
    """How an object is copied without its attributes."""
    properties = h5py.h5p.create(h5py.h5p.OBJECT_COPY)
    properties.set_copy_object(h5py.h5o.COPY_WITHOUT_ATTR_FLAG)
    return properties


def _created(new: _New, source: h5py.File) -> h5py.h5f.FileID:
    """The file of HDF5 in a new file, with the properties of another one."""
    properties, access = _properties(source), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(
        _FORMATS.get(properties.get_version()[0], h5py.h5f.LIBVER_EARLIEST), h5py.h5f.LIBVER_LATEST
    )
    # Nothing else may refer to `access`: HDF5 would free it after the interpreter has ended, and crash.
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, new)
    return h5py.h5f.create(os.fsencode(new.name), h5py.h5f.ACC_TRUNC, properties, access)


def _properties(file: h5py.File) -> h5py.h5p.PropFCID:
    """Those by which a file was made, with those of its root group, which HDF5 does not give with them."""
    properties, root = file.id.get_create_plist(), h5py.h5g.open(file.id, b"/").get_create_plist()
    properties.set_link_creation_order(root.get_link_creation_order())
    properties.set_attr_creation_order(root.get_attr_creation_order())
    return properties


def _padded(block: NDArray[Any], chunk: Sequence[int]) -> NDArray[Any]:
    """A block as large as a chunk: beyond the dataset's end stand its last elements again, which compresses well."""
    more = [(0, side - length) for side, length in zip(chunk, block.shape, strict=True)]
    return np.pad(block, more, mode="edge") if any(after for _, after in more) else block
