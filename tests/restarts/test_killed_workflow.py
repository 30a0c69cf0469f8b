"""The packaged workflow that does it all, killed at random moments and resumed, gives what an undisturbed run gives.

`WILKINS_TEST_KILLS` says how many moments are tried (`make soak`: more, and others), `WILKINS_TEST_SEED` which.
"""

from __future__ import annotations

import contextlib
import csv
import os
import random
import signal
import time
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import pytest

from support.resuming import HOSTS
from support.running import MPIEXEC, WILKINS, Tree, processes_in, run_tree, started_tree, wait_for

KILLS = int(os.environ.get("WILKINS_TEST_KILLS", "3"))
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
LIMIT = 240
TASKS = (b"flame.py", b"report.py", b"tasks/__main__.py")
RESUME = ("--resume", "wilkins-runs/latest")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", **HOSTS}
PLACES = [("--hosts", hosts) for hosts in ("a:3,b:3", "b:1,c:4", "c:2,a:2,b:2")]

pytestmark = [pytest.mark.needs("python:torch", MPIEXEC), pytest.mark.timeout(900)]


def words(ranks: int) -> tuple[str, ...]:
    settings = ("snapshots=40", "passes=2", "every=7", f"ranks={ranks}")
    return ("--builtin", "simulate-train-analyse", *(word for one in settings for word in ("--set", one)))


def outcome(folder: Path) -> dict[str, Any]:
    """What the run has left: the trainer's parameters, the tables, the simulation's last file. Bit by bit."""
    with h5py.File(folder / "network.h5") as file:
        found: dict[str, Any] = {f"network {name}": dset[()].tobytes() for name, dset in file["state"].items()}
        found |= {f"network's {name}": value for name, value in file.attrs.items()}
    results = folder / "results"
    with (results / "training.csv").open() as table:
        found["training"] = [[one for name, one in row.items() if name != "seconds"] for row in csv.DictReader(table)]
    for name in ("front-moments.csv", "front-moments.json", "front-histogram.csv", "front-histogram.json"):
        found[name] = (results / name).read_bytes()
    found["last snapshot"] = (folder / "checkpoints" / "latest" / "checkpoint.h5").read_bytes()
    return found


@cache
def undisturbed(parent: Path, ranks: int) -> tuple[dict[str, Any], float]:
    """What is to come out, and how long that takes."""
    folder = parent / f"undisturbed-{ranks}"
    folder.mkdir()
    done = run_tree([*WILKINS, "run", *words(ranks)], LIMIT, folder, ENVIRONMENT)
    assert done.code == 0, done.out + done.err
    assert "after 40 snapshots and 320 optimiser steps" in done.out or ranks > 1
    found = outcome(folder)
    assert len(found["training"]) == 40
    return found, done.seconds


def snapshots(folder: Path) -> int:
    """How many the trainer has told of."""
    table = folder / "results" / "training.csv"
    return max(0, table.read_bytes().count(b"\n") - 1) if table.exists() else 0


def wait_for_moment(tree: Tree, seconds: float, rng: random.Random) -> str:
    """Until a random moment, by the clock or by the trainer's progress, or the end of the run; says which it was."""
    begun, there = time.monotonic(), snapshots(tree.folder)
    until, wanted = rng.uniform(0, seconds), there + rng.randint(1, 40)
    by_clock, late = rng.random() < 0.5, rng.uniform(0, 0.1)
    while tree.process.poll() is None:
        if (time.monotonic() - begun >= until) if by_clock else (snapshots(tree.folder) >= min(39, wanted)):
            break
        time.sleep(0.005)
    if not by_clock:
        time.sleep(late)
    return f"after {until:.2f} s" if by_clock else f"{late:.3f} s after snapshot {wanted}"


def tasks_in(tree: Tree) -> list[int]:
    """The processes of tasks."""
    found = []
    for pid in processes_in(tree.folder):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            if any(word in line for word in TASKS) and pid != tree.process.pid:
                found.append(pid)
    return sorted(found)


def strike(tree: Tree, victim: str, rng: random.Random) -> None:
    """Kill a task's process, the launcher, or all there are."""
    if victim == "the launcher":
        tree.process.kill()
    elif victim == "everything":
        while found := processes_in(tree.folder):  # those too that were being started
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            tree.process.poll()
    else:
        while not (tasks := tasks_in(tree)) and tree.process.poll() is None:
            time.sleep(0.005)
        if tasks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(tasks), signal.SIGKILL)


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_random_moment(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, number: int) -> None:
    """A trainer of one rank, or of two; alone, as one job, or on other hosts each time, whatever ran undisturbed."""
    seed = 1000 * SEED + number
    rng = random.Random(seed)
    ranks = 2 if number % 3 == 2 else 1
    job = number % 6 == 2
    command = (MPIEXEC, "-n", str(4 + ranks), *WILKINS, "run") if job else (*WILKINS, "run")
    expected, seconds = undisturbed(tmp_path_factory.getbasetemp(), ranks)
    places = PLACES if number % 3 == 1 else ((),)
    story = [f"seed {seed}, {ranks} ranks, {'one job' if job else 'on hosts' if places is PLACES else 'alone'}"]
    done = False
    for _ in range(rng.choice([1, 1, 2])):
        victim = rng.choice(["a task", "the launcher", "everything"])
        begun = (tmp_path / RESUME[1] / "plan.json").exists()
        what = (*(RESUME if begun else words(ranks)), *rng.choice(places))
        with started_tree([*command, *what], tmp_path, ENVIRONMENT) as tree:
            moment = wait_for_moment(tree, seconds, rng)
            ended = tree.process.poll()
            strike(tree, victim, rng)
            code = tree.wait(60).code
            wait_for(lambda: not processes_in(tmp_path), 60, "the end of all that was started")
        story.append(f"{victim} killed {moment}: {ended if ended is not None else code}")
        done = done or code == 0
    print("; ".join(story))
    if not done:
        begun = (tmp_path / RESUME[1] / "plan.json").exists()
        what = (*(RESUME if begun else words(ranks)), *rng.choice(places))
        resumed = run_tree([*command, *what], LIMIT, tmp_path, ENVIRONMENT)
        told = f"{story}\n{resumed.out}{resumed.err}"
        assert resumed.code == 0 or "the run has finished, and nothing is left to be done" in resumed.err, told
    found = outcome(tmp_path)
    assert found.keys() == expected.keys()
    different = [name for name in expected if found[name] != expected[name]]
    assert not different, f"{story}: {different}"
