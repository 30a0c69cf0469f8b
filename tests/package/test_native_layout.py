"""The layout of the native layer: includes point downwards only, in no ring, and every file says what it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The rooms of the native layer (docs/developers/design.md), lowest first: each
# includes from itself and from those before it.
NATIVE = ROOT / "transport" / "native"
GENERATED = {"plan_table.hpp", "report_table.hpp", "events.hpp"}
"""From the tables of what the launcher tells the layer, and what that tells; below all rooms."""
ROOMS = (
    "cipher",
    "base",
    "board",
    "far",
    "queue",
    "waiting",
    "names",
    "steps",
    "store",
    "posix",
    "hdf5",
    "mpi",
    "python",
    "recorder",
)


def native_files(native: Path) -> list[Path]:
    return sorted(path for path in native.rglob("*") if path.suffix in {".cpp", ".hpp", ".py"})


def included(path: Path) -> list[str]:
    """The layer's own files that one includes; of a script, those that the code which it writes includes."""
    return re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)


def wrong_includes(native: Path) -> Iterator[str]:
    """What is against the order of the rooms."""
    ring: TopologicalSorter[str] = TopologicalSorter()
    for path in native_files(native):
        name = str(path.relative_to(native))
        room = name.partition("/")[0]
        if room not in ROOMS:
            yield f"{name} is in no room"
            continue
        for other in (one for one in included(path) if one not in GENERATED):
            ring.add(name, other)
            if not (native / other).is_file() or "/" not in other:
                yield f"{name} includes {other}, which is not there"
            elif ROOMS.index(other.partition("/")[0]) > ROOMS.index(room):
                yield f"{name} includes {other}, which is above"
    try:
        ring.prepare()
    except CycleError as error:
        yield "a ring: " + " ".join(error.args[1])


def test_includes_point_downwards() -> None:
    assert {path.parent.name for path in native_files(NATIVE)} == set(ROOMS)
    assert not list(wrong_includes(NATIVE))


def test_wrong_includes_are_found(tmp_path: Path) -> None:
    def add(name: str, *others: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(f'#include "{other}"\n' for other in others))

    add("base/raw.hpp")
    add("steps/disk.hpp", "base/raw.hpp")
    add("steps/disk.cpp", "steps/disk.hpp", "base/raw.hpp")
    assert not list(wrong_includes(tmp_path))
    add("board/arena.cpp", "steps/disk.hpp")
    add("board/life.cpp", "raw.hpp", "base/row.hpp")
    add("loose.cpp")
    add("hdf5/one.hpp", "hdf5/other.hpp")
    add("hdf5/other.hpp", "hdf5/one.hpp")
    *lone, ring = wrong_includes(tmp_path)
    assert lone == [
        "board/arena.cpp includes steps/disk.hpp, which is above",
        "board/life.cpp includes raw.hpp, which is not there",
        "board/life.cpp includes base/row.hpp, which is not there",
        "loose.cpp is in no room",
    ]
    assert ring.startswith("a ring: hdf5/")


def test_native_files_say_what_they_do() -> None:
    """A source may leave it to its header."""
    says = {path: path.read_text(encoding="utf-8").startswith(("// ", '"""')) for path in native_files(NATIVE)}
    assert not [path for path, does in says.items() if not does and not says.get(path.with_suffix(".hpp"))]
