"""Blocks of elements in fewer bytes, and back: each element to within a bound, or bit by bit.

With a bound, elements become whole multiples of twice the bound. Of such numbers, or else of the elements' own bits,
differences along axes are taken where these have less entropy; what is left is deflated, byte plane by byte plane
(all first bytes, all second ones, ...). That is the dual quantization of J. Tian et al., "cuSZ: An efficient GPU-based
error-bounded lossy compression framework for scientific data", PACT 2020. It is made of exact operations alone, so
each machine gets the elements that the packing one has compared with the original.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wilkins.compression.bounds import inside
from wilkins.compression.errors import CannotUnpack

_HEAD = struct.Struct("<BBBBdIII")
"""What the numbers stand for, their bytes, the axes of the differences (a bit each), the bytes of a difference, the
quantum (what a number is a multiple of), the shape."""
_PLANE = struct.Struct("<I")
"""The bytes of a plane that follow; as many as it has elements: they are not deflated."""
_BITS, _FLOATS = 0, {4: "<f4", 8: "<f8"}
_INTEGERS = (1, 2, 4, 8)
_MOST_BYTES = 64
"""Of an element whose bytes are planes; those of larger ones are one plane."""
_LEVELS = {"quantized": 4, "exact": 1}
"""Of the deflation: what was quantized gets up to twice as small by the higher one, and all else hardly any smaller."""
_TRIED = 4096
"""Bytes of a plane from which it is seen whether deflating gains enough."""
_ENOUGH = 0.9
_WORTH = 0.85
"""Of the entropy, what has to be left by differences along one more axis: they make noise of neighbours add up."""
_SAMPLED = (4, 16, 256)
"""Elements along each axis from which the entropy is taken."""

Array = NDArray[Any]


class Packed(NamedTuple):
    """A block in fewer bytes."""

    data: bytes
    error: float
    """The largest difference of an element."""


def pack(elements: Array, bound: float) -> Packed | None:
    """A block in fewer bytes; None: it would not be smaller.

    Args:
        elements: three-dimensional and contiguous; little-endian numbers, or any bytes of a fixed size (``V12``).
        bound: the largest difference that elements of the types f4 and f8 may have; 0: none. A block of which an
            element cannot keep it, such as NaN, keeps all bits.
    """
    found = _quantized(elements, bound) if bound else None
    numbers, quantum, error = found or (_bits(elements), 0.0, 0.0)
    kind = elements.dtype.itemsize if found else _BITS
    width, axes = numbers.dtype.itemsize, 0
    if numbers.dtype.kind == "i":
        numbers, axes = _differences(numbers)
        numbers = _narrowed(numbers)
    planes = numbers.view("u1").reshape(-1, numbers.dtype.itemsize).T
    parts = [_HEAD.pack(kind, width, axes, numbers.dtype.itemsize, quantum, *numbers.shape)]
    level = _LEVELS["quantized" if found else "exact"]
    for plane in planes:
        deflated = _deflated(np.ascontiguousarray(plane), level)
        parts += [_PLANE.pack(len(deflated)), deflated]
    data = b"".join(parts)
    return Packed(data, error) if len(data) < elements.nbytes else None


def _quantized(elements: Array, bound: float) -> tuple[Array, float, float] | None:
    """Numbers that stand for the elements, the quantum, and the largest difference; None: not within the bound."""
    with np.errstate(all="ignore"):
        rounding = float(np.finfo(elements.dtype).eps) * max(float(elements.max()), -float(elements.min()))
        quantum = 2 * (inside(bound) - rounding)
        if not quantum > 0:  # also for NaN
            return None
        scaled = np.multiply(elements, np.divide(1.0, quantum), dtype="f8")
        np.rint(scaled, out=scaled)
        largest = max(float(scaled.max()), -float(scaled.min()))
        if not largest < 2**52:  # also for NaN
            return None
        numbers = scaled.astype("<i4" if largest < 2**30 else "<i8")
        apart = np.subtract(_values(numbers, quantum, elements.dtype.str), elements, out=scaled, dtype="f8")
        error = max(float(apart.max()), -float(apart.min()))
    return (numbers, quantum, error) if error < bound else None


def _values(numbers: Array, quantum: float, kind: str) -> Array:
    with np.errstate(all="ignore"):
        return np.multiply(numbers, quantum, dtype="f8").astype(kind, copy=False)


def _bits(elements: Array) -> Array:
    size = elements.dtype.itemsize
    if size in _INTEGERS:
        return elements.view(f"<i{size}")
    return elements.view("V1" if size > _MOST_BYTES else f"V{size}")


def _differences(numbers: Array) -> tuple[Array, int]:
    """The numbers, or differences of neighbours (that wrap around), and along which axes."""
    axes = _axes(numbers)
    for axis in range(3):
        if axes & 1 << axis:
            made = np.empty_like(numbers)
            ahead, behind = (np.moveaxis(one, axis, 0) for one in (made, numbers))
            ahead[0] = behind[0]
            np.subtract(behind[1:], behind[:-1], out=ahead[1:])
            numbers = made
    return numbers, axes


def _axes(numbers: Array) -> int:
    """The axes along which differences have less entropy, a bit each; by what is in the middle of the numbers."""
    middle = tuple(
        slice((side - min(side, most)) // 2, (side + min(side, most)) // 2)
        for side, most in zip(numbers.shape, _SAMPLED, strict=True)
    )
    some, axes = numbers[middle], 0
    entropy = _entropy(some)
    for axis in (2, 1, 0):
        if some.shape[axis] < 2:
            continue
        less = np.diff(some, axis=axis)
        left = _entropy(less)
        if left < _WORTH * entropy:
            some, axes, entropy = less, axes | 1 << axis, left
    return axes


def _entropy(numbers: Array) -> float:
    """Bits per element, as of bytes that know nothing of each other."""
    some = np.ascontiguousarray(numbers).reshape(-1)
    bits = 0.0
    for plane in some.view("u1").reshape(some.size, -1).T:
        counts = np.bincount(plane, minlength=256)
        counts = counts[counts > 0]
        bits -= float((counts * np.log2(counts / some.size)).sum()) / some.size
    return bits


def _narrowed(numbers: Array) -> Array:
    """As integers of as few bytes as hold all of them."""
    low, high = numbers.min(), numbers.max()
    for size in _INTEGERS[: _INTEGERS.index(numbers.dtype.itemsize)]:
        limits = np.iinfo(f"<i{size}")
        if limits.min <= low and high <= limits.max:
            return numbers.astype(f"<i{size}")
    return numbers


def _deflated(plane: Array, level: int) -> bytes:
    """As it is, if deflating gains little."""
    if plane.size > 2 * _TRIED:
        middle = plane.size // 2
        if len(_deflate(plane[middle : middle + _TRIED], level)) > _ENOUGH * _TRIED:
            return plane.tobytes()
    found = _deflate(plane, level)
    return found if len(found) < plane.size else plane.tobytes()


def _deflate(plane: Array, level: int) -> bytes:
    deflating = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    return deflating.compress(plane.data) + deflating.flush()


def unpack(data: bytes | memoryview, into: memoryview) -> None:
    """Put the elements of a packed block where they belong.

    No more memory is taken than a few times that of the block, whatever the data are.

    Args:
        into: the bytes of the block; undefined after an error.

    Raises:
        CannotUnpack: the data are not those of a packed block of so many bytes.
    """
    try:
        elements = _unpacked(memoryview(data), into.nbytes)
    except (struct.error, zlib.error) as error:
        raise CannotUnpack(f"a packed block is damaged: {error}") from error
    into[:] = np.ascontiguousarray(elements).reshape(-1).view("u1").data


def _unpacked(data: memoryview, size: int) -> Array:
    kind, width, axes, narrow, quantum, *shape = _HEAD.unpack_from(data)
    count = shape[0] * shape[1] * shape[2]
    integers = width in _INTEGERS and narrow in _INTEGERS and narrow <= width and axes < 1 << 3
    of_bits = kind == _BITS and (integers or (0 < width == narrow <= _MOST_BYTES and not axes))
    if not (of_bits or (kind in _FLOATS and integers)) or not count or count * (kind or width) != size:
        raise CannotUnpack(f"a packed block of {size} bytes is damaged: its head says what no block has")
    planes, at = np.empty((count, narrow), "u1"), _HEAD.size
    for place in range(narrow):
        (length,) = _PLANE.unpack_from(data, at)
        at += _PLANE.size
        planes[:, place] = _plane(data[at : at + length], length, count)
        at += length
    if at != len(data):
        raise CannotUnpack(f"a packed block of {size} bytes is damaged: {len(data)} came, and {at} belong to it")
    if not integers:
        return planes
    numbers = planes.view(f"<i{narrow}").astype(f"<i{width}").reshape(shape)
    for axis in range(3):
        if axes & 1 << axis:
            numbers = np.add.accumulate(numbers, axis=axis, dtype=numbers.dtype)
    return numbers if kind == _BITS else _values(numbers, quantum, _FLOATS[kind])


def _plane(data: memoryview, length: int, count: int) -> Array:
    if len(data) != length or length > count:
        raise CannotUnpack("a packed block is damaged: it ends too soon")
    if length == count:
        return np.frombuffer(data, "u1")
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    found = inflating.decompress(data, count + 1)
    if len(found) != count or not inflating.eof or inflating.unused_data:
        raise CannotUnpack("a packed block is damaged: a plane has another length")
    return np.frombuffer(found, "u1")
