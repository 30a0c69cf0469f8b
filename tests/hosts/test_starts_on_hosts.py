"""Programs with ranks on several hosts that are started for each step: all ranks begin with the same one."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hosts.pseudo import HERE
from programs.build import build, parallel_c

from support.running import WILKINS, Finished, processes_in, run_tree, started_tree, wait_for, write_program
from wilkins.launch.hosts.agreement import steps_past
from wilkins.launch.hosts.messages import RanksRead

pytestmark = [pytest.mark.timeout(200), pytest.mark.xdist_group("hosts")]

WRITE = """#!{python}
import sys, time
import h5py
name, steps, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
for step in range(steps):
    time.sleep(pause)
    with h5py.File(name.format(step), "w") as file:
        file["x"] = [step]
"""
WORKFLOW = """
tasks:
  - {{func: ./write.py, name: sim, args: ["{written}", {steps}, {pause}], placement: [1],
      outports: [{{filename: "{port}"}}]}}
  - {{func: {program}, name: ana, nprocs: {ranks}, args: ["{told}", {args}], placement: {readers}, {more}
      inports: [{{filename: "{port}"{policy}}}]}}
"""
ENVIRONMENT = {"WILKINS_RSH": str(HERE), "OMPI_MCA_btl": "tcp,self"}
RUN = [*WILKINS, "run", "--hosts", "a:3,b:3,c:3", "workflow.yaml"]


def written(
    folder: Path,
    *,
    mpi: str = "mpich",
    fixed: bool = False,
    args: str = "together",
    readers: str = "[1, 1, 1]",
    steps: int = 3,
    pause: float = 0.0,
    more: str = "",
    policy: str = "",
) -> None:
    """A workflow whose reader is told the name of its step, or (`fixed`) opens one name."""
    write_program(folder / "write.py", WRITE.format(python=sys.executable))
    program, ranks = build("one_step.c", *parallel_c(mpi, static=False)), sum(json.loads(readers))
    names = ("f.h5", "f.h5", "f.h5") if fixed else ("s{:02d}.h5", "s*.h5", "{filename}")
    values = locals() | dict(zip(("written", "port", "told"), names, strict=True))
    (folder / "workflow.yaml").write_text(WORKFLOW.format(**values))


def run(folder: Path) -> Finished:
    return run_tree(RUN, 150, folder, env=ENVIRONMENT)


def summary_of(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "wilkins-runs/latest/summary.json").read_text())
    return summary


def started_for(folder: Path, finished: Finished) -> list[int]:
    """The steps for which the reader was started: as many as the summary tells."""
    assert finished.code == 0, finished.out + finished.err
    steps = [int(step) for step in re.findall(r"read (\d+) of", finished.out)]
    summary = summary_of(folder)
    assert summary["tasks"][1]["starts"] == len(steps)
    assert [one["read"] for one in summary["channels"]] == [len(steps)]
    return steps


@pytest.mark.usual("mpich")
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_each_start_is_for_the_step_that_it_is_told(mpi: str, tmp_path: Path) -> None:
    written(tmp_path, mpi=mpi)
    finished = run(tmp_path)
    assert started_for(tmp_path, finished) == [0, 1, 2]
    assert re.findall(r"of (s\S+)", finished.out) == ["s00.h5", "s01.h5", "s02.h5"]


def test_a_program_that_is_never_started_has_not_overlooked_its_port(tmp_path: Path) -> None:
    """As on one machine: a note says that the policy has given it no step."""
    written(tmp_path, policy=", io_freq: 9")
    finished = run(tmp_path)
    assert started_for(tmp_path, finished) == []
    assert "was given no step of 's*.h5'" in finished.err and "without ever using" not in finished.err


CASES = [
    {"fixed": True},
    {"fixed": True, "mpi": "openmpi", "more": "rerun: always,", "readers": "[0, 2, 1]"},
    {"fixed": True, "args": "all", "more": "rerun: always,", "readers": "[2, 1, 1]"},
    {"fixed": True, "args": "0", "readers": "[0, 2, 1]"},
    {"args": "0", "readers": "[0, 2, 1]"},
    {"args": "2", "readers": "[1, 1, 1]", "mpi": "openmpi"},
    {"args": "2", "fixed": True, "readers": "[1, 1, 1]"},
]


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=str)
def test_whichever_ranks_read(case: dict[str, Any], tmp_path: Path) -> None:
    """Hosts whose ranks have opened nothing do not stay behind."""
    written(tmp_path, steps=5, **case)
    assert started_for(tmp_path, run(tmp_path)) == [0, 1, 2, 3, 4]


@pytest.mark.nightly
@pytest.mark.parametrize("readers", ["[1, 1, 1]", "[0, 2, 1]"])
@pytest.mark.parametrize("fixed", [False, True])
def test_each_start_is_for_the_newest_step(fixed: bool, readers: str, tmp_path: Path) -> None:
    written(tmp_path, steps=40, pause=0.1, fixed=fixed, readers=readers, policy=", io_freq: latest")
    steps = started_for(tmp_path, run(tmp_path))
    assert steps == sorted(set(steps))
    assert 1 < len(steps) < 40
    assert steps[-1] == 39


@pytest.mark.nightly
@pytest.mark.parametrize(("steps", "more", "starts"), [(0, "", 0), (4, "rerun: never,", 1)])
def test_ends_that_come_early(steps: int, more: str, starts: int, tmp_path: Path) -> None:
    """A stream without a step, and a program that needs one."""
    written(tmp_path, steps=steps, more=more)
    finished = run(tmp_path)
    assert len(re.findall(r"read \d+ of", finished.out)) == starts
    assert summary_of(tmp_path)["tasks"][1]["starts"] == starts
    assert finished.code == (1 if steps == 0 else 0), finished.err  # no step at all is an unused port


@pytest.mark.nightly
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_a_start_that_fails_ends_the_run(mpi: str, tmp_path: Path) -> None:
    written(tmp_path, mpi=mpi, args="together, 2, 7", steps=5)
    finished = run(tmp_path)
    assert finished.code == 1, finished.err
    assert "ana: failed" in finished.err
    assert re.findall(r"read (\d+) of", finished.out) == ["0", "1", "2"]
    assert summary_of(tmp_path)["tasks"][1]["starts"] == 3
    assert not processes_in(tmp_path)


@pytest.mark.nightly
def test_an_interrupt_ends_all_hosts(tmp_path: Path) -> None:
    written(tmp_path, steps=1000)
    with started_tree(RUN, tmp_path, env={**os.environ, **ENVIRONMENT}) as tree:
        log = tmp_path / "wilkins-runs/latest/ana.log"
        wait_for(lambda: log.exists() and log.read_text().count("read") > 1, 100, "two starts")
        os.kill(tree.process.pid, signal.SIGINT)
        finished = tree.wait(60)
    assert finished.code == 130, finished.err
    assert not processes_in(tmp_path)


@pytest.mark.parametrize("key", ["args: ['{filename}']", "rerun: always"])
def test_steps_that_may_come_in_different_orders_are_refused(tmp_path: Path, key: str) -> None:
    for name in ("write.py", "read.py"):
        (tmp_path / name).touch(0o755)
    (tmp_path / "workflow.yaml").write_text(
        'tasks:\n  - {func: ./write.py, taskCount: 2, outports: [{filename: "s*.h5"}]}\n'
        f'  - {{func: ./read.py, nprocs: 2, {key}, inports: [{{filename: "s*.h5"}}]}}\n'
    )
    finished = run_tree([*WILKINS, "run", "--hosts", "a:2,b:1,c:1", "workflow.yaml"], 60, tmp_path, env=ENVIRONMENT)
    assert finished.code == 3, finished.err
    assert "asks for a start for each step, and its ranks are on several hosts (b, c)" in finished.said
    assert "the steps of several ports or tasks may come to its hosts in different orders" in finished.said
    assert "`placement: [HOST]`" in finished.said


@pytest.mark.parametrize(
    ("reads", "past"),
    [
        ([(1, 4), (1, 4)], 4),
        ([(1, 4), (0, 3)], 4),
        ([(0, 0), (3, 3), (0, 0)], 3),
        ([(0, 2), (0, 3)], 0),
        ([(1, 4), (2, 5)], None),
        ([(1, 4), (0, 5)], None),
    ],
)
def test_hosts_come_level_behind_what_any_has_read(reads: list[tuple[int, int]], past: int | None) -> None:
    assert steps_past([RanksRead(0, host, opened, steps) for host, (opened, steps) in enumerate(reads)]) == past
