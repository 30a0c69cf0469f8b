"""`train: {on_failure: continue}`: ranks of a task are killed, and the workflow goes on to its end."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import signal
import textwrap
from pathlib import Path

import pytest

from support.running import WILKINS, processes_in, run_tree, started_tree, wait_for
from wilkins.errors import WorkflowError
from wilkins.plan.planner import plan_file

pytestmark = pytest.mark.needs("python:torch")

SOURCE = """
    import h5py, numpy, pathlib, time
    chance = numpy.random.default_rng(0)
    centres = numpy.random.default_rng(7).normal(size=(4, 8))
    for step in range(6):
        y = chance.integers(4, size=200)
        with h5py.File(f"s{step}.h5", "w") as file:
            file["x"] = (centres[y] + chance.normal(size=(200, 8))).astype("f4")
            file["y"] = y
        while step == 2 and not pathlib.Path("killed").exists():
            time.sleep(0.05)
"""
NETWORK = """
    import torch

    def net():
        layers = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
        return torch.nn.Sequential(*layers)
"""
FILE = """
    tasks:
      - func: source.py
        outports: [{{filename: "s*.h5"}}]
      - func: wilkins.tasks.continual
        nprocs: 2
        inports: [{{filename: "s*.h5"}}]
        outports: [{{filename: "model-*.h5", mode: both}}]
        train: {{model: "net.py:net", inputs: x, label: y, batch: 16, optimizer: {{name: adam, lr: 0.01}}, {more}}}
"""


def write(folder: Path, more: str) -> None:
    """A workflow of a source and a trainer with two ranks."""
    for name, text in (("source.py", SOURCE), ("net.py", NETWORK), ("workflow.yaml", FILE.format(more=more))):
        (folder / name).write_text(textwrap.dedent(text))


def ranks_of(folder: Path) -> dict[int, int]:
    """The processes of the trainer's ranks, by rank."""
    found = {}
    for pid in processes_in(folder):
        with contextlib.suppress(OSError):
            said = re.search(rb"WILKINS_ELASTIC_RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())
            if said and b"tasks/__main__.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found[int(said[1])] = pid
    return found


@pytest.mark.nightly
def test_a_workflow_goes_on_when_the_rank_that_writes_dies(tmp_path: Path) -> None:
    write(tmp_path, "on_failure: continue, strategy: rehearsal, buffer: {samples: 60}, results: {folder: results}")
    with started_tree([*WILKINS, "run"], tmp_path) as run:
        wait_for(lambda: "step 1 (s1.h5)" in run.told(), 80, "two steps")
        os.kill(ranks_of(tmp_path)[0], signal.SIGKILL)
        (tmp_path / "killed").touch()
        done = run.wait(60)
    text = done.out + done.err
    assert done.code == 0, text
    assert "trained on 6 steps" in text
    assert re.search(
        r"rank 0 was killed by signal 9; 1 go on without it; lost with it: [1-9]\d* of the samples in rehearsal", text
    )
    with (tmp_path / "results/training.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == [str(step) for step in range(6)]
    assert all(row["samples"] == "200" for row in rows)  # each sample once, those of the dead rank too
    assert float(rows[-1]["error"]) < float(rows[0]["error"])
    assert (tmp_path / "model-00005.h5").exists()


@pytest.mark.nightly
def test_a_run_of_which_all_ranks_have_died_goes_on_from_its_save(tmp_path: Path) -> None:
    write(tmp_path, "on_failure: lossy, save: {folder: saves, every: 4}")
    with started_tree([*WILKINS, "run"], tmp_path) as run:
        wait_for(lambda: "step 1 (s1.h5)" in run.told(), 80, "two steps")
        for pid in ranks_of(tmp_path).values():
            os.kill(pid, signal.SIGKILL)
        first = run.wait(60)
    assert first.code == 1 and "none is left" in first.out + first.err
    (tmp_path / "killed").touch()
    second = run_tree([*WILKINS, "run"], 100, tmp_path)
    text = second.out + second.err
    assert second.code == 0, text
    assert text.count("goes on from ") == 1 and "trained on 6 steps" in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("regularise: {name: ewc}", "ranks cannot have this and 'on_failure: continue'; remove it"),
        ("stop: {seconds: 5}", "give 'updates' or 'steps' in place of 'seconds'"),
        ("strategy: from-scratch", "set incremental or rehearsal"),
    ],
)
def test_what_needs_all_ranks_is_refused(tmp_path: Path, more: str, message: str) -> None:
    write(tmp_path, f"on_failure: continue, {more}")
    with pytest.raises(WorkflowError, match=re.escape(message)):
        plan_file(tmp_path / "workflow.yaml", ())


def test_ranks_of_an_mpi_job_cannot_go_on(tmp_path: Path) -> None:
    write(tmp_path, "on_failure: continue")
    with pytest.raises(WorkflowError, match="ranks of this MPI job, which ends when one of its ranks is killed"):
        plan_file(tmp_path / "workflow.yaml", (), "one-job")


def test_ranks_on_several_hosts_cannot_go_on(tmp_path: Path) -> None:
    write(tmp_path, "on_failure: continue")
    done = run_tree([*WILKINS, "plan", "--hosts", "one:1,two:1,three:1"], 60, tmp_path)
    assert done.code == 3
    assert "where their parent cannot start them" in done.said
