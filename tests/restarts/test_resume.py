"""Runs that are killed, with all their programs, and resumed: what comes out is what an undisturbed run gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from programs.build import build, parallel_c

from support.resuming import (
    CHAIN,
    HOSTS,
    LATEST,
    NORM,
    SIMULATION,
    SUMS,
    check,
    here_and_on,
    kill_all,
    make,
    on,
    run,
    seeds,
    seen,
    trace,
)
from support.running import WILKINS, Finished, run_tree, started_tree, wait_for

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


@pytest.mark.usual("1-hosts")
@pytest.mark.timeout(400)
@here_and_on("a:1,b:1", "b:1,c:1", "b:1,a:1", "c:2")
@seeds
def test_a_simulation_and_a_stateful_analysis(tmp_path: Path, seed: int, places: list[tuple[str, ...]]) -> None:
    """Both write checkpoints of their own, each over the one before. On two hosts, on others, the other way round."""
    victims = ("everything", "the launcher", "simulation.py")
    workflow = WORKFLOW.format(pause=0.03)
    check(tmp_path, seed, 40, workflow, victims=victims, places=places, simulation=SIMULATION, sums=SUMS)


SWAPPED = """
import os
import h5py, numpy as np
total, seen = 0.0, []
if "WILKINS_RESTART" in os.environ:
    with h5py.File(os.environ["WILKINS_RESTART"]) as file:
        total, seen = float(file.attrs["total"]), file["seen"][:].tolist()
    print("restarted after", len(seen))
for place in range(len(seen), 30):
    step = place ^ 1
    with h5py.File(f"u{step:04d}.h5") as file:
        total = total * 0.9 + float(file["u"][:].sum())
        seen.append(int(file.attrs["step"]))
    with h5py.File("sums.h5", "w") as file:
        file.attrs["total"] = total
        file["seen"] = np.array(seen)
with open("result.txt", "w") as file:
    file.write(f"{total!r} {seen}")
"""


@pytest.mark.nightly
@seeds
def test_an_analysis_that_takes_steps_in_another_order(tmp_path: Path, seed: int) -> None:
    """Every second checkpoint of its own lies between two steps of which it has had the later one."""
    check(tmp_path, seed, 30, WORKFLOW.format(pause=0.03), simulation=SIMULATION, sums=SWAPPED)
    assert seen(tmp_path / "killed") == [step ^ 1 for step in range(30)]


@pytest.mark.nightly
@seeds
def test_fixed_names_and_an_analysis_without_state(tmp_path: Path, seed: int) -> None:
    """A chain of three, of which the middle one reads every second step."""
    simulation, sums = SIMULATION.replace('f"u{step:04d}.h5"', '"u.h5"'), TEXT_SUMS.replace("u*.h5", "v.h5")
    check(tmp_path, seed, 40, FIXED, simulation=simulation, halved=HALVED, sums=sums)


MPIEXECS = {"mpich": "mpiexec.mpich", "openmpi": "mpirun.openmpi --oversubscribe"}


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("how", ["alone", "one-job", "hosts"])
@pytest.mark.parametrize(
    "family",
    [
        pytest.param("mpich", marks=pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich")),
        pytest.param("openmpi", marks=pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi")),
    ],
)
@seeds
def test_a_parallel_simulation_and_a_program_per_step(tmp_path: Path, seed: int, family: str, how: str) -> None:
    """Two ranks write a file per step and numbered checkpoints with parallel HDF5; a program is started per step."""
    simulation = build("restartable.c", *parallel_c(family, static=bool(seed % 2)), "-lm")
    mpiexec = MPIEXECS[family]
    job = (*mpiexec.split(), "-n", "4") if how == "one-job" else ()
    places = on("a:1,b:3", "b:1,a:1,c:2", "a:2,b:2", "a:4") if how == "hosts" else on("")
    victims = ("everything", "the launcher", "restartable", "far_files" if how == "hosts" else "mpi", "sums.py")
    workflow, sums = CHAIN.format(simulation=simulation, mpiexec=mpiexec), SUMS.replace("u*.h5", "n*.h5")
    check(tmp_path, seed, 20, workflow, *job, victims=victims, places=places, norm=NORM, sums=sums)


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


@pytest.mark.nightly
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


@pytest.mark.nightly
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
    done = run(tmp_path, "--resume", "latest")
    assert done.code == 0, done.out + done.err
    if "state0016.h5" in done.out:  # its readers were far enough for it
        assert "state0016.h5 is not there any more, or is another file by now; it goes back further" in done.out
    assert seen(tmp_path) == list(range(30))


def killed_and_resumed(folder: Path, workflow: str, sums: str, step: int) -> Finished:
    """The second run of a simulation and its reader; in the first, everything was killed at that step."""
    make(folder, workflow, simulation=SIMULATION, sums=sums)
    with started_tree([*WILKINS, "run", "workflow.yaml"], folder):
        wait_for(lambda: f"\tu{step:04d}.h5" in trace(folder), 60, "steps")
        kill_all(folder)
    done = run(folder, "--resume", "latest")
    assert done.code == 0, done.out + done.err
    return done


@pytest.mark.nightly
def test_a_reader_that_lags_behind_all_checkpoints(tmp_path: Path) -> None:
    """The simulation begins anew, and that is said, for it costs time; results are the same."""
    workflow = WORKFLOW.format(pause=0.05).replace("files: state.h5", "files: state.h5, keep: 1")
    sums = SUMS.replace("if len(seen) % 3 == 0", "if len(seen) == 3")
    done = killed_and_resumed(tmp_path, workflow, sums, 17)
    assert re.search(
        r"simulation begins anew: sums has read 3 of u\*\.h5, and the oldest that could be gone on from, \S+, comes "
        r"after \d+; `keep:` says how many are kept",
        done.out,
    ), done.out
    assert seen(tmp_path) == list(range(30))


@pytest.mark.nightly
def test_a_reader_that_begins_anew(tmp_path: Path) -> None:
    """All that it reads is made again, and that is said."""
    workflow = WORKFLOW.format(pause=0.05).replace("    restart: {files: sums.h5}\n", "")
    done = killed_and_resumed(tmp_path, workflow, SUMS, 9)
    assert "simulation begins anew: sums needs all of u*.h5 again" in done.out
    assert seen(tmp_path) == list(range(30))


@pytest.mark.nightly
def test_what_cannot_be_resumed(tmp_path: Path) -> None:
    plain = "tasks:\n  - {func: simulation.py, args: ['3', '0']}\n"
    make(tmp_path, plain, simulation="import os\nassert 'WILKINS_POINTS' not in os.environ\n" + SIMULATION)
    refused = run(tmp_path, "--resume", LATEST)
    assert refused.code == 2
    assert f"--resume {LATEST}: there is no such folder; give the folder of a run, or its name in" in refused.err
    assert "--resume latest: there is no such folder" in run(tmp_path, "--resume", "latest").err
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


ASKS = """
tasks:
  - func: simulation.py
    args: ["200", "0.1"]
    outports: [{filename: "u*.h5"}]
    restart: {files: state.h5}
  - func: asks.py
    inports: [{filename: "u*.h5", flow: {queue: 100, when_full: drop-oldest}}]
    restart: each-step
"""
ASKS_ANEW = """
import h5py
for step in range(200):
    with h5py.File(f"u{step:04d}.h5") as file:
        pass
"""


@pytest.mark.nightly
@here_and_on("a:1,b:1")
def test_a_reader_that_asks_for_a_step_it_has_had(tmp_path: Path, places: list[tuple[str, ...]]) -> None:
    """It reads numbered files from 0 on, also when it is to go on: that is said while it waits, not only at the end."""
    make(tmp_path, ASKS, simulation=SIMULATION, asks=ASKS_ANEW)
    with started_tree([*WILKINS, "run", *places[0], "workflow.yaml"], tmp_path, HOSTS):
        wait_for(lambda: "\topen\tasks\t0\tu*.h5\tu0009.h5" in trace(tmp_path), 60, "steps")
        kill_all(tmp_path)
    with started_tree([*WILKINS, "run", "--resume", "latest"], tmp_path, HOSTS) as tree:
        wait_for(lambda: "asks: waits for 'u0000.h5', but is to go on with step " in tree.told(), 60, tree.told())
        assert "lead it on by 'args' of its 'restart'" in tree.told()


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
