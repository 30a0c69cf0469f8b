"""Performs random programs: ``python -m fidelity.perform write|read OUT BATCH [apart]``.

BATCH (JSON) has the programs, each of which writes one file, or two, and says how its consumer looks at them. A program
is a list of calls, each the name of a method below and its arguments. What they name by number (an object, a dataset)
is the one of that number among those there are, so that every list of calls is a program. Like those of pairs, each
program has a section in OUT, with what each of its calls returned, or how it failed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from fidelity import view
from fidelity.cases import attempt, failure, target, tell
from fidelity.values import dtype_of, selection, shape_of, values
from h5py import h5d, h5f, h5p, h5s, h5t, h5z

Program = dict[str, Any]
LAYOUTS = {"compact": h5d.COMPACT, "contiguous": h5d.CONTIGUOUS, "chunked": h5d.CHUNKED}
ALLOCATION = {"early": h5d.ALLOC_TIME_EARLY, "late": h5d.ALLOC_TIME_LATE, "incremental": h5d.ALLOC_TIME_INCR}
FILLING = {"alloc": h5d.FILL_TIME_ALLOC, "never": h5d.FILL_TIME_NEVER, "ifset": h5d.FILL_TIME_IFSET}
COMBINED = [h5s.SELECT_OR, h5s.SELECT_AND, h5s.SELECT_XOR, h5s.SELECT_NOTB, h5s.SELECT_NOTA]


class Performer:
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
        if filling := how.get("filling"):
            plist.set_fill_time(FILLING[filling])
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
        tid = self.file[types[0]].id if types else h5t.py_create(dtype, logical=True)
        h5d.create(self.file.id, path.encode(), tid, space, plist, links).close()
        self.sets.append(path)
        if seed is not None and not types:
            self.file[path][...] = values(dtype, tuple(shape), seed, self.refer)

    def virtual(self, parent: int, name: str, number: int, rows: int) -> None:
        """A dataset that shows another several times."""
        part = self.dataset(number)
        if (
            part.dtype.kind not in "iuf"
            or h5py.check_enum_dtype(part.dtype)
            or part.size in (None, 0)
            or not part.shape
        ):
            raise LookupError("nothing to show")  # some versions of HDF5 die of others
        layout = h5py.VirtualLayout((rows + 2, *part.shape), part.dtype)
        for row in range(rows):
            layout[row] = h5py.VirtualSource(".", part.name, part.shape, part.dtype)
        path = self.place(parent, name)
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
        if not found.chunks or found.dtype.hasobject:
            raise LookupError("no such chunks")
        place = tuple(which % max(n, 1) // c * c for n, c in zip(found.shape, found.chunks, strict=True))
        data = values(found.dtype, found.chunks, seed).tobytes()
        every = (1 << len(found._filters)) - 1 if mask else 0
        found.id.write_direct_chunk(place, data, every)
        return f"{place} {found.id.read_direct_chunk(place)[0]}"

    def resize(self, number: int, sizes: list[int]) -> str:
        found = self.dataset(number)
        most = 41 if found.ndim < 3 else 5
        found.resize(tuple(size % most for size in sizes[: found.ndim]))
        return repr(found.shape)

    # Attributes.

    def attribute(self, number: int, name: str, spec: Any, shape: list[int] | None, seed: int) -> None:
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

    # Links, and what moves.

    def soft(self, parent: int, name: str, number: int) -> None:
        self.file[self.place(parent, name)] = h5py.SoftLink(self.path(number) if number >= 0 else "/nowhere")

    def hard(self, parent: int, name: str, number: int) -> None:
        self.file[self.place(parent, name)] = self.file[self.path(number)]

    def external(self, parent: int, name: str, path: str) -> None:
        if not self.second:
            raise LookupError("no second file")
        if self.file.get(self.place(parent, name), getlink=True) is not None:
            raise LookupError("HDF5 would open the second file for writing, to see that the link leads there")
        self.file[self.place(parent, name)] = h5py.ExternalLink(target(self.name), path)

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

    # The file as a whole.

    def flush(self) -> None:
        self.file.flush()

    def size(self) -> int:
        """The file's size, but while the core driver keeps it, which counts in blocks of its own: a step has none."""
        if self.file.driver == "core":
            raise LookupError("counted in blocks")
        return int(self.file.id.get_filesize())

    def reopen(self, mode: str, **options: Any) -> str:
        """Close the file, and open it again."""
        self.file.close()
        self.file = h5py.File(self.name, mode, **options)
        if mode == "w":
            self.groups, self.sets, self.types = ["/"], [], []
        return str(self.file.mode)

    def twice(self, mode: str, number: int) -> list[str]:
        """Open the file beside itself."""
        with self.another(mode) as other:
            made = attempt(other.create_group, f"beside{number}")
            return [made, repr(sorted(other)), repr(sorted(self.file))]

    def another(self, mode: str) -> h5py.File:
        """The file once more; with another driver HDF5 takes it for another file, which a step never is."""
        if self.file.driver != "sec2":
            raise LookupError("another driver")
        return h5py.File(self.name, mode)

    def wrong(self, which: int, number: int) -> Any:
        """A call that cannot succeed."""
        calls: list[Callable[[], Any]] = [
            lambda: self.file["nowhere"],
            lambda: h5py.File(f"{self.name}-nowhere", "r"),
            lambda: self.file.create_dataset("bad", (3,), "f4", chunks=(5, 5)),
            lambda: self.file.create_dataset("bad", (3,), "f4", maxshape=(2,)),
            lambda: self.file.create_dataset("bad", (3,), "f4", scaleoffset=-5),
            lambda: self.dataset(number).id.set_extent((10**6,) * 3),
            lambda: self.dataset(number).attrs["nowhere"],
            lambda: self.file.copy("nowhere", "bad"),
            lambda: self.file.create_dataset("", (3,), "f4"),
            lambda: self.file.require_dataset(self.dataset(number).name, (1234,), "f2"),
            lambda: self.another("w"),
            lambda: self.another("w-"),
            lambda: h5d.open(self.file.id, self.groups[-1].encode()),
            lambda: self.file.create_dataset("compact", (10**5,), "f4", dcpl=compact()),
        ]
        return calls[which % len(calls)]()


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


def options(told: dict[str, Any]) -> dict[str, Any]:
    """How a file is opened; lists of JSON are h5py's tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in told.items()}


def write(name: str, program: Program) -> tuple[Any, h5py.File]:
    """Write the files of a program; the last is still open."""
    second = None
    if "target" in program:
        with h5py.File(target(name), "w") as file:
            second = Performer(file, target(name)).perform(program["target"])
    try:
        file = h5py.File(name, "w", **options(program["file"]))
    except TypeError:  # this h5py knows no such option
        file = h5py.File(name, "w")
    performer = Performer(file, name, second="target" in program)
    seen = [second, performer.perform(program["calls"])]
    return seen, performer.file


def read(name: str, program: Program) -> Any:
    """Look at the files of a program: as it says itself, then completely, then with its changes."""
    seen: list[Any] = [attempt(some_values, name, program["take"])]
    seen.append(view.view(name))
    if "target" in program:
        seen.append(view.view(target(name)))
    if program["take"].get("calls"):
        seen.append(changed(name, program["take"]["calls"]))
    return seen


def some_values(name: str, take: dict[str, Any]) -> Any:
    """Selections of datasets, in the order of their names."""
    with h5py.File(name, "r", **take.get("file", {})) as file:
        performer = Performer(file, name)
        file.visititems(lambda path, thing: performer.sets.append(path) if isinstance(thing, h5py.Dataset) else None)
        return performer.perform([["read", *arguments] for arguments in take["reads"]])


def changed(name: str, calls: list[list[Any]]) -> Any:
    """What the consumer sees of a file that it changes itself, until it closes it."""
    try:
        file = h5py.File(name, "r+")
    except Exception as error:
        return failure(error)
    with file:
        performer = Performer(file, name)
        for kind, known in (h5py.Dataset, performer.sets), (h5py.Group, performer.groups):
            file.visititems(lambda path, thing, k=kind, to=known: to.append(path) if isinstance(thing, k) else None)
        return [performer.perform(calls), view.node(file["/"], file, {}, "")]


def begin(action: str, kinds: list[str]) -> None:
    """Two small files on every port: that a port's first name is not a stream, only its second file tells."""
    for number in "first", "second":
        for kind in kinds:
            h5py.File(f"{kind}-{number}.h5", "w" if action == "write" else "r").close()


def closed(programs: list[Program]) -> Iterator[tuple[int, list[int]]]:
    """The programs in their order, and those whose files are closed after each, in the order of their closes.

    Consumers take them in that order, for that is the one in which they are published.
    """
    late: list[list[int]] = []
    for number, program in enumerate(programs):
        late = [[other, turns - 1] for other, turns in late]
        now = [] if program.get("late") else [number]
        now += [other for other, turns in late if turns == 0]
        late = [[other, turns] for other, turns in late if turns] + (
            [] if now[:1] == [number] else [[number, program["late"]]]
        )
        yield number, now + ([other for other, _ in late] if number + 1 == len(programs) else [])


def perform(action: str, name: str, program: Program, files: dict[str, h5py.File]) -> Any:
    """One side of a program; the file that it writes is left open."""
    try:
        if action == "read":
            return read(name, program)
        seen, files[name] = write(name, program)
    except Exception as error:
        return failure(error)
    return seen


def main(action: str, out: str, batch: str, apart: str = "") -> None:
    """Perform the programs of a batch; each in a process of its own (``apart``), which may die of HDF5."""
    told = json.loads(Path(batch).read_text(encoding="utf-8"))
    programs = told["programs"]
    names = [f"{told['kind']}-{number:04d}.h5" for number in range(len(programs))]
    begin(action, [told["kind"], "target"])
    files: dict[str, h5py.File] = {}

    with Path(out).open("w", encoding="utf-8", errors="surrogateescape") as sections:

        def one(number: int) -> None:
            tell(sections, f"{number:04d}", perform(action, names[number], programs[number], files))
            if apart and (failed := close(files, names[number]) or unfinished(names[number])):
                tell(sections, f"{number:04d}", f"died: its close does not finish its file: {failed}")

        for number, ended in closed(programs):
            if apart:
                status = in_a_child(one, number)
                if status:
                    tell(sections, f"{number:04d}", f"died: {status}")
                continue
            for turn in [number] if action == "write" else ended:
                one(turn)
            for other in ended:
                close(files, names[other])


def close(files: dict[str, h5py.File], name: str) -> str:
    """Close a file, if it is open: how that failed."""
    try:
        if name in files:
            files.pop(name).close()
    except Exception as error:
        return failure(error)
    return ""


def unfinished(name: str) -> str:
    """What a failed close leaves that h5py does not tell of: on disk a part of a file, in memory no step at all."""
    count = h5f.get_obj_count(h5f.OBJ_ALL, h5f.OBJ_FILE | h5f.OBJ_GROUP | h5f.OBJ_DATASET | h5f.OBJ_ATTR)
    return f"{count} objects are open" if count else "" if h5py.is_hdf5(name) else "it is no HDF5 file"


def in_a_child(act: Callable[[int], None], number: int) -> int:
    """How a child ended that called a function with a number."""
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        act(number)
        os._exit(0)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main(*sys.argv[1:])
