"""What the native layer reports of a run, in one table: each of its structures and fields is declared here alone.

C++ fills structures that ``python report_table.py FILE`` writes from these classes, and writes them as JSON by the
member that each of them has for that; Python restores the classes from it. So a field is a line here, and a value where
C++ makes the structure.

It is run before the package can be imported, and then imports nothing of it.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from typing import Literal, TypeAlias, get_args

if __name__ == "__main__":
    from dataclasses import dataclass, fields
else:
    from wilkins.values import dataclass, fields

Count: TypeAlias = int
Seconds: TypeAlias = float

State = Literal["pending", "running", "ended"]
WaitFor = Literal["nothing", "data", "room", "memory"]
AliasState = Literal["no", "given", "undecided", "found", "prevented"]
"""Has an in-port an alias: one name by which its program opens each next step, whatever the producers call that?

- given: by the workflow file; the program has no other name for the port's files
- undecided: the program gets the name of the next step, but may open another one: its first open decides
- found: the first open has decided for it; files of other names never come
- prevented: the first open would have, but a file on disk has the name
"""
Sought = Literal["nothing", "next name", "next step", "only step", "unequal", "unread", "gone", "strange"]
"""What a name is of which no step comes, to the task that opens it or looks at it (see queue/failed_opens.hpp).

- nothing: none was asked for
- next name: a new one, which differs in numbers only from names that the task has read
- next step: one of which the task has read several steps, each opened equally often, and no other step is there
- only step: one of which the task has read one step or none
- unequal: one of which the task has opened some steps oftener than others
- unread: one of which the task has read several steps, while steps of other names are there that it has not read
- gone: one whose step was published and is not there any more
- strange: one unlike all that the task has read
"""
WentOn = Literal["no", "read", "wrote"]
"""What a rank did after its failed open."""
Direction = Literal["in", "out"]


@dataclass(frozen=True, slots=True)
class FailedOpen:
    """The last open, or look, of a program that failed since no step of the name was to come."""

    port: int = 0
    """The in-port on the board."""
    name: str = ""
    sought: Sought = "nothing"
    steps: Count = 0
    """Of this name that the task has read."""
    opens: Count = 0
    """Of the last of these, with this one."""
    process: Count = 0
    """That has asked: its number in the run."""
    went_on: WentOn = "no"
    """Afterwards the program read another step, or opened a file for writing,"""
    then: str = ""
    """of this name."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has the board's lock, or writes the trace."""

    task: str = ""
    """Empty: a launcher."""
    rank: int = 0
    pid: int = 0
    program: str = ""
    elsewhere: bool = False
    """The pid is one of another PID namespace."""
    writes: str = ""
    """The file that is written to; empty: it has the lock."""


@dataclass(frozen=True, slots=True)
class Whom:
    """Ranks of a task, of which others wait for one."""

    task: int = 0
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """A rank waits."""

    rank: int = 0
    pid: int = 0
    what: WaitFor = "nothing"
    port: int = 0
    name: str = ""
    seconds: Seconds = 0.0
    strange: bool = False
    """No producer has a file of such a name, but others."""
    looks: bool = False
    """It looks at the name, and does not open it."""
    unsure: bool = False
    """Another thread of the rank may go on; False where that is not asked."""
    on: tuple[Whom, ...] = ()


@dataclass(frozen=True, slots=True)
class Flush:
    """A rank is in a flush, which the layer makes after writes."""

    rank: int = 0
    pid: int = 0
    port: int = 0
    seconds: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Poll:
    """Looks of a rank since its last step, which found nothing."""

    rank: int = 0
    port: int = 0
    name: str = ""
    looks: Count = 0
    seconds: Seconds = 0.0
    """Since the first of these."""
    lists: bool = False
    """The last one lists the folder of these files."""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A name that programs of a task used, and that matches no port."""

    name: str = ""
    uses: Count = 0


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A task. Times and bytes are summed over its ranks."""

    name: str = ""
    nprocs: int = 0
    state: State = "pending"
    starts: Count = 0
    met_failure: bool = False
    failed_open: FailedOpen | None = None
    waiting_s: Seconds = 0.0
    copying_s: Seconds = 0.0
    moved_bytes: Count = 0
    waits: tuple[Wait, ...] = ()
    flushes: tuple[Flush, ...] = ()
    unmatched_names: tuple[Unmatched, ...] = ()
    polls: tuple[Poll, ...] = ()
    among: tuple[int, ...] = ()
    """Ranks in calls of MPI's which others of them may have to end; none where that is not asked."""
    leaving: tuple[int, ...] = ()
    """Ranks whose program is in MPI_Finalize, or over, while the task goes on."""


@dataclass(frozen=True, slots=True)
class PortFacts:
    """A port of the board."""

    task: int = 0
    direction: Direction = "in"
    pattern: str = ""
    steps: Count = 0
    """In: read; out: published."""
    bytes: Count = 0
    names: Count = 0
    """Out: different ones of these steps."""
    dropped: Count = 0
    reopened: Count = 0
    shared: Count = 0
    unseen: Count = 0
    left: Count = 0
    """Of a relay: bytes of its steps that nobody read,"""
    brought: Count = 0
    """and messages for those that came when they were."""
    touched: bool = False
    shown_a_part: bool = False
    """In: since its task's last start, a listing has shown some of its steps, and none has waited for all."""
    waits_first: bool = False
    """Its first open waits for a step,"""
    waits_looks: bool = False
    """and looks do."""
    alias_state: AliasState = "no"
    alias: str = ""
    """The alias, or the name that would have become one."""
    found_nothing: Count = 0
    """Opens and looks that found nothing, before a step."""
    again: bool = False
    """Its only step was opened again, and no other came."""
    only_looks: bool = False
    """All of these were looks."""
    asked: str = ""
    """The last one's name, or that of an open that `first` has answered."""
    begun_in: str = ""
    """Out: the folder in which its files have come to be last."""
    lost_changes: bool = False
    """Its programs changed steps, and nobody can see that."""
    not_found: Count = 0
    """Objects of its steps that were not there,"""
    not_found_printed: Count = 0
    """and those for which HDF5 printed an error."""
    not_found_path: str = ""
    """The last of these,"""
    not_found_in: str = ""
    """in the file of this name."""


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """A channel of the board. Counts are of steps (see `ChannelRecord` in board/layout.hpp)."""

    outport: int = 0
    inport: int = 0
    every: Count = 0
    offset: Count = 0
    queued: Count = 0
    published: Count = 0
    read: Count = 0
    skipped: Count = 0
    dropped: Count = 0
    let_go: Count = 0
    newer: Count = 0
    held: Count = 0
    """That the reading task has open."""
    waits: bool = True
    """Its producer waits when it is full."""
    reached: tuple[Count, ...] = ()
    """By reading rank: steps passed, 0 if it read none."""
    next: str = ""
    """The name of the first that is queued and that no rank has consumed."""

    @property
    def given_up(self) -> int:
        """Those that its reader does not get, for whatever reason."""
        return self.skipped + self.dropped + self.let_go


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the board."""

    tasks: tuple[TaskFacts, ...] = ()
    ports: tuple[PortFacts, ...] = ()
    channels: tuple[ChannelFacts, ...] = ()
    memory_bytes: Count = 0
    memory_peak_bytes: Count = 0
    trace_stopped: bool = False
    """A run that goes on with this one lacks its end."""


_STRUCTURES = (
    FailedOpen, Holder, Whom, Wait, Flush, Poll, Unmatched, TaskFacts, PortFacts, ChannelFacts, Report
)  # fmt: skip
_ENUMERATIONS = {"TaskState": State, "WaitFor": WaitFor, "AliasState": AliasState, "Sought": Sought, "WentOn": WentOn}
"""By their names in C++; the board's layout has values of them, too."""

_TYPES = {
    "int": "int",
    "Count": "uint64_t",
    "Seconds": "Nanoseconds",
    "bool": "bool",
    "str": "std::string",
    "State": "TaskState",
}


def _type(declared: str) -> str:
    """A type in C++."""
    if declared.endswith(" | None"):
        return f"std::optional<{_type(declared.removesuffix(' | None'))}>"
    if declared.startswith("tuple["):
        return f"std::vector<{_type(declared[6 : -len(', ...]')])}>"
    return _TYPES.get(declared, declared)


def _declaration(kind: type) -> str:
    members = [f"    {_type(str(one.type))} {one.name}{{}};" for one in fields(kind)]
    taken = [f'        take("{one.name}", {one.name});' for one in fields(kind)]
    each = ["    template <typename Take>", "    void each(Take&& take) const {", *taken, "    }"]
    return "\n".join([f"// {kind.__doc__}", f"struct {kind.__name__} {{", *members, *each, "};"])


def _words(name: str, kind: object) -> str:
    texts = ", ".join(f'"{word}"' for word in get_args(kind))
    return (
        f"inline const char* word({name} value) {{\n"
        f"    static const char* const words[] = {{{texts}}};\n"
        "    return words[static_cast<uint32_t>(value)];\n}"
    )


def _enumeration(name: str, kind: object) -> str:
    values = ", ".join(word.replace(" ", "_") for word in get_args(kind))
    return f"enum class {name} : uint32_t {{ {values} }};\n{_words(name, kind)}"


def _text() -> str:
    parts = [_enumeration(name, kind) for name, kind in _ENUMERATIONS.items()]
    parts += [_words("Direction", Direction), "namespace facts {"]
    parts.append("// Reported in seconds.\nstruct Nanoseconds {\n    uint64_t count = 0;\n};")
    return "\n\n".join([*parts, *map(_declaration, _STRUCTURES), "}  // namespace facts"])


VERSION = zlib.crc32(_text().encode())
"""Of the table: another one for any other."""


def source() -> str:
    """The C++ header."""
    head = "// Generated from report_table.py: do not edit.\n#pragma once\n\n"
    head += "".join(f"#include <{name}>\n" for name in ("cstdint", "optional", "string", "vector"))
    head += '\n#include "plan_table.hpp"\n\nnamespace wilkins {\n'
    return f"{head}\ninline constexpr uint32_t kReportTable = {VERSION}u;\n\n{_text()}\n\n}}  // namespace wilkins\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(source(), encoding="utf-8")
