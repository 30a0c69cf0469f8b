"""PnetCDF, a user of MPI-IO that knows nothing of HDF5: its files in channels are what they are on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from programs.build import build

from support.running import WILKINS, Finished, run_tree

NAMES = [*(f"case-{k}.nc" for k in range(6)), "again.nc"]
"""Each of the three formats, without and with fill values; and one that its writer adds to."""
JOB = ("mpirun.openmpi", "--oversubscribe")
ON_DISK = (*JOB, "--mca", "io", "^ompio")
"""Open MPI's other MPI-IO, OMPIO, writes what its buffers held into gaps of collective writes."""
LIMIT = 60.0

pytestmark = pytest.mark.needs("mpirun.openmpi", "mpicc.openmpi", "pnetcdf-config", "ncmpidump", "ncmpidiff")

KEEP = """
import sys
from pathlib import Path
for name in sys.argv[1:]:
    Path("copy-of-" + name).write_bytes(Path(name).read_bytes())
"""


def program(name: str) -> str:
    return str(build(f"pnetcdf_{name}.c", "mpicc.openmpi", "-lpnetcdf"))


def through_files(folder: Path, writers: int, readers: int, names: list[str]) -> None:
    """Write on disk, then read."""
    folder.mkdir()
    for ranks, side in ((writers, "write"), (readers, "read")):
        ran = run_tree([*ON_DISK, "-n", str(ranks), program(side), *names], LIMIT, folder)
        assert ran.code == 0, ran.out + ran.err


def through_channels(
    folder: Path, writers: int, readers: int, names: list[str], *others: dict[str, object]
) -> Finished:
    """Write and read as one workflow, which may have more consumers."""
    folder.mkdir(exist_ok=True)
    patterns = sorted({name if "again" in name or "stream" in name else "case-*.nc" for name in names})
    outports = [{"filename": name, "publish": "next" if "again" in name else "close"} for name in patterns]
    inports = [{"filename": name, "flow": {"every": 1, "queue": 8, "when_full": "block"}} for name in patterns]
    mpi = {"mpiexec": " ".join(JOB), "args": names}
    tasks: list[dict[str, object]] = [
        {"name": "write", "func": program("write"), "nprocs": writers, "outports": outports, **mpi},
        {"name": "read", "func": program("read"), "nprocs": readers, "inports": inports, **mpi},
    ]
    tasks += [{"nprocs": 1, "inports": inports, **other} for other in others]
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], LIMIT, folder)
    assert ran.code == 0, ran.out + ran.err
    assert not [name for name in names if (folder / name).exists()], "a step is on disk"
    return ran


def told(folder: Path) -> dict[str, list[str]]:
    """What each rank of either side said: every return code and value."""
    return {path.name: path.read_bytes().decode("latin-1").splitlines() for path in folder.glob("*-*.txt")}


def first_difference(one: dict[str, list[str]], other: dict[str, list[str]]) -> str | None:
    """Where two sides' words differ first."""
    if one.keys() != other.keys():
        return f"{sorted(one)}, but {sorted(other)}"
    for name, lines in one.items():
        for k, (line, same) in enumerate(zip([*lines, "END"], [*other[name], "END"], strict=False)):
            if line != same:
                return f"{name}:{k}: {line[:300]!r}, but {same[:300]!r}"
    return None


@pytest.mark.usual("1-4")
@pytest.mark.parametrize(("writers", "readers"), [(3, 2), (1, 4)])
def test_a_step_is_what_the_file_would_be(tmp_path: Path, writers: int, readers: int) -> None:
    """Return codes, values and bytes, to another number of ranks; the tools of PnetCDF read steps, too."""
    through_files(tmp_path / "files", writers, readers, NAMES)
    (tmp_path / "keep.py").write_text(KEEP)
    shutil.copy(tmp_path / "files" / "again.nc", tmp_path / "expected.nc")
    keep: dict[str, object] = {"name": "keep", "func": str(tmp_path / "keep.py"), "args": NAMES}
    tool: dict[str, object] = {"mpiexec": " ".join(JOB), "inports": [{"filename": "again.nc"}]}
    dump: dict[str, object] = {"name": "dump", "func": "ncmpidump", "args": ["again.nc"], **tool}
    diff: dict[str, object] = {"name": "diff", "func": "ncmpidiff", "args": ["../expected.nc", "again.nc"], **tool}
    ran = through_channels(tmp_path / "steps", writers, readers, NAMES, keep, dump, diff)
    for name in NAMES:
        one, other = (tmp_path / "files" / name).read_bytes(), (tmp_path / "steps" / f"copy-of-{name}").read_bytes()
        assert one == other, f"{name} differs"
    files = told(tmp_path / "files")
    assert len(files) == writers + readers
    assert first_difference(files, told(tmp_path / "steps")) is None
    dumped = run_tree(["ncmpidump", "again.nc"], LIMIT, tmp_path / "files").out.splitlines()
    assert [line.removeprefix("dump  |").strip() for line in ran.out.splitlines() if line.startswith("dump")] == [
        line.strip() for line in dumped
    ]
    assert "Headers of two files are the same" in ran.out
    assert "All variables of two files are the same" in ran.out


def test_a_rewritten_name_is_a_stream(tmp_path: Path) -> None:
    """Also where PnetCDF opens a file twice, for its independent calls: both are the same step."""
    steps = 3
    through_files(tmp_path / "files", 2, 3, [f"stream{k}.nc" for k in range(steps)])
    through_channels(tmp_path / "steps", 2, 3, ["stream.nc"] * steps)
    files = told(tmp_path / "files")
    for lines in files.values():
        lines[:] = ["== stream.nc" if line.startswith("== ") else line for line in lines]
    assert first_difference(files, told(tmp_path / "steps")) is None


SERIAL = """
import sys
import h5py, netCDF4, numpy as np
for k, name in enumerate(sys.argv[1:]):
    with netCDF4.Dataset(name) as file:
        rows, columns = np.mgrid[:12, :10]
        assert (file["grid"][:] == k * 10000 + 1000.25 + rows * 10 + columns).all()
        print("read", file.data_model)
    try:
        h5py.File(name)
    except OSError as error:
        assert "file signature not found" in str(error), error
        print("no HDF5")
"""


@pytest.mark.needs("python:netCDF4")
def test_readers_that_know_nothing_of_mpi(tmp_path: Path) -> None:
    """netCDF's own library reads each format; HDF5 says that it is none of its files, as on disk."""
    (tmp_path / "serial.py").write_text(SERIAL)
    ran = through_channels(tmp_path, 2, 1, NAMES[:3], {"name": "serial", "func": "./serial.py", "args": NAMES[:3]})
    for model in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"):
        assert f"read {model}" in ran.out
    assert ran.out.count("no HDF5") == 3
