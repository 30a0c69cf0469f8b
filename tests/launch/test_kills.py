"""Whatever is killed, nothing runs on and nothing stays in shared memory."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from launch.conftest import Case

from support.running import WILKINS, Tree, processes_in, run_tree, started_tree, wait_for

ENDLESS = """\
tasks:
  - {name: produce, func: ./produce.py, args: ["100000", "0.05"], outports: [{filename: "step*.h5"}]}
  - {name: consume, func: ./read.py, inports: [{filename: "step*.h5"}]}
"""

ENDLESS_MPI = """\
tasks:
  - name: produce
    func: ./produce.py
    args: ["100000", "0.05"]
    nprocs: 2
    mpiexec: MPIEXEC
    outports: [{filename: "step*.h5"}]
  - {name: consume, func: ./read.py, inports: [{filename: "step*.h5"}]}
"""


def _running(case: Case, tree: Tree) -> None:
    """Wait until steps flow."""
    log = case.folder / "wilkins-runs" / "latest" / "consume.log"
    wait_for(lambda: log.is_file() and "read" in log.read_text(), 30, f"a first step\n{tree.told()}")


def _child(case: Case, word: str) -> int:
    """The process that runs a program of the case."""
    for pid in processes_in(case.folder):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if any(part.endswith(word.encode()) for part in words) and b"-n" not in words:
            return pid
    pytest.fail(f"no process runs {word}")


@pytest.mark.usual("15-143", "2-130")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=lambda x: str(int(x))
)
def test_a_signal_to_the_launcher_ends_the_run(case: Case, number: signal.Signals, code: int) -> None:
    case.workflow(ENDLESS)
    with started_tree([*WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        _running(case, tree)
        os.kill(tree.process.pid, number)
        finished = tree.wait(15)
        assert finished.code == code
        assert f"stopped by {number.name}" in finished.err
        assert "produce" in finished.err.splitlines()[-3]
        case.assert_nothing_left()


@pytest.mark.parametrize("kind", ["plain", "mpi"])
def test_a_killed_launcher_leaves_nothing(case: Case, kind: str, mpiexec: str) -> None:
    case.workflow(ENDLESS if kind == "plain" else ENDLESS_MPI.replace("MPIEXEC", mpiexec))
    if kind == "mpi":
        case.program("produce.py", MPI_PRODUCER)
    with started_tree([*WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        _running(case, tree)
        assert case.run_folder().is_dir()
        tree.process.kill()
        tree.process.wait(5)
        wait_for(lambda: not processes_in(case.folder), 10, "the end of all processes")
        run_tree([*WILKINS, "clean"], 30, case.folder)
        wait_for(lambda: not case.run_folder().is_dir(), 10, "the end of the run's shared memory")


@pytest.mark.parametrize("saved_by", ["guard", "kernel"])
def test_programs_end_with_their_launcher(case: Case, saved_by: str) -> None:
    """By the guard, also those without the layer; by the kernel those with it, if the guard was killed before."""
    case.program("sleep.sh", "#!/bin/sh\nsleep 1000\n")
    case.workflow(ENDLESS if saved_by == "kernel" else ENDLESS + "  - {name: sleep, func: ./sleep.sh}\n")
    with started_tree([*WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        _running(case, tree)
        if saved_by == "kernel":
            (guard,) = _guards(case)
            os.kill(guard, signal.SIGKILL)
        tree.process.kill()
        tree.process.wait(5)
        wait_for(lambda: not processes_in(case.folder), 10, "the end of all processes")
        run_tree([*WILKINS, "clean"], 30, case.folder)
        wait_for(lambda: not case.run_folder().is_dir(), 10, "the end of the run's shared memory")


def test_what_cleans_up_imports_nothing_of_the_users(case: Case) -> None:
    """As from the folder in which the launcher was started."""
    case.program("sleep.sh", "#!/bin/sh\nsleep 1000\n")
    started = case.folder / "started"
    started.mkdir()
    (started / "signal.py").write_text("raise SystemExit\n")
    case.workflow(ENDLESS + "  - {name: sleep, func: ./sleep.sh}\n")
    command = str(Path(sys.executable).with_name("wilkins"))
    with started_tree([command, "run", "../workflow.yaml"], started) as tree:
        _running(case, tree)
        tree.process.kill()
        tree.process.wait(5)
        wait_for(lambda: not processes_in(case.folder), 10, "the end of all processes")
        case.assert_nothing_left()


MPI_PRODUCER = """\
import os, time
from mpi4py import MPI
import h5py
if MPI.COMM_WORLD.rank == 0:
    open("run-folder", "w").write(os.environ["WILKINS_RUN"])
for step in range(100000):
    if MPI.COMM_WORLD.rank == 0:
        with h5py.File(f"step{step}.h5", "w") as file:
            file["x"] = [step]
    time.sleep(0.05)
"""


@pytest.mark.usual("produce.py")
@pytest.mark.parametrize("victim", ["produce.py", "read.py"])
def test_a_killed_task_stops_the_run(case: Case, victim: str) -> None:
    case.workflow(ENDLESS)
    with started_tree([*WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        _running(case, tree)
        os.kill(_child(case, victim), signal.SIGKILL)
        finished = tree.wait(15)
        assert finished.code == 1
        assert "failed: killed by SIGKILL" in finished.err
        case.assert_nothing_left()


def test_a_killed_rank_stops_the_run(case: Case, mpiexec: str) -> None:
    case.workflow(ENDLESS_MPI.replace("MPIEXEC", mpiexec))
    case.program("produce.py", MPI_PRODUCER)
    with started_tree([*WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        _running(case, tree)
        os.kill(_child(case, "produce.py"), signal.SIGKILL)
        finished = tree.wait(15)
        assert finished.code == 1
        assert "produce: failed: exit code" in finished.err
        case.assert_nothing_left()


def test_a_program_that_ignores_the_request_to_end(case: Case) -> None:
    case.program("stubborn.sh", "#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do sleep 1; done\n")
    case.workflow("tasks:\n  - {name: stubborn, func: ./stubborn.sh}\n")
    with started_tree([*WILKINS, "run", "--timeout", "1", "workflow.yaml"], case.folder) as tree:
        finished = tree.wait(20)
        assert finished.code == 4
        case.assert_nothing_left()


@pytest.mark.bench
def test_a_waiting_launcher_sleeps(case: Case) -> None:
    case.program("sleep.sh", "#!/bin/sh\nsleep 1000\n")
    case.workflow("tasks:\n  - {name: sleep, func: ./sleep.sh}\n")
    with started_tree([*WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        wait_for(lambda: len(processes_in(case.folder)) >= 3, 20, "the start")
        time.sleep(1)
        used: list[float] = []
        while len(used) < 6 and (not used or used[-1] > 0.05):  # on a busy machine it is still starting at first
            before = _cpu_seconds(tree.process.pid)
            time.sleep(5)
            used.append(_cpu_seconds(tree.process.pid) - before)
        assert used[-1] <= 0.05, used


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


FAILS_ON_DEMAND = """\
tasks:
  - {name: produce, func: ./produce.py, args: [HOW], outports: [{filename: "step*.h5"}]}
  - {name: consume, func: ./read.py, inports: [{filename: "step*.h5"}]}
"""

ON_DEMAND = """\
import os, sys, time
from pathlib import Path
import h5py
Path("run-folder").write_text(os.environ["WILKINS_RUN"])
for step in range(3):
    with h5py.File(f"step{step}.h5", "w") as file:
        file["x"] = [step]
until = time.monotonic() + 60
while not Path("go").exists():
    assert time.monotonic() < until
    time.sleep(0.02)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.usual("fails-alone", "succeeds-one job")
@pytest.mark.parametrize("kind", ["alone", "one job"])
@pytest.mark.parametrize(("how", "code"), [("7", 1), ("0", 0)], ids=["fails", "succeeds"])
def test_a_killed_guard_does_not_change_how_the_run_ends(
    case: Case, how: str, code: int, kind: str, mpiexec: str
) -> None:
    """The launcher says that it is on its own, and cleans up."""
    case.program("produce.py", ON_DEMAND)
    case.workflow(FAILS_ON_DEMAND.replace("HOW", f'"{how}"'))
    before = [mpiexec, "-n", "2"] if kind == "one job" else []
    with started_tree([*before, *WILKINS, "run", "workflow.yaml"], case.folder) as tree:
        _running(case, tree)
        guards = _guards(case)
        assert len(guards) == (2 if before else 1)
        for guard in guards:
            os.kill(guard, signal.SIGKILL)
        (case.folder / "go").touch()
        finished = tree.wait(30)
        assert finished.code == code, finished.err
        assert finished.err.count("the process that cleans up") == len(guards)
        assert finished.err.count("produce: failed: exit code 7") == code
        assert "Traceback" not in finished.err
        case.assert_nothing_left()


def _guards(case: Case) -> list[int]:
    """The processes that clean up if their launchers are killed."""
    found = []
    for pid in processes_in(case.folder):
        with contextlib.suppress(OSError):  # it has ended
            if b"wilkins-guard" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
    return found
