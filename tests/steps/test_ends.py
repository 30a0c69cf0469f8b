"""How processes end: what they have left open is a step, or the user is told; forks that wait for work hold no file."""

from __future__ import annotations

import pytest
from programs.build import build

from support.small_workflows import Workflow, out


def ends(flow: Workflow, end: str, publish: object = "close", **keys: object) -> None:
    """A writer with a file that is flushed, a file that is written after its flush, and this end."""
    flow.task(
        "writer",
        f"""
        import h5py, os, signal, sys
        first = h5py.File("first.h5", "w"); first["x"] = [1]; first.flush()
        second = h5py.File("second.h5", "w"); second["x"] = [2]; second.flush(); second["x"][:] = [3]
        {end}
        """,
        outports=out("*.h5", publish),
        **keys,
    )
    flow.task(
        "reader",
        """
        import glob, h5py
        with open("got.txt", "w") as got:
            for name in sorted(glob.glob("*.h5")):
                with h5py.File(name, "r") as file:
                    print(f'["{name}", {file["x"][0]}]', file=got)
        """,
        inports=[{"filename": "*.h5", "listing": "end"}],
    )


@pytest.mark.usual("os._exit(3)-True", "os.kill(os.getpid(), signal.SIGKILL)-True")
@pytest.mark.parametrize(
    ("end", "fails"),
    [
        ("os._exit(0)", False),
        ("os._exit(3)", True),
        ("os.kill(os.getpid(), signal.SIGKILL)", True),
        ("os.kill(os.getpid(), signal.SIGTERM)", True),
        ("os.execv('/bin/true', ['true'])", False),
    ],
)
def test_what_is_flushed_is_a_step_and_the_rest_is_told(flow: Workflow, end: str, fails: bool) -> None:
    ends(flow, end, on_failure="continue")
    ran = flow.run(1 if fails else 0)
    assert flow.got() == [["first.h5", 1]]
    assert "note: 'second.h5' was still open when its process ended" in flow.log()
    assert "'second.h5' was still open when its process ended" in ran.said
    assert "'first.h5' was still open" not in flow.log()


def test_a_snapshot_that_is_the_last_flush_comes_once(flow: Workflow) -> None:
    ends(flow, "os.kill(os.getpid(), signal.SIGKILL)", "flush", on_failure="continue")
    flow.run(1)
    assert flow.got() == [["first.h5", 1], ["second.h5", 2]]
    assert flow.published("writer") == 2


@pytest.mark.usual("kill")
@pytest.mark.needs("h5cc")
@pytest.mark.parametrize("end", ["exit", "_exit", "kill"])
def test_children_of_a_program_in_c_leave_files_open(flow: Workflow, end: str) -> None:
    """The C library of HDF5 closes them only where exit handlers run."""
    program = build("leaves_open.c", "h5cc", "-shlib")
    flow.task("writer", [program, end], outports=out("*.h5", "close"))
    flow.task(
        "reader",
        """
        import h5py
        with open("got.txt", "w") as got:
            for k in range(3):
                with h5py.File(f"left{k}.h5", "r") as file:
                    print(file["x"][()].tolist(), file=got)
        """,
        inports=[{"filename": "*.h5"}],
    )
    flow.run()
    assert flow.got() == [[0], [1], [2]]
    assert flow.published("writer") == 3


IDLE = """
import multiprocessing, os, time
file = os.open("a.dat", os.O_WRONLY | os.O_CREAT)
pool = multiprocessing.get_context("fork").Pool(2)
assert pool.map(len, ["some", "words"]) == [4, 5]
os.write(file, b"whole")
os.close(file)
for _ in range(2000):
    if os.path.exists("seen"):
        break
    time.sleep(0.01)
AFTER
pool.terminate()
assert os.path.exists("seen"), "the step came only when the pool had ended"
"""
SEES = """
with open("a.dat", "rb") as file:
    assert file.read() == b"whole"
open("seen", "w").close()
"""


def test_idle_workers_of_a_pool_hold_no_file(flow: Workflow) -> None:
    """They have inherited its descriptor, and live until its reader has read it."""
    flow.task("writer", IDLE.replace("AFTER", ""), outports=out("a.dat", "close"))
    flow.task("reader", SEES, inports=[{"filename": "a.dat"}])
    flow.run()


def test_an_idle_worker_that_writes_too_late_is_told(flow: Workflow) -> None:
    flow.task(
        "writer", IDLE.replace("AFTER", "pool.starmap(os.write, [(file, b'late')])"), outports=out("a.dat", "close")
    )
    flow.task("reader", SEES, inports=[{"filename": "a.dat"}])
    ran = flow.run()
    assert "'a.dat' was published when the process that began it had closed it" in ran.said


@pytest.mark.parametrize("waits", ["time.sleep(0.3)", "subprocess.run(['sleep', '0.3'])"])
def test_a_fork_that_goes_on_by_itself_holds_its_file(flow: Workflow, waits: str) -> None:
    """What it writes after its parent's close is in the step."""
    flow.task(
        "writer",
        f"""
        import os, subprocess, time
        file = os.open("a.dat", os.O_WRONLY | os.O_CREAT)
        if os.fork() == 0:
            {waits}
            os.write(file, b"whole")
            os._exit(0)
        os.close(file)
        os.wait()
        """,
        outports=out("a.dat", "close"),
    )
    flow.task("reader", SEES, inports=[{"filename": "a.dat"}])
    flow.run()


def test_a_fork_that_its_parent_tells_to_write_holds_its_file(flow: Workflow) -> None:
    """It waits as an idle worker does, for its parent's word, which comes after the parent's close."""
    flow.task(
        "writer",
        """
        import os, time
        file = os.open("a.dat", os.O_WRONLY | os.O_CREAT)
        ends = os.pipe()
        if os.fork() == 0:
            os.read(ends[0], 1)
            os.write(file, b"whole")
            os._exit(0)
        os.close(file)
        time.sleep(0.3)
        os.write(ends[1], b".")
        os.wait()
        """,
        outports=out("a.dat", "close"),
    )
    flow.task("reader", SEES, inports=[{"filename": "a.dat"}])
    flow.run()


def test_an_empty_file_is_a_step_though_its_program_goes_on(flow: Workflow) -> None:
    """It marks that something is there, and its program waits where nobody sees it."""
    writes = "import os, time\nopen('ready.mark', 'w').close()\nwhile not os.path.exists('seen'): time.sleep(0.01)\n"
    flow.task("writer", writes, outports=[{"filename": "*.mark"}])
    flow.task(
        "reader",
        "assert open('ready.mark').read() == ''\nopen('seen', 'w').close()\n",
        inports=[{"filename": "*.mark"}],
    )
    flow.run()
