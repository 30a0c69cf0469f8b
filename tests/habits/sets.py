"""Habits of sets: a folder is a step, which ranks, threads and processes of a program write together."""

from __future__ import annotations

from habits.rig import Habit, Program, py

from support.running import MPIEXEC

PARTS = 4
"""Files in each folder."""

PART = f"""
import os
PARTS = {PARTS}
FOLDERS = [f"t{{k:04d}}.d" for k in range(N)]
def part(k, i):
    put(f"{{FOLDERS[k]}}/{{i}}", k + i)
def ready(k):
    os.makedirs(FOLDERS[k], exist_ok=True)
def read(k):
    for i in range(PARTS):
        get(f"{{FOLDERS[k]}}/{{i}}")
def listed(k):
    tell(FOLDERS[k], *sorted(os.listdir(FOLDERS[k])))
"""

RANKS = {"nprocs": 2, "mpiexec": MPIEXEC, "rerun": "never"}
NEEDS = ("mpiexec", "python:mpi4py")
READS = py(PART + "for k in range(N):\n    listed(k)\n    read(k)\n")
ONE = py(PART + "for k in range(N):\n    ready(k)\n    for i in range(PARTS):\n        part(k, i)\n")


def ranks(lines: str, wait: str = "world.Barrier()", head: str = "") -> Program:
    """Ranks that write each folder, which the first makes."""
    return py(f"""{PART}{head}
from mpi4py import MPI
world = MPI.COMM_WORLD
for k in range(N):
    if world.rank == 0:
        ready(k)
    world.Barrier()
    {lines}
    {wait}
""")


SHARE = "for i in range(world.rank, PARTS, world.size):\n        part(k, i)"

THREADS = """
import threading
def threads(k):
    started = [threading.Thread(target=part, args=(k, i)) for i in range(world.rank, PARTS, world.size)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
"""

WRITERS = {
    "by-ranks": (ranks(SHARE), RANKS),
    "by-ranks-that-run-ahead": (ranks(SHARE, "pass"), RANKS),
    "by-the-last-rank-alone": (
        ranks("if world.rank == world.size - 1:\n        [part(k, i) for i in range(PARTS)]"),
        RANKS,
    ),
    "by-threads": (
        py(f"""{PART}
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    for k in range(N):
        ready(k)
        list(pool.map(part, [k] * PARTS, range(PARTS)))
"""),
        {},
    ),
    "by-threads-of-one-folder-each": (
        py(f"""{PART}
import threading
def write(k):
    ready(k)
    for i in range(PARTS):
        part(k, i)
for k in range(N):
    thread = threading.Thread(target=write, args=(k,))
    thread.start()
    thread.join()
"""),
        {},
    ),
    "by-a-pool": (
        py(f"""{PART}
import multiprocessing
def work(job):
    part(*job)
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for k in range(N):
            ready(k)
            pool.map(work, [(k, i) for i in range(PARTS)], chunksize=1)
"""),
        {},
    ),
    "by-children-that-end": (
        py(f"""{PART}
for k in range(N):
    ready(k)
    for i in range(PARTS):
        child = os.fork()
        if child == 0:
            part(k, i)
            os._exit(0)
        os.waitpid(child, 0)
"""),
        {},
    ),
    "by-ranks-and-threads": (
        ranks("threads(k)", head=THREADS),
        RANKS,
    ),
}
HABITS = [
    Habit(
        name,
        program,
        READS,
        "t*.d/",
        producer=keys,
        needs=NEEDS if keys else (),
    )
    for name, (program, keys) in WRITERS.items()
]
HABITS += [
    Habit(
        "read-by-ranks",
        ONE,
        py(
            PART + "for k in range(N):\n    if os.environ.get('PMI_RANK', '0') == '0':\n        listed(k)\n    else:\n"
            "        assert len(os.listdir(FOLDERS[k])) == PARTS\n"
        ),
        "t*.d/",
        consumer=RANKS,
        needs=("mpiexec",),
    ),
    Habit(
        "read-by-threads",
        ONE,
        py(f"""{PART}
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    for k in range(N):
        names = [f"{{FOLDERS[k]}}/{{i}}" for i in range(PARTS)]
        for name, held in zip(names, pool.map(lambda name: open(name, "rb").read(), names)):
            show(name, held)
"""),
        "t*.d/",
    ),
]
