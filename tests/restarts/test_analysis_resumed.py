"""An analysis that was killed and is resumed goes on with its sums, tables and files, as if nothing had happened."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from support.running import MPIEXEC, WILKINS, Finished, processes_in, run_tree, started_tree, wait_for
from wilkins.transport import points

SOURCE = """
import os, time
import h5py, numpy as np
first = 0
if "WILKINS_RESTART" in os.environ:
    with h5py.File(os.environ["WILKINS_RESTART"]) as file:
        first = int(file.attrs["step"]) + 1
for step in range(first, 40):
    with h5py.File(f"u{step}.h5", "w") as file:
        file["u"] = np.random.default_rng(step).normal(size=(9, 7)) * (step + 1)
        file["waves"] = np.sin(np.linspace(step, step + 9, 2000))
        file.attrs["step"] = step
    time.sleep(0.1)
"""
COARSE = """
import pathlib
import wilkins.transport
pathlib.Path("coarse").mkdir(exist_ok=True)
for step in wilkins.transport.open("coarse-*.h5"):
    with step:
        place = pathlib.Path("coarse", pathlib.Path(step.filename).stem)
        place.write_text(f"{step.attrs['step']} {step['u'].tolist()}")
"""
WORKFLOW = """
tasks:
  - func: source.py
    outports: [{filename: "u*.h5", mode: both}]
    restart: {files: "u*.h5"}
  - name: analysis
    func: wilkins.tasks.analysis
    nprocs: 2
    inports: [{filename: "u*.h5", io_freq: 2}]
    outports: [{filename: "coarse-*.h5"}]
    analysis:
      folder: results
      moments: [{dset: /u}]
      histogram: [{dset: /u, bins: 7}]
      kmeans: [{dsets: [/u], k: 3, half_life: 5}]
      slice: [{dset: /u}]
      subsample: [{dsets: [/u], stride: [2], filename: "coarse-{step}.h5"}]
      archive:
        - {filename: "all/{step}.h5"}
        - {filename: "small/{step}.h5", compress: [{dset: /waves, absolute: 1e-3}]}
  - func: coarse.py
    inports: [{filename: "coarse-*.h5"}]
    restart: each-step
"""
RESUME = ("--resume", "wilkins-runs/latest")

pytestmark = pytest.mark.needs(MPIEXEC, "python:hdf5plugin")


def prepared(folder: Path) -> Path:
    folder.mkdir()
    (folder / "source.py").write_text(SOURCE)
    (folder / "coarse.py").write_text(COARSE)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    return folder


def run(folder: Path, *words: str) -> Finished:
    return run_tree([*WILKINS, "run", *words], 120, folder)


def killed(folder: Path, *words: str) -> None:
    """Run until the analysis has told of two more saves; then all of it is killed."""
    told = folder / "wilkins-runs" / "latest" / "points" / "analysis.jsonl"
    records = folder / "wilkins-runs"
    before = len(list(records.iterdir())) if records.exists() else 0
    with started_tree([*WILKINS, "run", *words], folder):
        wait_for(lambda: records.exists() and len(list(records.iterdir())) > before, 60, "the run's records")
        wait_for(lambda: len(points.read(told)) >= 2, 60, "two saves")
        for pid in processes_in(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def left(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for name in ("results", "coarse")
        for path in (folder / name).rglob("*")
        if path.is_file()
    }


@pytest.mark.nightly
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path) -> None:
    """On two ranks, of every other step, with a reader of what it writes."""
    whole, folder = prepared(tmp_path / "whole"), prepared(tmp_path / "killed")
    done = run(whole, "workflow.yaml")
    assert done.code == 0, done.out + done.err
    expected = left(whole)
    assert len(expected) == 7 + 4 * 20
    killed(folder, "workflow.yaml")
    killed(folder, *RESUME)
    done = run(folder, *RESUME)
    assert done.code == 0, done.out + done.err
    assert "analysed 20 steps" in done.out
    found = left(folder)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


def test_a_table_that_was_cut_is_told(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "killed")
    killed(folder, "workflow.yaml")
    (folder / "results" / "u-moments.csv").write_text("step\n")
    done = run(folder, *RESUME)
    assert done.code == 1
    assert "u-moments.csv has 5 bytes, and the run that is to go on had written" in done.out + done.err
