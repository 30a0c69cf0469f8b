"""Runs over several hosts that are all this machine, so that nothing needs root: each has its own keeper and memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from support.running import WILKINS, run_tree, write_program

HERE = Path(__file__).with_name("here")
"""Stands for ssh."""

WRITE = """#!{python}
import sys, time
import h5py, numpy
name, steps, size, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
data = numpy.arange(size // 8)
for step in range(steps):
    time.sleep(pause)
    with h5py.File(name.format(step), "w") as file:
        file["x"] = data
"""
READ = """#!{python}
import sys, time
import h5py, numpy
from wilkins.transport import steps
pause, parts = float(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 1
for name in steps.names():
    with h5py.File(name) as file:
        print("opened", time.monotonic(), flush=True)
        size = file["x"].size
        assert numpy.array_equal(file["x"][size - size // parts :], numpy.arange(size - size // parts, size))
    time.sleep(pause)
"""


def programs(folder: Path) -> None:
    """``write.py NAME STEPS SIZE PAUSE`` and ``read.py PAUSE [PARTS]``, which reads the last one of so many."""
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(folder / name, text.format(python=sys.executable))


def run(folder: Path, workflow: str, hosts: str, *options: str) -> dict[str, Any]:
    """Run a workflow; its summary."""
    (folder / "workflow.yaml").write_text(workflow)
    finished = run_tree(
        [*WILKINS, "run", "--hosts", hosts, *options, "workflow.yaml"], 90, folder, {"WILKINS_RSH": str(HERE)}
    )
    assert finished.code == 0, finished.err
    summary: dict[str, Any] = json.loads((folder / "wilkins-runs/latest/summary.json").read_text())
    return summary
