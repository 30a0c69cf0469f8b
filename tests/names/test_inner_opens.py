"""One step for several opens: by links and virtual datasets of another step, and by other libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.running import WAITS, WILKINS, run_tree, write_program

MODES = ["memory", "both", "file"]
STEPS = 4


def task(folder: Path, name: str, text: str, **keys: Any) -> dict[str, Any]:
    """A task that runs a Python program."""
    write_program(folder / f"{name}.py", "#!/usr/bin/env python3\n" + text)
    return {"name": name, "func": f"./{name}.py", **keys}


def run(folder: Path, *tasks: dict[str, Any], strict: bool = False) -> None:
    """Run these tasks as a workflow."""
    options = ["--quiet", *(["--strict"] if strict else [])]
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": list(tasks)}, sort_keys=False))
    ran = run_tree([*WILKINS, "run", *options, "workflow.yaml"], 60, folder)
    logs = "".join(path.read_text(errors="replace") for path in folder.glob("wilkins-runs/latest/*.log"))
    assert ran.code == 0, ran.out + ran.err + logs


def log(folder: Path, name: str) -> list[str]:
    return (folder / "wilkins-runs/latest" / f"{name}.log").read_text().splitlines()


PARTS = """
import h5py, numpy as np
def write(step, number):
    names = [f"{part}{number}.h5" for part in ("left", "right")]
    for k, name in enumerate(names):
        with h5py.File(name, "w") as file:
            file["part"] = np.arange(4.0) + 10 * step + 100 * k
    whole = h5py.VirtualLayout((3, 4), "f8")
    for k, name in enumerate(names):
        whole[k] = h5py.VirtualSource(name, "part", (4,))
    whole[2] = h5py.VirtualSource(f"all{number}.h5", "here", (4,))
    with h5py.File(f"all{number}.h5", "w") as file:
        file["here"] = np.arange(4.0) - step
        file.create_virtual_dataset("whole", whole, fillvalue=-1)
        file["out"] = h5py.ExternalLink(names[1], "/part")
        file["itself"] = h5py.ExternalLink(f"all{number}.h5", "/here")

def read(file):
    whole = [file["whole"][:].tolist() for _ in range(2)]
    return [*whole, file["out"][:].tolist(), file["itself"][:].tolist(), file["out"].shape]
"""
"""Each step is three files: two parts, and one that shows them, and itself, as a virtual dataset and through links."""

WRITE_PARTS = (
    PARTS
    + f"""
import sys
for step in range({STEPS}):
    write(step, step if "numbered" in sys.argv else "")
"""
)

READ_PARTS = (
    PARTS
    + f"""
import sys
for step in range({STEPS}):
    with h5py.File(f"all{{step if 'numbered' in sys.argv else ''}}.h5") as file:
        print(read(file))
"""
)

STEPWISE = (
    PARTS
    + f"""
for step in range({STEPS}):
    write(step, "")
    with h5py.File("all.h5") as file:
        print(read(file))
"""
)


def alone(folder: Path, text: str) -> list[str]:
    """What a program prints by itself, with files."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.usual("numbered-memory", "rewritten-file", also_between_hosts=["rewritten-memory"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("names", ["rewritten", "numbered"])
def test_virtual_datasets_and_links_lead_to_the_steps_of_their_own_step(tmp_path: Path, names: str, mode: str) -> None:
    """The values are those of files, read after each step; of all parts each step is read once."""
    pattern = {"rewritten": "{}.h5", "numbered": "{}*.h5"}[names]
    kinds = ("left", "right", "all")
    outports = [{"filename": pattern.format(kind), "mode": mode} for kind in kinds]
    inports = [{"filename": pattern.format(kind)} for kind in kinds]
    run(
        tmp_path,
        task(tmp_path, "write", WRITE_PARTS, args=[names], outports=outports),
        task(tmp_path, "read", READ_PARTS, args=[names], inports=inports),
    )
    assert log(tmp_path, "read") == alone(tmp_path / "alone", STEPWISE)


@pytest.mark.also_between_hosts
def test_parts_that_come_by_the_port_of_what_shows_them_are_read(tmp_path: Path) -> None:
    """They were published before it and opened after it; with --strict, a step that nobody read is a failure."""
    run(
        tmp_path,
        task(tmp_path, "write", WRITE_PARTS, args=["numbered"], outports=[{"filename": "*.h5"}]),
        task(tmp_path, "read", READ_PARTS, args=["numbered"], inports=[{"filename": "*.h5"}]),
        strict=True,
    )
    assert log(tmp_path, "read") == alone(tmp_path / "alone", STEPWISE)


SKIPS = (
    PARTS
    + f"""
for step in range({STEPS}):
    with h5py.File("all.h5") as file:
        print(file["here"][0], read(file) if step % 2 else "")
"""
)


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_parts_of_steps_that_were_not_looked_into_go_by(tmp_path: Path) -> None:
    """Only every second step is read through; its parts are those of that step."""
    kinds = ("left", "right", "all")
    run(
        tmp_path,
        task(tmp_path, "write", WRITE_PARTS, outports=[{"filename": f"{kind}.h5", "queue": STEPS} for kind in kinds]),
        task(tmp_path, "read", SKIPS, inports=[{"filename": f"{kind}.h5"} for kind in kinds], enough=True),
    )
    read = [line for line in log(tmp_path, "read") if "[" in line]
    assert [line.split(maxsplit=1)[1] for line in read] == alone(tmp_path / "alone", STEPWISE)[1::2]


LATER = f"""
import h5py
for step in range({STEPS}):
    with h5py.File("state.h5", "w") as file:
        file["x"] = step
        file["mesh"] = h5py.ExternalLink("mesh.h5", "/cells")
    MESH
"""

MESHES = {
    "a mesh after each state": 'with h5py.File("mesh.h5", "w") as file: file["cells"] = 10 * step',
    "one mesh, written after the first state": """if step == 0:
        with h5py.File("mesh.h5", "w") as file: file["cells"] = 7""",
}

STATES = f"""
import h5py
for step in range({STEPS}):
    with h5py.File("state.h5") as file:
        print(file["x"][()], file["mesh"][()], file["mesh"][()])
"""


@pytest.mark.usual("a mesh after each state", also_between_hosts=["one mesh, written after the first state"])
@pytest.mark.parametrize("case", MESHES)
def test_a_file_that_is_linked_to_before_it_is_written(tmp_path: Path, case: str) -> None:
    run(
        tmp_path,
        task(
            tmp_path,
            "write",
            LATER.replace("MESH", MESHES[case]),
            outports=[{"filename": "state.h5"}, {"filename": "mesh.h5"}],
        ),
        task(tmp_path, "read", STATES, inports=[{"filename": "state.h5"}, {"filename": "mesh.h5"}]),
    )
    meshes = [10 * step if "each" in case else 7 for step in range(STEPS)]
    assert log(tmp_path, "read") == [f"{step} {mesh} {mesh}" for step, mesh in enumerate(meshes)]


ONE_MESH = LATER.replace("for step", 'with h5py.File("mesh.h5", "w") as file: file["cells"] = 7\nfor step').replace(
    "MESH", ""
)


def test_one_mesh_for_all_states(tmp_path: Path) -> None:
    run(
        tmp_path,
        task(tmp_path, "write", ONE_MESH, outports=[{"filename": "state.h5"}, {"filename": "mesh.h5"}]),
        task(tmp_path, "read", STATES, inports=[{"filename": "state.h5"}, {"filename": "mesh.h5"}]),
    )
    assert log(tmp_path, "read") == [f"{step} 7 7" for step in range(STEPS)]


STREAM = """
import sys, h5py
for step in range(4):
    with h5py.File(sys.argv[1].format(step), "w") as file:
        file["x"] = [step, step]
"""

BOTH = """
import sys, h5py, netCDF4, tables
def by_h5py(name):
    with h5py.File(name) as file:
        return int(file["x"][0])
def by_netcdf(name):
    with netCDF4.Dataset(name) as file:
        return int(file["x"][0])
def by_tables(name):
    with tables.open_file(name) as file:
        return int(file.root.x[0])
for step in range(4):
    name = sys.argv[1].format(step)
    print(by_h5py(name), by_netcdf(name), by_tables(name))
"""

OLD_HANDLE = """
import h5py
held = None
for step in range(4):
    held = h5py.File("state.h5")
    print(held["x"][0])
"""


@pytest.mark.needs("python:tables", "python:netCDF4")
@pytest.mark.usual("state.h5-memory", also_between_hosts=["state{}.h5-memory"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["state.h5", "state{}.h5"])
def test_each_library_of_a_program_reads_the_same_step(tmp_path: Path, name: str, mode: str) -> None:
    """One after the other, each closes it before the next one opens it."""
    run(
        tmp_path,
        task(tmp_path, "write", STREAM, args=[name], outports=[{"filename": name.replace("{}", "*"), "mode": mode}]),
        task(tmp_path, "read", BOTH, args=[name], inports=[{"filename": name.replace("{}", "*")}]),
    )
    assert log(tmp_path, "read") == [f"{step} {step} {step}" for step in range(4)]


BYTES = """
import h5py
for step in range(4):
    with h5py.File("state.h5") as file:
        value = int(file["x"][0])
    with open("state.h5", "rb") as file:
        with h5py.File(file) as again:
            print(value, int(again["x"][0]))
"""


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_file_that_is_read_by_a_library_and_as_bytes(tmp_path: Path) -> None:
    run(
        tmp_path,
        task(tmp_path, "write", STREAM, args=["state.h5"], outports=[{"filename": "state.h5"}]),
        task(tmp_path, "read", BYTES, inports=[{"filename": "state.h5"}]),
    )
    assert log(tmp_path, "read") == [f"{step} {step}" for step in range(4)]


WHEN_CLOSED = """
import pathlib, time, h5py
for step in range(4):
    while step == 1 and not pathlib.Path("closed").exists():
        time.sleep(0.01)
    with h5py.File("state.h5", "w") as file:
        file["x"] = [step, step]
"""

LATER_AS_BYTES = f"""
import pathlib, h5py
{WAITS}
for step in range(4):
    with h5py.File("state.h5") as file:
        value = int(file["x"][0])
    if step == 0:
        pathlib.Path("closed").touch()
        waits.until_waits(0)  # the producer has no room for another step
    with open("state.h5", "rb") as file:
        with h5py.File(file) as again:
            print(value, int(again["x"][0]))
"""


@pytest.mark.nightly
@pytest.mark.also_between_hosts
@pytest.mark.one_host("its reader asks the board whether the producer waits, which is on another host")
def test_the_first_file_is_there_as_bytes_although_the_next_has_been_written(tmp_path: Path) -> None:
    run(
        tmp_path,
        task(tmp_path, "write", WHEN_CLOSED, outports=[{"filename": "state.h5"}]),
        task(tmp_path, "read", LATER_AS_BYTES, inports=[{"filename": "state.h5"}]),
    )
    assert log(tmp_path, "read") == [f"{step} {step}" for step in range(4)]


def test_the_next_open_of_one_library_is_the_next_step(tmp_path: Path) -> None:
    """Also while the step before is open."""
    run(
        tmp_path,
        task(tmp_path, "write", STREAM, args=["state.h5"], outports=[{"filename": "state.h5"}]),
        task(tmp_path, "read", OLD_HANDLE, inports=[{"filename": "state.h5"}]),
    )
    assert log(tmp_path, "read") == [str(step) for step in range(4)]


CHECKED = f"""
import h5py
{WAITS}
with h5py.File("state.h5") as file:
    waits.until_waits(0)  # the producer has no room for another step
    print([int(file["itself"][0]) for _ in range(3)])
for step in range(1, 8):
    with h5py.File("state.h5") as file:
        print([int(file["itself"][0]) for _ in range(3)])
"""


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_link_into_the_same_file_while_later_steps_are_there(tmp_path: Path) -> None:
    text = STREAM.replace("range(4)", "range(8)") + '        file["itself"] = h5py.ExternalLink("state.h5", "/x")\n'
    run(
        tmp_path,
        task(tmp_path, "write", text, args=["state.h5"], outports=[{"filename": "state.h5"}]),
        task(tmp_path, "read", CHECKED, inports=[{"filename": "state.h5"}]),
    )
    assert log(tmp_path, "read") == [str([step] * 3) for step in range(8)]


WRITE_ONE_OF_PARTS = PARTS + 'write(1, "")\n'
READ_ONE_OF_PARTS = PARTS + 'with h5py.File("all.h5") as file:\n    print(read(file))\n'


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_parts_that_lie_beside_the_ports_are_read_from_the_disk(tmp_path: Path) -> None:
    """The reader's pattern fits them, too; the producer has them in no port."""
    run(
        tmp_path,
        task(tmp_path, "write", WRITE_ONE_OF_PARTS, outports=[{"filename": "all.h5"}]),
        task(tmp_path, "read", READ_ONE_OF_PARTS, inports=[{"filename": "*.h5"}]),
    )
    assert log(tmp_path, "read") == alone(tmp_path / "alone", WRITE_ONE_OF_PARTS + READ_ONE_OF_PARTS)


@pytest.mark.usual("both", also_between_hosts=["file"])
@pytest.mark.parametrize("mode", ["both", "file"])
def test_parts_that_were_let_go_are_read_from_the_disk_and_count(tmp_path: Path, mode: str) -> None:
    """There are more of them than may wait for the file that shows them."""
    write = """
import h5py
layout = h5py.VirtualLayout((12,), "i8")
for k in range(12):
    layout[k] = h5py.VirtualSource(f"part{k}.h5", "x", ())
    with h5py.File(f"part{k}.h5", "w") as file:
        file["x"] = k
with h5py.File("all.h5", "w") as file:
    file.create_virtual_dataset("x", layout)
"""
    read = 'import h5py\nprint(*h5py.File("all.h5")["x"])\n'
    out, into = {"filename": "part*.h5", "mode": mode}, {"filename": "part*.h5", "reorder": 4}
    run(
        tmp_path,
        task(tmp_path, "write", write, outports=[out, {"filename": "all.h5", "mode": mode}]),
        task(tmp_path, "read", read, inports=[into, {"filename": "all.h5"}]),
        strict=True,
    )
    assert log(tmp_path, "read") == ["0 1 2 3 4 5 6 7 8 9 10 11"]


def test_parts_that_no_in_port_takes_end_the_run(tmp_path: Path) -> None:
    """HDF5 would go on with fill values."""
    tasks = [
        task(tmp_path, "write", WRITE_ONE_OF_PARTS, outports=[{"filename": "*.h5"}]),
        task(tmp_path, "read", READ_ONE_OF_PARTS, inports=[{"filename": "all.h5"}]),
    ]
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 1, ran.out
    assert "give the reader an in-port for such files, as 'filename: \"left.h5\"'" in ran.err
    assert log(tmp_path, "read") == []
