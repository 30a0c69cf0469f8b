"""The packaged workflows: each runs where the user stands and leaves its results there; these must come out."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from support.analysis_results import direct, numbers_in, read_png, rows_of
from support.hooks import faults
from support.running import MPIEXEC, WILKINS, must_run, processes_in, run_tree, started_tree, wait_for
from wilkins.spec import builtin

PACKAGED = Path(builtin.file_of("pipeline")).parent.parent
NAMES = [
    pytest.param(name, marks=pytest.mark.needs("python:torch"))
    if name in ("simulate-train-analyse", "surrogate-switch", "train-online")
    else name
    for name in builtin.names()
]
ONE_JOB = pytest.mark.parametrize("job", [False, True], ids=["alone", "one job"])


def ranks_of(name: str, *settings: str) -> int:
    """Ranks that a workflow needs in one job."""
    from wilkins.plan.planner import plan_file

    return plan_file(builtin.file_of(name), settings).total_ranks


def run(folder: Path, name: str, *settings: str, job: bool = False) -> str:
    """Runs a packaged workflow in a folder; returns what it printed. No step may be left as a file."""
    words = [word for setting in settings for word in ("--set", setting)]
    front = (MPIEXEC, "-n", str(ranks_of(name, *settings))) if job else ()
    before = sorted(path for path in PACKAGED.rglob("*") if "__pycache__" not in path.parts)
    said = must_run(folder, *front, *WILKINS, "run", "--builtin", name, *words, timeout=240)
    assert sorted(path for path in PACKAGED.rglob("*") if "__pycache__" not in path.parts) == before
    [record] = [path for path in (folder / "wilkins-runs").iterdir() if not path.is_symlink()]
    assert record.name.startswith(f"{name}-")
    return said


def columns(path: Path) -> dict[str, list[float]]:
    """A CSV file of numbers."""
    rows = rows_of(path)
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def test_the_list_says_what_each_needs() -> None:
    """As the page of each does."""
    needing = {
        block.split(":")[0] for block in builtin.listed().split("\n\n") if "pip install 'wilkins[torch]'" in block
    }
    pages = {
        path.parent.name for path in PACKAGED.glob("*/README.md") if "pip install 'wilkins[torch]'" in path.read_text()
    }
    assert needing == pages != set()


@pytest.mark.usual("one job")
@ONE_JOB
def test_pipeline(tmp_path: Path, job: bool) -> None:
    """Heat is conserved, and its mean square distance from the middle grows by 4 D t, in two dimensions."""
    run(tmp_path, "pipeline", "steps=15", "diffusion=0.5", job=job)
    found = columns(tmp_path / "follow.csv")
    assert found["time"] == list(range(15))
    assert found["heat"] == pytest.approx([100.0] * 15)
    growth = [b - a for a, b in itertools.pairwise(found["spread"])]
    assert growth[6:] == pytest.approx([4 * 0.5] * 8, rel=1e-3)
    assert not list(tmp_path.glob("*.h5"))


def test_a_plate_without_whole_blocks_is_refused(tmp_path: Path) -> None:
    words = [word for setting in ("steps=2", "size=17") for word in ("--set", setting)]
    done = run_tree([*WILKINS, "run", "--builtin", "pipeline", *words], 120, tmp_path)
    assert done.code == 1
    assert "coarsen.py: a plate of (17, 17) has no whole blocks of 2; make 'size' a multiple of" in done.out + done.err


@pytest.mark.nightly
def test_pipeline_through_files(tmp_path: Path) -> None:
    """The programs do by themselves, one after the other, what they do in memory at once."""
    memory, files = tmp_path / "memory", tmp_path / "files"
    memory.mkdir()
    files.mkdir()
    run(memory, "pipeline", "steps=6")
    home = PACKAGED / "pipeline"
    for words in (("heat.py", "96", "6", "1.0"), ("coarsen.py", "2"), ("follow.py",)):
        must_run(files, sys.executable, home / words[0], *words[1:])
    assert (memory / "follow.csv").read_bytes() == (files / "follow.csv").read_bytes()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "table"), [("pipeline", "follow.csv"), ("ensemble", "diffusion.csv"), ("steering", "rod.csv")]
)
def test_real_files_give_the_same(tmp_path: Path, name: str, table: str) -> None:
    """`--files` keeps every step on disk as well, and changes no number."""
    memory, files = tmp_path / "memory", tmp_path / "files"
    memory.mkdir()
    files.mkdir()
    run(memory, name, "steps=6")
    must_run(files, *WILKINS, "run", "--builtin", name, "--files", "--set", "steps=6", timeout=120)
    assert (memory / table).read_bytes() == (files / table).read_bytes()
    assert list(files.glob("*.h5"))


@pytest.mark.usual("alone")
@ONE_JOB
def test_fanout(tmp_path: Path, job: bool) -> None:
    """Every step for one analysis, every third for another, the last for the one that takes the newest."""
    memory, files = tmp_path / "memory", tmp_path / "files"
    memory.mkdir()
    files.mkdir()
    run(memory, "fanout", "size=48", "steps=14", "every=3", "ranks=2", job=job)
    must_run(files, sys.executable, PACKAGED / "fanout" / "gray_scott.py", "48", "14", "0.037", "0.06")
    fields = []
    for path in sorted(files.glob("gs-*.h5")):
        with h5py.File(path) as file:
            fields.append(file["v"][:])
    totals = numbers_in(memory / "statistics" / "v-moments.json")
    expected = direct(np.stack(fields))
    assert totals["count"] == 14 * 48 * 48
    for name in ("mean", "variance", "skewness", "kurtosis"):
        assert totals[name] == pytest.approx(expected[name], rel=1e-9)
    spectrum = columns(memory / "spectrum.csv")
    assert spectrum["time"] == [0, 150, 300, 450, 600]
    must_run(files, sys.executable, PACKAGED / "fanout" / "spectrum.py")
    assert columns(files / "spectrum.csv")["wavelength"][::3] == spectrum["wavelength"]
    pictures = sorted(path.name for path in (memory / "pictures").iterdir())
    assert pictures[-1] == "gs-0013.png"
    assert read_png((memory / "pictures" / "gs-0013.png").read_bytes()).shape == (48, 48, 3)


@pytest.mark.usual("one job")
@ONE_JOB
def test_ensemble(tmp_path: Path, job: bool) -> None:
    """Each member diffuses as the length of its step says: D = length² / 2."""
    run(tmp_path, "ensemble", "members=3", "steps=15", job=job)
    found = columns(tmp_path / "diffusion.csv")
    assert found["length"] == [1, 1.5, 2]
    assert found["expected"] == [0.5, 1.125, 2]
    assert found["diffusion"] == pytest.approx(found["expected"], rel=0.06)


@pytest.mark.usual("one job")
@ONE_JOB
def test_steering(tmp_path: Path, job: bool) -> None:
    """The rod reaches the temperature that is wanted, with the power that the loss of heat then asks for."""
    said = run(tmp_path, "steering", "target=37", "cooling=0.8", job=job)
    found = columns(tmp_path / "rod.csv")
    assert found["power"][0] == 0
    assert found["power"][1] == pytest.approx(0.15 * 37)
    assert found["temperature"][-1] == pytest.approx(37, abs=1e-3)
    assert found["power"][-1] == pytest.approx(0.8 * 37, abs=1e-2)
    assert said.count("nobody has set the power yet") == 1
    # Every power is that of the temperature before: the two programs take turns.
    steps = zip(found["power"], found["power"][1:], found["temperature"], strict=False)
    assert all(b == pytest.approx(a + 0.15 * (37 - t), abs=1e-6) for a, b, t in steps)


@pytest.mark.nightly
@ONE_JOB
def test_analyse(tmp_path: Path, job: bool) -> None:
    """What comes along: statistics, a picture and a real file of every step."""
    memory, files = tmp_path / "memory", tmp_path / "files"
    memory.mkdir()
    files.mkdir()
    run(memory, "analyse", "every=4", "workers=2", job=job)
    must_run(files, sys.executable, PACKAGED / "analyse" / "drum.py")
    kept = [f"drum-{step:03}" for step in range(0, 30, 4)]
    assert sorted(path.stem for path in (memory / "results" / "archive").iterdir()) == kept
    heights = []
    for name in kept:
        data = (files / f"{name}.h5").read_bytes()
        assert (memory / "results" / "archive" / f"{name}.h5").read_bytes() == data
        with h5py.File(files / f"{name}.h5") as file:
            heights.append(file["height"][:])
    totals, expected = numbers_in(memory / "results" / "height-moments.json"), direct(np.stack(heights))
    assert totals == pytest.approx({name: float(value) for name, value in expected.items()}, rel=1e-9)
    assert len(list((memory / "results").glob("height-*.png"))) == len(kept)


@pytest.mark.nightly
@ONE_JOB
@pytest.mark.needs("python:torch")
@pytest.mark.timeout(300)
def test_train_online(tmp_path: Path, job: bool) -> None:
    """The trainer learns a function strip by strip; with all eight seen, what is told to be good is near the function.

    Which version a step is predicted with is a matter of who is faster: the service may start before the first or late.
    """
    run(tmp_path, "train-online", "steps=16", "threshold=0.2", job=job)
    errors = [float(row["error"]) for row in rows_of(tmp_path / "training.csv")]
    assert errors[0] > 0.5
    assert max(errors[-4:]) < 0.1
    found = columns(tmp_path / "online.csv")
    assert found["step"] == list(range(16))
    assert found["version"] == sorted(found["version"])
    served = list(zip(*found.values(), strict=True))
    assert [good for _, _, good, _, _ in served] == [float(told <= 0.2) for _, _, _, told, _ in served]
    # The error that travels with a version is that of the step it was published after.
    assert all(told == errors[int(version)] for _, version, _, told, _ in served if version >= 0)
    assert sum(found["good"]) >= 2  # the simulation is never more than a few steps ahead of the trainer
    assert all(math.isnan(error) == (version < 0) for _, version, _, _, error in served)
    assert all(error < 0.4 for _, version, good, _, error in served if good and version >= 7)
    assert not list(tmp_path.glob("*.h5"))


@pytest.mark.nightly
@ONE_JOB
def test_checkpoint_stream(tmp_path: Path, job: bool) -> None:
    """Killed and run again it goes on, and ends as if nothing had been; the comets are where Kepler wants them."""
    memory, files = tmp_path / "memory", tmp_path / "files"
    memory.mkdir()
    files.mkdir()
    must_run(files, sys.executable, PACKAGED / "checkpoint-stream" / "comets.py", "10", "20", "none.h5")
    words = [*WILKINS, "run", "--builtin", "checkpoint-stream"]
    words += [word for one in ("orbits=10", "snapshots=20", "every=7") for word in ("--set", one)]
    command = [MPIEXEC, "-n", "2", *words] if job else words
    stored = memory / "checkpoints" / "latest" / "checkpoint.h5"
    with started_tree(command, memory) as tree:
        wait_for(stored.exists, 60, "the first checkpoint")
        [simulation] = [pid for pid in processes_in(memory) if b"comets.py\0" in words_of(pid)]
        os.kill(simulation, signal.SIGKILL)
        assert tree.wait(60).code != 0
    with h5py.File(stored) as file:
        reached = int(file.attrs["step"])
    assert 0 < reached < 10 * 2000
    said = must_run(memory, *command, timeout=120)
    assert f"goes on after step {reached}" in said
    assert (memory / "comets.csv").read_bytes() == (files / "comets.csv").read_bytes()
    assert stored.read_bytes() == (files / "comets.h5").read_bytes()
    assert not list(memory.glob("*.h5"))
    found = columns(memory / "comets.csv")
    assert found["energy"] == pytest.approx([-0.5] * 40, abs=1e-6)
    assert found["off"][0] == pytest.approx(10 * 2 * math.pi * (2 * math.pi / 2000) ** 2 / 3, rel=0.01)


def words_of(pid: int) -> bytes:
    """A process's command."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def bratu(heating: float, wall: float, points: int) -> Any:
    """The known temperatures of a layer that heats itself: see `solve.py`."""
    slope = 0.0
    for _ in range(1000):  # the fixed point is attractive: this is the colder of the two states there are
        slope = math.sqrt(2 * heating * math.exp(wall)) * math.cosh(slope / 4)
    z = np.linspace(0, 1, points) - 0.5
    return wall + 2 * np.log(np.cosh(slope / 4) / np.cosh(z * slope / 2))


@pytest.mark.nightly
@ONE_JOB
@pytest.mark.needs("python:torch")
@pytest.mark.timeout(300)
def test_surrogate_switch(tmp_path: Path, job: bool) -> None:
    """The network takes over, is found out when the questions change, and takes over again; answers are right."""
    said = run(tmp_path, "surrogate-switch", job=job)
    table = columns(tmp_path / "switch.csv")
    assert table["step"] == list(range(60))
    with h5py.File(tmp_path / "answers.h5") as file:
        x, y, solved = file["x"][:], file["y"][:], file["solved"][:]
    assert sum(table["solved"]) == solved.sum()
    assert f"960 questions, {solved.sum()} solved: {1 - solved.mean():.0%} of the solves saved" in said
    assert 0.3 < 1 - solved.mean() < 0.8
    first, second = table["solved"][:30], table["solved"][30:]
    assert first[0] == second[0] == 16  # nothing is known, or nothing of this
    assert first.count(2) >= 5 <= second.count(2)
    known = np.array([bratu(0.5 + 2 * a, -0.2 + 0.4 * b, y.shape[1]) for a, b in x])
    off = np.linalg.norm(y - known, axis=1)
    assert off[solved].max() < 0.01
    told = float(said.partition("it was wrong by ")[2].partition("%")[0]) / 100
    found = np.linalg.norm(off[~solved]) / np.linalg.norm(known[~solved])
    assert 0.5 * told < found < 1.6 * told  # two questions of a step are a small sample
    assert found < 0.06
    assert not list(tmp_path.glob("[!a]*.h5"))


@pytest.mark.nightly
@pytest.mark.needs("python:torch", "hooks")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_switch_never_stands_still(tmp_path: Path, seed: int) -> None:
    """Four tasks in a cycle, all held up at random: every question is answered, and all end."""
    words = [word for one in ("steps=12", "questions=3", "threshold=1", "passes=2") for word in ("--set", one)]
    command = [*WILKINS, "run", "--builtin", "surrogate-switch", "--timeout", "100", *words]
    ran = run_tree(command, 120, tmp_path, faults(f"seed={seed},delay=2ms,chance=0.3"))
    assert ran.code == 0, ran.err
    with h5py.File(tmp_path / "answers.h5") as file:
        assert len(file["y"]) == 36


@pytest.mark.nightly
@pytest.mark.needs("python:torch")
def test_a_function_of_the_user_is_learned(tmp_path: Path) -> None:
    """With another `solve.py` in a copy, and every step verified as a whole, nothing is left to the network."""
    must_run(tmp_path, *WILKINS, "init", "--from", "surrogate-switch", "mine")
    (tmp_path / "mine" / "solve.py").write_text("def solve(question):\n    return [question.sum()] * 11\n")
    settings = [word for one in ("steps=8", "questions=3", "verify=3") for word in ("--set", one)]
    said = must_run(tmp_path, *WILKINS, "run", "mine/workflow.yaml", *settings, timeout=120)
    assert "24 questions, 24 solved: 0% of the solves saved" in said
    with h5py.File(tmp_path / "mine" / "answers.h5") as file:
        assert np.allclose(file["y"][:], file["x"][:].sum(axis=1, keepdims=True))


def test_analyse_a_program_of_the_user(tmp_path: Path) -> None:
    """A program where the user stands, with arguments of its own and another dataset."""
    (tmp_path / "mine.py").write_text(
        "import sys, h5py, numpy\n"
        "for step in range(int(sys.argv[1])):\n"
        "    with h5py.File(f'm{step}.h5', 'w') as file:\n        file['a/b'] = numpy.full((3, 3), step)\n"
    )
    run(tmp_path, "analyse", "program=./mine.py", "arguments=3", "files=m*.h5", "dataset=/a/b", "folder=here")
    assert numbers_in(tmp_path / "here" / "a-b-moments.json")["mean"] == 1


@pytest.mark.usual("simulate-train-analyse", "steering", "surrogate-switch")
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_runs(name: str, tmp_path: Path) -> None:
    """`wilkins init --from` makes a folder that is checked without a note and runs by itself."""
    must_run(tmp_path, *WILKINS, "init", "--from", name)
    checked = run_tree([*WILKINS, "check", f"{name}/workflow.yaml"], 60, tmp_path)
    assert checked.code == 0
    assert not [line for line in checked.err.splitlines() if ": note: the tasks " not in line], checked.err
    again = run_tree([*WILKINS, "init", "--from", name], 60, tmp_path)
    assert again.code == 2
    assert f"wilkins init --from {name} FOLDER" in again.err
    copied = {path.name for path in (tmp_path / name).iterdir()}
    assert copied >= {"workflow.yaml", "README.md", "graph.svg"}


@pytest.mark.parametrize("name", builtin.names())
def test_a_readme_shows_graph_and_parameters(name: str) -> None:
    """The picture is of this graph (`wilkins graph --builtin NAME -o graph.svg`), and every parameter is explained."""
    from wilkins.spec.load import load

    folder = PACKAGED / name
    readme, picture = (folder / "README.md").read_text(), (folder / "graph.svg").read_text()
    workflow = load(folder / "workflow.yaml").workflow
    assert "(graph.svg)" in readme
    for task in workflow.tasks:
        assert str(task.name) in picture
    assert bool(workflow.parameters) == (name != "quickstart")
    for parameter, declared in (workflow.parameters or {}).items():
        assert f"`{parameter}`" in readme
        assert str(declared.default) in readme
    assert workflow.doc


@pytest.mark.nightly
def test_a_copy_in_another_folder_gives_the_same(tmp_path: Path) -> None:
    must_run(tmp_path, *WILKINS, "init", "--from", "ensemble", "mine")
    must_run(tmp_path, *WILKINS, "run", "mine/workflow.yaml", "--set", "steps=4", "--set", "members=2", timeout=120)
    (tmp_path / "here").mkdir()
    run(tmp_path / "here", "ensemble", "steps=4", "members=2")
    assert (tmp_path / "mine" / "diffusion.csv").read_bytes() == (tmp_path / "here" / "diffusion.csv").read_bytes()


def test_a_read_only_package(tmp_path: Path) -> None:
    """Nothing is written beside the packaged files, and a copy of them can be changed."""
    builtin.copy("pipeline", tmp_path / "copy")
    shutil.copymode(PACKAGED / "pipeline" / "workflow.yaml", tmp_path / "copy" / "README.md")
    (tmp_path / "copy" / "workflow.yaml").write_text("changed")


def test_list_shows_parameters(tmp_path: Path) -> None:
    shown = must_run(tmp_path, *WILKINS, "list")
    assert [line.split(":")[0] for line in shown.splitlines() if line and not line.startswith(" ")] == builtin.names()
    assert "    members=4" in shown
    assert "a whole number from 1 to 256" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--builtin", "pipelin"), "there is no packaged workflow 'pipelin'; did you mean 'pipeline'?"),
        (("run", "--builtin", "pipeline", "x.yaml"), "give the file x.yaml or --builtin pipeline, not both"),
        (("check",), "give its FILE, or --builtin NAME (see: wilkins list)"),
        (("init", "--from", "nothing"), "there is no packaged workflow 'nothing'"),
        (("check", "--builtin", "steering", "--set", "gain=2"), "'gain' must be a number from 0.01 to 0.5, not 2"),
    ],
)
def test_wrong_use(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = run_tree([*WILKINS, *words], 60, tmp_path)
    assert done.code == 2
    assert said in done.err


def test_a_program_of_ones_own_that_is_missing_is_looked_for_where_one_stands(tmp_path: Path) -> None:
    """Not in the package, where nobody would build it."""
    (tmp_path / "drums.py").touch()
    done = run_tree([*WILKINS, "check", "--builtin", "analyse", "--set", "program=drms.py"], 60, tmp_path)
    assert done.code == 2
    assert f"there is no program 'drms.py' in {str(tmp_path)!r}; did you mean 'drums.py'?" in done.err


def test_a_folder_of_results_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    done = run_tree([*WILKINS, "run", "--builtin", "analyse", "--set", "folder=taken/results"], 60, tmp_path)
    assert done.code == 1
    assert "taken/results: cannot be read or written: Not a directory; mend the path" in done.out + done.err


def test_other_commands_know_packaged_workflows(tmp_path: Path) -> None:
    assert "wilkins run --builtin ensemble" in must_run(tmp_path, *WILKINS, "plan", "--builtin", "ensemble")
    assert "flowchart" in must_run(tmp_path, *WILKINS, "graph", "--builtin", "steering", "--format", "mermaid")
    must_run(tmp_path, *WILKINS, "check", "--builtin", "fanout")


@pytest.mark.needs(MPIEXEC)
def test_a_wrong_number_of_ranks_tells_the_command(tmp_path: Path) -> None:
    done = run_tree([MPIEXEC, "-n", "2", *WILKINS, "run", "--builtin", "pipeline"], 60, tmp_path)
    assert done.code == 3
    assert "-n 3 wilkins run --builtin pipeline" in done.err
