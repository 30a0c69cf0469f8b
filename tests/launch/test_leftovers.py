"""An MPI library removes its shared memory when its job ends; when its job is killed, the launcher does."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from launch.conftest import Case

from support.running import MPIEXEC, processes_in, started_tree, wait_for
from wilkins.launch.programs.leftovers import Segments
from wilkins.launch.programs.signals import CREATED

HANG = """\
import time
from mpi4py import MPI
import h5py
MPI.COMM_WORLD.Barrier()
open(f"pid{MPI.COMM_WORLD.rank}", "w").write("x")
while True:
    MPI.COMM_WORLD.Barrier()
    time.sleep(0.1)
"""

LAUNCHER = """\
import sys
from wilkins.cli import main
from wilkins.transport.board import Board
note = Board.note_segment
def note_and_tell(board, segment):
    note(board, segment)
    with open("noted", "a") as file:
        print(segment, file=file)
Board.note_segment = note_and_tell
sys.exit(main(["run", "workflow.yaml"]))
"""
"""`wilkins run` that tells what it has noted. A launcher that is killed before it has looked leaves segments."""


def mapped(folder: Path) -> set[Path]:
    """The segments of MPI that processes of this folder map."""
    found = set()
    for pid in processes_in(folder):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            name = line.split()[-1]
            if name.startswith("/dev/shm/mpich_shm_"):
                found.add(Path(name))
    return found


@pytest.mark.usual("launcher", "killed launcher")
@pytest.mark.needs("python:mpi4py")
@pytest.mark.parametrize("victim", ["rank", "launcher", "killed launcher"])
def test_a_killed_job_leaves_no_segments(case: Case, victim: str) -> None:
    case.program("hang.py", HANG)
    case.workflow(
        f"tasks:\n  - {{func: ./hang.py, nprocs: 2, mpiexec: {MPIEXEC}, outports: [{{filename: 'step*.h5'}}]}}\n"
        "  - {func: ./read.py, inports: [{filename: 'step*.h5'}]}\n"
    )
    with started_tree([sys.executable, "-c", LAUNCHER], case.folder) as tree:
        wait_for(lambda: (case.folder / "pid1").exists(), 30, f"the ranks\n{tree.told()}")
        segments = mapped(case.folder)
        assert segments
        noted = case.folder / "noted"
        wait_for(
            lambda: noted.exists() and segments <= {Path(line) for line in noted.read_text().splitlines()},
            30,
            "the launcher to see the segments",
        )
        if victim == "rank":
            ranks = [
                pid for pid in processes_in(case.folder) if b"hang.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            os.kill(max(ranks), signal.SIGKILL)
            assert tree.wait(20).code == 1
        elif victim == "launcher":
            os.kill(tree.process.pid, signal.SIGTERM)
            assert tree.wait(20).code == 143
        else:
            os.kill(tree.process.pid, signal.SIGKILL)
            wait_for(lambda: not any(segment.exists() for segment in segments), 15, "its guard to clean up")
    assert not [segment for segment in segments if segment.exists()]


def test_only_segments_of_mpi_are_removed() -> None:
    """What else a program maps in shared memory is its own affair."""
    names = [Path(f"/dev/shm/{name}_{os.getpid()}") for name in ("mpich_shm_wilkins_test", "wilkins_test_other")]
    try:
        kept = []
        for name in names:
            with name.open("wb+") as file:
                file.truncate(4096)
                kept.append(mmap.mmap(file.fileno(), 4096))
        told: list[Path] = []
        segments = Segments(0.0, lambda: [os.getpid(), 2**22 + 1], on_seen=told.append)
        segments.look(1.0)
        segments.look(2.0, at_once=True)
        assert segments.due > 1.0
        assert told == [names[0]]
        segments.remove()
        assert [name.exists() for name in names] == [False, True]
    finally:
        for name in names:
            name.unlink(missing_ok=True)


def test_files_that_others_create_all_the_time_are_seldom_heard_of() -> None:
    """Other programs of the machine do not keep a launcher from sleeping; it sees a segment of MPI all the same."""
    heard: list[float] = []
    before = signal.signal(CREATED, lambda *_: heard.append(time.monotonic()))
    name, other = (Path(f"/dev/shm/{name}_{os.getpid()}") for name in ("mpich_shm_wilkins_test", "wilkins_test_other"))
    told: list[Path] = []
    family: list[int] = []
    try:
        segments = Segments(time.monotonic(), lambda: family, on_seen=told.append)
        noticed = 0
        until = time.monotonic() + 2
        while (now := time.monotonic()) < until:
            other.touch()
            other.unlink()
            if noticed < len(heard):
                noticed = len(heard)
                segments.notice(now)
            if now >= segments.due:
                segments.look(now)
            time.sleep(0.002)
        assert 2 <= len(heard) <= 15
        family.append(os.getpid())
        with name.open("wb+") as file, mmap.mmap(file.fileno(), file.truncate(4096)):
            while not told and time.monotonic() < until + 3:
                if time.monotonic() >= segments.due:
                    segments.look(time.monotonic())
                time.sleep(0.002)
        assert told == [name]
        segments.remove()
    finally:
        signal.signal(CREATED, before)
        name.unlink(missing_ok=True)
