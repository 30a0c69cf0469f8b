"""Steps that programs see when they have closed them: what memory that takes, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.hooks import fault_points, faults
from support.running import WILKINS, Finished, run_tree, write_program

SIZE = 200_000

WRITE = f"""\
import sys
name = sys.argv[1]
for step in range(*map(int, sys.argv[2:])):
    with open(name.format(step), "wb") as file:
        file.write(b"%9d" % step * ({SIZE} // 9))
"""
READ = f"""\
import mmap, os, sys, time
def is_whole(step, memory):
    return memory[:] == b"%9d" % step * ({SIZE} // 9)
def see(step):
    with open(f"s{{step}}.dat", "rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
"""


def run(
    folder: Path,
    reads: str,
    steps: int,
    memory: float = 0,
    write: str = "",
    pattern: str = "s*.dat",
    env: Mapping[str, str] | None = None,
    end: bool = False,
) -> Finished:
    """A writer of some steps, whose port has memory for so many at once, and a reader.

    `end`: the writer's last file is one of another port, and the reader may ask for it before it has read all.
    """
    write_program(folder / "write.py", "#!/usr/bin/env python3\n" + WRITE)
    write_program(folder / "read.py", "#!/usr/bin/env python3\n" + READ + reads)
    cap = f", memory: {memory * SIZE:.0f}" if memory else ""
    write = write or f"./write.py {pattern.replace('*', '{}')} {steps}" + "; echo > end.dat" * end
    last, queue = (", {filename: end.dat}", "queue: 1, reorder: 16") if end else ("", "reorder: 1")
    (folder / "workflow.yaml").write_text(
        "tasks:\n"
        f"- {{name: sim, func: /bin/sh, args: [-c, '{write}'], outports: [{{filename: '{pattern}'{cap}}}{last}]}}\n"
        f"- {{name: look, func: ./read.py, inports: [{{filename: '{pattern}', {queue}}}{last}]}}\n"
    )
    return run_tree([*WILKINS, "run", "workflow.yaml"], 60, folder, env)


def test_of_what_is_seen_for_ever_the_run_names_who_sees_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "kept = [see(step) for step in range(20)]\n", 20, memory=12)
    assert ran.code == 1, ran.out + ran.err
    said = " ".join(ran.err.split())
    assert "which take" in said and "programs can still see" in said and "process " in said, ran.err
    assert "or raise the port's 'memory'" in said


BESIDE = f"""\
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 0:
    for step in range(20):
        with open(f"s{{step}}.dat", "wb") as file:
            file.write(b"%9d" % step * ({SIZE} // 9))
MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.nightly
@pytest.mark.needs("python:mpi4py")
def test_ranks_in_mpi_and_tasks_to_be_started_are_none_that_may_let_see_less(tmp_path: Path) -> None:
    write_program(tmp_path / "write.py", "#!/usr/bin/env python3\n" + BESIDE)
    write_program(tmp_path / "read.py", "#!/usr/bin/env python3\n" + READ + "kept = [see(k) for k in range(20)]\n")
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n"
        "- {name: sim, nprocs: 2, func: ./write.py,\n"
        f"   outports: [{{filename: 's*.dat', memory: {12 * SIZE}}}, {{filename: 'end*.dat'}}]}}\n"
        "- {name: look, func: ./read.py, inports: [{filename: 's*.dat', queue: 1}]}\n"
        "- {name: after, func: /bin/cat, args: ['{filename}'], inports: [{filename: 'end*.dat'}]}\n"
    )
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 1, ran.out + ran.err
    assert "programs can still see" in " ".join(ran.err.split()), ran.err


MAP = """\
import ctypes
library = ctypes.CDLL(None)
library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
library.mmap.restype = ctypes.c_void_p
for step in range(4):
    with open("s.dat", "rb") as file:
        library.mmap(None, 4096, 1, 1, file.fileno(), 0)
open("end.dat", "rb").read()
"""


def test_of_what_keeps_a_queue_from_growing_the_run_names_who_sees_it(tmp_path: Path) -> None:
    """The writer waits for room; it would have some if there were memory for a longer queue."""
    ran = run(tmp_path, MAP, 12, memory=5.5, pattern="s.dat", end=True)
    assert ran.code == 4, ran.out + ran.err
    said = " ".join(ran.err.split())
    assert "no queue can grow, for programs can still see 4 steps" in said and "process " in said, ran.err


READ_THEN_WAIT = """\
def read(step):
    with open(f"s{step}.dat", "rb") as file:
        return is_whole(step, file.read())
print("first", all(read(step) for step in range(4)))
open("end.dat", "rb").read()
print("rest", all(read(step) for step in range(4, 9)))
"""


def test_a_queue_grows_into_the_memory_of_steps_that_were_read(tmp_path: Path) -> None:
    """No step is let go while there is memory in others that are done with."""
    ran = run(tmp_path, READ_THEN_WAIT, 9, memory=5.5, end=True)
    assert ran.code == 0 and "first True" in ran.out and "rest True" in ran.out, ran.out + ran.err


SLEEPING = """\
end, _ = os.pipe()
for step in range(20):
    memory = see(step)
    if os.fork() == 0:
        os.read(end, 1)
    memory.close()
"""


@pytest.mark.nightly
def test_of_what_sleeping_children_see_the_run_names_who_sees_it(tmp_path: Path) -> None:
    ran = run(tmp_path, SLEEPING, 20, memory=8)
    assert ran.code == 1, ran.out + ran.err
    said = " ".join(ran.err.split())
    assert "programs can still see" in said and "process " in said, ran.err


CHILDREN = """\
for step in range(30):
    memory = see(step)
    if os.fork() == 0:
        time.sleep(0.1)
        os._exit(not is_whole(step, memory))
    memory.close()
print("failed", sum(os.wait()[1] != 0 for step in range(30)))
"""


def test_of_what_a_child_sees_the_end_is_waited_for(tmp_path: Path) -> None:
    ran = run(tmp_path, CHILDREN, 30, memory=4)
    assert ran.code == 0 and "failed 0" in ran.out, ran.out + ran.err


TWICE = """\
for half in (range(0, 40), range(40, 80)):
    kept = [see(step) for step in half]
    print("wrong", sum(not is_whole(step, memory) for step, memory in zip(half, kept)))
    for memory in kept:
        memory.close()
"""


def test_what_was_seen_is_given_to_later_steps(tmp_path: Path) -> None:
    ran = run(tmp_path, TWICE, 80, memory=50)
    assert ran.code == 0 and ran.out.count("wrong 0") == 2, ran.out + ran.err


ALL = """\
kept = []
while True:
    try:
        with open("s.dat", "rb") as file:
            kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    except FileNotFoundError:
        break
steps = [int(memory[:9]) for memory in kept]
print("wrong", sum(not is_whole(step, memory) for step, memory in zip(steps, kept)), "read", steps)
"""


@pytest.mark.needs("hooks")
@pytest.mark.parametrize("point", [point for point in fault_points() if point.startswith("aside.")])
def test_a_writer_dies_as_it_takes_other_memory(tmp_path: Path, point: str) -> None:
    """The next one of its task goes on, and all that was seen stays what it was."""
    write = "./write.py s.dat 25; unset WILKINS_FAULTS; exec ./write.py s.dat 100 125"
    ran = run(tmp_path, ALL, 25, write=write, pattern="s.dat", env=faults(f"task=sim,kill={point}:3"))
    assert ran.code == 0 and "Killed" in ran.out + ran.err, ran.out + ran.err
    read = ran.out.partition("read ")[2].splitlines()[0]
    steps = list(map(int, read.strip("[]").split(",")))
    before = [step for step in steps if step < 100]
    assert "wrong 0" in ran.out and steps == [*range(len(before)), *range(100, 125)], ran.out
