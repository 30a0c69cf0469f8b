"""What a task changes of steps that it only reads: kept as a file of its own, told of where nobody could find it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from support.hooks import faults
from support.running import WILKINS, Finished, processes_in, run_tree, write_program

WRITE = """
import h5py
for k in range(3):
    with h5py.File(f"plt{k}.h5", "w") as file:
        file["x"] = [k, 2, 3]
"""
REWRITE = WRITE.replace('f"plt{k}.h5"', '"state.h5"')
ADD = """
import h5py
for k in range(3):
    with h5py.File(f"plt{k}.h5", "r+") as file:
        file["mean"] = file["x"][:].mean()
for k in range(3):
    with h5py.File(f"plt{k}.h5") as file:
        print(k, sorted(file), flush=True)
"""
ADD_TO_ONE = """
import h5py
while True:
    with h5py.File("state.h5", "r+") as file:
        file["mean"] = file["x"][:].mean()
        print(file["mean"][()], flush=True)
"""
ONLY_OPEN = """
import h5py
while True:
    with h5py.File("state.h5", "r+") as file:
        print(file["x"][0], flush=True)
"""
LOOK = """
import h5py, time
for k in range(3):
    with h5py.File(f"plt{k}.h5") as file:
        print(k, sorted(file), flush=True)
"""
KEPT = [f"{k} ['mean', 'x']" for k in range(3)]
PLAIN = [f"{k} ['x']" for k in range(3)]


def run(
    folder: Path,
    *readers: str,
    writes: str = WRITE,
    pattern: str = "plt*.h5",
    out: str = "",
    options: str = "",
    words: Sequence[str] = (),
    what: str = "",
) -> Finished:
    """Run a workflow of `sim` and readers `one`, `two`, ..."""
    write_program(folder / "sim.py", writes)
    tasks = [f"- {{func: ./sim.py, outports: [{{filename: '{pattern}'{out}}}]}}"]
    for name, reader in zip(("one", "two"), readers, strict=False):
        write_program(folder / f"{name}.py", reader)
        tasks.append(f"- {{func: ./{name}.py, inports: [{{filename: '{pattern}'}}]{options.replace('NAME', name)}}}")
    (folder / "workflow.yaml").write_text("tasks:\n" + "\n".join(tasks) + "\n")
    yaml.safe_load((folder / "workflow.yaml").read_text())
    ran = run_tree([*WILKINS, "run", *words, "workflow.yaml"], 60, folder, faults(what) if what else None)
    assert not processes_in(folder)
    assert not list(folder.rglob(".wilkins-*"))
    return ran


def said(folder: Path, task: str) -> list[str]:
    return (folder / "wilkins-runs" / "latest" / f"{task}.log").read_text().splitlines()


def keys(path: Path) -> list[str]:
    import h5py

    with h5py.File(path) as file:
        return sorted(file)


def test_another_reader_gets_what_the_producer_wrote(tmp_path: Path) -> None:
    ran = run(tmp_path, ADD, LOOK, words=["--strict"])
    assert ran.code == 0, ran.err
    assert said(tmp_path, "one") == KEPT
    assert said(tmp_path, "two") == PLAIN
    assert keys(tmp_path / "plt2.h5") == ["mean", "x"]


@pytest.mark.usual("both")
@pytest.mark.parametrize("mode", ["both", "file"])
def test_a_producer_on_disk_leaves_what_its_readers_have_added(tmp_path: Path, mode: str) -> None:
    ran = run(tmp_path, ADD, LOOK, out=f", mode: {mode}")
    assert ran.code == 0, ran.err
    assert said(tmp_path, "one") == KEPT
    assert said(tmp_path, "two") == PLAIN
    assert keys(tmp_path / "plt2.h5") == ["mean", "x"]


def test_two_tasks_that_add_to_one_file_are_named(tmp_path: Path) -> None:
    ran = run(tmp_path, ADD, ADD)
    assert ran.code == 1
    told = " ".join(ran.err.split())
    assert "tasks 'one' and 'two' both change" in told or "tasks 'two' and 'one' both change" in told, ran.err
    assert "cwd" in told


@pytest.mark.nightly
def test_two_tasks_add_to_files_in_folders_of_their_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    ran = run(tmp_path, ADD, ADD, options=", cwd: NAME")
    assert ran.code == 0, ran.err
    assert said(tmp_path, "one") == said(tmp_path, "two") == KEPT
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.h5")) == [
        f"{name}/plt{k}.h5" for name in ("one", "two") for k in range(3)
    ]


def test_what_is_added_to_a_name_that_means_the_next_step_is_told_of(tmp_path: Path) -> None:
    ran = run(tmp_path, ADD_TO_ONE, writes=REWRITE, pattern="state.h5")
    assert ran.code == 0, ran.err
    assert said(tmp_path, "one")[:3] == ["1.6666666666666667", "2.0", "2.3333333333333335"]
    assert "nobody will see what it writes" in " ".join(ran.err.split())
    assert not (tmp_path / "state.h5").exists()
    ran = run(tmp_path, ADD_TO_ONE, writes=REWRITE, pattern="state.h5", words=["--strict"])
    assert ran.code == 1
    assert "one changed steps where nobody can see it" in " ".join(ran.err.split())


@pytest.mark.nightly
def test_who_opens_a_name_to_change_it_and_does_not_loses_nothing(tmp_path: Path) -> None:
    ran = run(tmp_path, ONLY_OPEN, writes=REWRITE, pattern="state.h5", words=["--strict"])
    assert ran.code == 0, ran.err
    assert said(tmp_path, "one")[:3] == ["0", "1", "2"]
    assert "nobody" not in ran.err


@pytest.mark.usual("both")
@pytest.mark.parametrize("mode", ["both", "file"])
def test_the_last_step_of_one_name_is_changed_on_disk(tmp_path: Path, mode: str) -> None:
    writes = REWRITE.replace("range(3)", "range(1)")
    ran = run(
        tmp_path,
        ADD_TO_ONE.replace("while True:", "for _ in range(1):"),
        writes=writes,
        pattern="state.h5",
        out=f", mode: {mode}",
        words=["--strict"],
    )
    assert ran.code == 0, ran.err
    assert keys(tmp_path / "state.h5") == ["mean", "x"]


@pytest.mark.nightly
def test_a_newer_file_of_the_name_is_left_alone(tmp_path: Path) -> None:
    writes = """
import h5py, os, time
for k in (1, 2):
    with h5py.File("tmp.h5", "w") as file:
        file["x"] = k
    os.rename("tmp.h5", "plt0.h5")
    while k == 1 and not os.path.exists("opened"):
        time.sleep(0.005)
open("written", "w").close()
"""
    reads = """
import h5py, os, time
with h5py.File("plt0.h5", "r+") as file:
    open("opened", "w").close()
    while not os.path.exists("written"):
        time.sleep(0.005)
    file["mean"] = 1
    file.flush()
    print(file["x"][()])
"""
    keys_of = {"out": ", mode: both", "options": ", rerun: never, enough: true"}
    ran = run(tmp_path, reads, writes=writes, **keys_of, words=["--strict"])
    assert ran.code == 1
    assert "a newer file of that name lies on the disk" in " ".join(ran.err.split())
    assert keys(tmp_path / "plt0.h5") == ["x"]


def test_a_file_of_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "plt1.h5").write_bytes(b"old")
    (tmp_path / "plt1.h5").chmod(0o640)
    ran = run(tmp_path, ADD)
    assert ran.code == 0, ran.err
    assert said(tmp_path, "one") == KEPT
    assert (tmp_path / "plt1.h5").stat().st_mode & 0o777 == 0o640
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "plt0.h5").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_program_that_is_started_for_each_step_finds_what_it_has_added(tmp_path: Path) -> None:
    reads = """
import glob, h5py
done = len(glob.glob("*.done"))
with h5py.File(f"plt{done}.h5", "r+") as file:
    file["mean"] = 1
print([sorted(h5py.File(f"plt{k}.h5")) for k in range(done + 1)], flush=True)
open(f"{done}.done", "w").close()
"""
    ran = run(tmp_path, reads)
    assert ran.code == 0, ran.err
    assert said(tmp_path, "one") == [str([["mean", "x"]] * k) for k in (1, 2, 3)]


def test_pandas_adds_to_a_store(tmp_path: Path) -> None:
    pytest.importorskip("tables")
    writes = """
import pandas
for k in range(3):
    pandas.DataFrame({"x": range(k, k + 9)}).to_hdf(f"plt{k}.h5", key="x")
"""
    reads = """
import pandas
for k in range(3):
    with pandas.HDFStore(f"plt{k}.h5", "a") as store:
        store["mean"] = store["x"].mean()
for k in range(3):
    with pandas.HDFStore(f"plt{k}.h5", "r") as store:
        print(k, sorted(store.keys()), float(store["mean"].iloc[0]), flush=True)
"""
    ran = run(tmp_path, reads, writes=writes)
    assert ran.code == 0, ran.err
    assert said(tmp_path, "one") == [f"{k} ['/mean', '/x'] {k + 4.0}" for k in range(3)]


@pytest.mark.needs("mpiexec")
def test_a_rank_changes_a_step_through_mpi_io(tmp_path: Path) -> None:
    writes = """
for k in range(3):
    open(f"plt{k}.h5", "wb").write(bytes([k]) * 100)
"""
    reads = """
from mpi4py import MPI
for k in range(3):
    file = MPI.File.Open(MPI.COMM_SELF, f"plt{k}.h5", MPI.MODE_RDWR)
    found = bytearray(4)
    file.Read_at(0, found)
    if k > 0:
        file.Write_at(0, b"mine")
    file.Close()
    print(bytes(found), open(f"plt{k}.h5", "rb").read()[:5], flush=True)
"""
    ran = run(tmp_path, reads, writes=writes)
    assert ran.code == 0, ran.err
    assert said(tmp_path, "one") == [
        r"b'\x00\x00\x00\x00' b'\x00\x00\x00\x00\x00'",
        r"b'\x01\x01\x01\x01' b'mine\x01'",
        r"b'\x02\x02\x02\x02' b'mine\x02'",
    ]
    assert sorted(path.name for path in tmp_path.glob("*.h5")) == ["plt1.h5", "plt2.h5"]


@pytest.mark.usual("own.named")
@pytest.mark.parametrize("point", ["own.noted", "own.filled", "own.named"])
def test_who_dies_as_it_changes_a_step_leaves_a_whole_file_or_none(tmp_path: Path, point: str) -> None:
    ran = run(tmp_path, ADD, what=f"task=one,kill={point}:2")
    assert ran.code == 1, ran.err
    assert keys(tmp_path / "plt0.h5") == ["mean", "x"]
    there = point == "own.named"
    assert (tmp_path / "plt1.h5").exists() == there
    assert not there or keys(tmp_path / "plt1.h5") == ["x"]
    assert not (tmp_path / "plt2.h5").exists()


@pytest.mark.nightly
def test_a_producer_has_many_of_its_files_on_disk_open_at_once(tmp_path: Path) -> None:
    """Files that were made one after the other have numbers side by side, and are different files all the same."""
    writes = f"""{WRITE}
files = [h5py.File(f"plt{{k}}.h5") for k in range(3)]
print([int(file["x"][0]) for file in files], flush=True)
"""
    ran = run(tmp_path, LOOK, writes=writes, out=", mode: both")
    assert ran.code == 0, ran.err
    assert said(tmp_path, "sim") == ["[0, 1, 2]"]
