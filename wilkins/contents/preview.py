"""Makes a field of two dimensions small: chooses what is read of a dataset, and takes means over blocks."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wilkins.contents.summary import Preview

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDE = 64
"""Most rows and columns of a preview."""
_MOST_BYTES = 128 << 20
"""Most bytes that are read for it, with all of each chunk."""
_MOST_VALUES = 1 << 20
_MOST_CHUNKS = 2048
_SAMPLES = (512, 256, 128, 64, 32, 16, 8, 4)
"""Rows and columns that are read of a field that is too large to be read whole."""
_NARROW = 4
"""A field with fewer rows, or columns, is drawn only if there is no other."""
_NUMBERS = "biufc"
"""Kinds of dtypes that can be drawn: NumPy's letters for bool, integers, floats and complex numbers."""

Selection = tuple[range | int, ...]
"""For each axis, what is read of it."""


@dataclass(frozen=True, slots=True)
class Field:
    """A dataset that may be drawn."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[Selection], NDArray[Any]]
    """Reads what is selected; axes with one number alone are gone."""
    chunks: tuple[int, ...] | None = None
    units: str = ""
    missing: float | None = None
    """The value that stands for none."""
    scale: float = 1.0
    offset: float = 0.0
    """Values in `units` are those in the file, times `scale`, and `offset` added (CF conventions, packed data)."""

    @property
    def is_drawable(self) -> bool:
        """Whether it is a field of numbers of two dimensions, or has such."""
        return self.dtype.kind in _NUMBERS and len(self.shape) >= 2 and axes_of(self.shape) is not None


def axes_of(shape: Sequence[int]) -> tuple[int, int] | None:
    """The two longest axes, of axes as long the last ones; None: fewer than two are longer than 1."""
    if len(shape) < 2 or 0 in shape:
        return None
    first, second = sorted(sorted(range(len(shape)), key=lambda axis: (-shape[axis], -axis))[:2])
    return (first, second) if min(shape[first], shape[second]) > 1 else None


def selection_of(shape: Sequence[int], itemsize: int, chunks: Sequence[int] | None) -> Selection | None:
    """What is read of a dataset: the two longest axes, in the middle of the others, and strides where all of it would
    be too much.

    Args:
        itemsize: bytes of a value.

    Returns:
        None: any part of it would be too much, as its chunks are so large; or it has no two such axes.
    """
    axes = axes_of(shape)
    if axes is None:
        return None
    for most in (max(shape), *_SAMPLES):
        ranges = [range(0, shape[axis], _quotient(shape[axis], most)) for axis in axes]
        lengths = [_quotient(shape[axis], one.step) for axis, one in zip(axes, ranges, strict=True)]
        read = count = math.prod(lengths)
        pieces = 1
        if chunks is not None:
            touched = [min(length, _quotient(shape[a], chunks[a])) for length, a in zip(lengths, axes, strict=True)]
            pieces = math.prod(touched)
            read = pieces * math.prod(chunks)
        if count <= _MOST_VALUES and pieces <= _MOST_CHUNKS and read * itemsize <= _MOST_BYTES:
            middle: list[range | int] = [length // 2 for length in shape]
            for axis, one in zip(axes, ranges, strict=True):
                middle[axis] = one
            return tuple(middle)
    return None


def as_index(chosen: Selection) -> tuple[slice | int, ...]:
    """A selection as NumPy and h5py take it."""
    return tuple(slice(one.start, one.stop, one.step) if isinstance(one, range) else one for one in chosen)


@dataclass(frozen=True, slots=True)
class Part:
    """What is selected of an axis within one chunk."""

    number: int
    """Of the chunk, along the axis."""
    into: slice
    """Where it goes in what is read."""
    outer: range
    """Where it lies along the axis."""
    inner: Sequence[int]
    """Where it lies in the chunk."""


def places_of(chosen: Selection) -> list[range]:
    """What is selected of each axis, as a range for every one."""
    return [one if isinstance(one, range) else range(one, one + 1) for one in chosen]


def by_chunk(chosen: Selection, chunks: Sequence[int]) -> Iterator[tuple[Part, ...]]:
    """What is selected, chunk by chunk: a part for each axis."""
    return itertools.product(*map(_parts, places_of(chosen), chunks))


def _parts(places: range, length: int) -> list[Part]:
    found, at = [], 0
    for number, group in itertools.groupby(places, lambda place: place // length):
        count = len(list(group))
        outer = places[at : at + count]
        found.append(Part(number, slice(at, at + count), outer, [place - number * length for place in outer]))
        at += count
    return found


def _quotient(number: int, by: int) -> int:
    """Rounded up."""
    return -(-number // by)


def preview_of(field: Field) -> Preview | None:
    """The preview of a field; None if too much would have to be read.

    Raises:
        Exception: whatever its file's library raises where the file is damaged.
    """
    import numpy as np

    chosen = selection_of(field.shape, field.dtype.itemsize, field.chunks)
    if chosen is None:
        return None
    read = np.asarray(field.read(chosen))
    with np.errstate(all="ignore"):
        values = np.abs(read) if read.dtype.kind == "c" else read
        wide = values.astype(np.longdouble)
        if field.missing is not None:
            wide[values == field.missing] = np.nan
        wide = wide * field.scale + field.offset
        wide[~np.isfinite(wide.astype(np.float64))] = np.nan
    ranges = [one for one in chosen if isinstance(one, range)]
    lengths = [length for length, one in zip(field.shape, chosen, strict=True) if isinstance(one, range)]
    known = np.isfinite(wide)
    low, high = (float(wide[known].min()), float(wide[known].max())) if known.any() else (None, None)
    part = ", ".join(":" if isinstance(one, range) else str(one) for one in chosen)
    return Preview(
        field.name if len(chosen) == 2 else f"{field.name}[{part}]",
        tuple(tuple(None if math.isnan(one) else one for one in row) for row in means(wide).tolist()),
        (lengths[0], lengths[1]),
        low,
        high,
        field.units,
        is_sampled=any(one.step > 1 for one in ranges),
    )


def means(values: NDArray[Any], side: int = SIDE) -> NDArray[np.float64]:
    """Means over blocks, of at most `side` rows and columns.

    Args:
        values: of two dimensions, floats; NaN counts for nothing.

    Returns:
        NaN where a block has no other value.
    """
    import numpy as np

    known = ~np.isnan(values)
    sums, counts = np.where(known, values, 0), known.astype(np.int64)
    for axis in (0, 1):
        length = values.shape[axis]
        edges = np.arange(min(side, length)) * length // min(side, length)
        sums, counts = np.add.reduceat(sums, edges, axis), np.add.reduceat(counts, edges, axis)
    with np.errstate(all="ignore"):
        return np.asarray(np.where(counts > 0, sums / counts, np.nan), dtype=np.float64)


def first_preview(fields: Sequence[Field], tries: int = 3) -> Preview | None:
    """The preview of the first field that has one: of those of two dimensions first, then of those of more; last of
    narrow ones, such as the bounds of cells.

    Args:
        tries: how many that turn out to be damaged are passed over.
    """
    for field in sorted((one for one in fields if one.is_drawable), key=_rank)[:tries]:
        # It is damaged, or its filter is not here: HDF5 and the packages for Zarr raise errors of any kind.
        with contextlib.suppress(Exception):
            if found := preview_of(field):
                return found
    return None


def _rank(field: Field) -> tuple[bool, bool]:
    return sorted(field.shape)[-2] < _NARROW, len(field.shape) != 2
