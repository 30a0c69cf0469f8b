"""Looks at HDF5 files, those of netCDF-4 among them. Links to other files are not followed."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wilkins.contents.preview import Field, Selection, as_index, by_chunk, first_preview, places_of
from wilkins.contents.summary import MOST_DATASETS, Contents, Dataset
from wilkins.contents.words import dtype_words, first_line, shape_words, text

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_OBJECTS = 20_000
_MOST_SECONDS = 3.0
_MOST_DEPTH = 64
_MOST_SEEN = 200
"""Datasets that are opened; one of them is for the preview."""
_MOST_ATTRIBUTE = 4096
"""Bytes of an attribute that is read."""
_FILTERS = {
    1: "gzip", 4: "szip", 5: "n-bit", 6: "scale-offset", 32000: "lzf", 32001: "blosc", 32004: "lz4",
    32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32017: "sz", 32024: "sz3", 32026: "blosc2",
}  # fmt: skip
"""By the numbers under which The HDF Group has them registered."""
_NO_COMPRESSION = (2, 3)
"""Shuffling, and checksums."""
_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


@dataclass(slots=True)
class _Walk:
    """What was found so far."""

    datasets: list[Dataset] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    more: int = 0
    is_cut: bool = False


def look_hdf5(path: Path, size: int) -> Contents:
    """What an HDF5 file holds.

    Raises:
        OSError: it cannot be read as HDF5.
    """
    import h5py

    with h5py.File(path, "r", locking=False) as file:
        walk = _Walk()
        _walk(file.id, walk)
        is_netcdf = h5py.h5a.exists(file.id, b"_NCProperties")
        preview = first_preview(walk.fields)
        return Contents(
            str(path),
            "netCDF-4" if is_netcdf else "HDF5",
            size,
            tuple(walk.datasets),
            walk.more,
            walk.is_cut,
            h5py.h5a.get_num_attrs(file["/"].id),
            preview,
            is_read=True,
        )


def _walk(file: Any, walk: _Walk) -> None:
    """Look at every object once, group by group, links in the order of their names."""
    import h5py

    until, seen, count = time.monotonic() + _MOST_SECONDS, set(), 0
    root = h5py.h5g.open(file, b"/")
    seen.add(h5py.h5o.get_info(root).addr)
    groups: list[tuple[bytes, Iterator[bytes]]] = [(b"", iter(_links(root)))]
    above = [root]
    while groups:
        prefix, links = groups[-1]
        name = next(links, None)
        if name is None:
            groups.pop()
            above.pop()
            continue
        count += 1
        if count > _MOST_OBJECTS or time.monotonic() > until:
            walk.is_cut = True
            return
        path = prefix + b"/" + name
        try:
            group = _one(above[-1], name, path, seen, walk)
        except Exception as error:  # a damaged object: h5py raises KeyError, RuntimeError, ValueError, TypeError
            _add(walk, Dataset(text(path), None, f"cannot be read: {first_line(error)}"))
            continue
        if group is not None and len(groups) < _MOST_DEPTH:
            groups.append((path, iter(_links(group))))
            above.append(group)
        elif group is not None:
            walk.is_cut = True


def _links(group: Any) -> list[bytes]:
    """Names of a group's links, up to a number of them."""
    import h5py

    names: list[bytes] = []

    def take(name: bytes) -> bool | None:
        names.append(name)
        return True if len(names) > _MOST_OBJECTS else None  # ends the iteration

    with contextlib.suppress(Exception):  # the group is damaged: what was found before that counts
        group.links.iterate(take, idx_type=h5py.h5.INDEX_NAME)
    return names


def _one(group: Any, name: bytes, path: bytes, seen: set[Any], walk: _Walk) -> Any:
    """Note what a link leads to; a group that is to be walked is returned."""
    import h5py

    link = group.links.get_info(name)
    if link.type != h5py.h5l.TYPE_HARD:
        _add(walk, Dataset(text(path), None, _link(group, name, link.type)))
        return None
    info = h5py.h5o.get_info(group, name)
    if info.addr in seen:
        return None
    seen.add(info.addr)
    if info.type == h5py.h5o.TYPE_GROUP:
        return h5py.h5o.open(group, name)
    if info.type == h5py.h5o.TYPE_DATASET:
        if len(walk.datasets) + walk.more < _MOST_SEEN:
            _dataset(h5py.Dataset(h5py.h5o.open(group, name)), path, walk)
        else:
            walk.more += 1
    return None


def _add(walk: _Walk, dataset: Dataset) -> None:
    if len(walk.datasets) < MOST_DATASETS:
        walk.datasets.append(dataset)
    else:
        walk.more += 1


def _link(group: Any, name: bytes, kind: int) -> str:
    import h5py

    if kind == h5py.h5l.TYPE_SOFT:
        return f"link to {text(group.links.get_val(name))}"
    if kind == h5py.h5l.TYPE_EXTERNAL:
        file, inner = group.links.get_val(name)
        return f"link to {text(inner)} of file {text(file)}"
    return "link of a kind of its own"


def _dataset(dataset: Any, path: bytes, walk: _Walk) -> None:
    name = text(path)
    if _attribute(dataset, "NAME").encode().startswith(_NO_VARIABLE):
        return
    shape = dataset.shape
    stored, elsewhere = _stored(dataset)
    units = _attribute(dataset, "units")
    try:
        dtype = dataset.dtype
    except (TypeError, ValueError, KeyError):  # one that NumPy has nothing for
        _add(walk, Dataset(name, shape, "a type that NumPy lacks", 0, units, stored, _count(dataset)))
        return
    nbytes = 0 if shape is None else math.prod(shape) * dtype.itemsize
    _add(walk, Dataset(name, shape, dtype_words(dtype), nbytes, units, stored, _count(dataset)))
    if shape is None or elsewhere:
        return
    drawn = Field(name, shape, dtype, partial(_values, dataset), dataset.chunks, units)
    if drawn.is_drawable:
        scale, offset = _number(dataset, "scale_factor"), _number(dataset, "add_offset")
        packed = replace(
            drawn,
            missing=_number(dataset, "_FillValue"),
            scale=1.0 if scale is None else scale,
            offset=0.0 if offset is None else offset,
        )
        walk.fields.append(packed)


def _values(dataset: Any, chosen: Selection) -> NDArray[Any]:
    """Values of a dataset. Chunks are read one by one: HDF5 would go through all that lie between the selected ones."""
    import numpy as np

    if dataset.chunks is None or all(place.step == 1 for place in places_of(chosen)):
        return np.asarray(dataset[as_index(chosen)])
    whole = np.empty([len(one) for one in places_of(chosen)], dataset.dtype)
    for parts in by_chunk(chosen, dataset.chunks):
        whole[tuple(one.into for one in parts)] = dataset[as_index(tuple(one.outer for one in parts))]
    return whole[tuple(0 if isinstance(one, int) else slice(None) for one in chosen)]


def _count(dataset: Any) -> int:
    import h5py

    return int(h5py.h5a.get_num_attrs(dataset.id))


def _stored(dataset: Any) -> tuple[str, bool]:
    """How a dataset is stored, in words; and whether its values are in other files, which are not opened."""
    import h5py

    made = dataset.id.get_create_plist()
    layout = made.get_layout()
    if layout == h5py.h5d.VIRTUAL:
        return "virtual", True
    if made.get_external_count():
        return "in other files", True
    words = [f"chunks {shape_words(made.get_chunk())}"] if layout == h5py.h5d.CHUNKED else []
    for number in range(made.get_nfilters()):
        code, _, _, called = made.get_filter(number)
        if code not in _NO_COMPRESSION:
            words.append(_FILTERS.get(code) or text(called)[:20] or f"filter {code}")
    return ", ".join(words), False


def _is_small(dataset: Any, name: str) -> bool:
    import h5py

    code = name.encode()
    known = h5py.h5a.exists(dataset.id, code)
    return bool(known and h5py.h5a.open(dataset.id, code).get_storage_size() <= _MOST_ATTRIBUTE)


def _attribute(dataset: Any, name: str) -> str:
    """The begin of an attribute that is a text; empty if it is none."""
    import numpy as np

    try:
        if not _is_small(dataset, name):
            return ""
        value = dataset.attrs[name]
    except Exception:  # damaged, or of a type that h5py cannot read
        return ""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.ravel()[0]
    # Of a text of any length, only the place where it lies was found to be small.
    return value[:_MOST_ATTRIBUTE] if isinstance(value, str) else text(value) if isinstance(value, bytes) else ""


def _number(dataset: Any, name: str) -> float | None:
    """An attribute that is one number."""
    import numpy as np

    try:
        if not _is_small(dataset, name):
            return None
        value = np.asarray(dataset.attrs[name])
        return float(value.ravel()[0]) if value.size == 1 and value.dtype.kind in "iuf" else None
    except Exception:
        return None
