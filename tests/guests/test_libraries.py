"""Several HDF5 libraries in one process: each is served by its own driver, on the same steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running import WAITS, WILKINS, run_tree, write_program

PRODUCER = """
import h5py, numpy as np
import tables, netCDF4  # the process holds three HDF5 libraries; all of them write
for step in range(6):
    name = f"step{step}.h5"
    if step % 3 == 0:
        with h5py.File(name, "w") as f:
            f["x"] = np.arange(10.0) * step
    elif step % 3 == 1:
        with tables.open_file(name, "w") as f:
            f.create_array("/", "x", np.arange(10.0) * step)
    else:
        with netCDF4.Dataset(name, "w") as f:
            f.createDimension("n", 10)
            f.createVariable("x", "f8", ("n",))[:] = np.arange(10.0) * step
"""

CONSUMER = """
import h5py, netCDF4, numpy as np, tables
versions = {h5py.version.hdf5_version, tables.hdf5_version, netCDF4.__hdf5libversion__}
for step in range(6):
    name = f"step{step}.h5"
    with netCDF4.Dataset(name) as first, h5py.File(name) as second, tables.open_file(name) as third:
        for x in (first["x"][:], second["x"][:], third.root.x[:]):
            assert (np.asarray(x) == np.arange(10.0) * step).all(), (step, x)
print("read with", len(versions), "versions")
"""


@pytest.mark.needs("python:tables", "python:netCDF4")
def test_three_libraries_in_one_process_on_both_sides(tmp_path: Path) -> None:
    """Each step is written by one of them and held open by all three at once."""
    write_program(tmp_path / "produce.py", PRODUCER)
    write_program(tmp_path / "consume.py", CONSUMER)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n- {func: ./produce.py, nprocs: 1, outports: [{filename: 'step*.h5'}]}\n"
        "- {func: ./consume.py, nprocs: 1, inports: [{filename: 'step*.h5'}]}\n"
    )
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert "read with" in ran.out
    assert not list(tmp_path.glob("step*"))


LATE_PRODUCER = """
import os, sys, time
import pandas as pd, tables
for step in range(3):
    while not os.path.exists(f"looking-{step}"):
        time.sleep(0.01)
    waits.until_waits(1)  # it has looked
    with pd.HDFStore(sys.argv[1].format(step), "w") as store:
        store["t"] = pd.DataFrame({"n": [step, step]})
"""

READERS = {
    "tables.open_file": """
def read(name):
    with tables.open_file(name) as f:
        return int(f.root.t.block0_values[1, 0])
""",
    "pandas.read_hdf": """
def read(name):
    return int(pd.read_hdf(name, "t")["n"][1])
""",
    "pandas.HDFStore": """
def read(name):
    with pd.HDFStore(name, "r") as store:
        return int(store["t"]["n"][1])
""",
}

EARLY_CONSUMER = """
import pathlib, sys
import pandas as pd, tables
for step in range(4):
    pathlib.Path(f"looking-{step}").touch()
    try:
        print("read", read(sys.argv[1].format(step)), flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
"""


@pytest.mark.usual("pandas.read_hdf-s.h5")
@pytest.mark.needs("python:tables", "python:pandas")
@pytest.mark.parametrize(
    ("reader", "name"), [("tables.open_file", "s{}.h5"), ("pandas.read_hdf", "s.h5"), ("pandas.HDFStore", "s{}.h5")]
)
def test_libraries_that_look_wait_for_what_they_open(tmp_path: Path, reader: str, name: str) -> None:
    """They refuse a file that is missing, before HDF5 is asked: a step that is still to come is not missing."""
    write_program(tmp_path / "produce.py", f"{WAITS}\n{LATE_PRODUCER}")
    write_program(tmp_path / "consume.py", READERS[reader] + EARLY_CONSUMER)
    (tmp_path / "workflow.yaml").write_text(
        f"tasks:\n- {{func: ./produce.py, nprocs: 1, args: ['{name}'], outports: [{{filename: 's*.h5'}}]}}\n"
        f"- {{func: ./consume.py, nprocs: 1, args: ['{name}'], inports: [{{filename: 's*.h5'}}]}}\n"
    )
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 90, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    told = (tmp_path / "wilkins-runs" / "latest" / "consume.log").read_text().splitlines()
    assert [line for line in told if line.startswith("read") or "Error" in line] == [
        *(f"read {step}" for step in range(3)),
        "FileNotFoundError",
    ]


POLLER = """
import os, pathlib, time
import h5py
misses = 0
for step in range(3):
    while not os.path.exists(f"s{step}.h5"):
        misses += 1
        pathlib.Path("looked").touch()
        time.sleep(0.01)
h5py.File("s2.h5").close()
print("missed", misses > 0, os.path.exists("s9.h5"))
"""


def test_looks_of_a_program_that_polls_by_itself(tmp_path: Path) -> None:
    """`looks: now`: a producer that waits for a consumer that has looked, and gone on."""
    write_program(
        tmp_path / "produce.py",
        "import os, time\nimport h5py\nwhile not os.path.exists('looked'):\n    time.sleep(0.01)\n"
        "for step in range(3):\n    h5py.File(f's{step}.h5', 'w').close()\n",
    )
    write_program(tmp_path / "consume.py", POLLER)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n- {func: ./produce.py, nprocs: 1, outports: [{filename: 's*.h5'}]}\n"
        "- {func: ./consume.py, nprocs: 1, inports: [{filename: 's*.h5', looks: now, flow: {queue: 3}}]}\n"
    )
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert "missed True False" in (tmp_path / "wilkins-runs" / "latest" / "consume.log").read_text()
