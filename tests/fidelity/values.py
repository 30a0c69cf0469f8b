"""What random programs name by plain data: types of elements, values of a type, and selections of an extent."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

Spec = Any
"""A type: a word of NumPy (``"<i4"``) or a list, which begins with the kind of type; as JSON can hold it."""

TEXTS = ["", "a", "grid", "Größe", "x" * 40, "two\nlines"]


def dtype_of(spec: Spec) -> Any:
    """The type in memory.

    Raises:
        ValueError: there is no such kind of type.
    """
    if isinstance(spec, str):
        return np.dtype(spec)
    kind, *rest = spec
    if kind == "text":  # of variable length
        return h5py.string_dtype(rest[0])
    if kind == "bytes":
        return h5py.string_dtype(rest[1], rest[0])
    if kind == "enum":
        return h5py.enum_dtype({f"E{i}": i * 3 for i in range(rest[1])}, np.dtype(rest[0]))
    if kind == "array":
        return np.dtype((dtype_of(rest[0]), tuple(rest[1])))
    if kind == "sequence":
        return h5py.vlen_dtype(dtype_of(rest[0]))
    if kind == "compound":
        return np.dtype([(f"f{i}", dtype_of(part)) for i, part in enumerate(rest[0])], align=bool(rest[1]))
    if kind == "reference":
        return h5py.ref_dtype
    if kind == "region":
        return h5py.regionref_dtype
    raise ValueError(f"no type: {spec!r}")


def values(dtype: Any, shape: tuple[int, ...], seed: int, refer: Any = None) -> Any:
    """Values of a type, which follow from a seed; `refer` makes the reference of a number and a kind."""
    return _values(dtype, shape, np.random.default_rng(seed), refer)


def _values(dtype: Any, shape: tuple[int, ...], rng: Any, refer: Any) -> Any:
    if dtype.subdtype:
        return _values(dtype.subdtype[0], shape + dtype.subdtype[1], rng, refer)
    out = np.zeros(shape, dtype)
    if dtype.names:
        for name in dtype.names:
            out[name] = _values(dtype[name], shape, rng, refer)
    elif dtype.kind == "O":
        for place in np.ndindex(*shape):
            out[place] = _thing(dtype, rng, refer)
    elif h5py.check_enum_dtype(dtype):
        known = sorted(h5py.check_enum_dtype(dtype).values())
        out[...] = np.asarray(known)[rng.integers(0, len(known), shape)]
    elif dtype.kind in "fc":
        out[...] = rng.integers(-1000, 1000, shape) / 8
    elif dtype.kind == "b":
        out[...] = rng.integers(0, 2, shape)
    elif dtype.kind == "S":
        letters = rng.integers(97, 123, (*shape, dtype.itemsize)).astype("u1")
        letters[..., rng.integers(0, dtype.itemsize) :] = 0
        out[...] = letters.view(f"S{dtype.itemsize}").reshape(shape)
    else:
        size = int(np.prod(shape, dtype=int)) * dtype.itemsize
        out = np.frombuffer(rng.bytes(size), dtype).reshape(shape)
    return out


def _thing(dtype: Any, rng: Any, refer: Any) -> Any:
    """An element that is an object in Python."""
    if h5py.check_string_dtype(dtype):
        return TEXTS[rng.integers(0, len(TEXTS))]
    if inner := h5py.check_vlen_dtype(dtype):
        return _values(np.dtype(inner), (int(rng.integers(0, 5)),), rng, refer)
    return refer(int(rng.integers(0, 100)), h5py.check_ref_dtype(dtype))


def selection(spec: list[list[int | str]], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A selection of an extent: per axis a kind and three numbers, of which that follows which fits the axis."""
    made: list[Any] = []
    for (kind, a, b, c), n in zip(spec, shape, strict=False):
        a, b, c = int(a), int(b), int(c)
        if kind == "at":
            made.append(a % max(n, 1))
        elif kind == "over":
            made.append(n + a)
        elif kind == "list" and n and not any(isinstance(part, list) for part in made):
            made.append(sorted({a % n, b % n, c % n}))
        elif kind == "slice":
            first = a % (n + 1)
            made.append(slice(first, first + b % (n - first + 1), 1 + c % 3))
        else:
            made.append(slice(None))
    return tuple(made)


def shape_of(chosen: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what a selection chooses."""
    lengths: list[int] = []
    for number, n in enumerate(shape):
        part = chosen[number] if number < len(chosen) else slice(None)
        if isinstance(part, slice):
            lengths.append(len(range(*part.indices(n))))
        elif isinstance(part, list):
            lengths.append(len(part))
    return tuple(lengths)
