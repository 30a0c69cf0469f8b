"""The header of a safetensors file: which arrays it holds, and where. Needs neither torch nor NumPy.

The format (https://huggingface.co/docs/safetensors): eight bytes, the length of the header; the header, JSON with type,
shape and place of each array; then their bytes, in little-endian order, without gaps.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wilkins.tasks.checkpoint.errors import Damaged, Unsupported
from wilkins.tasks.checkpoint.state import checked_json

TYPES = {
    "bool": ("BOOL", 1),
    "uint8": ("U8", 1),
    "int8": ("I8", 1),
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1),
    "float8_e8m0fnu": ("F8_E8M0", 1),
    "uint16": ("U16", 2),
    "int16": ("I16", 2),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "uint32": ("U32", 4),
    "int32": ("I32", 4),
    "float32": ("F32", 4),
    "uint64": ("U64", 8),
    "int64": ("I64", 8),
    "float64": ("F64", 8),
    "complex64": ("C64", 8),
}
"""What the format calls a type of torch or NumPy, and its bytes."""
RESERVED = "__metadata__"
_NAMED = {code: name for name, (code, _) in TYPES.items()}
_LONGEST_HEADER = 100_000_000
"""Bytes: readers take no longer one."""
_ARRAY = checked_json.record(
    {
        "dtype": checked_json.one_of(*_NAMED),
        "shape": checked_json.items(checked_json.whole()),
        "data_offsets": checked_json.items(checked_json.whole(), least=2),
    }
)
_HEADER = checked_json.table(checked_json.text, _ARRAY)
_METADATA = checked_json.table(checked_json.text, checked_json.text)


@dataclass(frozen=True, slots=True)
class Place:
    """An array of a file."""

    dtype: str
    """As torch and NumPy call it."""
    shape: tuple[int, ...]
    offset: int
    """Where its bytes begin in the file."""
    nbytes: int


def header(arrays: Mapping[str, tuple[str, Sequence[int]]], metadata: Mapping[str, str]) -> bytes:
    """What a file begins with.

    Args:
        arrays: type and shape of each, by its name, in the order in which their bytes follow.
        metadata: what else the file says.

    Raises:
        Unsupported: the header would be longer than readers take, or an array has no name that the format knows.
    """
    found: dict[str, object] = {RESERVED: dict(metadata)}
    end = 0
    for name, (dtype, shape) in arrays.items():
        if name in ("", RESERVED):
            raise Unsupported(f"safetensors has no array of the name {name!r}; give it a name in the state")
        code, itemsize = TYPES[dtype]
        begin, end = end, end + itemsize * math.prod(shape)
        found[name] = {"dtype": code, "shape": list(shape), "data_offsets": [begin, end]}
    raw = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
    if len(raw) > _LONGEST_HEADER:
        raise Unsupported(f"{len(arrays)} arrays are too many for one safetensors file; export parts, with --only")
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw


def places(descriptor: int, path: object) -> tuple[dict[str, Place], dict[str, str]]:
    """The arrays of an open file, and its metadata.

    Raises:
        Damaged: it is no safetensors file.
        OSError: it cannot be read.
    """
    size = os.fstat(descriptor).st_size
    length = int.from_bytes(os.pread(descriptor, 8, 0), "little")
    try:
        if size < 8 or length > min(_LONGEST_HEADER, size - 8):
            raise checked_json.Wrong("its header does not fit into it")
        values = checked_json.parse(os.pread(descriptor, length, 8))
        if not isinstance(values, dict):
            raise checked_json.wrong("its header", values, "an object")
        metadata = _METADATA(values.pop(RESERVED, {}), RESERVED)
        found = {}
        for name, one in _HEADER(values, "").items():
            begin, end = one["data_offsets"][:2]
            dtype = _NAMED[one["dtype"]]
            if end - begin != TYPES[dtype][1] * math.prod(one["shape"]) or end > size - 8 - length:
                raise checked_json.Wrong(f"the bytes of {name!r} are not where it says")
            found[name] = Place(dtype, one["shape"], 8 + length + begin, end - begin)
    except checked_json.Wrong as error:
        raise Damaged(f"{path} is no safetensors file: {error}; give another one") from error
    return found, metadata
