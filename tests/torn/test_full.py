"""No room for a step: its writer fails as on a full disk, the run says why, and no consumer sees a part of it.

Steps come in three sizes; the third is too large for what there is. With `WILKINS_TEST_KILLS` (`make soak`) also for
more kinds of programs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml
from torn.cases import LIMIT, MPIS, Case, Reader, got, workflow

from support.running import OWN_MOUNTS, WILKINS, Finished, processes_in, run_tree, wait_for, write_program

FULL = "WILKINS_TEST_KILLS" in os.environ
SMALL_MEMORY = """
mount -t tmpfs -o size=6500k tmpfs /dev/shm || exit 99
"$@"
code=$?
ls /dev/shm > left
exit $code
"""
STATIC = pytest.param("static", marks=pytest.mark.needs("h5cc"))
KINDS = [
    "h5py",
    "channel",
    STATIC,
    pytest.param("mpich", marks=pytest.mark.needs("h5pcc.mpich", "mpiexec.mpich")),
]
if FULL:
    KINDS += [
        pytest.param("netcdf4", marks=pytest.mark.needs("python:netCDF4")),
        pytest.param("shared", marks=pytest.mark.needs("h5cc")),
        pytest.param("openmpi", marks=pytest.mark.needs("h5pcc.openmpi", "mpiexec.openmpi")),
    ]


def run(folder: Path, kind: str, limit: str = "", before: tuple[str, ...] = (), **port: object) -> Finished:
    """Run a workflow whose third step has no room, perhaps with a shell's `limit` for its writer."""
    case = Case(kind, 2 if kind in MPIS else 1, rows=600, steps=6, port=port, victim="nobody")
    case.readers = [Reader("h5py"), Reader("channel", flow="latest")]
    workflow(case, folder)
    if limit:
        flow = yaml.safe_load((folder / "workflow.yaml").read_text())
        writer = flow["tasks"][0]
        command = " ".join([writer["func"], *writer["args"]])
        writer |= {"func": "/bin/sh", "args": ["-c", f"{limit}; exec {command}"]}
        (folder / "workflow.yaml").write_text(yaml.safe_dump(flow))
    ran = run_tree([*before, *WILKINS, "run", "workflow.yaml"], LIMIT, folder)
    assert ran.code == 1, ran.out + ran.err
    assert "Traceback" not in ran.err, ran.err
    wait_for(lambda: not processes_in(folder), 10, "the end of all processes")
    assert not list(folder.rglob(".wilkins-*"))
    read, newest = got(folder, "look0"), got(folder, "look1")
    assert read == [0, 1][: len(read)], read
    assert newest in ([], [0], [1], [0, 1]), newest
    return ran


@pytest.mark.usual("h5py")
@pytest.mark.parametrize("kind", KINDS)
def test_a_port_may_take_no_more_memory(tmp_path: Path, kind: str) -> None:
    ran = run(tmp_path, kind, memory="6500KiB")
    assert "'out.h5' takes" in ran.err and "more than the 6656000 that 'memory' allows its port" in ran.err, ran.err


@pytest.mark.usual("h5py")
@pytest.mark.needs("tmpfs")
@pytest.mark.parametrize("kind", ["h5py", STATIC])
def test_shared_memory_is_full(tmp_path: Path, kind: str) -> None:
    ran = run(tmp_path, kind, before=(*OWN_MOUNTS, "sh", "-c", SMALL_MEMORY, "sh"))
    assert "shared memory" in ran.err and "is full" in ran.err and "'out.h5' needs" in ran.err, ran.err
    assert (tmp_path / "left").read_text() == ""


@pytest.mark.usual("h5py-both")
@pytest.mark.parametrize("mode", ["memory", "both"])
@pytest.mark.parametrize("kind", ["h5py", STATIC] if FULL else ["h5py"])
def test_files_may_be_no_longer(tmp_path: Path, kind: str, mode: str) -> None:
    """Who may write no long files may make no large steps either; as with files, SIGXFSZ ends most programs."""
    ran = run(tmp_path, kind, limit="ulimit -f 12800", mode=mode)
    log = (tmp_path / "wilkins-runs" / "latest" / "sim.log").read_text()
    assert "SIGXFSZ" in ran.err or "write request failed" in log or "File too large" in log, ran.err + log
    on_disk = [path.stat().st_size for path in tmp_path.glob("*.h5")]
    assert len(on_disk) == (mode != "memory")
    assert all(size < 6_000_000 for size in on_disk)


WRITING = """
import h5py
for k in range(3):
    for mode in "w", "r+":
        with h5py.File(f"step{k}.h5", mode) as file:
            file[mode] = range(1000)
"""
READING = """
import h5py
print([sum(len(data) for data in h5py.File(f"step{k}.h5").values()) for k in range(3)])
"""


@pytest.mark.usual("memory")
@pytest.mark.parametrize("mode", ["memory", "both", "file"])
def test_a_limit_that_no_file_reaches(tmp_path: Path, mode: str) -> None:
    """Files may have 100 KiB, and have less."""
    for name, text in ("write.py", WRITING), ("read.py", READING):
        write_program(tmp_path / name, text)
    write = ["-c", f"ulimit -f 200; exec {sys.executable} -B write.py"]
    port = {"filename": "step*.h5", "publish": 2, "mode": mode}
    tasks = [
        {"name": "write", "func": "/bin/sh", "args": write, "outports": [port]},
        {"name": "read", "func": "read.py", "inports": [{"filename": "step*.h5"}]},
    ]
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], LIMIT, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert "[2000, 2000, 2000]" in ran.out


@pytest.mark.parametrize("kind", ["h5py", STATIC] if FULL else ["h5py"])
def test_a_program_may_use_no_more_addresses(tmp_path: Path, kind: str) -> None:
    """Each step that it has in memory takes some."""
    ran = run(tmp_path, kind, limit=f"ulimit -v {600_000 if kind == 'h5py' else 200_000}")
    assert "sim: failed" in ran.err
    layer = (tmp_path / "wilkins-runs" / "latest" / "layer.log").read_text()
    assert "ulimit -v" in layer, layer
