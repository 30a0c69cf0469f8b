"""PID namespaces, as of containers: numbers in them mean nothing outside, and yet nobody takes the living for dead."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from support.hooks import faults
from support.running import MPIEXEC, WILKINS, Finished, processes_in, run_tree, started_tree, wait_for, write_program
from wilkins.transport.board import Board, BoardHeldError
from wilkins.transport.plan_table import BoardTask

pytestmark = pytest.mark.needs("root", "unshare")

LIMIT = 60.0
STEPS = 8
ELEMENTS = 131072
"""Of a step: one MiB, and a little for HDF5."""

OWN_PIDS = "unshare --pid --fork --kill-child --mount-proc"

WRITE = f"""#!/usr/bin/env python3
import h5py, numpy as np
for step in range({STEPS}):
    with h5py.File("out.h5", "w") as file:
        file["x"] = np.full({ELEMENTS}, step, "f8")
"""

COMMON = f"""#!/usr/bin/env python3
import os, pathlib, signal, sys, time
import h5py
from wilkins.transport.board import Board

def wait_for_memory():
    "Until the producer has looked more than once for memory that it could take, or has found some."
    board = Board.attach(pathlib.Path(os.environ["WILKINS_RUN"]))
    until = time.monotonic() + 30
    has_waited = False
    while time.monotonic() < until:
        waits = [wait for wait in board.report().tasks[0].waits if wait.what == "memory"]
        if any(wait.seconds > 1.5 for wait in waits) or (has_waited and not waits):
            return
        has_waited = has_waited or bool(waits)
        time.sleep(0.01)
    raise TimeoutError

def read(file):
    values = file["x"][:]
    whole = values.shape == ({ELEMENTS},) and (values == values[0]).all()
    print("got", int(values[0]), "whole" if whole else "TORN", flush=True)
"""

READ_HELD = """
with h5py.File("out.h5") as file:
    wait_for_memory()
    read(file)
"""

DIE_HOLDING = """
file = h5py.File("out.h5")
wait_for_memory()
open("died", "w").write(str(os.getpid()))
os.kill(os.getpid(), signal.SIGKILL)
"""

READ_ALL = """
while True:
    try:
        with h5py.File("out.h5") as file:
            read(file)
    except FileNotFoundError:
        break
"""

READ_AS_THE_SAME_PID = """#!/usr/bin/env python3
import os
if os.getpid() != int(open("died").read()):
    raise SystemExit(75)
"""


def run(folder: Path, producer: str, consumer: str, memory: str, queue: int, *before: str) -> Finished:
    """`./write.py` streams to a consumer; the producer's port has little memory."""
    write_program(folder / "write.py", WRITE)
    write_program(folder / "read.py", COMMON + READ_HELD + READ_ALL)
    write_program(folder / "die.py", COMMON + DIE_HOLDING)
    write_program(folder / "rest.py", COMMON + READ_ALL)
    write_program(folder / "same.py", READ_AS_THE_SAME_PID + COMMON + READ_ALL)
    (folder / "workflow.yaml").write_text(
        f"tasks:\n"
        f"- {{name: sim, {producer}, outports: [{{filename: out.h5, memory: {memory}}}]}}\n"
        f"- {{name: look, {consumer}, inports: [{{filename: out.h5, flow: {{queue: {queue}}}}}]}}\n"
    )
    return run_tree([*before, *WILKINS, "run", "--timeout", "40", "workflow.yaml"], LIMIT, folder)


def unused_pid() -> int:
    """A number that no process has, nor will have before thousands of others were started."""
    last = int(Path("/proc/sys/kernel/ns_last_pid").read_text())
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    alive = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    return next(pid for pid in range(1000 + (last + most // 2) % (most - 2000), most) if pid not in alive)


def shell(words: str) -> str:
    return f'func: /bin/sh, args: [-c, "{words}"]'


def got(folder: Path) -> list[int]:
    """The steps that the consumer has read, each of them whole."""
    lines = (folder / "wilkins-runs" / "latest" / "look.log").read_text().splitlines()
    read = [line.split() for line in lines if line.startswith("got")]
    assert all(words[2] == "whole" for words in read), read
    return [int(words[1]) for words in read]


@pytest.mark.usual("both")
@pytest.mark.parametrize("inside", ["consumer", "producer", "both"])
def test_a_step_that_is_read_in_a_namespace_keeps_its_memory(tmp_path: Path, inside: str) -> None:
    """The producer is short of memory while a consumer whose number nobody else has reads: it waits for it."""
    prefix = f"prefix: {OWN_PIDS}, "
    elsewhere = f"echo {unused_pid()} > /proc/sys/kernel/ns_last_pid; "
    producer = prefix + shell("./write.py") if inside != "consumer" else "func: ./write.py"
    consumer = prefix + shell(f"{elsewhere}./read.py") if inside != "producer" else "func: ./read.py"
    ran = run(tmp_path, producer, consumer, "3MB", 4)
    assert ran.code == 0, ran.err
    assert got(tmp_path) == list(range(STEPS))


def test_the_hold_of_a_program_that_died_in_a_namespace_ends(tmp_path: Path) -> None:
    """Its shell goes on with another one; the number of the dead one is that of some living process outside."""
    taken = f"echo {os.getpid() - 1} > /proc/sys/kernel/ns_last_pid; "
    consumer = f"prefix: {OWN_PIDS}, " + shell(f"{taken}./die.py; ./rest.py")
    ran = run(tmp_path, "func: ./write.py", consumer, "2MB", 1)
    assert ran.code == 0, ran.err
    assert (tmp_path / "died").read_text() == str(os.getpid())
    assert got(tmp_path) == list(range(1, STEPS))


def test_a_number_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    """A program of a shell script is killed as it holds a step, and the next one gets its number."""
    again = "echo $(($(cat died) - 1)) > /proc/sys/kernel/ns_last_pid; ./same.py"
    consumer = shell(f"./die.py; for i in $(seq 50); do {again}; test $? = 75 || break; done")
    ran = run(tmp_path, "func: ./write.py", consumer, "2MB", 1, *OWN_PIDS.split())
    assert ran.code == 0, ran.err
    assert got(tmp_path) == list(range(1, STEPS))


JOBS = {
    "named": [MPIEXEC, "-genv", "WILKINS_JOB_ID", "a job of this test"],
    "unnamed": [MPIEXEC],
    "openmpi": ["mpirun.openmpi", "--oversubscribe"],
}
"""Ways to start the ranks of one job, of which Open MPI's tells them which job it is."""


def run_job(folder: Path, how: str) -> Finished:
    """Two ranks of one job, each in a namespace of its own."""
    before = [*JOBS[how], "-n", "2", *OWN_PIDS.split()]
    return run(folder, "func: ./write.py", "func: ./rest.py", "20MB", 4, *before)


@pytest.mark.usual("named")
@pytest.mark.parametrize("how", ["named", pytest.param("openmpi", marks=pytest.mark.needs("mpirun.openmpi"))])
def test_ranks_of_one_job_meet_from_namespaces_of_their_own(tmp_path: Path, how: str) -> None:
    ran = run_job(tmp_path, how)
    assert ran.code == 0, ran.err
    assert got(tmp_path) == list(range(STEPS))


def test_ranks_that_cannot_see_which_job_they_are_of_say_what_to_set(tmp_path: Path) -> None:
    """MPICH's mpiexec gives no name of the job, and cannot be seen from a namespace of the rank's own."""
    ran = run_job(tmp_path, "unnamed")
    assert ran.code == 3, ran.err
    assert ran.err.count("the ranks of this job cannot meet") == 1 and "set WILKINS_JOB_ID to" in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "wilkins-runs").exists()


ASK = """
import pathlib, sys
from wilkins.transport.board import Board
board = Board.attach(pathlib.Path(sys.argv[1]))
open("asks", "w").close()
while True:
    try:
        board.task_started(0)
        break
    except TimeoutError:
        pass
"""


@pytest.mark.needs("hooks")
def test_the_death_of_one_that_waits_takes_nothing_from_one_of_the_same_number(tmp_path: Path) -> None:
    """One process is stopped as it changes the board; one of its number, elsewhere, is killed as it waits for that."""
    run_folder = Path("/dev/shm") / f"wilkins-{os.getuid()}-{tmp_path.name}-{os.getpid()}"
    board = Board.create([BoardTask("sim", 1)], [], [], log=tmp_path / "log", path=run_folder)
    folders = {name: tmp_path / name for name in ("holds", "waits")}
    for folder in folders.values():
        folder.mkdir()
    words = [*OWN_PIDS.split(), "sh", "-c", f'{sys.executable} -c "$0" "$1"; true', ASK, str(run_folder)]

    def python(name: str) -> int:
        """The process of number 2 in the namespace."""
        found = [pid for pid in processes_in(folders[name]) if numbers(pid)[-1:] == ["2"]]
        return found[0] if found else 0

    try:
        stops = faults("task=launcher,stop=start.running")
        with started_tree(words, folders["holds"], stops):
            wait_for(lambda: state(python("holds")) == "T", 30, "the one that holds the board's lock")
            with started_tree(words, folders["waits"]):
                wait_for(lambda: (folders["waits"] / "asks").exists(), 30, "the one that waits")
                wait_for(lambda: state(python("waits")) == "S", 30, "the one that waits to sleep")
                os.kill(python("waits"), signal.SIGKILL)
                wait_for(lambda: not python("waits"), 30, "its end")
            with pytest.raises(BoardHeldError, match="of its PID namespace"):
                board.report()
            os.kill(python("holds"), signal.SIGCONT)
            wait_for(lambda: not python("holds"), 30, "the end of the one that held the lock")
            assert board.report().tasks[0].starts == 1
    finally:
        board.remove()


def numbers(pid: int) -> list[str]:
    """What a process is called in each PID namespace, from the outermost."""
    return next(line.split()[1:] for line in status(pid) if line.startswith("NSpid"))


def state(pid: int) -> str:
    """A letter that says what the process does."""
    return next((line.split()[1] for line in status(pid) if line.startswith("State")), "")


def status(pid: int) -> list[str]:
    """What the kernel tells of a process, or nothing."""
    try:
        return Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return ["NSpid: 0"]
