"""What pairs of programs do not show: HDF5's tools, archives, private copies of readers, drivers that split files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from fidelity import rig
from fidelity.libraries import LIBRARIES

from support.running import WILKINS, run_tree, write_program

PATTERNS = ("case-*.h5", "target-*.h5")
FLOW = {"flow": {"every": 1, "queue": 100, "when_full": "block"}}


def workflow(folder: Path, patterns: Sequence[str], producer: Sequence[str], *consumers: Sequence[str]) -> None:
    """Run a producer and its consumers over a port per pattern; the run must succeed."""
    tasks = [
        {
            "name": f"consumer{k}" if k else "producer",
            "func": str(command[0]),
            "args": list(map(str, command[1:])),
            "nprocs": 1,
            "inports" if k else "outports": [{"filename": pattern, **(FLOW if k else {})} for pattern in patterns],
        }
        for k, command in enumerate((producer, *consumers))
    ]
    (folder / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    rig.run(folder, [*WILKINS, "run", "workflow.yaml"])


TOOLS = """#!/bin/sh
exec > "$1" 2>&1
shift
for name in "$@"
do
    case="case-$name.h5"
    echo "--- $case"
    h5ls -r -v "$case" | grep -v Modified
    h5dump -p "$case"; echo "h5dump: $?"
    h5diff -r "file-$name.h5" "$case"; echo "h5diff: $?"
    h5diff -r changed.h5 "$case"; echo "h5diff with another: $?"
    h5stat "$case"; echo "h5stat: $?"
done
"""

NAMES = (
    *("empty_file", "attributes_of_every_type", "datasets_of_every_type", "references", "spaces", "links"),
    *("external_links", "committed_types", "dimension_scales", "virtual_datasets", "creation_order", "resizes"),
    *("user_block", "paged", "no_free_space_management", "left_open"),
)
H5PY = LIBRARIES[0].program(Path())
SMALL = [case.name for case in H5PY.cases if case.name in NAMES]
WRITE = (*H5PY.argv("write", "written.txt"), f"only={','.join(SMALL)}")


@pytest.mark.nightly
@pytest.mark.needs("h5ls", "h5dump", "h5diff", "h5stat")
def test_the_tools_of_hdf5_see_a_file(tmp_path: Path) -> None:
    """What they print of a step is what they print of the file, and a step differs from a file as a file would."""
    files, steps = tmp_path / "files", tmp_path / "steps"
    for folder in files, steps:
        folder.mkdir()
        rig.prepare(folder)
    rig.run(files, WRITE)
    for name in SMALL:
        for folder in (files, steps):
            (folder / f"file-{name}.h5").write_bytes((files / f"case-{name}.h5").read_bytes())
            (folder / "changed.h5").write_bytes((files / "case-resizes.h5").read_bytes())
    tools = write_program(tmp_path / "tools.sh", TOOLS)
    rig.run(files, (str(tools), "tools.txt", *SMALL))
    workflow(steps, PATTERNS, WRITE, (str(tools), "tools.txt", *SMALL))
    of_file, of_step = ((folder / "tools.txt").read_text().splitlines() for folder in (files, steps))
    assert of_step == of_file
    assert of_step.count("h5diff: 0") >= len(SMALL) - 2 and "h5diff with another: 1" in of_step


@pytest.mark.nightly
@pytest.mark.needs("h5diff")
def test_archives_are_the_files_a_program_writes(tmp_path: Path) -> None:
    """Mode both: what lies on disk in the end is what the program writes alone."""
    alone, both = tmp_path / "files", tmp_path / "both"
    for folder in alone, both:
        folder.mkdir()
        rig.prepare(folder)
    rig.run(alone, H5PY.argv("write", "written.txt"))
    reader = rig.consumer("read", H5PY.argv("read", "read.txt"), H5PY, mode="both")
    tasks = [rig.producer(H5PY, mode="both"), reader]
    (both / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    rig.run(both, [*WILKINS, "run", "workflow.yaml"])
    differing = []
    for name in (name for case in H5PY.cases if not case.refused for name in case.files):
        if (alone / name).read_bytes() != (both / name).read_bytes():
            (alone / "copy").write_bytes((alone / name).read_bytes())
            itself, archived = (
                run_tree(("h5diff", "-v", alone / name, other), 60, tmp_path) for other in (alone / "copy", both / name)
            )
            if (itself.code, itself.out) != (archived.code, archived.out):
                differing.append(f"{name}\n{archived.out}{archived.err}")
    assert not differing, "\n".join(differing)


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
    """As on disk, its task finds what it has changed; unlike on disk, no other reader of the step does."""
    write = write_program(
        tmp_path / "write.py",
        "import h5py\nwith h5py.File('case-1.h5', 'w') as f:\n    f['x'] = [1, 2, 3]\n    f.create_group('g')\n",
    )
    change = write_program(tmp_path / "change.py", CHANGING)
    look = write_program(
        tmp_path / "look.py",
        "import h5py\nwith h5py.File('case-1.h5') as f:\n    assert list(f['x'][:]) == [1, 2, 3]\n",
    )
    workflow(tmp_path, PATTERNS[:1], (str(write),), (str(change), "seen.json"), (str(look),))
    before, changed, after, again = json.loads((tmp_path / "seen.json").read_text())
    assert before == [1, 2, 3] and changed == [[7, 7, 7], 100000, False]
    assert after == [[7, 7, 7], True, False] and again == [7, 7, 7]


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
