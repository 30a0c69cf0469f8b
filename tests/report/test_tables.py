"""A run as a table: a row for each instance of a sweep, with its parameters, what it did and its own results."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

import wilkins
from support.running import WILKINS, must_run, run_tree, write_program
from wilkins.cli import main

SIMULATE = """\
#!/bin/sh
for step in 0 1; do echo $(($2 * step)) > x-$1-$2-$step.txt; done
echo "{\\"area\\": $(($2 * $2)), \\"at\\": {\\"dt\\": \\"$1\\"}, \\"all\\": [$2]}" > result-$1-$2.json
"""
WORKFLOW = """\
tasks:
  - func: ./simulate.sh
    name: sim
    sweep: {grid: {dt: [0.10, 2e-1, .3, a], seed: [1, 2, 3, 4, 5, 6]}}
    args: ["{dt}", "{seed}"]
    outports: [{filename: "x-{dt}-{seed}-*.txt"}]
  - func: ./add.py
    inports: [{filename: "x-*.txt"}]
"""
ADD = """\
from wilkins.transport import steps

print("sum", sum(int(open(name).read()) for name in steps.names("x-*.txt")))
"""
HEAD = (
    "name,task,instance,dt,seed,outcome,exit,starts,wall_s,computing_s,waiting_s,copying_s,"
    "produced,consumed,dropped,bytes"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sweep of 24 instances, which one task follows."""
    write_program(tmp_path / "simulate.sh", SIMULATE)
    write_program(tmp_path / "add.py", ADD)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    return tmp_path


def table(folder: Path, *words: str) -> list[dict[str, str]]:
    """The rows that the command prints."""
    return list(csv.DictReader(io.StringIO(must_run(folder, *WILKINS, "report", "--table", *words))))


def check(folder: Path) -> None:
    """The table of the sweep."""
    rows = table(folder)
    assert len(rows) == 25
    assert [(row["dt"], row["seed"]) for row in rows[:24]] == [
        (dt, str(seed)) for dt in ("0.10", "2e-1", ".3", "a") for seed in range(1, 7)
    ]
    assert [row["name"] for row in rows[6:8]] == ["sim[dt=2e-1,seed=1]", "sim[dt=2e-1,seed=2]"]
    assert {(row["task"], row["outcome"], row["exit"], row["produced"]) for row in rows[:24]} == {
        ("sim", "done", "0", "2")
    }
    assert all(float(row["wall_s"]) > 0 and int(row["bytes"]) > 0 for row in rows)
    assert (rows[24]["task"], rows[24]["dt"], rows[24]["consumed"]) == ("add", "", "48")


def test_a_sweep_of_24_instances_gives_a_table(folder: Path) -> None:
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 90, folder)
    assert ran.code == 0, ran.said
    assert "sum 84" in ran.out
    records = folder / "wilkins-runs" / "latest"
    assert (records / "sim[dt=0.10,seed=1].log").is_file()
    check(folder)
    assert must_run(folder, *WILKINS, "report", "--table", "latest", "-o", "table.csv") == ""
    assert (folder / "table.csv").read_text().splitlines()[0] == HEAD
    rows = table(folder, "--results", "result-{dt}-{seed}.json")
    assert [(row["area"], row["at.dt"], row["all"]) for row in rows[10:13]] == [
        ("25", "2e-1", "[5]"),
        ("36", "2e-1", "[6]"),
        ("1", ".3", "[1]"),
    ]
    assert rows[24]["area"] == ""
    typed = wilkins.Run(records).table("result-{dt}-{seed}.json")
    assert (typed[0]["dt"], typed[0]["seed"], typed[0]["area"], typed[18]["dt"]) == (0.1, 1, 1, "a")


@pytest.mark.needs("mpiexec", "python:mpi4py")
@pytest.mark.nightly
def test_the_same_sweep_as_one_job_gives_the_same_table(folder: Path) -> None:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    ran = run_tree([mpiexec, "-n", "25", *WILKINS, "run", "--quiet", "workflow.yaml"], 180, folder)
    assert ran.code == 0, ran.said
    check(folder)


RECORD = {
    "exit_code": 1,
    "wall_s": 2.0,
    "reason": None,
    "channels": [],
    "tasks": [
        {"name": "sim[task=a]", "outcome": "done", "exit": "exit code 0", "starts": 1, "wall_s": 1.25, "bytes": 7},
        {"name": "sim[task=b]", "outcome": "failed", "exit": "killed by SIGKILL", "starts": 1, "wall_s": 0.123456789},
    ],
}


@pytest.fixture
def recorded(folder: Path) -> Path:
    """Records of a sweep with a parameter that is called as a column, and one instance that was killed."""
    from wilkins.plan import planfile
    from wilkins.plan.planner import plan_file

    text = "tasks: [{func: ./simulate.sh, name: sim, sweep: {list: [{task: a}, {task: b}]}, args: ['{task}']}]\n"
    (folder / "other.yaml").write_text(text)
    records = folder / "wilkins-runs" / "other"
    records.mkdir(parents=True)
    (records / "plan.json").write_text(planfile.dumps(plan_file(folder / "other.yaml")))
    (records / "summary.json").write_text(json.dumps(RECORD))
    return folder


def test_a_column_of_a_name_that_is_taken_says_what_it_is(recorded: Path) -> None:
    (recorded / "r-1.csv").write_text("step, bytes\n1,10\n2,20\n")
    rows = table(recorded, "other", "--results", "r-{instance}.csv")
    assert [(row["task"], row["parameter.task"]) for row in rows] == [("sim", "a"), ("sim", "b")]
    assert [(row["bytes"], row["result.bytes"], row["step"]) for row in rows] == [("7", "", ""), ("", "20", "2")]
    assert (rows[1]["exit"], rows[1]["wall_s"]) == ("SIGKILL", "0.123457")


def test_what_a_table_cannot_be_made_of_is_said(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(recorded)
    (recorded / "bad.json").write_text("[1]")
    (recorded / "wilkins-runs" / "other" / "summary.json").unlink()
    for words, said, code in (
        (("--table", "other", "--results", "bad.json"), "must be an object of JSON, or CSV", 2),
        (("--table", "nowhere"), "nowhere: there is no run", 2),
        (("--results", "x"), "--results PATTERN goes with --table", 2),
        (("--table", "other", "--results", "no.json"), "no task has left 'no.json' in its folder", 0),
        (("--table", "other"), "the run goes on or was killed", 0),
    ):
        assert main(["report", *words]) == code
        assert said in " ".join(capsys.readouterr().err.split())
