"""A disk that stops answering holds up the programs that use it: others go on, and the run can be ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from programs.build import build

from support.hooks import faults
from support.running import (
    MPIEXEC,
    OWN_MOUNTS,
    WAITS,
    WILKINS,
    mounted,
    processes_in,
    started_tree,
    wait_for,
    write_program,
)

LIMIT = 30.0

WRITE = """
import os, time, h5py
while not os.path.exists("stalled"):
    time.sleep(0.01)
for step in range(5):
    with h5py.File("other.h5", "w") as file:
        file["x"] = step
"""
"""Begins when the disk has stopped answering another task."""

READ = """
import h5py
while True:
    try:
        with h5py.File("other.h5") as file:
            print("other", file["x"][()], flush=True)
    except FileNotFoundError:
        break
"""

RENAMES = """
import os, h5py
with h5py.File("part.h5", "w") as file:
    file["y"] = 1
os.rename("part.h5", "done.h5")
assert not os.path.exists("part.h5")
with h5py.File("done.h5", "a") as file:
    file["x"] = 7
"""

CREATES_ANEW = """
import h5py
with h5py.File("done.h5", "x") as file:
    file["x"] = 7
"""

STREAMS = """
import h5py
for step in range(2):
    with h5py.File("done.h5", "w") as file:
        file["x"] = 7 + step
"""

READS = """
import h5py
try:
    while True:
        with h5py.File("done.h5") as file:
            print("slow", file["x"][()], flush=True)
except FileNotFoundError:
    pass
"""

READS_AND_REMOVES = f"""
import os, h5py
{WAITS}
for step in range(2):
    with h5py.File("done.h5") as file:
        print("slow", file["x"][()], flush=True)
    waits.until_published(0, 2)
    os.unlink("done.h5")
"""


def program(folder: Path, name: str, text: str, **keys: Any) -> dict[str, Any]:
    """A task that runs a Python program."""
    write_program(folder / f"{name}.py", "#!/usr/bin/env python3\n" + text)
    return {"name": name, "func": f"./{name}.py", **keys}


def stalls(call: str, name: str) -> dict[str, str]:
    """The environment of a task whose disk stops answering at a call of the C library on a file of this name."""
    library = build("stalls.c", "cc", "-shared", "-fPIC", "-Wall", "-Werror", "-ldl")
    return {"LD_PRELOAD": str(library), "STALL": call, "STALL_AT": name}


def workflow(folder: Path, *tasks: dict[str, Any]) -> None:
    """These tasks, and two more that have nothing to do with them."""
    others = [
        program(folder, "write", WRITE, outports=[{"filename": "other.h5"}]),
        program(folder, "read", READ, inports=[{"filename": "other.h5"}]),
    ]
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": [*tasks, *others]}, sort_keys=False))


def renaming(folder: Path, mode: str) -> None:
    """A program that renames a file it will add to; its disk stops answering there."""
    ports = [{"filename": "*.h5", "publish": 2, "mode": mode}]
    writer = program(folder, "sim", RENAMES, outports=ports, env=stalls("rename", "part.h5"))
    workflow(folder, writer, program(folder, "look", READS, inports=[{"filename": "done.h5"}]))


def creating(folder: Path, mode: str) -> None:
    """A program that creates a file only if there is none."""
    ports = [{"filename": "done.h5", "mode": mode}]
    writer = program(folder, "sim", CREATES_ANEW, outports=ports, env=stalls("lstat", "done.h5"))
    workflow(folder, writer, program(folder, "look", READS, inports=[{"filename": "done.h5"}]))


def removing(folder: Path, mode: str) -> None:
    """A program that removes what it has read, while there is a later step of the name."""
    writer = program(folder, "sim", STREAMS, outports=[{"filename": "done.h5", "mode": mode}])
    ports = [{"filename": "done.h5", "queue": 2}]
    reader = program(folder, "look", READS_AND_REMOVES, inports=ports, env=stalls("stat", "done.h5"))
    workflow(folder, writer, reader)


def has_got(told: str, what: str) -> list[str]:
    """What one of the readers has printed."""
    return [line.split()[-1] for line in told.splitlines() if f"{what} " in line]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("does", "mode"),
    [(renaming, "both"), (renaming, "file"), (creating, "both"), (creating, "file"), (removing, "file")],
)
@pytest.mark.needs("cc")
def test_the_steps_of_other_tasks_go_on(tmp_path: Path, does: Any, mode: str) -> None:
    does(tmp_path, mode)
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path) as tree:
        log = tmp_path / "wilkins-runs" / "latest" / "read.log"
        wait_for(lambda: log.is_file() and "other 4" in log.read_text(), LIMIT, "the steps of the other tasks")
        assert (tmp_path / "stalled").exists()
        (tmp_path / "answers").touch()
        ran = tree.wait(LIMIT)
        assert ran.code == 0, tree.told()
        assert has_got(ran.out, "slow") == (["7", "8"] if does is removing else ["7"])
        assert "stands still" not in ran.err
    assert not list(tmp_path.glob(".wilkins-*"))


@pytest.mark.usual("SIGINT")
@pytest.mark.parametrize("end", ["SIGINT", "--timeout"])
@pytest.mark.needs("cc")
def test_the_run_can_be_ended(tmp_path: Path, end: str) -> None:
    renaming(tmp_path, "file")
    options = ["--timeout", "8"] if end == "--timeout" else []
    with started_tree([*WILKINS, "run", *options, "workflow.yaml"], tmp_path) as tree:
        wait_for((tmp_path / "stalled").exists, LIMIT, "the disk to stop answering")
        if end == "SIGINT":
            os.killpg(tree.process.pid, signal.SIGINT)
        ran = tree.wait(LIMIT)
        assert ran.code == (130 if end == "SIGINT" else 4), ran.err
        assert "stands still" not in ran.err
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all processes")
    assert not list(tmp_path.glob(".wilkins-*"))
    assert (tmp_path / "part.h5").exists()


BOTH_RENAME = """
import os, time, h5py
rank = int(os.environ["PMI_RANK"])
with h5py.File(f"part-{rank}.h5", "w") as file:
    file["x"] = rank
open(f"written-{rank}", "w").close()
while not os.path.exists("stalled" if rank else "written-1"):
    time.sleep(0.01)
if rank:
    open("follows", "w").write(str(os.getpid()))
os.rename(f"part-{rank}.h5", "done.h5")
"""

ONE_ADDS = """
import os, time, h5py
rank = int(os.environ["PMI_RANK"])
if rank == 0:
    with h5py.File("part-0.h5", "w") as file:
        file["y"] = 1
    os.rename("part-0.h5", "done.h5")
else:
    while not os.path.exists("stalled"):
        time.sleep(0.01)
    open("follows", "w").write(str(os.getpid()))
    with h5py.File("done.h5", "a") as file:
        file["x"] = 1 + int(file["y"][()])
"""


def sleeps(folder: Path) -> bool:
    """Whether the rank that follows sleeps until another process wakes it (in the system call futex)."""
    note = folder / "follows"
    words = note.read_text() if note.is_file() else ""
    return bool(words) and Path(f"/proc/{words}/syscall").read_text().startswith("202 ")


@pytest.mark.usual("one adds-both")
@pytest.mark.parametrize("mode", ["both", "file"])
@pytest.mark.parametrize(("text", "last"), [(BOTH_RENAME, "1"), (ONE_ADDS, "2")], ids=["both rename", "one adds"])
@pytest.mark.needs("cc")
def test_another_rank_follows_the_first(tmp_path: Path, text: str, last: str, mode: str) -> None:
    """The first renames its file; the second renames its own to the same name, or adds to what the first renamed."""
    ports = [{"filename": "*.h5", "publish": 2, "mode": mode}]
    both = program(tmp_path, "sim", text, nprocs=2, mpiexec=MPIEXEC, outports=ports, env=stalls("rename", "part-0.h5"))
    workflow(tmp_path, both, program(tmp_path, "look", READS, inports=[{"filename": "done.h5"}]))
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path) as tree:
        wait_for(lambda: sleeps(tmp_path), LIMIT, "the second rank to wait for the first")
        (tmp_path / "answers").touch()
        ran = tree.wait(LIMIT)
        assert ran.code == 0, tree.told()
        assert has_got(ran.out, "slow") == [last]
    assert [path.name for path in tmp_path.glob("*.h5")] == ["done.h5"]
    assert not list(tmp_path.glob(".wilkins-*"))


KILLED = """
python3 part.py
mv part.h5 done.h5 || echo killed
exec python3 whole.py
"""


@pytest.mark.usual("rename.claimed-file")
@pytest.mark.parametrize("mode", ["both", "file"])
@pytest.mark.parametrize("point", ["rename.claimed", "disk.moved"])
@pytest.mark.needs("hooks")
def test_what_a_killed_program_was_renaming(tmp_path: Path, point: str, mode: str) -> None:
    """Nobody gets it, and the script that goes on is not held up: it makes a file of the new name itself."""
    program(tmp_path, "part", "import h5py\nwith h5py.File('part.h5', 'w') as file:\n    file['x'] = 1\n")
    whole = "import h5py\nfor key in 'yx':\n    with h5py.File('done.h5', 'a' if key == 'x' else 'w') as file:\n"
    program(tmp_path, "whole", whole + "        file[key] = 2\n")
    ports = [{"filename": "*.h5", "publish": 2, "mode": mode}]
    script = {"name": "sim", "func": "/bin/sh", "args": ["-c", KILLED], "outports": ports}
    reader = program(tmp_path, "look", READS, inports=[{"filename": "done.h5"}])
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump({"tasks": [script, reader]}))
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path, faults(f"task=sim,kill={point}")) as tree:
        ran = tree.wait(LIMIT)
        assert ran.code == 0, tree.told()
        assert "killed" in ran.out
        assert has_got(ran.out, "slow") == ["2"]
    log = (tmp_path / "wilkins-runs" / "latest" / "layer.log").read_text()
    assert "'part.h5' was closed but not yet published when its program failed" in log
    assert not list(tmp_path.glob(".wilkins-*"))


FILLS = f"""
import os, h5py, numpy as np
{WAITS}
open("producer", "w").write(str(os.getpid()))
for step in range(3):
    with h5py.File("done.h5", "w") as file:
        file["x"] = step
        file["data"] = np.zeros(1 << 20, "u1")
waits.until_waits(1)
"""
WRITE_LARGE = """
import h5py, numpy as np
with h5py.File("done.h5", "w") as file:
    file["x"] = STEP
    file["data"] = np.zeros(5 << 19, "u1")
"""

READS_LATE = READS.replace("try:", f"{WAITS}\nwaits.until_published(0, 3)\ntry:")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB, on which three steps of one leave no room for one of two and a half."""
    with mounted(tmp_path / "disk", "4m") as folder:
        yield folder


@pytest.mark.nightly
@pytest.mark.needs("root", "mount", "hooks")
def test_a_full_disk_that_does_not_answer(small_disk: Path) -> None:
    """A writer that finds the disk full removes what is left of old steps; its disk stops answering there."""
    records = full_disk(small_disk, "exec ./sim.py")
    environment = faults("task=sim,stop=disk.forgetting:2")
    with started_tree(launch(small_disk), small_disk.parent, environment) as tree:
        note, log = small_disk / "producer", records / "read.log"
        wait_for(lambda: note.is_file() and is_stopped(note.read_text()), LIMIT, "the producer to be stopped")
        (small_disk / "stalled").touch()
        wait_for(lambda: log.is_file() and "other 4" in log.read_text(), LIMIT, "the steps of the other tasks")
        os.kill(int(note.read_text()), signal.SIGCONT)
        ran = tree.wait(LIMIT)
        assert ran.code == 0, tree.told()
        assert has_got(ran.out, "slow") == ["0", "1", "2", "3"]
        assert "stands still" not in ran.err
    assert not list(small_disk.glob(".wilkins-*"))


@pytest.mark.nightly
@pytest.mark.needs("root", "mount", "hooks")
def test_a_writer_that_is_killed_as_it_makes_room_on_disk(small_disk: Path) -> None:
    """The program that its script goes on with has all of that room."""
    full_disk(small_disk, "./sim.py; touch stalled; unset WILKINS_FAULTS; exec ./again.py")
    with started_tree(launch(small_disk), small_disk.parent, faults("task=sim,kill=reclaim.forgotten")) as tree:
        ran = tree.wait(LIMIT)
        assert ran.code == 0, tree.told()
        assert "Killed" in ran.out
        assert has_got(ran.out, "slow") == ["0", "1", "2", "4"]
    assert not list(small_disk.glob(".wilkins-*"))


def full_disk(folder: Path, script: str) -> Path:
    """A workflow whose writer fills the disk; returns where its records will be."""
    program(folder, "sim", FILLS + WRITE_LARGE.replace("STEP", "3"))
    program(folder, "again", WRITE_LARGE.replace("STEP", "4"))
    ports = [{"filename": "done.h5", "mode": "file"}]
    writer = {"name": "sim", "func": "/bin/sh", "args": ["-c", script], "outports": ports}
    workflow(folder, writer, program(folder, "look", READS_LATE, inports=[{"filename": "done.h5", "queue": 3}]))
    return folder.parent / "records"


def launch(folder: Path) -> list[str]:
    """Run the folder's workflow, with its records beside the folder."""
    return [*WILKINS, "run", "--run-dir", str(folder.parent / "records"), str(folder / "workflow.yaml")]


def is_stopped(pid: str) -> bool:
    return bool(pid) and "State:\tT" in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.nightly
@pytest.mark.needs("cc", "tmpfs")
def test_a_run_ends_that_cannot_remove_its_hidden_files(tmp_path: Path) -> None:
    """It says where they are, and `wilkins clean` finds them when the disk answers. (In shared memory of its own: any
    other run of the user would remove them, too.)"""
    writer = program(tmp_path, "sim", STREAMS, outports=[{"filename": "done.h5", "mode": "file"}])
    reader = program(tmp_path, "look", READS, inports=[{"filename": "done.h5"}])
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump({"tasks": [writer, reader]}))
    stalled = " ".join(f"{name}={value}" for name, value in stalls("unlink", "'.wilkins-*'").items())
    wilkins = " ".join(WILKINS)
    script = f"""
        mount -t tmpfs -o size=64m tmpfs /dev/shm || exit 2
        env {stalled} {wilkins} run workflow.yaml || exit 3
        ls -a > left
        {wilkins} clean
    """
    with started_tree([*OWN_MOUNTS, "sh", "-c", script], tmp_path) as tree:
        ran = tree.wait(LIMIT)
        assert ran.code == 0, tree.told()
    told = ran.said
    assert f"the disk with {tmp_path} does not answer" in told and "`wilkins clean`" in told
    assert ".wilkins-" in (tmp_path / "left").read_text()
    assert "removed /dev/shm/wilkins-" in ran.out
    assert not list(tmp_path.glob(".wilkins-*"))
