"""The layout: rooms import from rooms below them only, modules in no ring, and every module says what it does.

Run as a program, it prints the picture for docs/developers/design.md.
"""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("flow", "transport", "tasks", "workflows")

# From the bottom up: each room, and the rooms before it in this table that it imports from, no more and no less. A room
# is a package, a folder of one, or a module; what is in a package and in no room of its own is the package's room.
ROOMS = {
    "atomic": "",
    "values": "",
    "errors": "values",
    "flow": "errors values",
    "contents": "",
    "compression": "contents errors flow",
    "transport": "atomic compression contents errors values",
    "workflows": "transport",
    "names": "",
    "schema": "errors names flow values",
    "terminal": "errors values",
    "tasks": "errors values",
    "tasks/dataset": "transport",
    "tasks/function": "tasks transport",
    "tasks/elastic": "errors tasks transport values",
    "tasks/analysis/options": "schema tasks values",
    "tasks/checkpoint/options": "schema tasks values",
    "tasks/continual/sections": "errors schema values",
    "tasks/continual/options": "schema tasks tasks/continual/sections values",
    "tasks/inference/options": "schema tasks tasks/continual/options tasks/continual/sections values",
    "tasks/compression": "compression tasks",
    "tasks/analysis": "atomic compression errors names tasks tasks/analysis/options tasks/compression transport",
    "tasks/checkpoint/errors": "errors tasks",
    "tasks/checkpoint/state": "errors tasks/checkpoint/errors",
    "tasks/checkpoint/ranks": "tasks/checkpoint/errors tasks",
    "tasks/checkpoint/storage": "atomic tasks/checkpoint/errors tasks/checkpoint/state tasks",
    "tasks/models": "atomic errors names tasks tasks/checkpoint/errors tasks/checkpoint/state tasks/checkpoint/storage",
    "tasks/checkpoint/partners": "atomic tasks/checkpoint/errors tasks/checkpoint/state tasks/checkpoint/storage tasks",
    "tasks/checkpoint/placement": "tasks/checkpoint/errors",
    "tasks/checkpoint/archive": "atomic tasks/checkpoint/errors tasks/checkpoint/placement tasks/checkpoint/state "
    "tasks/checkpoint/storage",
    "tasks/checkpoint/engine": "atomic tasks/checkpoint/archive tasks/checkpoint/errors tasks/checkpoint/partners "
    "tasks/checkpoint/placement tasks/checkpoint/ranks tasks/checkpoint/state tasks/checkpoint/storage tasks",
    "tasks/checkpoint/stream": "tasks tasks/checkpoint/archive tasks/checkpoint/engine tasks/checkpoint/errors "
    "tasks/checkpoint/placement tasks/checkpoint/state tasks/checkpoint/storage transport",
    "tasks/checkpoint": "atomic tasks/checkpoint/archive tasks/checkpoint/engine tasks/checkpoint/errors "
    "tasks/checkpoint/placement tasks/checkpoint/state tasks/checkpoint/storage",
    "tasks/continual/errors": "tasks tasks/checkpoint/errors",
    "tasks/continual/metrics": "tasks",
    "tasks/continual/rehearsal": "tasks/continual/errors tasks/checkpoint/ranks tasks/checkpoint/engine tasks",
    "tasks/continual/learner": "tasks/continual/errors tasks/continual/rehearsal tasks/checkpoint/ranks "
    "tasks/checkpoint/engine tasks/elastic tasks",
    "tasks/continual/task": "atomic errors tasks tasks/analysis tasks/continual/errors tasks/continual/learner "
    "tasks/continual/metrics tasks/continual/options tasks/continual/rehearsal tasks/continual/sections tasks/elastic "
    "tasks/models "
    "transport",
    "tasks/continual": "tasks/continual/errors tasks/continual/learner tasks/continual/rehearsal",
    "tasks/inference": "tasks tasks/analysis tasks/continual/options tasks/continual/task transport",
    "spec": "atomic errors names schema flow tasks transport workflows values",
    "plan": "errors names schema spec flow tasks transport values",
    "launch/programs": "errors transport terminal plan values",
    "launch/metrics": "atomic errors names transport plan values",
    "launch/watch": "atomic errors flow transport schema terminal plan launch/programs values",
    "launch/records": "atomic errors flow transport names schema terminal plan launch/programs launch/watch values",
    "launch": "errors transport terminal plan launch/programs launch/metrics launch/watch launch/records values",
    "launch/job": "atomic errors transport terminal plan launch/programs launch/watch launch/records launch values",
    "launch/hosts": "errors transport schema values plan launch/programs launch/watch launch/records launch",
    "launch/hostjob": "atomic errors terminal transport plan launch/programs launch/watch launch/records launch "
    "launch/job launch/hosts values",
    "doctor": "errors schema terminal spec plan transport launch/programs",
    "record": "atomic contents errors names terminal schema spec plan transport launch/programs doctor",
    "report": "compression contents errors flow transport names schema terminal tasks spec plan launch/records",
    "report/crate": "doctor errors launch/records names plan report terminal",
    "scripting": "atomic errors flow schema terminal spec plan launch/records report values",
    "resume": "errors flow transport schema terminal tasks/checkpoint/errors tasks/checkpoint/storage plan "
    "launch/records launch launch/hosts",
    "submit": "errors transport schema terminal plan launch/records",
    "wilkins": "atomic errors flow transport schema terminal tasks/checkpoint tasks/checkpoint/archive tasks/models "
    "spec plan launch/records "
    "launch launch/job launch/hosts launch/hostjob doctor report report/crate scripting record resume submit values",
}
WIDTH = 100
PICTURE = "<!-- The rooms: printed by `python tests/package/test_layout.py`. -->"


def module_files() -> dict[str, Path]:
    """Every module of the package, by name."""
    found: dict[str, Path] = {}
    for folder in ("wilkins", *FOLDERS):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inner = path.relative_to(ROOT / folder)
            parts = ("wilkins", *(() if folder == "wilkins" else (folder,)), *inner.with_suffix("").parts)
            # Some Pythons follow the links in `wilkins` to the other folders, some do not.
            if (folder == "wilkins" and inner.parts[0] in FOLDERS) or parts[:3] == ("wilkins", "transport", "native"):
                continue
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = module_files()


def imported_by(name: str, path: Path, modules: Iterable[str]) -> dict[str, int]:
    """The package's modules that a module imports, anywhere in it, with the line."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: dict[str, int] = {}
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module or ""]))
            inner = [f"{module}.{alias.name}" for alias in node.names]
            wanted = [one if one in modules else module for one in inner]
        else:
            continue
        found |= {one: node.lineno for one in wanted if one in modules and one != name}
    return found


@cache
def imports() -> dict[str, dict[str, int]]:
    """What each module imports. Every process of pytest imports this file, and one needs the answer."""
    return {name: imported_by(name, path, MODULES) for name, path in MODULES.items()}


def room_of(module: str) -> str:
    """The smallest room that a module is in."""
    parts = module.split(".")[1:]
    return next(("/".join(parts[:n]) for n in range(len(parts), 0, -1) if "/".join(parts[:n]) in ROOMS), "wilkins")


def levels(uses: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Rooms in rows, from the top: each room in the lowest row that is above all that it uses."""
    level: dict[str, int] = {}
    for room in graphlib.TopologicalSorter(uses).static_order():
        level[room] = 1 + max((level[one] for one in uses[room]), default=-1)
    return [[room for room in uses if level[room] == row] for row in range(max(level.values()), -1, -1)]


def row_of(rooms: Iterable[str]) -> list[str]:
    """Boxes beside each other, in as many lines as they need."""
    lines: list[list[str]] = [[]]
    for room in rooms:
        if lines[-1] and sum(len(one) + 5 for one in lines[-1]) + len(room) + 5 > WIDTH:
            lines.append([])
        lines[-1].append(room)
    return [
        line
        for boxes in lines
        for line in (
            " ".join(f"┌{'─' * (len(room) + 2)}┐" for room in boxes),
            " ".join(f"│ {room} │" for room in boxes),
            " ".join(f"└{'─' * (len(room) + 2)}┘" for room in boxes),
        )
    ]


def drawn(uses: Mapping[str, Iterable[str]]) -> str:
    return "\n".join(line for rooms in levels(uses) for line in row_of(rooms))


def outer_name(room: str) -> str:
    """A room in the picture of the whole: those of launching are one, those of reports, of tasks, and their options."""
    if room.startswith(("launch/", "report/")):
        return room.partition("/")[0]
    if room.endswith(("/options", "/sections")):
        return "options of tasks"
    return "ready-made tasks" if "/" in room else {"wilkins": "cli"}.get(room, room)


def is_inside(room: str, outer_room: str) -> bool:
    return room.startswith(f"{outer_room}/") or room == outer_room == "launch"


def inner_name(room: str, outer_room: str) -> str:
    return "alone" if room == outer_room else room.removeprefix(f"{outer_room}/")


def picture() -> str:
    """The rooms of the package, those of launching, and those in its two largest tasks."""
    outer: dict[str, set[str]] = {}
    for room, used in ROOMS.items():
        outer.setdefault(outer_name(room), set()).update(map(outer_name, used.split()))
    blocks = [drawn({room: used - {room} for room, used in outer.items()})]
    for outer_room in ("launch", "tasks/checkpoint", "tasks/continual"):
        inner = {
            inner_name(room, outer_room): [
                inner_name(one, outer_room) for one in used.split() if is_inside(one, outer_room)
            ]
            for room, used in ROOMS.items()
            if is_inside(room, outer_room)
        }
        blocks.append(f"In {outer_room}/:\n\n{drawn(inner)}")
    return "\n\n".join(blocks)


def test_rooms_import_from_rooms_below() -> None:
    wrong = [
        f"{MODULES[name]}:{line} imports {other}, so {room_of(name)!r} would use {room_of(other)!r}"
        for name, others in imports().items()
        for other, line in others.items()
        if room_of(other) not in (room_of(name), *ROOMS[room_of(name)].split())
    ]
    assert len(MODULES) > 200
    cure = "mend these, or ROOMS: a new room has a line below those of what it imports from"
    assert not wrong, "\n".join([*wrong, cure])


@pytest.mark.parametrize("room", ROOMS)
def test_the_table_of_rooms_is_an_order_and_says_no_more_than_there_is(room: str) -> None:
    inside = [name for name in MODULES if room_of(name) == room]
    used = {room_of(other) for name in inside for other in imports()[name]} - {room}
    before = list(ROOMS)[: list(ROOMS).index(room)]
    assert inside, f"there is no {room!r}: remove its line of ROOMS"
    says = f"{room!r} imports from {sorted(used)}: ROOMS has to say so, in a line below those of all of these"
    assert used == set(ROOMS[room].split()) and used <= set(before), says


def test_modules_are_in_no_ring() -> None:
    graphlib.TopologicalSorter(imports()).prepare()


def test_a_ring_and_an_import_upwards_are_found(tmp_path: Path) -> None:
    module = tmp_path / "kinds.py"
    module.write_text("def f():\n    from wilkins.plan import planner\n    import wilkins.schema.reading\n")
    found = imported_by("wilkins.schema.kinds", module, MODULES)
    assert found == {"wilkins.plan.planner": 2, "wilkins.schema.reading": 3}
    assert room_of("wilkins.plan.planner") not in ROOMS[room_of("wilkins.schema.kinds")].split()
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(imports() | {"wilkins.errors": {"wilkins.schema.positions": 1}}).prepare()


def test_the_picture_of_the_rooms_is_that_of_the_table() -> None:
    page = (ROOT / "docs" / "developers" / "design.md").read_text(encoding="utf-8")
    assert f"{PICTURE}\n```\n{picture()}\n```\n" in page, "print it anew: python tests/package/test_layout.py"


def test_modules_say_what_they_do() -> None:
    without = [path for path in MODULES.values() if not ast.get_docstring(ast.parse(path.read_bytes()))]
    assert not without


def test_folders_are_one_package() -> None:
    for name in FOLDERS:
        assert (ROOT / "wilkins" / name).resolve() == ROOT / name


if __name__ == "__main__":
    print(f"{PICTURE}\n```\n{picture()}\n```")
