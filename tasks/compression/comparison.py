"""Compares an HDF5 file with its copy: everything by its bits, but for elements that have a bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

from wilkins.compression.bounds import Difference, difference
from wilkins.compression.errors import CannotCopy
from wilkins.compression.objects import (
    address,
    attribute_names,
    blocks,
    chunk_of,
    extent,
    fill,
    holds_pointers,
    links,
    number_of,
    raw,
    shown,
    text,
    values,
)


def differences(before: h5py.File, after: h5py.File, bounds: Mapping[str, float]) -> dict[str, Difference]:
    """How the elements of each dataset differ, by its path.

    Args:
        bounds: by how much they may, at most; of others all bits are to be the same.

    Raises:
        CannotCopy: they differ by more than that, or anything else differs.
    """
    return _Comparison(before, after, bounds).all()


class _Comparison:
    """Of a file and its copy."""

    def __init__(self, before: h5py.File, after: h5py.File, bounds: Mapping[str, float]) -> None:
        self._before, self._after = before, after
        self._bounds = bounds
        self._apart: dict[str, Difference] = {}
        self._seen: dict[int, int] = {}
        """By the address of an object: that of the copy's."""
        self._types: dict[int, int] = {}
        """The same of named types, also of those that have no name any more."""
        self._pairs: list[tuple[Any, Any, bytes]] = []

    def all(self) -> dict[str, Difference]:
        """The differences."""
        self._objects(h5py.h5g.open(self._before.id, b"/"), h5py.h5g.open(self._after.id, b"/"), b"")
        for before, after, path in self._pairs:
            self._attributes(before, after, path)
            if isinstance(before, h5py.h5d.DatasetID):
                self._datasets(before, after, path)
        return self._apart

    def _objects(self, before: Any, after: Any, path: bytes) -> None:
        known = self._seen.setdefault(address(before), address(after))
        self._same(known == address(after), path, "is another object")
        self._same(type(before) is type(after), path, "is of another kind")
        self._pairs.append((before, after, path))
        if isinstance(before, h5py.h5g.GroupID):
            self._groups(before, after, path)
        elif isinstance(before, h5py.h5t.TypeID):
            self._types[address(before)] = address(after)
            self._same(before.equal(after), path, "is another type")

    def _groups(self, before: h5py.h5g.GroupID, after: h5py.h5g.GroupID, path: bytes) -> None:
        names = links(before)
        self._same(names == links(after), path, "has other members")
        for name in names:
            one, other = before.links.get_info(name), after.links.get_info(name)
            here = path + b"/" + name
            self._same((one.type, one.cset) == (other.type, other.cset), here, "is another link")
            if one.type != h5py.h5l.TYPE_HARD:
                self._same(before.links.get_val(name) == after.links.get_val(name), here, "leads elsewhere")
                continue
            first = h5py.h5o.open(before, name)
            if address(first) in self._seen:
                known = self._seen[address(first)] == address(h5py.h5o.open(after, name))
                self._same(known, here, "is another object")
            else:
                self._objects(first, h5py.h5o.open(after, name), here)

    def _datasets(self, before: h5py.h5d.DatasetID, after: h5py.h5d.DatasetID, path: bytes) -> None:
        kind = before.get_type()
        self._same(self._alike_types(kind, after.get_type()), path, "has another type")
        self._same(extent(before) == extent(after), path, "has another shape")
        self._same(fill(before) == fill(after), path, "has another fill value")
        if holds_pointers(kind):
            self._same(self._alike(values(before), values(after)), path, "has other values")
            return
        bound = self._bounds.get(text(path), 0.0)
        total = Difference()
        number = number_of(kind) if bound else None
        chunk = chunk_of(before) if before.shape else ()
        for (_, one), (_, other) in zip(blocks(before, chunk), blocks(after, chunk), strict=True):
            if number is not None:
                one, other = one.view(number), other.view(number)
            apart = difference(one, other, bound)
            if apart is None:
                raise CannotCopy(f"{shown(path)} came back changed{' by more than its bound' if bound else ''}")
            total |= apart
        self._apart[text(path)] = total

    def _attributes(self, before: Any, after: Any, path: bytes) -> None:
        names = attribute_names(before)
        self._same(names == attribute_names(after), path, "has other attributes")
        for name in names:
            one, other = h5py.h5a.open(before, name), h5py.h5a.open(after, name)
            kind = one.get_type()
            same = self._alike_types(kind, other.get_type()) and extent(one) == extent(other)
            if same and extent(one)[0] != h5py.h5s.NULL:
                same = (
                    self._alike(values(one), values(other))
                    if holds_pointers(kind)
                    else raw(one).tobytes() == raw(other).tobytes()
                )
            self._same(same, path, f"has another attribute {text(name)!r}")

    def _alike_types(self, one: h5py.h5t.TypeID, other: h5py.h5t.TypeID) -> bool:
        """Whether types are the same, and the same objects if they are named."""
        if not one.equal(other) or one.committed() != other.committed():
            return False
        return not one.committed() or self._types.setdefault(address(one), address(other)) == address(other)

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
        place = address(h5py.h5r.dereference(reference, file.id))
        target = self._seen.get(place, -1) if file is self._before else place
        if not isinstance(reference, h5py.RegionReference):
            return target
        region = h5py.h5r.get_region(reference, file.id)
        return target, region.get_select_npoints(), region.get_select_bounds() if region.get_select_npoints() else None

    def _same(self, same: bool, path: bytes, what: str) -> None:
        if not same:
            raise CannotCopy(f"in the copy, {shown(path)} {what}")
