"""The list of runs, and the removal of old ones."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from support.running import WILKINS, must_run, run_tree, started_tree, wait_for, write_program

WORKFLOW = """\
tasks:
  - func: ./write.py
    outports: [{{filename: a.h5}}]
  - func: ./{reads}
    inports: [{{filename: a.h5}}]
"""
RUNS = Path("wilkins-runs")


def prepare(folder: Path, name: str, reads: str) -> None:
    (folder / f"{name}.yaml").write_text(WORKFLOW.format(reads=reads), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of workflows that end well, fail, and last until `goes.on` is there."""
    write_program(tmp_path / "write.py", "import h5py\nh5py.File('a.h5', 'w').close()\n")
    write_program(tmp_path / "read.py", "import h5py\nh5py.File('a.h5')\n")
    write_program(tmp_path / "fail.py", "import h5py\nh5py.File('a.h5')\nraise SystemExit(3)\n")
    text = "import h5py, pathlib, time\nh5py.File('a.h5')\nwhile not pathlib.Path('go.on').exists(): time.sleep(0.02)\n"
    write_program(tmp_path / "last.py", text)
    for name, reads in (("good", "read.py"), ("bad", "fail.py"), ("long", "last.py")):
        prepare(tmp_path, name, reads)
    return tmp_path


def runs(folder: Path, *words: str) -> str:
    """What the command prints, beside a run that goes on."""
    return subprocess.run([*WILKINS, "runs", *words], cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def rows(folder: Path) -> dict[str, str]:
    """How each run ended, by the name of its workflow, in the order of the list."""
    lines = runs(folder).splitlines()[2:]
    return {line.split("-")[0]: line.split("iB  ")[1] for line in lines}


def make_older(folder: Path, name: str, days: float) -> None:
    """As if the run had begun so many days ago."""
    then = time.time() - days * 86400
    (run,) = (folder / RUNS).glob(f"{name}-*")
    os.utime(run / "plan.json", (then, then))


def test_runs_are_listed_and_old_ones_removed(folder: Path) -> None:
    must_run(folder, *WILKINS, "run", "--quiet", "good.yaml")
    assert run_tree([*WILKINS, "run", "--quiet", "bad.yaml"], 60, folder).code == 1
    with started_tree([*WILKINS, "run", "--quiet", "long.yaml"], folder) as tree:
        wait_for(lambda: list((folder / RUNS).glob("long-*/last.log")), 30, "the run of long.yaml")
        found = rows(folder)
        assert list(found) == ["good", "bad", "long"]
        assert found["good"] == "done" and found["long"] == "goes on"
        assert found["bad"].startswith("exit code 1") and "fail" in found["bad"]
        for name, days in (("good", 8), ("bad", 6), ("long", 9)):
            make_older(folder, name, days)
        said = runs(folder, "--prune", "--older", "7d")
        assert "removed wilkins-runs/good-" in said and "1 run removed" in said
        assert list(rows(folder)) == ["long", "bad"]
        tree.kill()
    assert rows(folder)["long"].startswith("killed")
    runs(folder, "--prune", "--older", "1s")
    assert not any((folder / RUNS).iterdir()), "nor does `latest` lead to nothing"
    must_run(folder, *WILKINS, "clean")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prune"], "--prune and --older TIME go together"),
        (["--older", "7d"], "--prune and --older TIME go together"),
        (["--prune", "--older", "week"], "--older must be a time"),
        ([], "there is no such folder"),
    ],
)
def test_usage(tmp_path: Path, words: list[str], said: str) -> None:
    done = run_tree([*WILKINS, "runs", *words], 60, tmp_path)
    assert done.code == 2
    assert said in done.err and "Traceback" not in done.err
