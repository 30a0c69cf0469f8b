"""Performs random programs: ``python -m fidelity.perform write|read OUT BATCH [apart]``.

BATCH (JSON) has the programs, each of which writes one file, or two, and says how its consumer looks at them. A program
is a list of calls, each the name of a method below, or of ``performer.py``, and its arguments. Like those of pairs,
each program has a section in OUT, with what each of its calls returned, or how it failed.
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
from fidelity import view
from fidelity.cases import attempt, failure, target, tell
from fidelity.performer import Objects, compact, layout_of
from h5py import h5d, h5f

Program = dict[str, Any]


class Performer(Objects):
    """An open file, its calls, and those that concern it as a whole, or a second file."""

    def flush(self) -> None:
        self.file.flush()

    def about(self) -> list[Any]:
        """What the file says of itself once it is flushed."""
        self.file.flush()
        return [attempt(self.size), self.file.id.get_freespace(), self.file.userblock_size, self.file.mode]

    # Calls that concern the second file, which is complete and must not be opened for writing.

    def beyond(self) -> h5py.File:
        if not self.second:
            raise LookupError("no second file")
        return h5py.File(target(self.name), "r")

    def external(self, parent: int, name: str, path: str) -> None:
        if not self.second:
            raise LookupError("no second file")
        if self.file.get(self.place(parent, name), getlink=True) is not None:
            raise LookupError("HDF5 would open the second file for writing, to see that the link leads there")
        self.file[self.place(parent, name)] = h5py.ExternalLink(target(self.name), path)

    def fetch(self, number: int, parent: int, name: str, how: dict[str, bool]) -> str:
        """Copy an object of the second file."""
        with self.beyond() as other:
            known = ["/"]
            other.visit(known.append)
            path, here = known[number % len(known)], self.place(parent, name)
            kind = type(other[path])
            other.copy(path, self.file, here, **how)
        known = self.sets if kind is h5py.Dataset else self.groups if kind is h5py.Group else self.types
        known.append(here)
        return path

    def mount(self, number: int) -> list[str]:
        """Look at the second file where it is mounted on a group."""
        with self.beyond() as other:
            at = self.groups[number % len(self.groups)]
            h5f.mount(self.file.id, at.encode(), other.id)
            seen = [repr(sorted(self.file[at])), attempt(self.file[at].create_group, "mounted")]
            h5f.unmount(self.file.id, at.encode())
        return [*seen, repr(sorted(self.file[at]))]

    def reflect(self, parent: int, name: str, number: int, rows: int) -> str:
        """A virtual dataset that shows one of the second file. It is not written to: that would write there."""
        with self.beyond() as other:
            known: list[str] = []
            other.visititems(lambda path, thing: known.append(path) if isinstance(thing, h5py.Dataset) else None)
            if not known:
                raise LookupError("no dataset")
            part = other[known[number % len(known)]]
            layout = layout_of(part, target(self.name), rows)
        self.file.create_virtual_dataset(self.place(parent, name), layout, fillvalue=0)
        return str(layout.shape)

    def size(self) -> int:
        """The file's size, but while the core driver keeps it, which counts in blocks of its own: a step has none."""
        if self.file.driver == "core":
            raise LookupError("counted in blocks")
        return int(self.file.id.get_filesize())

    def reopen(self, mode: str, options: dict[str, Any]) -> str:
        """Close the file, and open it again."""
        self.file.close()
        self.file = h5py.File(self.name, mode, **options)
        return str(self.file.mode)

    def twice(self, mode: str, number: int) -> list[str]:
        """Open the file beside itself."""
        with self.another(mode) as other:
            made = attempt(other.create_group, f"beside{number}")
            return [made, repr(sorted(other)), repr(sorted(self.file))]

    def another(self, mode: str) -> h5py.File:
        """The file once more. With another driver HDF5 takes it for another file, which a step never is."""
        return h5py.File(self.name, mode, driver=self.file.driver)

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
        file = h5py.File(name, program.get("mode", "w"), **options(program["file"]))
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
        file.visititems(lambda path, thing: performer.groups.append(path) if isinstance(thing, h5py.Group) else None)
        file.visititems(lambda path, thing: performer.sets.append(path) if is_within(thing) else None)
        return [performer.perform(calls), view.node(file["/"], file, {}, "")]


def is_within(thing: Any) -> bool:
    """Is it a dataset whose values are in its own file?"""
    return isinstance(thing, h5py.Dataset) and not (
        thing.is_virtual and any(part.file_name != "." for part in thing.virtual_sources())
    )


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
    """What a failed creation or close leaves that h5py does not tell of: no file, or what is none for HDF5.

    Of that, HDF5's stdio driver says something else than the others, and a step has no such driver.
    """
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
