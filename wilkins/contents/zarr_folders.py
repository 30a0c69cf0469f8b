"""Looks at folders of Zarr, versions 2 and 3: their metadata, which are JSON; and chunks for the preview.

Chunks that are not compressed are read as they are. For others the package zarr is asked, where it is installed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wilkins.contents.preview import Field, Selection, as_index, by_chunk, first_preview, places_of
from wilkins.contents.summary import MOST_DATASETS, Contents, Dataset
from wilkins.contents.words import dtype_words, first_line, shape_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_METADATA = 1 << 20
"""Bytes of one file of metadata."""
_MOST_FOLDERS = 5_000
_MOST_SECONDS = 3.0
_MOST_DEPTH = 16
_MOST_AXES = 32
_MOST_FIELDS = 50
_SIZES = 20_000
"""Files whose sizes are added up."""
_NATIVE = {"bool": "?", "float16": "f2", "complex64": "c8", "complex128": "c16"} | {
    f"{kind}{8 * width}": f"{letter}{width}"
    for kind, letter, widths in (("int", "i", (1, 2, 4, 8)), ("uint", "u", (1, 2, 4, 8)), ("float", "f", (4, 8)))
    for width in widths
}
"""The dtypes of version 3 that NumPy has, too."""

_UNSAID = ("bytes", "crc32c", "vlen-utf8")
"""Codecs of version 3 that do not compress."""
_CODECS = {"sharding_indexed": "shards"}


@dataclass(frozen=True, slots=True)
class _Array:
    """The metadata of an array, whichever version has them."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None
    """None: NumPy has no such type."""
    words: str
    """Its type."""
    chunks: tuple[int, ...]
    compression: str
    is_plain: bool
    """Its chunks lie on the disk as NumPy has them in memory."""
    prefix: str
    separator: str
    """What names of chunks begin with, and what stands between their numbers."""
    order: str
    fill: Any


def look_zarr(path: Path) -> Contents:
    """What a folder of Zarr holds.

    Raises:
        OSError: it cannot be read.
    """
    datasets: list[Dataset] = []
    fields: list[Field] = []
    more, attributes, is_cut, is_newest = 0, 0, False, (path / "zarr.json").is_file()
    until = time.monotonic() + _MOST_SECONDS
    for count, (folder, name) in enumerate(_nodes(path)):
        if count >= _MOST_FOLDERS or time.monotonic() > until:
            is_cut = True
            break
        try:
            found = _metadata(folder)
            if found is None:
                continue
            made, known = found
            if name == "/":
                attributes = len(known)
            if made is None:
                continue
            if made.dtype is not None and len(fields) < _MOST_FIELDS:
                fields.append(_field(folder, name, made, known))
            if len(datasets) >= MOST_DATASETS:
                more += 1
            else:
                datasets.append(_dataset(name, made, known))
        except Exception as error:  # metadata may hold anything
            datasets.append(Dataset(name, None, f"cannot be read: {first_line(error)}"))
    return Contents(
        str(path),
        "Zarr 3" if is_newest else "Zarr 2",
        size_of(path),
        tuple(datasets[:MOST_DATASETS]),
        more + max(0, len(datasets) - MOST_DATASETS),
        is_cut,
        attributes,
        first_preview(fields),
        is_read=True,
    )


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder, of the first some 20,000 of them."""
    whole = 0
    files = (Path(inner, name) for inner, _, names in os.walk(folder) for name in names)
    for file in itertools.islice(files, _SIZES):
        with contextlib.suppress(OSError):  # it was removed just now
            whole += file.lstat().st_size
    return whole


def _nodes(root: Path) -> Iterator[tuple[Path, str]]:
    """The folders of groups and arrays, with their paths in the store. Links are not followed."""
    waiting = [(root, "/", 0)]
    while waiting:
        folder, name, depth = waiting.pop()
        yield folder, name
        is_array = (folder / ".zarray").is_file() or _is_array(folder)
        if is_array or depth >= _MOST_DEPTH:
            continue
        with os.scandir(folder) as entries:
            inner = [one.name for one in itertools.islice(entries, _MOST_FOLDERS) if one.is_dir(follow_symlinks=False)]
        waiting += [(folder / one, f"{name.rstrip('/')}/{one}", depth + 1) for one in sorted(inner, reverse=True)]


def _is_array(folder: Path) -> bool:
    try:
        return _json(folder / "zarr.json").get("node_type") == "array"
    except (OSError, ValueError, RecursionError):
        return False


def _json(path: Path) -> Mapping[str, Any]:
    """A file of metadata.

    Raises:
        OSError, ValueError, RecursionError: it is none.
    """
    with path.open("rb") as file:
        data = file.read(_MOST_METADATA + 1)
    if len(data) > _MOST_METADATA:
        raise ValueError(f"{path.name} has more than {_MOST_METADATA} bytes")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} is no JSON object")
    return found


def _metadata(folder: Path) -> tuple[_Array | None, Mapping[str, Any]] | None:
    """A node's array, if it is one, and its attributes; None: the folder is no node."""
    if (folder / "zarr.json").is_file():
        known = _json(folder / "zarr.json")
        return (_version3(known) if known.get("node_type") == "array" else None), known.get("attributes") or {}
    named = _json(folder / ".zattrs") if (folder / ".zattrs").is_file() else {}
    if (folder / ".zarray").is_file():
        return _version2(_json(folder / ".zarray")), named
    return (None, named) if (folder / ".zgroup").is_file() else None


def _version2(known: Mapping[str, Any]) -> _Array:
    import numpy as np

    compressor, filters = known.get("compressor"), known.get("filters") or ()
    is_object = known["dtype"] == "|O"
    described = known["dtype"]
    if isinstance(described, list):
        described = [tuple(one) for one in described]
    dtype = None if is_object else np.dtype(described)
    words = "objects" if dtype is None else dtype_words(dtype)
    return _Array(
        _lengths(known["shape"]),
        dtype,
        words,
        _lengths(known["chunks"]),
        str(compressor["id"]) if compressor else "",
        not compressor and not filters and not is_object,
        "",
        str(known.get("dimension_separator", ".")),
        str(known.get("order", "C")),
        known.get("fill_value"),
    )


def _version3(known: Mapping[str, Any]) -> _Array:
    import numpy as np

    words = known["data_type"]
    words = words if isinstance(words, str) else str(words["name"])
    dtype = np.dtype(_NATIVE[words]) if words in _NATIVE else None
    codecs = [(one, {}) if isinstance(one, str) else (one["name"], one.get("configuration")) for one in known["codecs"]]
    name, setting = codecs[0]
    if dtype is not None and name == "bytes" and (setting or {}).get("endian") == "big":
        dtype = dtype.newbyteorder(">")
    keys = known.get("chunk_key_encoding") or {}
    is_old = keys.get("name") == "v2"
    separator = (keys.get("configuration") or {}).get("separator", "." if is_old else "/")
    return _Array(
        _lengths(known["shape"]),
        dtype,
        words,
        _lengths(known["chunk_grid"]["configuration"]["chunk_shape"]),
        ", ".join(_CODECS.get(one, str(one)) for one, _ in codecs if one not in _UNSAID),
        len(codecs) == 1 and name == "bytes",
        "" if is_old else f"c{separator}",
        str(separator),
        "C",
        known.get("fill_value"),
    )


def _lengths(value: Any) -> tuple[int, ...]:
    """A shape.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, list) or len(value) > _MOST_AXES or not all(type(n) is int and n >= 0 for n in value):
        raise ValueError("its shape is none")
    return tuple(value)


def _dataset(name: str, made: _Array, attributes: Mapping[str, Any]) -> Dataset:
    nbytes = math.prod(made.shape) * made.dtype.itemsize if made.dtype is not None else 0
    units = attributes.get("units")
    stored = [f"chunks {shape_words(made.chunks)}"] if made.chunks and made.chunks != made.shape else []
    stored += [made.compression] if made.compression else []
    known = units if isinstance(units, str) else ""
    return Dataset(name, made.shape, made.words, nbytes, known, ", ".join(stored), len(attributes))


def _field(folder: Path, name: str, made: _Array, attributes: Mapping[str, Any]) -> Field:
    assert made.dtype is not None
    if len(made.chunks) != len(made.shape) or 0 in made.chunks:
        raise ValueError("its chunks are none")
    units = attributes.get("units")

    def read(chosen: Selection) -> NDArray[Any]:
        return _plain(folder, made, chosen) if made.is_plain else _by_package(folder, chosen)

    known = units if isinstance(units, str) else ""
    return Field(name, made.shape, made.dtype, read, made.chunks, known)


def _by_package(folder: Path, chosen: Selection) -> NDArray[Any]:
    """Reads with the package zarr.

    Raises:
        ImportError: it is not installed.
    """
    import numpy as np
    import zarr

    return np.asarray(zarr.open_array(str(folder), mode="r")[as_index(chosen)])


def _plain(folder: Path, made: _Array, chosen: Selection) -> NDArray[Any]:
    """Reads chunks that are not compressed; those that are not there have the value for that.

    Raises:
        ValueError: a chunk has another length than it should.
    """
    import numpy as np

    assert made.dtype is not None
    lengths = [len(one) for one in places_of(chosen)]
    try:
        whole = np.full(lengths, 0 if made.fill is None else made.fill, made.dtype)
    except (TypeError, ValueError):  # such as "NaN"
        whole = np.full(lengths, float(made.fill), made.dtype)
    order: Any = "F" if made.order == "F" else "C"
    for parts in by_chunk(chosen, made.chunks):
        name = made.separator.join(str(one.number) for one in parts) or "0"
        file = folder / (made.prefix + name)
        if not file.resolve().is_relative_to(folder.resolve()) or not file.is_file():
            continue
        if file.stat().st_size != math.prod(made.chunks) * made.dtype.itemsize:
            raise ValueError(f"chunk {name} has another length than it should")
        values = np.fromfile(file, made.dtype).reshape(made.chunks, order=order)
        whole[tuple(one.into for one in parts)] = values[np.ix_(*(one.inner for one in parts))]
    return whole[tuple(0 if isinstance(one, int) else slice(None) for one in chosen)]
