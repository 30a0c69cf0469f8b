"""Readers that have very many steps open at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running import WILKINS, Finished, run_tree, write_program

WRITE = """\
import h5py
for step in range(200):
    with h5py.File(f"s{step}.h5", "w") as file:
        file["x"] = step
"""
KEEP = """\
import h5py
files = [h5py.File(f"s{step}.h5") for step in range(200)]
again = [h5py.File(f"s{step}.h5") for step in range(199, 200) for _ in range(100)]
print("read", sum(int(file["x"][()]) for file in files), sum(int(file["x"][()]) for file in again))
for file in files:
    file.close()
print("read", sum(int(file["x"][()]) for file in again))
"""


def run(folder: Path, queue: int, mode: str) -> Finished:
    """A writer of 200 files, and a reader that opens all of them before it closes one."""
    write_program(folder / "write.py", WRITE)
    write_program(folder / "keep.py", KEEP)
    (folder / "workflow.yaml").write_text(
        "tasks:\n"
        f"  - {{name: sim, func: ./write.py, outports: [{{filename: 's*.h5', mode: {mode}}}]}}\n"
        f"  - {{name: ana, func: ./keep.py, inports: [{{filename: 's*.h5', mode: {mode}, queue: {queue}}}]}}\n"
    )
    return run_tree([*WILKINS, "run", "workflow.yaml"], 120, folder)


@pytest.mark.nightly
@pytest.mark.parametrize(("mode", "queue"), [("memory", 200), ("memory", 2), ("file", 2)])
def test_as_many_as_its_writer_has_written(tmp_path: Path, mode: str, queue: int) -> None:
    """What is open holds nobody up, however short the queue is: it takes memory."""
    finished = run(tmp_path, queue, mode)
    assert finished.code == 0, finished.out + finished.err
    log = (tmp_path / "wilkins-runs" / "latest" / "ana.log").read_text().splitlines()
    assert log == ["read 19900 19900", "read 19900"]
