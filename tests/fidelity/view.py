"""Everything that can be known of an HDF5 file through h5py, as lines that can be compared.

``python -m fidelity.view OUT FILE...`` writes the sections of the cases that the files belong to; ``@LIST`` for a file
stands for those that it names, one a line.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from fidelity.cases import attempt, failure, tell
from h5py import h5a, h5d, h5ds, h5i, h5l, h5o, h5p, h5r, h5s, h5t

MANY = 1000  # members from which a group's datasets are viewed in brief; ten times as many are shown as their digest
HUGE = 1 << 29  # bytes from which a dataset is read in pieces
ABSURD = 1 << 33  # bytes from which it is not: whoever asks for so many gets an error
LONG = 2000  # characters from which a value is shown as its digest


def short(text: str) -> str:
    return text if len(text) <= LONG else f"{text[:200]}... {len(text)} {hashlib.sha256(text.encode()).hexdigest()}"


def digest(parts: Iterable[Any]) -> str:
    """One word for a long list."""
    found = hashlib.sha256()
    for part in parts:
        found.update(repr(part).encode())
    return found.hexdigest()


def plain(value: Any, of: h5py.File) -> Any:
    """A value that was read, with references followed."""
    if isinstance(value, h5r.RegionReference):
        if not value:
            return "null region"
        space = h5r.get_region(value, of.id)
        return [
            "region",
            h5r.get_name(value, of.id).decode(),
            space.get_select_npoints(),
            repr(space.get_select_bounds()),
        ]
    if isinstance(value, h5r.Reference):
        return ["object", h5r.get_name(value, of.id).decode()] if value else "null reference"
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return [list(value.shape), [plain(v, of) for v in value.ravel()]]
        if value.dtype == np.longdouble and np.finfo(np.longdouble).nmant == 63:
            value = without_padding(value)
        if value.nbytes < LONG:
            content = value.tobytes().hex()
        else:
            content = hashlib.sha256(np.ascontiguousarray(value).reshape(-1).view("u1").data).hexdigest()
        return [list(value.shape), str(value.dtype), content]
    if isinstance(value, np.void):
        return [plain(value[name], of) for name in value.dtype.names] if value.dtype.names else value.tobytes().hex()
    return repr(value)


def without_padding(value: Any) -> Any:
    """Numbers of x86's long double: 10 of 16 bytes count, and what is in the others is left to chance."""
    words = np.array(value).reshape(-1).view("u1").reshape(-1, value.dtype.itemsize)
    words[:, 10:] = 0
    return words.reshape(-1).view(value.dtype).reshape(value.shape)


def read(thing: h5py.Dataset, of: h5py.File, *part: Any) -> str:
    """The values of a dataset, or of a part of it; a huge one is read in pieces."""
    if not HUGE <= thing.nbytes < ABSURD:
        return short(repr(plain(thing[(..., *part) if part else ()], of)))
    found, rows = hashlib.sha256(), max(1, len(thing) * (HUGE // 8) // thing.nbytes)
    for row in range(0, len(thing), rows):
        piece = (slice(row, row + rows), ..., *part)
        found.update(np.ascontiguousarray(thing[piece]).reshape(-1).view("u1").data)
    return f"huge: {found.hexdigest()}"


def type_view(tid: h5t.TypeID) -> list[Any]:
    kind = [tid.get_class(), tid.get_size(), tid.committed(), attempt(lambda: tid.dtype)]
    if tid.committed():
        kind.append(attempt(lambda: h5i.get_name(tid)))
        return kind
    if tid.get_class() in (h5t.INTEGER, h5t.FLOAT):
        kind += [tid.get_order(), tid.get_precision(), tid.get_offset(), tid.get_pad()]
    if tid.get_class() == h5t.STRING:
        kind += [tid.get_cset(), tid.get_strpad(), tid.is_variable_str()]
    if tid.get_class() == h5t.OPAQUE:
        kind.append(repr(tid.get_tag()))
    if tid.get_class() in (h5t.COMPOUND, h5t.ENUM):
        kind.append([repr(tid.get_member_name(i)) for i in range(tid.get_nmembers())])
    if tid.get_class() == h5t.COMPOUND:
        members = range(tid.get_nmembers())
        kind.append([[tid.get_member_offset(i), type_view(tid.get_member_type(i))] for i in members])
    if tid.get_class() == h5t.ENUM:
        kind.append([tid.get_member_value(i) for i in range(tid.get_nmembers())])
    if tid.get_class() in (h5t.ARRAY, h5t.VLEN, h5t.ENUM):
        kind.append(type_view(tid.get_super()))
    return kind


def space_view(space: h5s.SpaceID) -> list[Any]:
    if space.get_simple_extent_type() != h5s.SIMPLE:
        return [space.get_simple_extent_type()]
    return [list(space.get_simple_extent_dims()), list(space.get_simple_extent_dims(True))]


def value(thing: Any, name: str, of: h5py.File) -> Any:
    return plain(thing.attrs[name], of)


def attributes(thing: Any, of: h5py.File) -> list[Any]:
    seen = []
    for i in range(h5a.get_num_attrs(thing.id)):
        attr = h5a.open(thing.id, index=i)
        name = attr.name.decode("utf-8", "surrogateescape")
        content = short(attempt(value, thing, name, of))
        seen.append(
            [name, attempt(attr.get_storage_size), space_view(attr.get_space()), type_view(attr.get_type()), content]
        )
    return seen


def creation(plist: h5p.PropDCID) -> list[Any]:
    view: list[Any] = [plist.get_layout(), plist.get_alloc_time(), plist.get_fill_time(), plist.fill_value_defined()]
    view += [
        attempt(plist.get_obj_track_times),
        attempt(plist.get_attr_phase_change),
        attempt(plist.get_attr_creation_order),
    ]
    view.append([repr(plist.get_filter(i)) for i in range(plist.get_nfilters())])
    if plist.get_layout() == h5d.CHUNKED:
        view.append(list(plist.get_chunk()))
    if plist.get_layout() == h5d.VIRTUAL:
        for i in range(plist.get_virtual_count()):
            view.append([plist.get_virtual_filename(i), plist.get_virtual_dsetname(i)])
            for space in plist.get_virtual_srcspace, plist.get_virtual_vspace:
                view.append(attempt(lambda space=space, i=i: space(i).get_select_bounds()))
    view.append([repr(plist.get_external(i)) for i in range(plist.get_external_count())])
    return view


def brief(group: h5py.Group, name: bytes) -> list[Any]:
    found = h5d.open(group.id, name)
    value = np.empty(found.shape, found.dtype)
    found.read(h5s.ALL, h5s.ALL, value)
    return [repr(value), found.get_offset()]


def dataset(thing: h5py.Dataset, of: h5py.File) -> dict[str, Any]:
    plist = thing.id.get_create_plist()
    chunks: Any = None
    if plist.get_layout() == h5d.CHUNKED and 0 not in thing.shape:  # some versions of HDF5 die of a zero here
        chunks = attempt(lambda: [str(thing.id.get_chunk_info(i)) for i in range(min(thing.id.get_num_chunks(), 50))])
    return {
        "type": type_view(thing.id.get_type()),
        "space": space_view(thing.id.get_space()),
        "creation": creation(plist),
        "fill": attempt(lambda: thing.dtype.hasobject or plain(np.asarray(thing.fillvalue), of)),
        "storage": [thing.id.get_storage_size(), thing.id.get_space_status(), attempt(thing.id.get_offset), chunks],
        "scale": [h5ds.is_scale(thing.id), attempt(lambda: [[d.label, list(d)] for d in thing.dims])],
        "value": attempt(lambda: read(thing, of)),
        "part": attempt(lambda: read(thing, of, slice(None, None, 2))),
    }


def link(group: h5py.Group, name: bytes) -> list[Any]:
    info = group.id.links.get_info(name)
    view: list[Any] = [info.type, info.corder_valid, info.corder, info.cset]
    if info.type in (h5l.TYPE_SOFT, h5l.TYPE_EXTERNAL):
        view.append(repr(group.id.links.get_val(name)))
    return view


def node(thing: Any, of: h5py.File, known: dict[tuple[int, int], str], here: str) -> Any:
    """An object and all below it; an object met before is named by where that was."""
    info = h5o.get_info(thing.id)
    place = (info.fileno if thing.file.filename != of.filename else 0, info.addr)
    if place in known:
        return f"same as {known[place]}"
    known[place] = here
    view: dict[str, Any] = {
        "kind": type(thing).__name__,
        "address": info.addr,
        "references": info.rc,
        "in": os.path.relpath(thing.file.filename),
        "attributes": attributes(thing, of),
    }
    if isinstance(thing, h5py.Dataset):
        view.update(dataset(thing, of))
    elif isinstance(thing, h5py.Datatype):
        view["type"] = type_view(thing.id)
    else:
        plist = thing.id.get_create_plist()
        view["creation"] = [attempt(plist.get_link_creation_order), attempt(plist.get_attr_creation_order)]
        names: list[bytes] = []
        thing.id.links.iterate(names.append)
        if len(names) > MANY:
            members = ([repr(name), link(thing, name), brief(thing, name)] for name in names)
            view["links"] = list(members) if len(names) < 10 * MANY else [len(names), digest(members)]
            return view
        view["links"] = {}
        for name in names:
            text = name.decode("utf-8", "surrogateescape")
            try:
                below = node(thing[name], of, known, f"{here}/{text}")
            except Exception as error:
                below = failure(error)
            view["links"][text] = [link(thing, name), below]
    return view


def keeps_times(thing: Any, of: h5py.File) -> bool:
    """Whether an object of the file says when it was changed, so that no two such files have the same bytes."""
    found = []

    def look(name: str) -> None:
        info = h5o.get_info(of.id if name == "." else h5o.open(of.id, name.encode("utf-8", "surrogateescape")))
        found.extend([info.mtime, info.ctime])

    look(".")
    thing.visit(look)
    return any(found)


def image(file: h5py.File) -> str:
    """A digest of the file's bytes, where two of the same making have the same."""
    if not hasattr(h5o.ObjInfo, "mtime"):
        return "not compared by this h5py"
    try:
        if keeps_times(file, file):
            return "has times"
    except Exception as error:
        return failure(error)
    return hashlib.sha256(file.id.get_file_image()).hexdigest()


def file_view(name: str) -> dict[str, Any]:
    """The whole file, or the error that keeps it shut."""
    try:
        file = h5py.File(name, "r")
    except Exception as error:
        return {"error": failure(error)}
    with file:
        plist = file.id.get_create_plist()
        return {
            "name": [file.filename, file.mode, file.userblock_size, repr(file.swmr_mode)],
            "sizes": [file.id.get_filesize(), file.id.get_freespace(), plist.get_sizes()],
            "order": [plist.get_link_creation_order(), plist.get_userblock()],
            "space": [attempt(plist.get_file_space_strategy), attempt(plist.get_file_space_page_size)],
            "bounds": attempt(lambda: file.libver),
            "image": attempt(image, file),
            "root": node(file["/"], file, {}, ""),
        }


def look(name: str) -> None:
    h5py.File(name, "r").close()


def size(name: str) -> int:
    return Path(name).stat().st_size


def view(name: str) -> dict[str, Any]:
    """What a program sees that asks about a name before it reads the file."""
    seen: dict[str, Any] = {
        "first": attempt(look, name),
        "is hdf5": attempt(h5py.is_hdf5, name),
        "size": attempt(size, name),
    }
    try:
        seen["view"] = file_view(name)
    except Exception as error:
        seen["view"] = failure(error)
    return seen


def main(out: str, *files: str) -> None:
    """View files, each in the section of its case."""
    if files and files[0].startswith("@"):
        files = tuple(Path(files[0][1:]).read_text(encoding="utf-8").splitlines())
    with Path(out).open("w", encoding="utf-8", errors="surrogateescape") as sections:
        for file in files:
            tell(sections, Path(file).stem.partition("-")[2], {file: view(file)})


if __name__ == "__main__":
    main(*sys.argv[1:])
