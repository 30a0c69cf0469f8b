"""Ranks on several hosts write files together where a host has little shared memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig
from programs.build import build, parallel_c

from support.running import WILKINS, run_tree, write_program

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.needs("root", "namespaces", *NEEDS, "h5pcc.openmpi", "python:h5py"),
    pytest.mark.timeout(150),
]

STEPS, ROWS, COLUMNS = 6, 4096, 1024
"""A step is 32 MB; of these the ranks on node1 write three quarters."""
READ = """#!{python}
import h5py, numpy
for step in range({steps}):
    with h5py.File(f"matrix{{step}}.h5") as file:
        x = file["x"][...]
    there = step + numpy.arange({rows})[:, None] + numpy.arange({columns}) / 2**20
    assert (x == there).all(), step
print("read all", flush=True)
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(2) as one:
        yield one


@pytest.mark.parametrize(("room", "stays"), [("48m", False), ("120m", None), ("256m", True)])
@pytest.mark.parametrize("reader", ["node0", "node1"])
def test_little_memory_on_the_host_that_writes(
    rig: Rig, tmp_path: Path, reader: str, room: str, stays: bool | None
) -> None:
    """What its ranks write stays there only where that leaves its readers enough for their steps."""
    program = build("redistribute.c", *parallel_c("openmpi", static=False))
    write_program(tmp_path / "read.py", READ.format(python=sys.executable, steps=STEPS, rows=ROWS, columns=COLUMNS))
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {program}, name: w, nprocs: 4, placement: [1, 3],
      args: [write, {STEPS}, independent, {ROWS}, {COLUMNS}, never], outports: [{{filename: "matrix*.h5"}}]}}
  - {{func: ./read.py, placement: [{reader}], inports: [{{filename: "matrix*.h5"}}]}}
""")
    subprocess.run(rig.on("node1", "mount", "-o", f"remount,size={room}", "/dev/shm"), check=True)
    before = rig.sent("node1")[0]
    words = [*WILKINS, "run", "--hosts", "node0:8,node1:8", "workflow.yaml"]
    done = run_tree(rig.on("node0", *words, folder=tmp_path), 100, tmp_path)
    assert done.code == 0, done.err
    assert "read all" in done.out
    if reader == "node1" and stays is not None:
        assert (rig.sent("node1")[0] - before < STEPS * ROWS * COLUMNS * 8 / 4) == stays
    for host in rig.names:
        assert not rig.shared_memory(host)
