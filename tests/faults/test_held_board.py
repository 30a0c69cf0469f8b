"""A process that stands still with the run's shared state locked keeps nobody from ending the run, and is named."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support.hooks import faults
from support.running import MPIEXEC, WILKINS, processes_in, started_tree, wait_for, write_program
from wilkins.flow.trace import read_trace
from wilkins.transport.board import Board

pytestmark = pytest.mark.needs("hooks")

LIMIT = 60.0
STILL = "task=prod,seed=2,chance=1,delay=500s"
"""The first thing that the producer changes takes minutes."""

WRITE = """#!/usr/bin/env python3
import os
import h5py
open("run-folder", "w").write(os.environ["WILKINS_RUN"])
open("producer", "w").write(str(os.getpid()))
for step in range(3):
    with h5py.File("out.h5", "w") as file:
        file["x"] = step
"""

READ = """#!/usr/bin/env python3
import h5py
while True:
    with h5py.File("out.h5") as file:
        print("got", file["x"][()], flush=True)
"""

WORKFLOW = """
tasks:
- {name: prod, func: ./write.py, outports: [{filename: out.h5}]}
- {name: look, func: ./read.py, inports: [{filename: out.h5}]}
"""


def workflow(folder: Path) -> None:
    write_program(folder / "write.py", WRITE)
    write_program(folder / "read.py", READ)
    (folder / "workflow.yaml").write_text(WORKFLOW)


def launch(how: str, *options: str) -> list[str]:
    before = [MPIEXEC, "-n", "2"] if how == "one job" else []
    return [*before, *WILKINS, "run", *options, "workflow.yaml"]


def assert_names_the_holder(folder: Path, said: str) -> None:
    pid = (folder / "producer").read_text()
    assert f"task 'prod' rank 0 (process {pid}, python" in said and "stands still" in said, said


def assert_nothing_left(folder: Path) -> None:
    wait_for(lambda: not processes_in(folder), 10, "the end of all processes")
    wait_for(lambda: not Path((folder / "run-folder").read_text()).exists(), 10, "the end of the run's shared memory")


@pytest.mark.usual("alone")
@pytest.mark.parametrize("how", ["alone", "one job"])
def test_a_run_ends_at_its_timeout(tmp_path: Path, how: str) -> None:
    workflow(tmp_path)
    with started_tree(launch(how, "--timeout", "8"), tmp_path, faults(STILL)) as tree:
        ran = tree.wait(LIMIT)
        assert ran.code == 4, ran.err
        assert "took longer than --timeout 8 s" in ran.err
        assert_names_the_holder(tmp_path, ran.err)
        assert_nothing_left(tmp_path)


@pytest.mark.nightly
@pytest.mark.usual("one job")
@pytest.mark.parametrize("how", ["alone", "one job"])
def test_a_run_ends_by_interruption(tmp_path: Path, how: str) -> None:
    """Once the launcher has said who stands still."""
    workflow(tmp_path)
    with started_tree(launch(how), tmp_path, faults(STILL)) as tree:
        wait_for(lambda: "stands still" in tree.told(), LIMIT, "word of the process that holds the board")
        os.killpg(tree.process.pid, signal.SIGINT)
        ran = tree.wait(LIMIT)
        assert ran.code != 0
        assert_names_the_holder(tmp_path, ran.err)
        assert how == "one job" or (ran.code == 130 and "stopped by SIGINT" in ran.err), ran.err
        assert_nothing_left(tmp_path)


RESTARTED = """
tasks:
- {name: prod, func: ./write.py, outports: [{filename: out.h5}], restart: {files: state.h5}}
- {name: look, func: ./read.py, inports: [{filename: out.h5, flow: {queue: 3}}]}
"""
"""The trace must tell of a step before anybody acts on it."""


ONCE_READY = """import time
while not os.path.exists("ready") or open("wilkins-runs/latest/trace.tsv").read().count("\\tstart\\t") < 2:
    time.sleep(0.01)
"""
ONCE_TOLD = """import os, time
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
open("reader", "w").write(str(os.getpid()))
"""


def sleeps(folder: Path) -> bool:
    """Whether the reader sleeps until another process wakes it (in the system call futex)."""
    return Path(f"/proc/{(folder / 'reader').read_text()}/syscall").read_text().startswith("202 ")


def published(folder: Path) -> int:
    return (folder / "wilkins-runs" / "latest" / "trace.tsv").read_text().count("\tpublish\t")


def is_stopped(folder: Path) -> bool:
    pid = folder / "producer"
    return noted(pid) and "State:\tT" in Path(f"/proc/{pid.read_text()}/status").read_text()


def noted(path: Path) -> bool:
    """Whether a process has written its number to a file."""
    return path.is_file() and path.read_text() != ""


def test_nobody_acts_on_a_step_of_which_the_trace_does_not_tell(tmp_path: Path) -> None:
    """A process is stopped before it writes that it has published a step: the step is there, and its reader waits."""
    workflow(tmp_path)
    (tmp_path / "workflow.yaml").write_text(RESTARTED)
    write_program(tmp_path / "write.py", WRITE.replace("for step", ONCE_READY + "for step"))
    write_program(tmp_path / "read.py", READ.replace("while True", ONCE_TOLD + "while True"))
    with started_tree(launch("alone"), tmp_path, faults("task=prod,stop=trace.begun")) as tree:
        wait_for(lambda: is_stopped(tmp_path), LIMIT, "the producer to be stopped")
        board = Board.attach(Path((tmp_path / "run-folder").read_text()))
        told = published(tmp_path)
        assert board.report().ports[0].steps == told + 1
        (tmp_path / "go").touch()
        wait_for(lambda: noted(tmp_path / "reader"), LIMIT, "the reader to begin")
        wait_for(lambda: sleeps(tmp_path) and not board.report().tasks[1].waits, LIMIT, "the reader to wait")
        assert published(tmp_path) == told
        assert "got" not in tree.told()
        board.close()
        os.kill(int((tmp_path / "producer").read_text()), signal.SIGCONT)
        ran = tree.wait(LIMIT)
        assert ran.code == 0, ran.err
        assert [line.split()[-1] for line in ran.out.splitlines() if "got" in line] == ["0", "1", "2"]
        steps = [e.sequence for e in read_trace(tmp_path / "wilkins-runs" / "latest") if e.event == "publish"]
        assert steps == [0, 1, 2]


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["alone", "one job"])
def test_a_run_ends_while_nobody_can_write_its_trace(tmp_path: Path, how: str) -> None:
    workflow(tmp_path)
    (tmp_path / "workflow.yaml").write_text(RESTARTED)
    environment = faults("task=prod,stop=trace.begun")
    with started_tree(launch(how, "--timeout", "8"), tmp_path, environment) as tree:
        wait_for(lambda: is_stopped(tmp_path), LIMIT, "the producer to be stopped")
        ran = tree.wait(LIMIT)
        assert ran.code == 4, ran.err
        assert "took longer than --timeout 8 s" in ran.err
        assert_nothing_left(tmp_path)


@pytest.mark.nightly
def test_a_run_goes_on_when_the_process_does(tmp_path: Path) -> None:
    """A process is stopped with the board's lock, and continued when the launcher has told of it."""
    workflow(tmp_path)
    with started_tree(launch("alone"), tmp_path, faults("task=prod,stop=create.named:2")) as tree:
        wait_for(lambda: "stands still" in tree.told(), LIMIT, "word of the process that holds the board")
        assert_names_the_holder(tmp_path, tree.told())
        os.kill(int((tmp_path / "producer").read_text()), signal.SIGCONT)
        ran = tree.wait(LIMIT)
        assert ran.code == 0, ran.err
        assert [line.split()[-1] for line in ran.out.splitlines() if "got" in line] == ["0", "1", "2"]
