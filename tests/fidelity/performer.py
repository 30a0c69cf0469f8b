"""What random programs do inside of one open file: objects, values, attributes and links, each call a method.

What calls name by number (an object, a dataset) is the one of that number among those there are, so that every list of
calls is a program.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from fidelity import view
from fidelity.cases import attempt
from fidelity.values import dtype_of, selection, shape_of, values
from h5py import h5d, h5f, h5o, h5p, h5s, h5t, h5z

LAYOUTS = {"compact": h5d.COMPACT, "contiguous": h5d.CONTIGUOUS, "chunked": h5d.CHUNKED}
ALLOCATION = {"early": h5d.ALLOC_TIME_EARLY, "late": h5d.ALLOC_TIME_LATE, "incremental": h5d.ALLOC_TIME_INCR}
FILLING = {"alloc": h5d.FILL_TIME_ALLOC, "never": h5d.FILL_TIME_NEVER, "ifset": h5d.FILL_TIME_IFSET}
COMBINED = [h5s.SELECT_OR, h5s.SELECT_AND, h5s.SELECT_XOR, h5s.SELECT_NOTB, h5s.SELECT_NOTA]


class Objects:
    """One open file, and the paths of what was made in it."""

    def __init__(self, file: h5py.File, name: str, *, second: bool = False) -> None:
        self.file, self.name, self.second = file, name, second
        self.groups, self.sets, self.types = ["/"], list[str](), list[str]()

    def perform(self, calls: list[list[Any]]) -> list[str]:
        """What each call returned, or how it failed."""
        return [f"{name}: {attempt(getattr(self, name), *arguments)}" for name, *arguments in calls]

    # What is named by numbers.

    def path(self, number: int) -> str:
        everything = [*self.groups, *self.sets, *self.types]
        return everything[number % len(everything)]

    def dataset(self, number: int) -> h5py.Dataset:
        if not self.sets:
            raise LookupError("no dataset")
        return self.file[self.sets[number % len(self.sets)]]

    def place(self, parent: int, name: str) -> str:
        return f"{self.groups[parent % len(self.groups)].rstrip('/')}/{name}"

    def refer(self, number: int, kind: type) -> Any:
        """A reference to an object, to a region of a dataset, or to nothing."""
        if number % 5 == 0:
            return kind()
        if kind is h5py.RegionReference:
            if not self.sets:
                return kind()
            found = self.dataset(number)
            return (
                found.regionref[selection([["slice", number, 3, 1]] * found.ndim, found.shape)]
                if found.shape
                else kind()
            )
        return self.file[self.path(number)].ref

    # Calls that make objects.

    def group(self, parent: int, name: str, order: bool) -> None:
        path = self.place(parent, name)
        self.file.create_group(path, track_order=order)
        self.groups.append(path)

    def commit(self, parent: int, name: str, spec: Any) -> None:
        path = self.place(parent, name)
        self.file[path] = dtype_of(spec)
        self.types.append(path)

    def create(
        self, parent: int, name: str, spec: Any, shape: list[int], how: dict[str, Any], seed: int | None
    ) -> None:
        """A dataset; `how` are its layout, chunks, greatest extent, filters, fill value and times."""
        path, dtype = self.place(parent, name), dtype_of(spec)
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_obj_track_times(False)
        if (layout := how.get("layout")) and (shape or layout != "chunked"):
            plist.set_layout(LAYOUTS[layout])
        if shape and "chunk" in how:
            chunk = how["chunk"]
            plist.set_chunk(tuple(chunk[: len(shape)]))
        for kind, number in how.get("filters", ()) if shape else ():
            add_filter(plist, kind, number, dtype)
        if (
            (fill := how.get("fill")) is not None and not dtype.hasobject and dtype.kind != "S"
        ):  # h5py takes its address
            plist.set_fill_value(np.asarray(values(dtype, (), fill)))
        if alloc := how.get("alloc"):
            plist.set_alloc_time(ALLOCATION[alloc])
        unset = how.get("filling") == "never" and "region" in repr(spec)  # unset memory would be addresses
        if (filling := how.get("filling")) and not unset:
            plist.set_fill_time(FILLING[filling])
        if how.get("outside") and "chunk" not in how and shape and not how.get("layout"):
            raw = f"raw-{Path(self.name).stem}-{len(self.sets)}"
            plist.set_external(raw.encode(), how["outside"], h5f.UNLIMITED)
        if how.get("order"):
            plist.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
        links = h5p.create(h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        links.set_char_encoding(h5t.CSET_UTF8)
        greatest = tuple(h5s.UNLIMITED if n is None else n for n in how["max"][: len(shape)]) if "max" in how else None
        space = h5s.create(h5s.NULL) if how.get("null") else h5s.create_simple(tuple(shape), greatest)
        if not shape and not how.get("null"):
            space = h5s.create(h5s.SCALAR)
        types = self.types if how.get("committed") and self.types else None
        tid = self.file[types[0]].id if types else narrowed(h5t.py_create(dtype, logical=True), how.get("narrow"))
        h5d.create(self.file.id, path.encode(), tid, space, plist, links).close()
        self.sets.append(path)
        if seed is not None and not types:
            self.file[path][...] = values(dtype, tuple(shape), seed, self.refer)

    def virtual(self, parent: int, name: str, number: int, rows: int) -> None:
        """A dataset that shows another several times."""
        layout, path = layout_of(self.dataset(number), ".", rows), self.place(parent, name)
        self.file.create_virtual_dataset(path, layout, fillvalue=0)
        self.sets.append(path)

    # Calls that write and read values.

    def write(self, number: int, spec: list[Any], seed: int, convert: str | None, field: int | None) -> str:
        found = self.dataset(number)
        chosen = selection(spec, found.shape)
        data = values(found.dtype, shape_of(chosen, found.shape), seed, self.refer)
        if field is not None and found.dtype.names:
            name = found.dtype.names[field % len(found.dtype.names)]
            arguments = (*chosen, name)
            found[arguments] = data[name]
        elif convert and found.dtype.kind in "iuf":
            found[chosen] = data.astype(convert)
        else:
            found[chosen] = data
        return str(found.name)

    def points(self, number: int, numbers: list[int], seed: int) -> str:
        """Elements one by one, perhaps the same ones twice."""
        found = self.dataset(number)
        count = max(found.size, 1)
        places = np.array([np.unravel_index(n % count, found.shape) for n in numbers])
        space = found.id.get_space()
        space.select_elements(places)
        return self.low_level(found, space, seed)

    def blocks(self, number: int, parts: list[list[int]], seed: int) -> str:
        """A combination of hyperslabs."""
        found = self.dataset(number)
        space = found.id.get_space()
        for turn, (how, *rest) in enumerate(parts):
            sizes = [rest[(turn + axis) % len(rest)] for axis in range(4 * found.ndim)]
            start, count, stride, block = (
                tuple(at % bound for at, bound in zip(sizes[k::4], bounds, strict=False))
                for k, bounds in enumerate((found.shape, found.shape, [3] * 32, [2] * 32))
            )
            block = tuple(b + 1 for b in block)
            stride = tuple(s + b for s, b in zip(stride, block, strict=True))
            space.select_hyperslab(start, count, stride, block, op=COMBINED[how % 5] if turn else h5s.SELECT_SET)
        return self.low_level(found, space, seed)

    def low_level(self, found: h5py.Dataset, space: h5s.SpaceID, seed: int) -> str:
        many = space.get_select_npoints()
        data = values(found.dtype, (many,), seed, self.refer)
        found.id.write(h5s.create_simple((many,)), space, data)
        return f"{found.name} {many} {space.get_select_bounds() if many else None}"

    def read(self, number: int, spec: list[Any]) -> Any:
        found = self.dataset(number)
        return view.short(repr(view.plain(found[selection(spec, found.shape)], self.file)))

    def chunk(self, number: int, which: int, seed: int, mask: int) -> str:
        """One chunk as it is stored, in bytes that no filter made."""
        found = self.dataset(number)
        if not found.chunks or found.dtype.hasobject or found.file.mode == "r":  # which HDF5 1.10 writes, and dies of
            raise LookupError("no such chunks")
        place = tuple(which % max(n, 1) // c * c for n, c in zip(found.shape, found.chunks, strict=True))
        data = values(found.dtype, found.chunks, seed).tobytes()
        past = mask or "szip" in found._filters  # szip believes the bytes how many it unpacks: gigabytes
        every = (1 << len(found._filters)) - 1 if past else 0
        found.id.write_direct_chunk(place, data, every)
        return f"{place} {found.id.read_direct_chunk(place)[0]}"

    def settle(self, number: int) -> str:
        """Write out one dataset, forget what is known of it, and ask where it lies."""
        found = self.dataset(number)
        found.id.flush()
        found.id.refresh()
        count = found.id.get_num_chunks() if found.chunks and 0 not in found.shape else None
        return f"{found.name} {count} {found.id.get_storage_size()} {found.id.get_space_status()}"

    def several(self, numbers: list[int], seed: int) -> list[str]:
        """Datasets of numbers, written by one call, and read by another."""
        names = sorted({name for n in numbers if is_number(self.dataset(n)) and (name := self.dataset(n).name)})
        found = [self.file[name] for name in names]
        data = [np.ascontiguousarray(values(part.dtype, part.shape, seed)) for part in found]
        several(found, data, "H5Dwrite_multi")
        back = [np.zeros_like(part) for part in data]
        several(found, back, "H5Dread_multi")
        return [view.short(repr(view.plain(part, self.file))) for part in back]

    def resize(self, number: int, sizes: list[int]) -> str:
        found = self.dataset(number)
        most = 41 if found.ndim < 3 else 5
        found.resize(tuple(size % most for size in sizes[: found.ndim]))
        return repr(found.shape)

    # Attributes.

    def attribute(self, number: int, name: str, spec: Any, shape: list[int] | None, seed: int) -> None:
        if "region" in repr(spec):
            raise LookupError("with HDF5 1.10, h5py dies of these, in some later program")
        on, dtype = self.file[self.path(number)].attrs, dtype_of(spec)
        if shape is None:
            on.create(name, h5py.Empty(dtype))
        else:
            on.create(name, values(dtype, tuple(shape), seed, self.refer), tuple(shape), dtype)

    def modify(self, number: int, name: str, value: Any) -> None:
        self.file[self.path(number)].attrs.modify(name, value)

    def rename(self, number: int, name: str, other: str) -> None:
        h5py.h5a.rename(self.file[self.path(number)].id, name.encode(), other.encode())

    def forget(self, number: int, name: str) -> None:
        del self.file[self.path(number)].attrs[name]

    def many(self, number: int, count: int) -> None:
        """So many attributes that HDF5 keeps them in another way."""
        on = self.file[self.path(number)].attrs
        for k in range(count):
            on[f"many{k}"] = k

    def comment(self, number: int, text: str) -> None:
        h5o.set_comment(self.file.id, text.encode(), obj_name=self.path(number).encode())

    # Links, and what moves.

    def crowd(self, parent: int, count: int) -> None:
        """So many links that HDF5 keeps them in another way."""
        for k in range(count):
            self.file.create_group(self.place(parent, f"crowd{k}"))

    def soft(self, parent: int, name: str, number: int) -> None:
        self.file[self.place(parent, name)] = h5py.SoftLink(self.path(number) if number >= 0 else "/nowhere")

    def hard(self, parent: int, name: str, number: int) -> None:
        self.file[self.place(parent, name)] = self.file[self.path(number)]

    def delete(self, number: int) -> str:
        path = self.path(number)
        del self.file[path]
        for kind in self.groups, self.sets, self.types:
            kind[:] = [known for known in kind if known != path and not known.startswith(f"{path}/")]
        return path

    def move(self, number: int, parent: int, name: str) -> str:
        path, other = self.path(number), self.place(parent, name)
        if f"{other}/".startswith(f"{path}/"):
            raise LookupError("into itself")  # HDF5 does it, and what has moved is out of reach
        self.file.move(path, other)
        for kind in self.groups, self.sets, self.types:
            kind[:] = [other + known[len(path) :] if f"{known}/".startswith(f"{path}/") else known for known in kind]
        return other

    def copy(self, number: int, parent: int, name: str, how: dict[str, bool]) -> str:
        path, other = self.path(number), self.place(parent, name)
        if f"{other}/".startswith(f"{path}/"):
            raise LookupError("into itself")
        self.file.copy(path, other, **how)
        (self.sets if path in self.sets else self.types if path in self.types else self.groups).append(other)
        return other

    def scale(self, number: int, axis: int, other: int, label: str) -> None:
        found, scale = self.dataset(number), self.dataset(other)
        scale.make_scale(label)
        found.dims[axis % max(found.ndim, 1)].attach_scale(scale)
        found.dims[axis % max(found.ndim, 1)].label = label


def is_number(part: h5py.Dataset) -> bool:
    """Does a dataset have numbers as NumPy knows them, and some of them?"""
    return part.shape is not None and part.dtype.kind in "iuf" and not h5py.check_enum_dtype(part.dtype)


def several(found: list[h5py.Dataset], data: list[Any], function: str) -> None:
    """Call one of HDF5's functions for several datasets, which h5py does not have."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").split()
    path = next(word for word in maps if "/libhdf5" in word and "_hl" not in word)
    call = getattr(ctypes.CDLL(path), function, None)
    if not call:
        raise LookupError("not in this HDF5")
    ids = ctypes.c_int64 * len(found)
    types = [h5t.py_create(part.dtype) for part in data]
    buffers = (ctypes.c_void_p * len(found))(*(part.ctypes.data for part in data))
    everything = ids(*(0 for _ in found))
    sets, kinds = ids(*(part.id.id for part in found)), ids(*(kind.id for kind in types))
    if call(ctypes.c_size_t(len(found)), sets, kinds, everything, everything, ctypes.c_int64(0), buffers) < 0:
        raise OSError("HDF5 refuses")


def narrowed(tid: h5t.TypeID, bits: int | None) -> h5t.TypeID:
    """A type of integers that leaves so many bits of its bytes unused, on both sides."""
    if not bits or not isinstance(tid, h5t.TypeIntegerID):
        return tid
    tid = tid.copy()
    tid.set_precision(8 * tid.get_size() - bits)
    tid.set_offset(bits // 2)
    return tid


def layout_of(part: h5py.Dataset, file: str, rows: int) -> h5py.VirtualLayout:
    """A dataset that shows another, of this name of a file, several times."""
    if part.dtype.kind not in "iuf" or h5py.check_enum_dtype(part.dtype) or part.size in (None, 0) or not part.shape:
        raise LookupError("nothing to show")  # some versions of HDF5 die of others
    layout = h5py.VirtualLayout((rows + 2, *part.shape), part.dtype)
    for row in range(rows):
        layout[row] = h5py.VirtualSource(file, part.name, part.shape, part.dtype)
    return layout


def compact() -> h5p.PropDCID:
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_layout(h5d.COMPACT)
    return plist


def add_filter(plist: h5p.PropDCID, kind: str, number: int, dtype: Any) -> None:
    """Add a filter to a list of properties."""
    if kind == "gzip":
        plist.set_deflate(number % 10)
    elif kind == "shuffle":
        plist.set_shuffle()
    elif kind == "fletcher32":
        plist.set_fletcher32()
    elif kind == "szip":
        plist.set_szip(h5z.SZIP_NN_OPTION_MASK, 8)
    elif kind == "scaleoffset":
        plist.set_scaleoffset(h5z.SO_INT if dtype.kind in "iu" else h5z.SO_FLOAT_DSCALE, number % 4)
    else:
        plist.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL)
