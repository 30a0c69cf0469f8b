"""Runs that are killed, with all their programs, and resumed: what comes out is what an undisturbed run gives."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from programs.build import build, parallel_c

from support import WILKINS, Finished, processes_in, run_tree, started_tree, wait_for

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
TEXT_SUMS = """
import json, os
import wilkins.transport
total, seen = 0.0, []
if "WILKINS_RESTART" in os.environ:
    with open(os.environ["WILKINS_RESTART"]) as file:
        total, seen = json.load(file)
    print("restarted after", len(seen))
for step in wilkins.transport.open("u*.h5"):
    total = total * 0.9 + float(step["u"].sum())
    seen.append(int(step.attrs["step"]))
    step.release()
    if len(seen) % 3 == 0:
        with open("sums.json", "w") as file:
            json.dump([total, seen], file)
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
KILLS = max(1, int(os.environ.get("WILKINS_TEST_KILLS", "10")) // 10)
"""Rounds of kills per scene (`make soak`: more, and others)."""
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
CHAIN = """
tasks:
  - func: {simulation}
    nprocs: 2
    mpiexec: mpiexec.mpich
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
FIXED = """
tasks:
  - func: simulation.py
    args: ["32", "0.03"]
    outports: [{filename: "u.h5"}]
    restart: {files: state.h5}
  - func: halved.py
    inports: [{filename: "u.h5", io_freq: 2}]
    outports: [{filename: "v.h5"}]
    restart: each-step
  - func: sums.py
    inports: [{filename: "v.h5"}]
    restart: {files: sums.json, keep: 1}
"""
HALVED = """
import h5py
while True:
    try:
        with h5py.File("u.h5") as file:
            half, step = file["u"][:] / 2, file.attrs["step"]
    except FileNotFoundError:
        break
    with h5py.File("v.h5", "w") as file:
        file["u"] = half
        file.attrs["step"] = step // 2
"""
LATEST = "wilkins-runs/latest"


def want(folder: Path, workflow: str, **programs: str) -> str:
    """What an undisturbed run gives."""
    make(folder, workflow, **programs)
    done = run(folder)
    assert done.code == 0, done.out + done.err
    return (folder / "result.txt").read_text()


def make(folder: Path, workflow: str, **programs: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "workflow.yaml").write_text(workflow)
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def run(folder: Path, *words: str, job: tuple[str, ...] = ()) -> Finished:
    return run_tree([*job, *WILKINS, "run", *(words or ("workflow.yaml",))], 120, folder)


def killed_again_and_again(folder: Path, moments: random.Random, most: int, job: tuple[str, ...]) -> str:
    """Run and resume until the end, killed a few times at random moments, after up to so many publications.

    Returns:
        What the last resumption told.
    """
    words: tuple[str, ...] = ("workflow.yaml",)
    for _ in range(3):
        before = (folder / LATEST).resolve()
        count, later = moments.randrange(most), moments.uniform(0, 0.1)
        with started_tree([*job, *WILKINS, "run", *words], folder) as tree:
            wait_for(
                lambda tree=tree, before=before, count=count: (
                    tree.process.poll() is not None
                    or ((folder / LATEST).resolve() != before and trace(folder).count("\tpublish\t") >= count)
                ),
                90,
                f"{count} publications\n{tree.told()}",
            )
            time.sleep(later)
            if moments.random() < 0.3:
                tree.process.kill()  # the launcher alone; what watches over it ends the others
            else:
                kill_all(folder)
            tree.process.wait(10)
        if (folder / LATEST / "plan.json").exists():
            words = ("--resume", LATEST)
    done = run(folder, *words, job=job)
    assert done.code == 0 or "the run has finished" in done.err, done.out + done.err
    return done.out


def kill_all(folder: Path) -> None:
    """Kill all processes that work in a folder, at once."""
    for pid in processes_in(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def check(folder: Path, seed: int, most: int, workflow: str, *job: str, **programs: str) -> None:
    """The result of a run (under an mpiexec) that is killed and resumed is that of one that is not."""
    wanted = want(folder / "whole", workflow, **programs)
    killed = make(folder / "killed", workflow, **programs)
    told = killed_again_and_again(killed, random.Random(seed), most, job)
    assert (killed / "result.txt").read_text() == wanted, f"seed {seed}\n{told}"


seeds = pytest.mark.parametrize("seed", range(SEED, SEED + KILLS))


@seeds
def test_a_simulation_and_a_stateful_analysis(tmp_path: Path, seed: int) -> None:
    """Both write checkpoints of their own, each over the one before."""
    check(tmp_path, seed, 40, WORKFLOW.format(pause=0.03), simulation=SIMULATION, sums=SUMS)


@seeds
def test_fixed_names_and_an_analysis_without_state(tmp_path: Path, seed: int) -> None:
    """A chain of three, of which the middle one reads every second step."""
    simulation, sums = SIMULATION.replace('f"u{step:04d}.h5"', '"u.h5"'), TEXT_SUMS.replace("u*.h5", "v.h5")
    check(tmp_path, seed, 40, FIXED, simulation=simulation, halved=HALVED, sums=sums)


@pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich")
@seeds
def test_a_parallel_simulation_and_a_program_per_step(tmp_path: Path, seed: int) -> None:
    """Two ranks write a file per step and numbered checkpoints; a program is started per step. Alone, or one job."""
    simulation = build("restartable.c", *parallel_c("mpich", static=False), "-lm")
    sums = SUMS.replace("u*.h5", "n*.h5")
    job = ("mpiexec.mpich", "-n", "4") if seed % 2 else ()
    check(tmp_path, seed, 20, CHAIN.format(simulation=simulation), *job, norm=NORM, sums=sums)


FIRST = """
import itertools
import wilkins.transport
names = [step.filename for step in itertools.islice(wilkins.transport.open("u*.h5"), 3)]
with open("first.txt", "a") as file:
    file.write(f"{names}")
"""


def test_a_task_that_had_ended_is_not_started_again(tmp_path: Path) -> None:
    """A reader of the first three steps, whose steps the simulation need not make again."""
    workflow = WORKFLOW.format(pause=0.05) + "  - {func: first.py, inports: [{filename: 'u*.h5'}]}\n"
    make(tmp_path, workflow, simulation=SIMULATION, sums=SUMS, first=FIRST)
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path):
        wait_for(lambda: "\tdone\tfirst" in trace(tmp_path) and "u0010.h5" in trace(tmp_path), 60, "ten steps")
        kill_all(tmp_path)
    done = run(tmp_path, "--resume", LATEST)
    assert done.code == 0, done.out + done.err
    assert re.search(r"^first +nothing: it has ended", done.out, re.MULTILINE), done.out
    assert re.search(r"^simulation +/\S+/state.h5 ", done.out, re.MULTILINE), done.out
    assert (tmp_path / "first.txt").read_text() == str([f"u000{step}.h5" for step in range(3)])
    assert seen(tmp_path) == list(range(30))


def seen(folder: Path) -> list[int]:
    """The steps in the analysis's result."""
    steps: list[int] = json.loads((folder / "result.txt").read_text().partition(" ")[2])
    return steps


def trace(folder: Path) -> str:
    path = folder / LATEST / "trace.tsv"
    return path.read_text() if path.exists() else ""


HOOKED = """
tasks:
  - func: simulation.py
    args: ["30", "0.05"]
    env: {RESTART: none}
    outports: [{filename: "u*.h5"}]
    restart: {files: state.h5, args: ["30", "0"], hook: 'cp {file} copied.h5'}
  - func: sums.py
    inports: [{filename: "u*.h5"}]
    restart: {files: sums.h5}
"""


def test_a_hook_and_other_arguments(tmp_path: Path) -> None:
    make(tmp_path, HOOKED, simulation=SIMULATION, sums=SUMS)
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path):
        wait_for(lambda: "u0012.h5" in trace(tmp_path), 60, "steps")
        kill_all(tmp_path)
    (tmp_path / "copied.h5").mkdir()
    (tmp_path / "copied.h5" / "state.h5").mkdir()
    refused = run(tmp_path, "--resume", LATEST)
    assert refused.code == 1
    assert "the hook of its 'restart', cp " in refused.err
    assert "ended with exit code 1; nothing was started; mend it" in refused.err
    (tmp_path / "copied.h5" / "state.h5").rmdir()
    (tmp_path / "copied.h5").rmdir()
    done = run(tmp_path, "--resume", LATEST)
    assert done.code == 0, done.out + done.err
    assert (tmp_path / "copied.h5").is_file()
    assert seen(tmp_path) == list(range(30))


def test_a_program_that_makes_other_steps(tmp_path: Path) -> None:
    """Its checkpoint is written before the step of the same moment, which it does not write again; that is said."""
    simulation = SIMULATION.replace("u{step:04d}.h5", "u{step + lost:04d}.h5")
    simulation = simulation.replace("step, state = 0", "lost = int('WILKINS_RESTART' in os.environ); step, state = 0")
    make(tmp_path, WORKFLOW.format(pause=0.05), simulation=simulation, sums=SUMS.replace("assert", "0 and"))
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path):
        wait_for(lambda: "\tu0010.h5" in trace(tmp_path), 60, "steps")
        kill_all(tmp_path)
    with (tmp_path / "workflow.yaml").open("a") as file:
        file.write("  # another\n")
    done = run(tmp_path, "--resume", LATEST)
    assert "workflow.yaml has changed since; the run goes on as it was planned" in done.out
    assert re.search(
        r"simulation: step \d+ of 'u\*.h5' was '\S+' in the run before, and is '\S+' now", done.out + done.err
    )


def test_a_checkpoint_that_is_gone(tmp_path: Path) -> None:
    """The one before is taken, and that is said."""
    simulation = SIMULATION.replace('h5py.File("state.h5", "w")', 'h5py.File(f"state{step:04d}.h5", "w")')
    workflow = WORKFLOW.format(pause=0.05).replace("files: state.h5", 'files: "state*.h5"')
    make(tmp_path, workflow, simulation=simulation, sums=SUMS)
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path):
        wait_for(lambda: "\tu0017.h5" in trace(tmp_path), 60, "steps")
        kill_all(tmp_path)
    for file in [tmp_path / "state0016.h5", *tmp_path.glob("wilkins-runs/*/kept/*/state0016.h5")]:
        file.unlink(missing_ok=True)  # also found by way of `latest`
    (tmp_path / "state0016.h5").write_bytes(b"of something else")
    done = run(tmp_path, "--resume", LATEST)
    assert done.code == 0, done.out + done.err
    if "state0016.h5" in done.out:  # its readers were far enough for it
        assert "state0016.h5 is not there any more, or is another file by now; it goes back further" in done.out
    assert seen(tmp_path) == list(range(30))


def test_what_cannot_be_resumed(tmp_path: Path) -> None:
    plain = "tasks:\n  - {func: simulation.py, args: ['3', '0']}\n"
    make(tmp_path, plain, simulation="import os\nassert 'WILKINS_POINTS' not in os.environ\n" + SIMULATION)
    refused = run(tmp_path, "--resume", LATEST)
    assert refused.code == 2
    assert f"--resume {LATEST}: there is no such folder; give a folder in wilkins-runs" in refused.err
    assert run(tmp_path).code == 0
    assert not {"points", "kept", "resume.json"} & {path.name for path in (tmp_path / LATEST).iterdir()}
    assert "the run has finished, and nothing is left to be done" in run(tmp_path, "--resume", LATEST).err
    assert "goes on with a run as it was started; leave out FILE" in run(tmp_path, "x.yaml", "--resume", LATEST).err
    (tmp_path / LATEST / "summary.json").unlink()
    refused = run(tmp_path, "--resume", LATEST)
    assert "no task says what it can be restarted from, so there is nothing to go back to" in refused.err
    make(tmp_path, WORKFLOW.format(pause=2), simulation=SIMULATION, sums=SUMS)
    with started_tree([*WILKINS, "run", "workflow.yaml"], tmp_path):
        wait_for(lambda: "u0001.h5" in trace(tmp_path), 60, "steps")
        (tmp_path / "beside").mkdir()
        latest = (tmp_path / LATEST).resolve()
        refused = run_tree([*WILKINS, "run", "--resume", latest], 60, tmp_path / "beside")
        assert refused.code == 2
        assert "the run goes on still; wait for its end, or stop it" in refused.err


def test_a_run_that_failed_says_how_to_go_on(tmp_path: Path) -> None:
    """A task fails; the command that the end of the run shows goes on with it."""
    fragile = "import os\nif not os.path.exists('mended'): raise SystemExit(3)\n" + SUMS
    make(tmp_path, WORKFLOW.format(pause=0), simulation=SIMULATION, sums=fragile)
    failed = run(tmp_path)
    assert failed.code == 1
    said = [line for line in failed.err.splitlines() if "to go on with this run: wilkins run " in line]
    assert len(said) == 1, failed.err
    (tmp_path / "mended").touch()
    done = run(tmp_path, *said[0].partition("wilkins run ")[2].split())
    assert done.code == 0, done.out + done.err
    assert seen(tmp_path) == list(range(30))
    assert "to go on" not in done.err
