"""Kills real runs at random moments and resumes them: what comes out must be what an undisturbed run gives."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.running import WILKINS, Finished, Tree, processes_in, run_tree, started_tree, wait_for

SIMULATION = """
import os, sys, time
import h5py, numpy as np
steps, pause = int(sys.argv[1]), float(sys.argv[2])
step, state = 0, np.zeros(100)
if "WILKINS_RESTART" in os.environ:
    with h5py.File(os.environ["WILKINS_RESTART"]) as file:
        step, state = int(file.attrs["step"]), file["u"][:]
    print("restarted at", step)
while step < steps:
    state = np.sin(state + step) + step
    with h5py.File(f"u{step:04d}.h5", "w") as file:
        file["u"] = state
        file.attrs["step"] = step
    step += 1
    if step % 4 == 0:
        with h5py.File("state.h5", "w") as file:
            file["u"] = state
            file.attrs["step"] = step
    time.sleep(pause)
"""
SUMS = """
import os
import h5py, numpy as np
import wilkins.transport
total, seen = 0.0, []
if "WILKINS_RESTART" in os.environ:
    with h5py.File(os.environ["WILKINS_RESTART"]) as file:
        total, seen = float(file.attrs["total"]), file["seen"][:].tolist()
    print("restarted after", len(seen))
for step in wilkins.transport.open("u*.h5"):
    total = total * 0.9 + float(step["u"].sum())
    seen.append(int(step.attrs["step"]))
    assert step.sequence == seen[-1]
    step.release()
    if len(seen) % 3 == 0:
        with h5py.File("sums.h5", "w") as file:
            file.attrs["total"] = total
            file["seen"] = np.array(seen)
with open("result.txt", "w") as file:
    file.write(f"{total!r} {seen}")
"""
KILLS = max(1, int(os.environ.get("WILKINS_TEST_KILLS", "10")) // 10)
"""Rounds of kills per scene (`make soak`: more, and others)."""
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
CHAIN = """
tasks:
  - func: {simulation}
    nprocs: 2
    mpiexec: {mpiexec}
    args: ["10", "2", "60"]
    outports: [{{filename: "u*.h5"}}]
    restart: {{files: "chk*.h5", args: ["10", "2", "60", "--from", "{{file}}"]}}
  - func: norm.py
    args: ["{{filename}}"]
    inports: [{{filename: "u*.h5"}}]
    outports: [{{filename: "n*.h5"}}]
  - func: sums.py
    inports: [{{filename: "n*.h5"}}]
    restart: {{files: sums.h5}}
"""
NORM = """
import sys
import h5py, numpy as np
with h5py.File(sys.argv[1]) as file:
    value, step = np.sqrt((file["u"][:] ** 2).sum()), int(file.attrs["step"])
with h5py.File(f"n{step:04d}.h5", "w") as file:
    file["u"] = np.array([value])
    file.attrs["step"] = step
"""
LATEST = "wilkins-runs/latest"
HOSTS = {"WILKINS_RSH": str(Path(__file__).parents[1] / "hosts" / "here")}
"""Of a run on hosts: they are all this machine."""


seeds = pytest.mark.parametrize("seed", range(SEED, SEED + KILLS))


def on(*hosts: str) -> list[tuple[str, ...]]:
    """Places of a run: hosts each; empty: this machine."""
    return [("--hosts", words) if words else () for words in hosts]


def here_and_on(*hosts: str) -> pytest.MarkDecorator:
    """The test with its runs on this machine, and with those that go on with each other at these places."""
    several = pytest.param(on(*hosts), id="hosts")
    return pytest.mark.parametrize("places", [pytest.param(on(""), id="here"), several])


def want(folder: Path, workflow: str, **programs: str) -> dict[str, str]:
    """What an undisturbed run gives."""
    make(folder, workflow, **programs)
    done = run(folder)
    assert done.code == 0, done.out + done.err
    return results(folder)


def results(folder: Path) -> dict[str, str]:
    """What the tasks found, by file."""
    return {path.name: path.read_text() for path in folder.glob("result*.txt")}


def make(folder: Path, workflow: str, **programs: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "workflow.yaml").write_text(workflow)
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def run(folder: Path, *words: str, job: tuple[str, ...] = ()) -> Finished:
    return run_tree([*job, *WILKINS, "run", *(words or ("workflow.yaml",))], 120, folder, HOSTS)


def killed_again_and_again(
    folder: Path,
    moments: random.Random,
    most: int,
    job: Sequence[str],
    victims: Sequence[str],
    places: Sequence[Sequence[str]] = ((),),
) -> str:
    """Run and resume until the end, killed a few times at random moments, after up to so many publications.

    Args:
        places: options of a run, by which each one says where it is.

    Returns:
        What was done, and what the last resumption told.
    """
    words: tuple[str, ...] = ("workflow.yaml",)
    story = []
    for _ in range(3):
        before = (folder / LATEST).resolve()
        count, later = moments.randrange(most), moments.uniform(0, 0.1)
        victim, place = moments.choice(victims), moments.choice(places)
        with started_tree([*job, *WILKINS, "run", *words, *place], folder, HOSTS) as tree:
            wait_for(
                lambda tree=tree, before=before, count=count: (
                    tree.process.poll() is not None
                    or ((folder / LATEST).resolve() != before and trace(folder).count("\tpublish\t") >= count)
                ),
                90,
                f"{count} publications\n{tree.told()}",
            )
            time.sleep(later)
            strike(tree, victim, moments)
            ended = tree.wait(60)
        story.append(f"{place}: killed {victim} {later:.3f} s after {count} publications: {ended.code}\n{ended.out}")
        if (folder / LATEST / "plan.json").exists():
            words = ("--resume", LATEST)
    done = run(folder, *words, *moments.choice(places), job=tuple(job))
    assert done.code == 0 or "the run has finished" in done.err, f"{story}\n{done.out}{done.err}"
    return "\n".join([*story, done.out])


def strike(tree: Tree, victim: str, moments: random.Random) -> None:
    """Kill ``everything``, ``the launcher`` alone, or a process whose command line holds the word, if there is one."""
    if victim == "everything":
        kill_all(tree.folder)
    elif victim == "the launcher":
        tree.process.kill()  # what watches over it ends the others
    elif found := [pid for pid in processes_in(tree.folder) if pid != tree.process.pid and victim in command_of(pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(moments.choice(sorted(found)), signal.SIGKILL)


def command_of(pid: int) -> str:
    """A process's program and its arguments; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def kill_all(folder: Path) -> None:
    """Kill all processes that work in a folder, at once."""
    for pid in processes_in(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def check(
    folder: Path,
    seed: int,
    most: int,
    workflow: str,
    *job: str,
    victims: Sequence[str] = ("everything", "everything", "the launcher"),
    places: Sequence[Sequence[str]] = ((),),
    **programs: str,
) -> None:
    """The result of a run (under an mpiexec) that is killed and resumed, at places, is that of one that is not.

    Where these are hosts, their keepers and relays are killed, too.
    """
    wanted = want(folder / "whole", workflow, **programs)
    killed = make(folder / "killed", workflow, **programs)
    all_victims = [*victims, *(("hosts.keeper", "relay.py") if any(places) else ())]
    told = killed_again_and_again(killed, random.Random(seed), most, job, all_victims, places)
    assert wanted
    assert results(killed) == wanted, f"seed {seed}\n{told}"


def seen(folder: Path) -> list[int]:
    """The steps in the analysis's result."""
    steps: list[int] = json.loads((folder / "result.txt").read_text().partition(" ")[2])
    return steps


def trace(folder: Path) -> str:
    """The trace of the newest run, or those of its hosts."""
    latest = folder / LATEST
    return "".join(path.read_text() for path in (*latest.glob("trace.tsv"), *latest.glob("hosts/*/trace.tsv")))
