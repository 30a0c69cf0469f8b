"""Bits of steps that change in memory between publication and reading: found, named, and read by nobody."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hosts import pseudo

from support.hooks import faults
from support.running import WILKINS, Finished, run_tree

pytestmark = [pytest.mark.needs("hooks"), pytest.mark.timeout(120)]

WRITES = """
import h5py, numpy
for step in range(6):
    with h5py.File(f"s{step}.h5", "w") as file:
        file["first"] = numpy.arange(1000) + step
        file["field"] = numpy.arange(100_000, dtype="f8") + step
"""
READS = {
    "hdf5": """
import h5py, numpy
for step in range(6):
    with h5py.File(f"s{step}.h5", "r") as file:
        assert (file["field"][...] == numpy.arange(100_000) + step).all(), "wrong"
    print("read", step, flush=True)
""",
    "some": """
import h5py
for step in range(6):
    with h5py.File(f"s{step}.h5", "r") as file:
        assert file["first"][500] == 500 + step and file["field"][-1] == 99_999 + step, "wrong"
    print("read", step, flush=True)
""",
    "changes": """
import h5py, numpy
for step in range(6):
    with h5py.File(f"s{step}.h5", "r+") as file:
        assert (file["field"][...] == numpy.arange(100_000) + step).all(), "wrong"
        file["first"][0] = -1
    print("read", step, flush=True)
""",
    "late": """
import time, h5py, numpy
time.sleep(2)
for step in range(6):
    with h5py.File(f"s{step}.h5", "r") as file:
        assert (file["field"][...] == numpy.arange(100_000) + step).all(), "wrong"
    print("read", step, flush=True)
""",
    "bytes": """
import io, h5py, numpy
for step in range(6):
    with open(f"s{step}.h5", "rb") as file:
        data = io.BytesIO(file.read())
    with h5py.File(data) as file:
        assert (file["field"][...] == numpy.arange(100_000) + step).all(), "wrong"
    print("read", step, flush=True)
""",
    "mapped": """
import mmap, os
for step in range(6):
    fd = os.open(f"s{step}.h5", os.O_RDONLY)
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
        import io, h5py, numpy
        with h5py.File(io.BytesIO(bytes(data))) as file:
            assert (file["field"][...] == numpy.arange(100_000) + step).all(), "wrong"
    os.close(fd)
    print("read", step, flush=True)
""",
    "damaged-sums": """
import glob, os, h5py
os.stat("s0.h5")  # waits for it
for name in glob.glob(os.environ["WILKINS_RUN"] + "/a*.sums"):
    with open(name, "r+b") as sums:
        sums.write(bytes(8))
with h5py.File("s0.h5", "r") as file:
    print("read", file["field"][0], flush=True)
""",
    "copy": """
import shutil, h5py, numpy
for step in range(6):
    shutil.copy(f"s{step}.h5", f"copy-{step}.h5")
    with h5py.File(f"copy-{step}.h5", "r") as file:
        assert (file["field"][...] == numpy.arange(100_000) + step).all(), "wrong"
    print("read", step, flush=True)
""",
}
WORKFLOW = """
tasks:
  - {{func: {python}, name: writes, args: [writes.py], outports: [{{filename: "s*.h5", checked: {checked}{more}}}]}}
  - {{func: {python}, name: reads, args: [reads.py], inports: [{{filename: "s*.h5"}}]}}
"""
CHANGED = re.compile(
    r"bytes (\d+) to (\d+) of 's(\d).h5', which is in memory as a\d+, are not those that were published"
)


def unwrapped(said: str) -> str:
    return re.sub(r"\n(wilkins:)? *", " ", said)


def run(folder: Path, reads: str, what: str, checked: bool = True, hosts: str = "", more: str = "") -> Finished:
    (folder / "writes.py").write_text(WRITES)
    (folder / "reads.py").write_text(READS[reads])
    (folder / "workflow.yaml").write_text(
        WORKFLOW.format(python=sys.executable, checked=str(checked).lower(), more=more)
    )
    words = [*WILKINS, "run", *(["--hosts", hosts] if hosts else []), "workflow.yaml"]
    return run_tree(words, 60, folder, {"WILKINS_RSH": str(pseudo.HERE), **faults(what)})


def is_found(done: Finished, owned: bool = True) -> None:
    assert done.code == 1, done.err
    found = CHANGED.search(unwrapped(done.err))
    assert found, done.err
    assert not owned or "(dataset '/field')" in unwrapped(done.err), done.err
    assert int(found[1]) <= 400_000 < int(found[2]) + 8192
    assert "AssertionError" not in done.out + done.err
    assert f"read {found[3]}" not in done.out


WAYS = [way for way in READS if way not in ("some", "late", "damaged-sums")]


@pytest.mark.usual("hdf5")
@pytest.mark.parametrize("reads", WAYS)
def test_bits_that_change_in_memory_are_found(tmp_path: Path, reads: str) -> None:
    is_found(run(tmp_path, reads, "task=writes,seed=3,flip-memory=0.5"))


def test_checksums_that_are_damaged_themselves_are_named(tmp_path: Path) -> None:
    done = run(tmp_path, "damaged-sums", "")
    assert done.code == 1, done.err
    assert CHANGED.search(unwrapped(done.err)), done.err
    assert re.search(r"or that of its checksums \(a\d+\.sums in ", unwrapped(done.err)), done.err


def test_without_the_key_they_are_read(tmp_path: Path) -> None:
    done = run(tmp_path, "hdf5", "task=writes,flip-memory=1", checked=False)
    assert done.code == 1
    assert "AssertionError: wrong" in done.out + done.err


@pytest.mark.usual("hdf5-")
@pytest.mark.parametrize("hosts", ["", "a:1,b:1"])
@pytest.mark.parametrize("reads", ["hdf5", "some", "changes", "bytes", "mapped", "copy"])
def test_nothing_is_found_where_nothing_changes(tmp_path: Path, reads: str, hosts: str) -> None:
    done = run(tmp_path, reads, "task=writes,flip-memory=0", hosts=hosts)
    assert done.code == 0, done.err
    assert done.out.count("read ") == 6


@pytest.mark.usual("writes")
@pytest.mark.parametrize("task", ["writes", "writes-from-a-0"])
def test_they_are_found_on_either_host(tmp_path: Path, task: str) -> None:
    """Where a step was made, by its relay, which finds it when what it has sent is not what was published; and where it
    is read, by who reads it, if no copy is left: the producer has memory for one step."""
    done = run(tmp_path, "late", f"task={task},flip-memory=1", hosts="a:1,b:1", more=", memory: 1MB")
    is_found(done, owned=task == "writes")  # the reader's host, too, has memory for one step, and the next may be in it
    logs = [file.read_text() for file in tmp_path.glob("wilkins-runs/*/**/*.log")]
    assert not any("look at the network" in unwrapped(said) for said in (done.err, *logs))
    host, who = ("a", "writes") if task == "writes" else ("b", "reads")
    assert f"wilkins: {host}: task '{who}' rank 0: bytes" in done.err


MENDED = re.compile(
    r"bytes (\d+) to (\d+) of 's\d.h5' had changed in memory, .* mended from (its file on disk|the host)"
)


def is_mended(done: Finished, source: str) -> None:
    assert done.code == 0, done.err
    assert done.out.count("read ") == 6
    found = MENDED.search(unwrapped(done.err))
    assert found, done.err
    assert found[3] == source
    assert "look at the network" not in unwrapped(done.err)


def mends(
    folder: Path, what: str, hosts: str = "", mode: str = "both", more: str = "", reads: str = READS["hdf5"]
) -> Finished:
    (folder / "writes.py").write_text(WRITES)
    (folder / "reads.py").write_text(reads)
    (folder / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {sys.executable}, name: writes, args: [writes.py],
      outports: [{{filename: "s*.h5", checked: true, mode: {mode}}}]}}
  - {{func: {sys.executable}, name: reads, args: [reads.py], inports: [{{filename: "s*.h5", queue: 8}}]}}
{more}""")
    words = [*WILKINS, "run", *(["--hosts", hosts] if hosts else []), "workflow.yaml"]
    return run_tree(words, 60, folder, {"WILKINS_RSH": str(pseudo.HERE), **faults(what)})


@pytest.mark.usual("writes-a:1,b:1")
@pytest.mark.parametrize(("task", "hosts"), [("writes", ""), ("writes", "a:1,b:1"), ("writes-from-a-0", "a:1,b:1")])
def test_they_are_mended_from_the_file(tmp_path: Path, task: str, hosts: str) -> None:
    """Where the memory of the producer's host changes, its server of files mends it; it is not the network's fault."""
    is_mended(mends(tmp_path, f"task={task},flip-memory=1", hosts), "its file on disk")


HOLDS = """
import os, time, h5py
held = [h5py.File(f"s{step}.h5", "r") for step in range(6)]
while not os.path.exists("over"):
    time.sleep(0.05)
"""


@pytest.mark.nightly
def test_they_are_mended_from_the_host_that_has_sent_the_step(tmp_path: Path) -> None:
    """Here, a program there has it open. It may have to do so when all steps have long come."""
    (tmp_path / "holds.py").write_text(HOLDS)
    more = f"""  - {{func: {sys.executable}, name: holds, args: [holds.py], placement: [1, 0],
      inports: [{{filename: "s*.h5", queue: 8}}]}}
"""
    reads = READS["late"] + "open('over', 'w').close()\n"
    is_mended(mends(tmp_path, "task=writes-from-a-0,flip-memory=1", "a:2,b:1", "memory", more, reads), "the host")


READS_OWN = """
from mpi4py import MPI
import h5py, numpy
if MPI.COMM_WORLD.rank == 0:
    with h5py.File("s0.h5", "w") as file:
        file["field"] = numpy.arange(400_000)
MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 1:
    with h5py.File("s0.h5", "r") as file:
        assert (file["field"][...] == numpy.arange(400_000)).all(), "wrong"
    print("read", flush=True)
"""


@pytest.mark.nightly
def test_they_are_found_where_a_rank_on_another_host_reads_its_own_task_s_step(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(READS_OWN)
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {sys.executable}, name: writes, args: [own.py], nprocs: 2, placement: [1, 1],
      outports: [{{filename: "s*.h5", checked: true}}]}}
  - {{func: sleep, args: ["5"], placement: [1, 0], inports: [{{filename: "s*.h5"}}]}}
""")
    words = [*WILKINS, "run", "--hosts", "a:2,b:1", "workflow.yaml"]
    done = run_tree(words, 60, tmp_path, {"WILKINS_RSH": str(pseudo.HERE), **faults("task=writes,flip-memory=1")})
    assert done.code == 1, done.err
    assert "are not those that were published" in unwrapped(done.err)
    assert "AssertionError" not in done.out + done.err
    assert "read" not in done.out.split()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(6))
def test_damage_on_the_way_is_asked_for_again(tmp_path: Path, seed: int) -> None:
    done = run(tmp_path, "hdf5", f"seed={seed},flip=0.1", hosts="a:1,b:1")
    assert done.code == 0, done.err
    assert done.out.count("read ") == 6
