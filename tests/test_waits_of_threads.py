"""Threads and ranks that wait for each other: what can never go on is stopped and told, what may go on is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import WILKINS, run_tree

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
    code, told = run(tmp_path, "time.sleep(1000)", 14)
    assert code == 4, told
    assert "the run may be stuck: " in told
    assert "(task 'reads' rank 0) is not known to wait" in told
    assert "took longer than --timeout" in told
