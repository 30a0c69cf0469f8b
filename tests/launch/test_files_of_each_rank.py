"""A program that reads one file of each rank and ends has read one step."""

from __future__ import annotations

from support.small_workflows import Workflow

STEPS = 4

WRITER = f"""
import h5py
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
for k in range({STEPS}):
    with h5py.File(f"r{{rank}}-s{{k}}.h5", "w") as f:
        f["x"] = [rank, k]
"""
READER = """
import os, h5py
k = len(open("got.txt").readlines()) if os.path.exists("got.txt") else 0
told = []
for rank in range(3):
    with h5py.File(f"r{rank}-s{k}.h5", "r") as f:
        told.append(f["x"][()].tolist())
with open("got.txt", "a") as out:
    print(told, file=out)
"""


def test_it_is_started_again_for_the_next_file_of_each(flow: Workflow) -> None:
    flow.task("writer", WRITER, nprocs=3, outports=[{"filename": "r*.h5"}])
    flow.task("reader", READER, inports=[{"filename": "r*.h5"}])
    flow.run()
    assert flow.got() == [[[rank, k] for rank in range(3)] for k in range(STEPS)]
