"""Words for what a file holds: dtypes, shapes, names, errors."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

_MOST_MEMBERS = 4
"""Members of a compound type that are named."""
_MOST_DEPTH = 4
_ORDERS = {"<": "little-endian", ">": "big-endian"}


def dtype_words(dtype: Any, depth: int = 0) -> str:
    """A dtype of NumPy, or of h5py, in words: ``float32``, ``int16 big-endian``, ``{x: float64, y: float64}``."""
    import h5py

    if depth > _MOST_DEPTH:
        return "..."
    if h5py.check_string_dtype(dtype) or dtype.kind in "SU":
        return "text"
    if h5py.check_ref_dtype(dtype) is not None:
        return "reference"
    if (inner := h5py.check_vlen_dtype(dtype)) is not None:
        return f"lists of {dtype_words(inner, depth + 1)}"
    if (values := h5py.check_enum_dtype(dtype)) is not None:
        return f"enum of {len(values)}"
    if dtype.names:
        members = [f"{name}: {dtype_words(dtype[name], depth + 1)}" for name in dtype.names[:_MOST_MEMBERS]]
        more = len(dtype.names) - _MOST_MEMBERS
        return f"{{{', '.join(members)}{f' and {more} more' if more > 0 else ''}}}"
    if dtype.subdtype:
        inner, shape = dtype.subdtype
        return f"{dtype_words(inner, depth + 1)} x {shape_words(shape)}"
    if dtype.kind == "V":
        return f"{dtype.itemsize} bytes"
    foreign = "<" if sys.byteorder == "big" else ">"
    return str(dtype.newbyteorder("=").name) + (f" {_ORDERS[foreign]}" if dtype.byteorder == foreign else "")


def shape_words(shape: Sequence[int] | None) -> str:
    """A shape in words: ``64 x 64``."""
    if shape is None:
        return "-"
    return " x ".join(map(str, shape)) if shape else "scalar"


def text(name: bytes) -> str:
    """A name or value that is bytes, as a text; what is no UTF-8 is kept, as Python keeps it in names of files."""
    return name.decode("utf-8", "surrogateescape")


def first_line(error: BaseException) -> str:
    """The begin of an error's words; of h5py's, what HDF5 itself said."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    found = re.fullmatch(r"Unable to [^(]*\((.+)\)", line)
    return (found[1] if found else line)[:100]
