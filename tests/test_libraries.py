"""Several HDF5 libraries in one process: each is served by its own driver, on the same steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import WILKINS, run_tree, write_program

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
