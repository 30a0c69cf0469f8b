"""How far the fields of a file are from what they were: largest and mean error, and peak signal-to-noise ratio."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from wilkins.compression.bounds import Difference, Rule, span
from wilkins.compression.objects import address, links, names_of, text
from wilkins.compression.spectrum import Kept, kept, reason_against

_AT_ONCE = 1 << 23
"""Bytes that are compared at once, about."""


class Quality(NamedTuple):
    """Of a dataset."""

    dset: str
    why: str = ""
    """Why it was not compared; empty: it was."""
    low: float = math.inf
    high: float = -math.inf
    """Its least and greatest finite element before."""
    largest: float = 0.0
    """The largest error of an element,"""
    mean: float = 0.0
    """the mean of all errors,"""
    psnr: float = math.inf
    """and the ratio of the range to the root of their mean square, in dB; infinite: all are the same."""
    strange: int = 0
    """Elements that are infinite or NaN in one file, and something else in the other; they count in no error."""
    spectrum: Kept | None = None
    """What became of its power spectrum; None: nobody has asked."""


def qualities(before: h5py.File, after: h5py.File, pattern: str = "*", *, spectra: bool = False) -> Iterator[Quality]:
    """How numbers differ, dataset by dataset, by each of its names. Links that are no further names are not followed.

    Args:
        before: as they were.
        after: as they are.
        pattern: of the paths of datasets.
        spectra: whether to compare power spectra, too.

    Raises:
        OSError: a dataset cannot be read; the error names it.
        CannotCopy: a file has very many names.
    """
    wanted, ours, theirs = Rule(pattern), _members(before), _members(after)
    known: dict[tuple[int, int], Quality] = {}
    for name, one in ours.items():
        if wanted.means(path := text(name)):
            yield _member(path, one, theirs.get(name), known, spectra)
    for name, one in theirs.items():
        if name not in ours and wanted.means(path := text(name)):
            yield Quality(path, f"is {one}, and only in the other file" if _is_link(one) else _ONLY_THERE)


_ONLY_THERE = "is only in the other file"


def _is_link(member: Any) -> bool:
    return isinstance(member, str)


def _members(file: h5py.File) -> dict[bytes, h5py.Dataset | str]:
    """By path, in their order: datasets, and in words where a soft or external link leads."""
    found: dict[bytes, h5py.Dataset | str] = {}
    root = h5py.h5g.open(file.id, b"/")
    for paths in [[b""], *names_of(file).values()]:
        item = h5py.h5o.open(file.id, paths[0]) if paths[0] else root
        if isinstance(item, h5py.h5d.DatasetID):
            found |= {path: file[path] for path in paths}
        elif isinstance(item, h5py.h5g.GroupID):
            found |= {path + b"/" + name: where for name, where in _links(item) for path in paths}
    return dict(sorted(found.items()))


def _links(group: h5py.h5g.GroupID) -> Iterator[tuple[bytes, str]]:
    for name in links(group):
        kind = group.links.get_info(name).type
        if kind == h5py.h5l.TYPE_SOFT:
            yield name, f"a soft link to {text(group.links.get_val(name))!r}"
        elif kind == h5py.h5l.TYPE_EXTERNAL:
            there, path = map(text, group.links.get_val(name))
            yield name, f"an external link to {path!r} of {there!r}"
        elif kind != h5py.h5l.TYPE_HARD:
            yield name, "a link of a kind that this HDF5 does not know"


def _member(path: str, one: Any, other: Any, known: dict[tuple[int, int], Quality], spectra: bool) -> Quality:
    """What became of a member. `known`: of datasets that were compared under other names, by their addresses."""
    if _is_link(one):
        return Quality(
            path, f"is not compared: it is {one}" if one == other else f"is {one}, but not in the other file"
        )
    if _is_link(other):
        return Quality(path, f"is {other} in the other file")
    which = address(one.id), address(other.id) if other is not None else -1
    if which not in known:
        known[which] = _quality(path, one, other)
        if spectra and not known[which].why:
            known[which] = known[which]._replace(spectrum=_spectrum(one, other))
    return known[which]._replace(dset=path)


@np.errstate(all="ignore")
def _quality(path: str, before: h5py.Dataset, after: Any) -> Quality:
    if not isinstance(after, h5py.Dataset):
        return Quality(path, "is not in the other file")
    if before.dtype.kind not in "fiu":
        return Quality(path, f"is not compared: it is {before.dtype}, and only whole and real numbers are")
    if after.shape != before.shape or after.dtype.kind not in "fiu":
        return Quality(path, f"is {before.dtype} {before.shape}, and {after.dtype} {after.shape} in the other file")
    found, unit, strange = Difference(), 0.0, 0
    low, high = math.inf, -math.inf
    for one, other in _pieces(before, after):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        finite = np.isfinite(one) & np.isfinite(other)
        strange += int((~finite & ~same).sum())
        least, most = span(one)
        low, high = min(low, least), max(high, most)
        apart = np.abs(other[finite] - one[finite])
        largest = float(apart.max(initial=0.0))
        if largest > unit:  # the squares are in units of the largest error: their own might be no numbers of 8 bytes
            found, unit = found._replace(squares=found.squares * (unit / largest) ** 2), largest
        squares = float(np.square(apart / unit).sum()) if unit else 0.0
        found |= Difference(largest, float(apart.sum()), squares, apart.size)
    mean = found.total / found.elements if found.elements else 0.0
    return Quality(path, "", low, high, found.largest, mean, found.psnr(low, high, unit), strange)


def _spectrum(before: h5py.Dataset, after: h5py.Dataset) -> Kept:
    if why := reason_against(before.shape or ()):
        return Kept(why)
    return kept(_read(before, ()), _read(after, ()))


def _pieces(before: h5py.Dataset, after: h5py.Dataset) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Parts of both, as real numbers that hold each of their values."""
    narrow = all(one.dtype.itemsize < 8 or one.dtype == np.float64 for one in (before, after))
    kind = np.float64 if narrow else np.longdouble
    if before.shape is None:
        return
    if not before.shape:
        yield np.atleast_1d(_read(before, ())).astype(kind), np.atleast_1d(_read(after, ())).astype(kind)
        return
    rows = max(1, _AT_ONCE // (8 * max(1, math.prod(before.shape[1:]))))
    for first in range(0, before.shape[0], rows):
        some = slice(first, first + rows)
        yield _read(before, some).astype(kind), _read(after, some).astype(kind)


def _read(dataset: h5py.Dataset, some: Any) -> Any:
    try:
        return dataset[some]
    except OSError as error:
        raise OSError(f"{dataset.name} of {dataset.file.filename} cannot be read: {error}") from error
