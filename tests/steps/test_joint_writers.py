"""One file that several processes of a task write at once, each in its own way: none of their bytes is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hooks import faults
from support.running import WILKINS, run_tree

MODES = ("memory", "both", "file")

BEGIN = """#!/usr/bin/env python3
import mmap, multiprocessing, os, sys
import numpy as np
BLOCK = 8192
def begin(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(fd, b"." * (2 * BLOCK), 0)
    return fd
def by_memmap(name, r):
    file = np.memmap(name, "u1", "r+")
    file[BLOCK * r : BLOCK * (r + 1)] = ord("0") + r
    file.flush()
def by_pwrite(name, r):
    fd = os.open(name, os.O_RDWR)
    os.pwrite(fd, b"%d" % r * BLOCK, BLOCK * r)
    os.close(fd)
"""

RANKS = """
from mpi4py import MPI
world = MPI.COMM_WORLD
r = world.rank
for k in range(3):
    name = f"plt{k}.dat"
    fd = begin(name) if r == 0 else None
    world.Barrier()
    WRITE
    world.Barrier()
    with open(name, "rb") as file:
        seen = file.read()
    assert seen == b"0" * BLOCK + b"1" * BLOCK, seen[::BLOCK]
    world.Barrier()
    if fd is not None:
        os.close(fd)
"""

RANK_WAYS = {
    "np.memmap": "by_memmap(name, r)",
    "pwrite": "by_pwrite(name, r)",
    "a mapping and pwrite": "by_memmap(name, r) if r else by_pwrite(name, r)",
}

POOL = """
def write(both):
    by_memmap(*both) if WAY == "np.memmap" or both[1] else by_pwrite(*both)
if __name__ == "__main__":
    with multiprocessing.get_context("KIND").Pool(2) as pool:
        for k in range(3):
            fd = begin(f"plt{k}.dat")
            pool.map(write, [(f"plt{k}.dat", r) for r in range(2)])
            os.close(fd)
"""

# The one that began the file maps it by another descriptor, and is done with that first.
ONE_PROCESS = """
for k in range(3):
    fd = begin(f"plt{k}.dat")
    by_pwrite(f"plt{k}.dat", 0)
    by_memmap(f"plt{k}.dat", 1)
    os.close(fd)
"""

# Closed once, and then opened to be changed by all at once.
REOPENED = """
from mpi4py import MPI
world = MPI.COMM_WORLD
r = world.rank
for k in range(6):
    if r == 0:
        os.close(begin(f"plt{k}.dat"))
    world.Barrier()
    file = OPEN
    world.Barrier()
    WRITE
    world.Barrier()
    CLOSE
    world.Barrier()
"""
MAPPED = ("np.memmap(f'plt{k}.dat', 'u1', 'r+')", "file[BLOCK * r : BLOCK * (r + 1)] = ord('0') + r", "del file")
WRITTEN = ("os.open(f'plt{k}.dat', os.O_RDWR)", "os.pwrite(file, b'%d' % r * BLOCK, BLOCK * r)", "os.close(file)")
REOPENED_BY = {"np.memmap": MAPPED, "pwrite": WRITTEN}

# A handle that writes nothing is closed last.
HELD = """
for k in range(3):
    os.close(begin(f"plt{k}.dat"))
    with open(f"plt{k}.dat", "r+b"):
        by_memmap(f"plt{k}.dat", 0)
        by_memmap(f"plt{k}.dat", 1)
"""

# The same, but nobody waits until the others have opened the file, or closed it; each by ways that chance draws.
EACH_IN_ITS_TIME = """
import random, time
from mpi4py import MPI
world = MPI.COMM_WORLD
r = world.rank
chance = random.Random(SEED * 100 + r)
def by_mapping(name, r):
    fd = os.open(name, os.O_RDWR)
    with mmap.mmap(fd, 2 * BLOCK) as mapped:
        half = BLOCK // 2
        mapped[BLOCK * r : BLOCK * r + half] = b"%d" % r * half
        os.pwrite(fd, b"%d" % r * half, BLOCK * r + half)
        if chance.random() < 0.5:
            mapped.flush()
    os.close(fd)
def by_writev(name, r):
    fd = os.open(name, os.O_RDWR)
    os.lseek(fd, BLOCK * r, os.SEEK_SET)
    os.writev(fd, [b"%d" % r * (BLOCK // 2)] * 2)
    os.close(fd)
def by_write(name, r):
    with open(name, "r+b", buffering=chance.choice([0, 4096])) as file:
        file.seek(BLOCK * r)
        for _ in range(4):
            file.write(b"%d" % r * (BLOCK // 4))
WAYS = [by_memmap, by_pwrite, by_mapping, by_writev, by_write] if SEED % 2 else [by_memmap]
for k in range(6):
    if r == 0:
        os.close(begin(f"plt{k}.dat"))
    world.Barrier()
    for _ in range(chance.randrange(1, 4)):
        if chance.random() < 0.3:
            time.sleep(chance.random() * 0.01)
        chance.choice(WAYS)(f"plt{k}.dat", r)
    world.Barrier()
"""

# Cut to its length by its name, while a descriptor or a mapping has it.
CUT = """
for k in range(3):
    fd = begin(f"plt{k}.dat")
    os.pwrite(fd, b"0" * BLOCK + b"1" * 3 * BLOCK, 0)
    mapped = mmap.mmap(fd, 2 * BLOCK) if k else None
    os.truncate(f"plt{k}.dat", 2 * BLOCK)
    assert os.fstat(fd).st_size == 2 * BLOCK
    os.close(fd)
"""

# Opened while the file rests; what another writes to it since is read.
OPENED_BEFORE = """
from mpi4py import MPI
world = MPI.COMM_WORLD
r = world.rank
for k in range(3):
    if r == 0:
        os.close(begin(f"plt{k}.dat"))
    world.Barrier()
    if r == 1:
        fd = os.open(f"plt{k}.dat", os.O_RDONLY if k else os.O_RDWR)
        assert os.pread(fd, BLOCK, 0) == b"." * BLOCK
    world.Barrier()
    if r == 0:
        other = os.open(f"plt{k}.dat", os.O_RDWR)
        os.pwrite(other, b"0" * BLOCK, 0)
        if k == 1:
            os.writev(other, [b"0"])
        os.pwrite(other, b"1" * BLOCK, 2 * BLOCK)
    world.Barrier()
    if r == 1:
        assert os.fstat(fd).st_size == 3 * BLOCK
        assert os.pread(fd, 4 * BLOCK, 0)[:: BLOCK // 2] == b"00..11"
    world.Barrier()
    if r == 0:
        os.truncate(f"plt{k}.dat", 2 * BLOCK)
        by_pwrite(f"plt{k}.dat", 1)
        os.close(other)
    world.Barrier()
    if r == 1:
        assert os.pread(fd, 4 * BLOCK, 0) == b"0" * BLOCK + b"1" * BLOCK
        os.close(fd)
    world.Barrier()
"""

# Two descriptors of a process, of which one is mapped: the other goes on to append.
APPENDS_BESIDE = """
for k in range(3):
    os.close(begin(f"plt{k}.dat"))
    fd = os.open(f"plt{k}.dat", os.O_WRONLY | os.O_APPEND)
    by_memmap(f"plt{k}.dat", 0)
    os.truncate(f"plt{k}.dat", BLOCK)
    os.write(fd, b"1" * BLOCK)
    os.close(fd)
"""

# A log that the process has open while commands add to it, by its name and by the descriptor.
LOG = """
import subprocess
for k in range(3):
    if k < 2:
        os.close(begin(f"plt{k}.dat"))
    first = os.open(f"plt{k}.dat", os.O_RDWR | os.O_CREAT, 0o644) if k else None
    fd = os.open(f"plt{k}.dat", os.O_RDWR | os.O_APPEND | (0 if first else os.O_CREAT), 0o644)
    os.truncate(f"plt{k}.dat", 0)
    subprocess.run(["sh", "-c", f"printf %8192d 0 | tr ' ' 0 >> plt{k}.dat"], check=True)
    os.write(fd, b"1" * 100)
    subprocess.run(["sh", "-c", f"printf 1111 >> plt{k}.dat"], check=True)
    subprocess.run(["printf", "11111"], stdout=fd, check=True)
    os.write(fd, b"1" * (BLOCK - 109))
    os.close(fd)
    if first:
        os.close(first)
"""

APPENDS = """
for k in range(3):
    with open(f"plt{k}.dat", "wb") as file:
        file.write(b"0" * BLOCK)
        file.flush()
        fd = os.open(f"plt{k}.dat", os.O_WRONLY | os.O_APPEND)
        os.pwrite(fd, b"1" * BLOCK, 0)  # Linux appends it all the same
        os.close(fd)
"""

READS = """#!/usr/bin/env python3
for k in range(3):
    with open(f"plt{k}.dat", "rb") as file:
        text = file.read()
    print(k, len(text), text.count(b"0"), text.count(b"1"))
"""


def check(
    folder: Path, makes: str, mode: str, ranks: int = 1, publish: str = "close", steps: int = 3, late: str = ""
) -> None:
    """`late`: at which points of the layer the processes sleep a little (base/fault.hpp)."""
    (folder / "makes.py").write_text(BEGIN + makes)
    (folder / "reads.py").write_text(READS.replace("range(3)", f"range({steps})"))
    (folder / "workflow.yaml").write_text(f"""
tasks:
  - {{func: makes.py, nprocs: {ranks}, outports: [{{filename: "plt*.dat", mode: {mode}, publish: {publish}}}]}}
  - {{func: reads.py, inports: [{{filename: "plt*.dat"}}]}}
""")
    env = faults(late) if late else None
    ran = run_tree([*WILKINS, "run", "--timeout", "40", "workflow.yaml"], 60, folder, env)
    assert ran.code == 0, ran.out + ran.err
    told = [line.split("|", 1)[1].strip() for line in ran.out.splitlines() if line.startswith("reads")]
    assert told == [f"{k} 16384 8192 8192" for k in range(steps)]


def ways(names: object, quick: tuple[str, str]) -> list[object]:
    """Every way in every mode; by day the one that is given."""
    return [
        pytest.param(way, mode, marks=() if (way, mode) == quick else pytest.mark.nightly)
        for way in names  # type: ignore[attr-defined]
        for mode in MODES
    ]


@pytest.mark.parametrize("way, mode", ways(RANK_WAYS, ("a mapping and pwrite", "memory")))
def test_ranks_write_one_file(tmp_path: Path, way: str, mode: str) -> None:
    check(tmp_path, RANKS.replace("WRITE", RANK_WAYS[way]), mode, 2)


@pytest.mark.parametrize("way, mode", ways(("np.memmap", "a mapping and pwrite"), ("np.memmap", "memory")))
@pytest.mark.parametrize("kind", ["fork", pytest.param("spawn", marks=pytest.mark.nightly)])
def test_workers_of_a_pool_write_one_file(tmp_path: Path, kind: str, way: str, mode: str) -> None:
    check(tmp_path, POOL.replace("KIND", kind).replace("WAY", repr(way)), mode)


@pytest.mark.usual("both")
@pytest.mark.parametrize("mode", MODES)
def test_a_process_maps_a_file_that_it_writes(tmp_path: Path, mode: str) -> None:
    check(tmp_path, ONE_PROCESS, mode)


@pytest.mark.parametrize("mode", ["memory", *(pytest.param(mode, marks=pytest.mark.nightly) for mode in MODES[1:])])
def test_a_file_that_is_open_is_cut_by_its_name(tmp_path: Path, mode: str) -> None:
    check(tmp_path, CUT, mode)


@pytest.mark.parametrize("mode", ["memory", *(pytest.param(mode, marks=pytest.mark.nightly) for mode in MODES[1:])])
def test_what_another_rank_writes_is_read_by_who_has_opened_the_file_before(tmp_path: Path, mode: str) -> None:
    check(tmp_path, OPENED_BEFORE, mode, 2, "next")


@pytest.mark.parametrize("mode", ["memory", *(pytest.param(mode, marks=pytest.mark.nightly) for mode in MODES[1:])])
def test_a_descriptor_appends_beside_a_mapping(tmp_path: Path, mode: str) -> None:
    check(tmp_path, APPENDS_BESIDE, mode, publish="next")


@pytest.mark.parametrize("mode", ["memory", *(pytest.param(mode, marks=pytest.mark.nightly) for mode in MODES[1:])])
def test_commands_add_to_a_file_that_is_open(tmp_path: Path, mode: str) -> None:
    check(tmp_path, LOG, mode, publish="next")


def test_pwrite_appends_where_the_file_is_opened_so(tmp_path: Path) -> None:
    check(tmp_path, APPENDS, "memory")


@pytest.mark.parametrize("way, mode", ways(REOPENED_BY, ("np.memmap", "memory")))
def test_ranks_change_a_file_that_one_has_made(tmp_path: Path, way: str, mode: str) -> None:
    opens, writes, closes = REOPENED_BY[way]
    script = REOPENED.replace("OPEN", opens).replace("WRITE", writes).replace("CLOSE", closes)
    check(tmp_path, script, mode, 2, "next", 6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.nightly
def test_ranks_change_a_file_each_in_its_own_time(tmp_path: Path, seed: int, mode: str) -> None:
    check(tmp_path, EACH_IN_ITS_TIME.replace("SEED", str(seed)), mode, 2, "next", 6)


@pytest.mark.nightly
@pytest.mark.needs("hooks")
@pytest.mark.parametrize("mode", ["memory", *(pytest.param(mode, marks=pytest.mark.nightly) for mode in MODES[1:])])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 20))])
def test_ranks_that_are_late_change_a_file(tmp_path: Path, seed: int, mode: str) -> None:
    script = EACH_IN_ITS_TIME.replace("SEED", str(seed))
    check(tmp_path, script, mode, 2, "next", 6, f"seed={seed},delay=3ms,chance=0.3,task=makes")


@pytest.mark.usual("memory")
@pytest.mark.parametrize("mode", MODES)
def test_a_handle_that_writes_nothing_is_closed_last(tmp_path: Path, mode: str) -> None:
    check(tmp_path, HELD, mode, publish="next")
