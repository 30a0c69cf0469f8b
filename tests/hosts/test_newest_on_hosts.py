"""Readers on several hosts that leave out steps while they are busy: all of their ranks get the same ones, which are
the newest when they ask, and what is left out does not cross."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hosts.pseudo import HERE
from hosts.rig import NEEDS, Rig
from programs.build import build, parallel_c

from support.resuming import HOSTS as KEEPERS
from support.resuming import SIMULATION, kill_all, make
from support.running import WILKINS, Finished, run_tree, started_tree, wait_for, write_program
from wilkins.launch.records.hosttraces import trace_of
from wilkins.plan import planfile

pytestmark = [pytest.mark.timeout(150), pytest.mark.xdist_group("hosts")]

HOSTS = "a:4,b:4,c:4"
NEWEST = """
tasks:
  - {{func: {program}, name: sim, nprocs: 2, args: [write, {steps}, 2000, {pause}], placement: {writers},
      outports: [{{filename: state.h5}}]}}
  - {{func: {program}, name: ana, nprocs: {ranks}, args: [read, {how}, {reads}, {seed}], placement: {readers},
      inports: [{{filename: state.h5, {policy}}}]}}
"""
LATEST = "io_freq: latest"


def run(
    folder: Path, workflow: str, *, hosts: str = HOSTS, env: Mapping[str, str] | None = None
) -> tuple[Finished, dict[str, Any]]:
    """A run with a keeper for each host, all on this machine; and its summary."""
    (folder / "workflow.yaml").write_text(workflow)
    environment = {"WILKINS_RSH": str(HERE), "OMPI_MCA_btl": "tcp,self", **(env or {})}
    finished = run_tree([*WILKINS, "run", "--hosts", hosts, "workflow.yaml"], 100, folder, env=environment)
    assert finished.code == 0, finished.out + finished.err
    summary: dict[str, Any] = json.loads((folder / "wilkins-runs/latest/summary.json").read_text())
    return finished, summary


def workflow(
    mpi: str,
    *,
    how: str = "together",
    writers: str = "[2]",
    readers: str = "[1, 1, 1]",
    policy: str = LATEST,
    steps: int = 60,
    pause: int = 30,
    reads: int = 100,
    seed: int = 0,
) -> str:
    """A reader that is slower than its writer. `pause`, `reads`: milliseconds for a step."""
    program, ranks = build("newest.c", *parallel_c(mpi, static=False)), sum(json.loads(readers))
    return NEWEST.format(**locals())


def read_by(finished: Finished) -> dict[int, list[int]]:
    """By rank: the steps that it has read."""
    found = re.findall(r"rank (\d+) has read((?: \d+)*)", finished.out)
    return {int(rank): [int(step) for step in steps.split()] for rank, steps in found}


def same_for_all(finished: Finished, ranks: int, steps: int) -> list[int]:
    """What all ranks have read: the same steps in order, some of them left out, and the last one."""
    read = read_by(finished)
    assert sorted(read) == list(range(ranks)), finished.out
    assert len({tuple(one) for one in read.values()}) == 1, read
    assert read[0] == sorted(set(read[0]))
    assert 2 < len(read[0]) < steps
    return read[0]


def accounted(summary: dict[str, Any], read: int, steps: int, crossings: int) -> None:
    """Every step was read or left out, and only those that were read have crossed."""
    (channel,) = summary["channels"]
    assert (channel["published"], channel["read"], channel["dropped"]) == (steps, read, steps - read)
    assert [one["steps"] for one in summary["crossings"]] == [read] * crossings


@pytest.mark.usual("mpich")
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_all_ranks_read_the_same_steps_together(mpi: str, tmp_path: Path) -> None:
    """Also those on the writer's own host. A rank that got another step would fail, or wait for ever."""
    finished, summary = run(tmp_path, workflow(mpi))
    read = same_for_all(finished, 3, 60)
    assert read[-1] == 59, "the last step is always delivered"
    accounted(summary, len(read), 60, 2)
    folder = tmp_path / "wilkins-runs" / "latest"
    told = trace_of(folder, planfile.loads((folder / "plan.json").read_text()))
    lost = [event.sequence for event in told if event.event == "drop"]
    assert sorted(lost + read) == list(range(60)), "each is told once"


CASES = [
    ("together", "[2]", "[1, 1, 1]", LATEST),
    ("apart", "[2]", "[1, 1, 1]", LATEST),
    ("apart", "[2]", "[0, 2, 2]", LATEST),
    ("together", "[1, 1]", "[1, 1, 2]", LATEST),
    ("apart", "[0, 1, 1]", "[2, 1, 1]", "flow: {queue: 3, when_full: drop-oldest}"),
    ("together", "[2]", "[2, 0, 2]", "flow: {queue: 2, when_full: drop-newest}"),
    ("apart", "[1, 1]", "[1, 2, 1]", "flow: {every: 3, queue: 1, when_full: drop-oldest}"),
]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize(("how", "writers", "readers", "policy"), CASES)
def test_at_whatever_pace(
    how: str, writers: str, readers: str, policy: str, mpi: str, seed: int, tmp_path: Path
) -> None:
    """Ranks that read by themselves take their time independently of each other."""
    drawn = random.Random(f"{how} {readers} {policy} {mpi} {seed}")
    steps, reads = drawn.choice([40, 100]), drawn.choice([0, 40, 150])
    finished, summary = run(
        tmp_path,
        workflow(
            mpi,
            how=how,
            writers=writers,
            readers=readers,
            policy=policy,
            steps=steps,
            pause=drawn.choice([5, 20, 60]),
            reads=reads,
            seed=seed,
        ),
    )
    read = read_by(finished)
    assert sorted(read) == list(range(sum(json.loads(readers)))), finished.out
    assert len({tuple(one) for one in read.values()}) == 1, read
    assert read[0] == sorted(set(read[0]))
    assert read[0]
    if "every" not in policy and "newest" not in policy:
        assert read[0][-1] == steps - 1
    (channel,) = summary["channels"]
    assert channel["published"] == channel["read"] + channel["dropped"] + channel["skipped"] == steps
    assert channel["read"] == len(read[0])
    # (What two hosts write together is published by one of them.)
    assert {one["steps"] for one in summary["crossings"]} <= {0, len(read[0])}


WRITES = """#!{python}
import time
import h5py, numpy
for step in range({steps}):
    time.sleep({pause})
    with h5py.File(f"s{{step}}.h5", "w") as file:
        file["x"] = numpy.arange({size}) + step
        file["made"] = time.time()
"""
BY_NAMES = """#!{python}
import random, time
from mpi4py import MPI
import h5py, numpy
from wilkins.transport import steps
world, drawn, read, ages = MPI.COMM_WORLD, random.Random(MPI.COMM_WORLD.rank), [], []
for name in steps.names():
    asked = time.time()
    with h5py.File(name) as file:
        step = int(name[1:-3])
        assert numpy.array_equal(file["x"][:], numpy.arange({size}) + step), name
    read.append(step)
    time.sleep(2 * {pause} * drawn.random())
print("rank", world.rank, "has read", *read, flush=True)
"""
BY_NUMBERS = """#!{python}
import time
from mpi4py import MPI
import h5py, numpy
world, read = MPI.COMM_WORLD, []
for step in range({steps}):
    try:
        file = h5py.File(f"s{{step}}.h5")
    except FileNotFoundError:
        continue
    with file:
        assert numpy.array_equal(file["x"][:], numpy.arange({size}) + step), step
    read.append(step)
    time.sleep({pause})
print("rank", world.rank, "has read", *read, flush=True)
"""
POLLS = """#!{python}
import glob, os, time
from mpi4py import MPI
import h5py, numpy
world, read = MPI.COMM_WORLD, []
while not read or read[-1] < {steps} - 1:
    found = [int(name[1:-3]) for name in glob.glob("s*.h5")]
    new = world.bcast(max(found, default=-1) if world.rank == 0 else None)
    if not read and new < 0 or read and new <= read[-1]:
        time.sleep(0.02)
        continue
    with h5py.File(f"s{{new}}.h5") as file:
        assert numpy.array_equal(file["x"][:], numpy.arange({size}) + new), new
    read.append(new)
    time.sleep({pause})
print("rank", world.rank, "has read", *read, flush=True)
"""
SERIES = """
tasks:
  - {{func: ./writes.py, outports: [{{filename: "s*.h5"}}]}}
  - {{func: ./reads.py, nprocs: {ranks}, placement: {placement}, inports: [{{filename: "s*.h5", io_freq: latest}}]}}
"""


def series(
    folder: Path,
    reads: str,
    *,
    placement: str,
    steps: int = 60,
    pause: float = 0.03,
    busy: float = 0.1,
    size: int = 500,
) -> str:
    """A writer of numbered files, and a reader by a program of its own."""
    python = sys.executable
    write_program(folder / "writes.py", WRITES.format(python=python, steps=steps, pause=pause, size=size))
    write_program(folder / "reads.py", reads.format(python=python, steps=steps, pause=busy, size=size))
    return SERIES.format(ranks=sum(json.loads(placement)), placement=placement)


@pytest.mark.nightly
@pytest.mark.parametrize("placement", ["[1, 1, 1]", "[0, 1, 1]", "[0, 2]"])
@pytest.mark.parametrize("reads", [BY_NAMES, BY_NUMBERS], ids=["names", "numbers"])
def test_numbered_files(reads: str, placement: str, tmp_path: Path) -> None:
    """A name that was left out is missing at once, on every host: nobody waits for it until the end."""
    finished, summary = run(tmp_path, series(tmp_path, reads, placement=placement))
    read = same_for_all(finished, sum(json.loads(placement)), 60)
    assert max(later - step for step, later in pairwise(read)) < 20, read
    accounted(summary, len(read), 60, sum(count > 0 for count in json.loads(placement)[1:]))


ASKS = """#!{python}
import pathlib, time
from mpi4py import MPI
import h5py, numpy
from wilkins.transport import steps
world, read, rounds = MPI.COMM_WORLD, [], 0
for name in steps.names():
    with h5py.File(name) as file:
        assert numpy.array_equal(file["x"][:], numpy.arange({size}) + int(name[1:-3])), name
    read.append(int(name[1:-3]))
    world.barrier()
    if read[-1] < {steps} - 1:
        pathlib.Path(f"read{{rounds}}").touch()
        while not pathlib.Path(f"wrote{{rounds}}").exists():
            time.sleep(0.01)
    rounds += 1
print("rank", world.rank, "has read", *read, flush=True)
"""
ANSWERS = """#!{python}
import pathlib, time
import h5py, numpy
for step in range({steps}):
    with h5py.File(f"s{{step}}.h5", "w") as file:
        file["x"] = numpy.arange({size}) + step
    if step % 5 == 0:
        if step:
            pathlib.Path(f"wrote{{step // 5 - 1}}").touch()
        while not pathlib.Path(f"read{{step // 5}}").exists() and step < {steps} - 1:
            time.sleep(0.01)
"""


@pytest.mark.usual("[0, 1, 1]")
@pytest.mark.parametrize("placement", ["[0, 1]", "[0, 1, 1]", "[1, 1]"])
def test_what_a_reader_gets_is_the_newest_when_it_asks(placement: str, tmp_path: Path) -> None:
    """The writer makes five steps between two questions; the first four of them are left out, and do not cross."""
    text = series(tmp_path, ASKS, placement=placement, steps=21)
    write_program(tmp_path / "writes.py", ANSWERS.format(python=sys.executable, steps=21, size=500))
    finished, summary = run(tmp_path, text)
    assert same_for_all(finished, sum(json.loads(placement)), 21) == [0, 5, 10, 15, 20]
    accounted(summary, 5, 21, sum(count > 0 for count in json.loads(placement)[1:]))


@pytest.mark.nightly
@pytest.mark.parametrize("placement", ["[0, 1]", "[0, 1, 1]"])
def test_a_reader_that_lists_the_folder(placement: str, tmp_path: Path) -> None:
    """It never waits, but what it finds nothing new in asks for a step, too."""
    finished, _ = run(tmp_path, series(tmp_path, POLLS, placement=placement))
    read = same_for_all(finished, sum(json.loads(placement)), 60)
    assert read[-1] == 59


READS_THREE = """#!{python}
from mpi4py import MPI
import h5py, numpy
from wilkins.transport import steps
world, read = MPI.COMM_WORLD, []
for name in steps.names():
    with h5py.File(name) as file:
        assert numpy.array_equal(file["x"][:], numpy.arange({size}) + int(name[1:-3])), name
    read.append(int(name[1:-3]))
    if len(read) == 3:
        break
print("rank", world.rank, "has read", *read, flush=True)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("placement", ["[0, 1]", "[1, 1, 1]"])
def test_a_reader_that_ends_early_gets_no_more(placement: str, tmp_path: Path) -> None:
    """Nor does it hold up its writer."""
    finished, summary = run(tmp_path, series(tmp_path, READS_THREE, placement=placement, pause=0.1))
    assert len(same_for_all(finished, sum(json.loads(placement)), 60)) == 3
    assert summary["channels"][0]["published"] == 60
    assert {one["steps"] for one in summary["crossings"]} == {3}


AGAIN = """#!{python}
import time
from mpi4py import MPI
import h5py
from wilkins.transport import steps
rank = MPI.COMM_WORLD.rank
for name in steps.names():
    with h5py.File(name) as file:
        step, u = int(file.attrs["step"]), file["u"][:]
    assert name == f"u{{step:04d}}.h5"
    with open(f"seen{{rank}}.txt", "a") as seen:
        seen.write(f"{{step}} {{u.sum()!r}}\\n")
    time.sleep(0.12)
"""
RESUMED = """
tasks:
  - {{func: simulation.py, args: ["60", "0.03"], outports: [{{filename: "u*.h5"}}], restart: {{files: state.h5}}}}
  - {{func: ./again.py, nprocs: {ranks}, placement: {placement}, restart: each-step,
      inports: [{{filename: "u*.h5", io_freq: latest}}]}}
"""


@pytest.mark.nightly
@pytest.mark.parametrize("placement", ["[0, 1]", "[1, 1, 1]"])
def test_a_resumed_run(placement: str, tmp_path: Path) -> None:
    """It goes on where its reader was; from the beginning, if ranks were at different steps when they were killed."""
    ranks = sum(json.loads(placement))
    make(tmp_path, RESUMED.format(ranks=ranks, placement=placement), simulation=SIMULATION)
    write_program(tmp_path / "again.py", AGAIN.format(python=sys.executable))
    with started_tree([*WILKINS, "run", "--hosts", "a:2,b:1,c:1", "workflow.yaml"], tmp_path, KEEPERS):
        records = tmp_path / "wilkins-runs" / "latest" / "hosts" / "b" / "trace.tsv"
        wait_for(lambda: records.exists() and records.read_text().count("\topen\tagain\t") > 2, 60, "three steps")
        wait_for(lambda: len(seen(tmp_path)) == ranks and len(seen(tmp_path)[0]) > 2, 60, "what was read of them")
        kill_all(tmp_path)
    before = seen(tmp_path)
    done = run_tree([*WILKINS, "run", "--resume", "latest"], 100, tmp_path, KEEPERS)
    assert done.code == 0, done.out + done.err
    begins = re.search(r"^again +(its next step|the beginning) ", done.out, re.MULTILINE)
    assert begins, done.out
    read = [after[len(some) :] for some, after in zip(before, seen(tmp_path), strict=True)]
    assert all(one == read[0] for one in read)
    numbers = [int(line.split()[0]) for line in read[0]]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 59
    done = 3 // ranks - 1  # steps of which its records tell at least that all ranks have opened the next one
    if begins[1] == "its next step":
        assert numbers[0] > max((int(line.split()[0]) for line in before[0][:done]), default=0)


def seen(folder: Path) -> list[list[str]]:
    """What each rank has noted."""
    return [path.read_text().splitlines() for path in sorted(folder.glob("seen*.txt"))]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        yield one


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", *NEEDS)
@pytest.mark.parametrize("placement", ["[0, 1]", "[1, 1, 1]"])
def test_steps_that_are_left_out_do_not_cross(rig: Rig, placement: str, tmp_path: Path) -> None:
    """Counted by the kernels of hosts of their own: the bytes of the steps that were read, once for each host."""
    size, steps = 250_000, 40
    (tmp_path / "workflow.yaml").write_text(series(tmp_path, BY_NAMES, placement=placement, steps=steps, size=size))
    before = rig.sent("node0")[0]
    words = rig.on("node0", *WILKINS, "run", "--hosts", "node0:4,node1:4,node2:4", "workflow.yaml", folder=tmp_path)
    finished = run_tree(words, 100, tmp_path)
    sent = rig.sent("node0")[0] - before
    assert finished.code == 0, finished.out + finished.err
    read = same_for_all(finished, sum(json.loads(placement)), steps)
    hosts = sum(count > 0 for count in json.loads(placement)[1:])
    crossed = len(read) * 8 * size * hosts
    print(f"\n{placement}: {len(read)} of {steps} steps read, {sent / crossed:.2f} times their bytes sent")
    assert crossed <= sent <= 1.15 * crossed + 4e6, "and what programs print, logs, signs of life"
