"""Memory cannot be told from a file: what programs see of a step is what they see of the same file on disk."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import SYSTEM_PYTHON
from programs.fidelity import cases

from support import WILKINS, run_tree, write_program

PROGRAMS = Path(__file__).parent / "programs" / "fidelity"
PYTHONS = {"own": sys.executable, "system": SYSTEM_PYTHON}
SYSTEM = pytest.mark.needs("system-python:h5py")
PAIRS = [
    pytest.param("own", "own"),
    pytest.param("own", "system", marks=SYSTEM),
    pytest.param("system", "own", marks=SYSTEM),
    pytest.param("system", "system", marks=SYSTEM),
]
PATTERNS = ("case-*.h5", "target-*.h5")
IMPORTS = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])}


def workflow(folder: Path, patterns: Sequence[str], producer: Sequence[str], *consumers: Sequence[str]) -> None:
    """Run a producer and its consumers over a port per pattern; the run must succeed."""
    tasks = [
        {
            "name": f"consumer{k}" if k else "producer",
            "func": str(command[0]),
            "args": list(map(str, command[1:])),
            "nprocs": 1,
            "inports" if k else "outports": [{"filename": pattern} for pattern in patterns],
        }
        for k, command in enumerate((producer, *consumers))
    ]
    (folder / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, folder, IMPORTS)
    logs = "".join(log.read_text() for log in folder.glob("wilkins-runs/latest/*.log"))
    assert ran.code == 0, ran.out + ran.err + logs
    assert not [*folder.glob("case-*"), *folder.glob("target-*")], "a step is on disk"


def run_plainly(folder: Path, *argv: str | Path) -> None:
    """Run a program without Wilkins; it must succeed."""
    ran = run_tree(argv, 60, folder, IMPORTS)
    assert ran.code == 0, ran.out + ran.err


def differences(file: Any, step: Any, path: str = "") -> Iterator[str]:
    """Where two views differ."""
    if isinstance(file, dict) and isinstance(step, dict):
        for key in {**file, **step}:
            yield from differences(file.get(key), step.get(key), f"{path}/{key}")
    elif isinstance(file, list) and isinstance(step, list) and len(file) == len(step):
        for k, (one, other) in enumerate(zip(file, step, strict=True)):
            yield from differences(one, other, f"{path}[{k}]")
    elif file != step:
        yield f"{path}: a file gives {file!r:.400}, a step {step!r:.400}"


def assert_same(file: Path, step: Path) -> None:
    """Two JSON files hold the same view, but for the folders that are named in it."""
    views = [json.loads(path.read_text().replace(str(path.parent), "(folder)")) for path in (file, step)]
    found = list(differences(*views))
    assert not found, "\n".join(found[:20])
    assert len(views[0]) >= 60


Written = Callable[[str], Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The folder of the files that a Python wrote without Wilkins."""
    folders: dict[str, Path] = {}

    def write(python: str) -> Path:
        if python not in folders:
            folders[python] = tmp_path_factory.mktemp(python)
            run_plainly(folders[python], PYTHONS[python], PROGRAMS / "write.py", "written.json")
        return folders[python]

    return write


@pytest.mark.parametrize(("producer", "consumer"), PAIRS)
def test_a_step_is_what_the_file_would_be(written: Written, tmp_path: Path, producer: str, consumer: str) -> None:
    """Tree, links, types, properties, values, bytes and errors, for both sides, within and across versions of HDF5."""
    files, seen = written(producer), f"seen-by-{consumer}.json"
    run_plainly(files, PYTHONS[consumer], PROGRAMS / "read.py", seen)
    workflow(
        tmp_path,
        PATTERNS,
        (PYTHONS[producer], str(PROGRAMS / "write.py"), "written.json"),
        (PYTHONS[consumer], str(PROGRAMS / "read.py"), seen),
    )
    assert_same(files / "written.json", tmp_path / "written.json")
    assert_same(files / seen, tmp_path / seen)


TOOLS = """#!/bin/sh
exec > "$1" 2>&1
shift
for number in "$@"
do
    case="case-$number.h5"
    echo "--- $case"
    h5ls -r -v "$case" | grep -v Modified
    h5dump -p "$case"; echo "h5dump: $?"
    h5diff -r "file-$number.h5" "$case"; echo "h5diff: $?"
    h5diff -r changed.h5 "$case"; echo "h5diff with another: $?"
    h5stat "$case"; echo "h5stat: $?"
done
"""

SMALL = (
    *("empty_file", "attributes_of_every_type", "datasets_of_every_type", "references", "spaces", "links"),
    *("external_links", "committed_types", "dimension_scales", "virtual_datasets", "creation_order", "resizes"),
    *("user_block", "paged", "no_free_space_management", "left_open"),
)


@pytest.mark.needs("h5ls", "h5dump", "h5diff", "h5stat")
def test_the_tools_of_hdf5_see_a_file(written: Written, tmp_path: Path) -> None:
    """What they print of a step is what they print of the file, and a step differs from a file as a file would."""
    files = written("own")
    importlib.import_module("programs.fidelity.objects")
    importlib.import_module("programs.fidelity.handling")
    numbers = {case.name: case.number for case in cases.CASES}
    chosen = [f"{numbers[name]:04d}" for name in SMALL]
    for number in chosen:
        for folder in (files, tmp_path):
            (folder / f"file-{number}.h5").write_bytes((files / f"case-{number}.h5").read_bytes())
            (folder / "changed.h5").write_bytes((files / f"case-{numbers['resizes']:04d}.h5").read_bytes())
    tools = write_program(tmp_path / "tools.sh", TOOLS)
    run_plainly(files, tools, "tools.txt", *chosen)
    workflow(
        tmp_path,
        PATTERNS,
        (sys.executable, str(PROGRAMS / "write.py"), "written.json", ",".join(SMALL)),
        (str(tools), "tools.txt", *chosen),
    )
    of_file, of_step = ((folder / "tools.txt").read_text().splitlines() for folder in (files, tmp_path))
    assert of_step == of_file
    assert of_step.count("h5diff: 0") >= len(chosen) - 2 and "h5diff with another: 1" in of_step


CHANGING = """
import json, sys
import h5py
with h5py.File("case-1.h5", "r+") as f:
    before = f["x"][()].tolist()
    f["x"][...] = 7
    f.create_dataset("more", data=range(100000))
    del f["g"]
    changed = [f["x"][()].tolist(), len(f["more"]), "g" in f]
with h5py.File("case-1.h5", "r") as f:
    after = [f["x"][()].tolist(), "more" in f, "g" in f]
with h5py.File("case-1.h5", "a") as f:
    again = f["x"][()].tolist()
json.dump([before, changed, after, again], open(sys.argv[1], "w"))
"""


def test_what_a_reader_changes_is_its_own(tmp_path: Path) -> None:
    """Unlike on disk: a consumer that opens a step for writing changes a copy that no other open sees."""
    write = write_program(
        tmp_path / "write.py",
        "import h5py\nwith h5py.File('case-1.h5', 'w') as f:\n    f['x'] = [1, 2, 3]\n    f.create_group('g')\n",
    )
    change = write_program(tmp_path / "change.py", CHANGING)
    workflow(tmp_path, PATTERNS[:1], (str(write),), (str(change), "one.json"), (str(change), "two.json"))
    for seen in ("one.json", "two.json"):
        before, changed, after, again = json.loads((tmp_path / seen).read_text())
        assert before == [1, 2, 3] and changed == [[7, 7, 7], 100000, False]
        assert after == [[1, 2, 3], False, True] and again == [1, 2, 3]


DRIVERS = """
import sys
import h5py
from h5py import h5f, h5p
def lists():
    family = h5p.create(h5p.FILE_ACCESS)
    family.set_fapl_family(4096)
    yield "family", b"case-%04d.h5", family
    split = h5p.create(h5p.FILE_ACCESS)
    split.set_fapl_split(b"-m.h5", h5p.create(h5p.FILE_ACCESS), b"-r.h5", h5p.create(h5p.FILE_ACCESS))
    yield "split", b"case-split.h5", split
    core = h5p.create(h5p.FILE_ACCESS)
    core.set_fapl_core(4096, True)
    yield "core", b"case-core.h5", core
for name, file, access in lists():
    if sys.argv[1] == "write":
        with h5py.File(h5f.create(file, h5f.ACC_TRUNC, fapl=access)) as f:
            f["x"] = range(5000)
    else:
        with h5py.File(h5f.open(file, h5f.ACC_RDONLY, fapl=access)) as f:
            assert f["x"][()].tolist() == list(range(5000)), name
            print("read", name)
"""


def test_drivers_a_program_asks_for(tmp_path: Path) -> None:
    """Memory takes the place of a file in pieces too; the same access list reads it."""
    program = write_program(tmp_path / "drivers.py", DRIVERS)
    workflow(tmp_path, PATTERNS[:1], (str(program), "write"), (str(program), "read"))
