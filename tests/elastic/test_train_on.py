"""`train: {on_failure: continue}`: ranks of a task are killed, and the workflow goes on to its end."""

from __future__ import annotations

import csv
import os
import re
import signal
from pathlib import Path

import pytest
from elastic.training_tasks import ranks_of, write

from support.running import WILKINS, run_tree, started_tree, wait_for
from wilkins.errors import WorkflowError
from wilkins.plan.planner import plan_file
from wilkins.report.show import plan_table

pytestmark = pytest.mark.needs("python:torch")


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
    assert "one job: not with continual, since a rank" in plan_table(plan_file(tmp_path / "workflow.yaml", ()))
    with pytest.raises(WorkflowError, match="ranks of this MPI job, which ends when one of its ranks is killed"):
        plan_file(tmp_path / "workflow.yaml", (), "one-job")
