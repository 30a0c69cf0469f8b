"""Threads and ranks that wait for each other: what can never go on is stopped and told, what may go on is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.running import WILKINS, run_tree, write_program

WRITES = """
import h5py
for k in range(30):
    with h5py.File("a.h5", "w") as file:
        file["x"] = k
with h5py.File("b.h5", "w") as file:
    file["x"] = 0
"""
READS = """
import threading, time, h5py
lock = threading.Lock()
held = threading.Event()
def last():
    with lock:
        held.set()
        h5py.File("b.h5")
threading.Thread(target=last, daemon=True).start()
h5py.File("a.h5").close()
held.wait()
OTHER
"""
WORKFLOW = """
tasks:
  - {func: writes.py, outports: [{filename: a.h5}, {filename: b.h5}]}
  - {func: reads.py, inports: [{filename: a.h5}, {filename: b.h5}], rerun: never}
"""


FILES = 24
WRITES_IN_ORDER = f"""
for k in range({FILES}):
    with open(f"f{{k:02}}.txt", "w") as file:
        file.write(f"number {{k}}\\n")
"""
LOOPS = {
    "shell": f"""#!/bin/bash
(for k in $(seq -w 0 {FILES - 2}); do x=$(cat f$k.txt | cat); echo $x; sleep 0.02; done) &
for k in {FILES - 1}; do cat f$k.txt; done
wait
""",
    "a command that starts late": f"""#!/bin/bash
(sleep 0.3; for k in $(seq -w 0 {FILES - 2}); do cat f$k.txt; done) &
cat f{FILES - 1}.txt
wait
""",
    "python": f"""
import subprocess, threading, time
def read(numbers):
    for k in numbers:
        subprocess.run(["cat", f"f{{k:02}}.txt"])
        time.sleep(0.02)
thread = threading.Thread(target=read, args=[range({FILES - 1})])
thread.start()
read([{FILES - 1}])
thread.join()
""",
    "python, the last between two commands of the others": f"""
import subprocess, threading, time
def read(numbers, pause):
    for k in numbers:
        subprocess.run(["cat", f"f{{k:02}}.txt"])
        time.sleep(pause)
        pause = 0
thread = threading.Thread(target=read, args=[range({FILES - 1}), 1])
thread.start()
time.sleep(0.5)
read([{FILES - 1}], 0)
thread.join()
""",
}
PIPELINES = f"""#!/bin/bash
for k in $(seq -w {FILES - 1} -1 0); do x=$(cat f$k.txt | cat); echo $x; cat f$k.txt | cat; done
"""


def run_loops(folder: Path, reads: str) -> str:
    """The time limit is less than it takes until a thread counts that merely sleeps."""
    name = "reads.sh" if reads.startswith("#!") else "reads.py"
    (folder / "writes.py").write_text(WRITES_IN_ORDER)
    write_program(folder / name, reads)
    tasks = f"""tasks:
  - {{func: writes.py, outports: [{{filename: "f*.txt"}}]}}
  - {{func: ./{name}, inports: [{{filename: "f*.txt", reorder: 4}}], rerun: never}}
"""
    (folder / "workflow.yaml").write_text(tasks)
    ran = run_tree([*WILKINS, "run", "--timeout", "9", "workflow.yaml"], 60, folder)
    assert ran.code == 0, ran.out + ran.err
    return ran.out


@pytest.mark.usual("python", "shell")
@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_beside_another_one_is_between_two_commands(tmp_path: Path, kind: str) -> None:
    """No process of it lives that has used the port, yet it goes on: nothing is let go for the one that waits."""
    told = run_loops(tmp_path, LOOPS[kind])
    assert sorted(re.findall(r"number (\d+)", told), key=int) == [str(k) for k in range(FILES)]


def test_a_loop_of_pipelines_that_waits_is_known_to_wait(tmp_path: Path) -> None:
    told = run_loops(tmp_path, PIPELINES)
    assert f"number {FILES - 1}" in told


def run(folder: Path, other: str, limit: int) -> tuple[int, str]:
    (folder / "writes.py").write_text(WRITES)
    (folder / "reads.py").write_text(READS.replace("OTHER", other))
    (folder / "workflow.yaml").write_text(WORKFLOW)
    ran = run_tree([*WILKINS, "run", "--timeout", str(limit), "workflow.yaml"], 60, folder)
    return ran.code, ran.out + ran.err


def test_a_thread_that_waits_for_the_lock_of_one_that_waits_for_ever(tmp_path: Path) -> None:
    code, told = run(tmp_path, "with lock: h5py.File('a.h5')", 30)
    assert code == 4, told
    assert "the run is stuck and was stopped" in told
    assert "--timeout" not in told
    assert "`queue: " in told


@pytest.mark.nightly
def test_a_thread_that_may_go_on_is_named(tmp_path: Path) -> None:
    """It sleeps, and nobody knows what it does afterwards."""
    code, told = run(tmp_path, "time.sleep(1000)", 18)
    assert code == 4, told
    assert "the run may be stuck: " in told
    assert "(task 'reads' rank 0) is not known to wait" in told
    assert "took longer than --timeout" in told
