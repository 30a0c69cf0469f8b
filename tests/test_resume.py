"""Runs that are killed, with all their programs, and resumed: what comes out is what an undisturbed run gives."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest

from support import WILKINS, Finished, processes_in, run_tree, started_tree

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
WORKFLOW = """
tasks:
  - func: simulation.py
    args: ["30", "{pause}"]
    outports: [{{filename: "u*.h5"}}]
    restart: {{files: state.h5}}
  - func: sums.py
    inports: [{{filename: "u*.h5"}}]
    restart: {{files: sums.h5}}
"""
KILLS = int(os.environ.get("WILKINS_TEST_KILLS", "4"))
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
LATEST = "wilkins-runs/latest"


def make(folder: Path, workflow: str, **programs: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "workflow.yaml").write_text(workflow)
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def run(folder: Path, *words: str) -> Finished:
    return run_tree([*WILKINS, "run", *(words or ("workflow.yaml",))], 120, folder)


def killed_again_and_again(folder: Path, moments: random.Random, longest: float, kills: int = 3) -> str:
    """Run and resume until the end, killed at some moments before; returns what the last resumption told."""
    words: tuple[str, ...] = ("workflow.yaml",)
    for _ in range(kills):
        with started_tree([*WILKINS, "run", *words], folder) as tree:
            until = time.monotonic() + moments.uniform(0.3, longest)
            while time.monotonic() < until and tree.process.poll() is None:
                time.sleep(0.005)
            if moments.random() < 0.3:
                tree.process.kill()  # the launcher alone; what watches over it ends the others
            else:
                kill_all(folder)
            tree.process.wait(10)
        if (folder / LATEST / "plan.json").exists():
            words = ("--resume", LATEST)
    done = run(folder, *words)
    assert done.code == 0 or "the run has finished" in done.err, done.out + done.err
    return done.out


def kill_all(folder: Path) -> None:
    """Kill all processes that work in a folder, at once."""
    for pid in processes_in(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", range(SEED, SEED + KILLS))
def test_a_simulation_and_a_stateful_analysis(tmp_path: Path, seed: int) -> None:
    """Both write checkpoints of their own, each over the one before."""
    workflow = WORKFLOW.format(pause=0.03)
    whole = make(tmp_path / "whole", workflow, simulation=SIMULATION, sums=SUMS)
    assert run(whole).code == 0
    folder = make(tmp_path / "killed", workflow, simulation=SIMULATION, sums=SUMS)
    told = killed_again_and_again(folder, random.Random(seed), 2.5)
    assert (folder / "result.txt").read_text() == (whole / "result.txt").read_text(), f"seed {seed}\n{told}"
