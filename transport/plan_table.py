"""What the native layer gets to know of a run, in one table: each of its structures and fields is declared here alone.

Python fills structures that are made from these dataclasses (`Arrays`); C++ includes those that ``python plan_table.py
FILE`` writes. `VERSION` is that of the table, so that a library and a package of different tables notice it.

`ReadKeys` are keys of the workflow file, too: what an in-port says there reaches the native layer as it is. So one
field of it makes such a key, with its place in the file's reference and JSON Schema, in the plan and in its records.
All else that the layer is told of a port is a field of `Habits`, taken from that field of the port's plan (`PortPlan`)
which has the same name.

It is run before the package can be imported, and then imports nothing of it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

if __name__ == "__main__":
    from dataclasses import MISSING, dataclass, field, fields
else:
    from wilkins.values import MISSING, dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Native:
    """What a field is in C++."""

    c: str
    """The type; of a text that is part of its structure ``char``."""
    values: tuple[str, ...] = ()
    """Of an enumeration, in order from 0."""
    length: int = 0
    """Bytes of a text that is part of its structure."""
    scale: int = 1
    """The value is multiplied by so much, and rounded."""
    suffix: str = ""
    """What its name has in C++ beyond Python's: a unit."""
    unset: int | None = None
    """The value that stands for None; then a second member, NAME_given, says that it is not None."""

    def make(self, value: Any) -> Any:
        """A value of Python as one for ctypes."""
        if self.values:
            return self.values.index(value)
        if self.c in ("char", "const char*"):
            return os.fsencode(value)
        return self.unset if value is None else round(value * self.scale)

    def default(self, value: Any) -> str:
        """A default in C++."""
        if self.values:
            return f"{self.c}::{_word(value)}"
        if self.c == "char":
            return "{}"
        if self.c == "const char*":
            return '""'
        return str(self.make(value)) + "u" * self.c.startswith("u")


INT = Native("int32_t")
UINT = Native("uint32_t")
LONG = Native("uint64_t")
TEXT = Native("const char*")
MILLISECONDS = Native("uint32_t", scale=1000, suffix="_ms")

Direction = Literal["in", "out"]
Mode = Literal["memory", "both", "file"]
Publish = Literal["close", "next", "flush", "write", "file", "end"]
First = Literal["wait", "missing", "file"]
Looks = Literal["wait", "now", "always"]
Lists = Literal["now", "end"]
WhenFull = Literal["block", "drop-oldest", "drop-newest"]
DevicePath = Literal["host", "pinned", "ipc"]
"""How a channel's data get from the writer to the reader: through host memory; through host memory that is registered
with CUDA by the ends that are not on the host; or as device memory that both ends share, by CUDA IPC."""

DIRECTION = Native("Direction", get_args(Direction))
MODE = Native("Mode", get_args(Mode))
PUBLISH = Native("Publish", get_args(Publish))
FIRST = Native("First", get_args(First))
LOOKS = Native("Looks", get_args(Looks))
LISTS = Native("Lists", get_args(Lists))
WHEN_FULL = Native("WhenFull", get_args(WhenFull))

RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PALS_RANKID", "SLURM_PROCID")
"""Where MPI's launchers tell a process its rank, in the order in which they are asked."""

REORDER = 16
"""Steps by which a queue may grow to break a circle of waits, if the workflow file does not say."""


def member(native: Native, about: str = "", *, default: Any = MISSING) -> Any:
    """Declares a member of a structure in C++. `about`: the comment on it there."""
    return field(default=default, metadata={"native": native, "about": about})


def read_key(native: Native, kind: tuple[Any, ...], *, default: Any, doc: str) -> Any:
    """Declares a key of in-ports that reaches the native layer as it is.

    Args:
        kind: what the workflow file may say: the name of a kind (wilkins/schema/kinds.py), and its arguments.
    """
    metadata = {"native": native, "about": "in", "kind": kind, "doc": doc, "unused": "", "required": False}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class ReadKeys:
    """Keys of an in-port that reach the native layer as the workflow file has them."""

    opens_per_step: int = read_key(
        UINT, ("integer", 1), default=1, doc="How often the program opens a file before it turns to the next step."
    )
    first: First = read_key(
        FIRST,
        ("choice", *FIRST.values),
        default="wait",
        doc="What the first open of the port does, for cycles: `wait` for a step; `missing`, fail as for a missing "
        "file; `file`, read the real file of that name. Later opens wait.",
    )
    reorder: int | None = read_key(
        Native("uint32_t", unset=REORDER),
        ("integer", 0),
        default=None,
        doc="Steps by which the queue may grow, if memory allows, when the program waits for a step behind those that "
        f"fill it; left out: {REORDER}. If given, that many steps that were read stay, and can be opened again.",
    )
    listing: Lists = read_key(
        LISTS,
        ("choice", *LISTS.values),
        default="now",
        doc="What the listing of a folder shows: the steps that are there `now`, or at the `end` of the stream all of "
        "them.",
    )
    poll_end: float = read_key(
        MILLISECONDS,
        ("time_span",),
        default=10.0,
        doc="How long the program may ask again and again for what is not there, without reading, before steps that it "
        "does not ask for are let go.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKeys(ReadKeys):
    """The access keys of a port: what its files are, and how its program opens and closes them."""

    mode: Mode = member(MODE, default="memory")
    publish: Publish = member(PUBLISH, "out: when a step is complete", default="close")
    publish_count: int = member(UINT, "out: publish at every n-th close or write", default=1)
    publish_dset: str = member(
        Native("char", length=256), "out: the dataset whose writes count; empty: any", default=""
    )
    publish_file: str = member(
        Native("char", length=256), "out, of sets: the file in one whose close publishes it", default=""
    )
    is_set: bool = member(UINT, "each step is a folder, or several files (see store/sets.hpp)", default=False)
    beside: str = member(
        Native("char", length=1024),
        "of several files: their names after the first, which is the pattern, within its folder, one a line",
        default="",
    )
    on_disk: bool = member(UINT, "of sets: what is in one lies on the disk", default=False)
    passes_on: bool = member(
        UINT,
        "out: its task passes on the steps of its in-port of the same pattern (see store/stage.hpp)",
        default=False,
    )
    looks: Looks = member(
        LOOKS,
        "in: does a look at a name wait for it? always: as the workflow file says; wait: unless that holds up other "
        "work of the task",
        default="wait",
    )
    keep: int = member(UINT, "out: so many of its newest files have a second name in the run's records", default=0)
    checked: bool = member(UINT, "out: its steps have checksums in memory (see steps/sums.hpp)", default=False)
    part_of: int = member(
        UINT, "out: of a task with ranks on several hosts: a number that this host's parts of the port share", default=0
    )
    reads_again: bool = member(
        UINT, "in: the step that its program has opened last stays, to come again if that fails", default=False
    )
    far_host: int = member(UINT, "of a relay: a number of the host from or to which it carries the steps", default=0)
    on_demand: bool = member(
        UINT, "out, of a relay: it asks for a step when one of its readers does, and not before", default=False
    )


@dataclass(frozen=True, slots=True)
class BoardTask:
    """A task instance."""

    name: str = member(TEXT)
    nprocs: int = member(INT)
    device: int = member(
        LONG, "of the folder in which its programs start; 0: not known, its in-ports hold in every folder", default=0
    )
    inode: int = member(LONG, default=0)

    @classmethod
    def starting_in(cls, name: str, nprocs: int, folder: Path) -> BoardTask:
        """A task whose programs start in a folder; as one of which that is not known, if it is not there."""
        try:
            there = folder.stat()
        except OSError:
            return cls(name, nprocs)
        return cls(name, nprocs, there.st_dev, there.st_ino)


@dataclass(frozen=True, slots=True)
class BoardPort(AccessKeys):
    """A port that joins its task to another."""

    task: int = member(INT)
    direction: Direction = member(DIRECTION)
    pattern: str = member(TEXT)
    cap_bytes: int = member(LONG, "out: bytes its arenas may take; 0: no limit", default=0)
    alias: str = member(
        TEXT,
        "in: the one name by which the program opens all steps; empty: it opens them by their own names",
        default="",
    )
    may_have_alias: bool = member(
        UINT,
        "in, with wildcards: the program gets the name of the next step, but may open another one for it",
        default=False,
    )


@dataclass(frozen=True, slots=True)
class BoardChannel:
    """An edge between two ports (indices into the ports)."""

    outport: int = member(INT)
    inport: int = member(INT)
    every: int = member(UINT)
    queue: int = member(UINT)
    when_full: WhenFull = member(WHEN_FULL)
    readers: int = member(INT)
    readers_given: bool = member(
        UINT,
        "by the workflow file; else a part of the ranks that opens a file together tells that the others do not",
        default=False,
    )
    offset: int = member(UINT, "steps before the first one that is kept, less than `every`", default=0)
    group: int = member(
        UINT, "a number that channels of the out-port share which drop the same steps, as if they were one", default=0
    )


@dataclass(frozen=True, slots=True)
class Begin:
    """Of a run that goes on with another one: the rank's first step on the out-port has this number."""

    port: int = member(INT)
    rank: int = member(INT)
    sequence: int = member(LONG)


@dataclass(frozen=True, slots=True)
class FirstStep:
    """Of such a run: the first step of the producer's rank that the channel gets."""

    channel: int = member(INT)
    rank: int = member(INT)
    first: int = member(LONG)
    offered: int = member(LONG, "steps with names for its in-port that came before the rank's first one")


ARRAYS: Mapping[str, type] = {
    "tasks": BoardTask,
    "ports": BoardPort,
    "channels": BoardChannel,
    "begins": Begin,
    "first_steps": FirstStep,
}
"""What a board is made from, by the name of the array."""


def values_of(kind: type, source: Any) -> dict[str, Any]:
    """Those fields of a dataclass that another value has by the same name, as it has them."""
    return {item.name: getattr(source, item.name) for item in fields(kind) if hasattr(source, item.name)}


# As ctypes.

_CTYPES: dict[str, Any] = {
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "const char*": ctypes.c_char_p,
}
_PART = "keys"
"""The member for the access keys in the structure of a port."""


def _has_keys(kind: type) -> bool:
    return kind is not AccessKeys and issubclass(kind, AccessKeys)


def _members(kind: type) -> Iterator[tuple[str, str, Native, Any]]:
    """Of a structure: each field, its name in C++, its type, its declaration. `AccessKeys` are a structure apart."""
    apart = {item.name for item in fields(AccessKeys)} if _has_keys(kind) else set()
    for item in sorted(fields(kind), key=lambda item: "kind" in item.metadata):  # its own, then keys of the file
        if item.name not in apart:
            native = item.metadata["native"]
            yield item.name, item.name + native.suffix, native, item


@cache
def structure(kind: type) -> type[ctypes.Structure]:
    """A dataclass of this table as ctypes has it."""
    parts: list[tuple[str, Any]] = []
    if _has_keys(kind):
        parts.append((_PART, structure(AccessKeys)))
    for _, member, native, _ in _members(kind):
        text = ctypes.c_char * native.length
        parts.append((member, text if native.length else _CTYPES.get(native.c, ctypes.c_uint32)))
        if native.unset is not None:
            parts.append((f"{member}_given", ctypes.c_uint32))
    return type(kind.__name__, (ctypes.Structure,), {"_fields_": parts})


def _fill(made: Any, kind: type, value: Any) -> Any:
    if _has_keys(kind):
        _fill(getattr(made, _PART), AccessKeys, value)
    for name, member, native, _ in _members(kind):
        given = getattr(value, name)
        text = native.make(given)
        if native.length and len(text) >= native.length:
            raise OSError(errno.ENAMETOOLONG, f"{name}: {os.strerror(errno.ENAMETOOLONG)}")
        setattr(made, member, text)
        if native.unset is not None:
            setattr(made, f"{member}_given", int(given is not None))
    return made


class Arrays(ctypes.Structure):
    """All of it, as one argument."""

    _fields_ = [
        *(part for name in ARRAYS for part in ((name, ctypes.c_void_p), (f"{name}_length", ctypes.c_uint64))),
        ("log_file", ctypes.c_char_p),
        ("trace_file", ctypes.c_char_p),
        ("trace_at_once", ctypes.c_uint32),
    ]

    @classmethod
    def of(cls, log: Path, trace: Path | None, trace_at_once: bool, **arrays: Sequence[Any]) -> Arrays:
        """Fills it. `arrays`: those of `ARRAYS`.

        Raises:
            OSError: a text is too long for its place.
        """
        whole = cls(log_file=os.fsencode(log), trace_file=os.fsencode(trace or ""), trace_at_once=int(trace_at_once))
        whole.kept = []
        for name, kind in ARRAYS.items():
            made = (structure(kind) * len(arrays[name]))()
            for place, value in enumerate(arrays[name]):
                _fill(made[place], kind, value)
            whole.kept.append(made)
            setattr(whole, name, ctypes.cast(made, ctypes.c_void_p))
            setattr(whole, f"{name}_length", len(made))
        return whole


# As C++.


def _word(value: str) -> str:
    return value.replace("-", "_")


def _declaration(kind: type) -> str:
    lines = [f"struct {kind.__name__} {{"]
    if _has_keys(kind):
        lines.append(f"    AccessKeys {_PART} = {{}};")
    for _, member, native, item in _members(kind):
        room = f"[{native.length}]" if native.length else ""
        default = "" if item.default is MISSING else f" = {native.default(item.default)}"
        about = item.metadata["about"]
        lines.append(f"    {native.c} {member}{room}{default};" + (f"  // {about}" if about else ""))
        if native.unset is not None:
            lines.append(f"    uint32_t {member}_given = 0;")
    return "\n".join([*lines, "};"])


def _text() -> str:
    enumerations = (DIRECTION, MODE, PUBLISH, FIRST, LOOKS, LISTS, WHEN_FULL)
    parts = [f"enum class {one.c} : uint32_t {{ {', '.join(map(_word, one.values))} }};" for one in enumerations]
    names = ", ".join(f'"{name}"' for name in RANK_VARIABLES)
    parts.append(f"inline constexpr const char* kRankVariables[] = {{{names}}};")
    parts += [f"// {AccessKeys.__doc__}\n{_declaration(AccessKeys)}", "namespace plan {"]
    parts += [f"// {str(kind.__doc__).splitlines()[0]}\n{_declaration(kind)}" for kind in ARRAYS.values()]
    arrays = [f"    const {kind.__name__}* {name};\n    uint64_t {name}_length;" for name, kind in ARRAYS.items()]
    ends = ["    const char* log_file;", "    const char* trace_file;", "    uint32_t trace_at_once;", "};"]
    parts += ["\n".join([f"// {Arrays.__doc__}", "struct Arrays {", *arrays, *ends]), "}  // namespace plan"]
    return "\n\n".join(parts)


VERSION = zlib.crc32(_text().encode())
"""Of the table: another one for any other."""


def source() -> str:
    """The C++ header."""
    head = "// Generated from plan_table.py: do not edit.\n#pragma once\n\n#include <cstdint>\n\nnamespace wilkins {\n"
    return f"{head}\ninline constexpr uint32_t kPlanTable = {VERSION}u;\n\n{_text()}\n\n}}  // namespace wilkins\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(source(), encoding="utf-8")
