"""`wilkins run --quiet`: the terminal shows nothing of what tasks print, but for the end of one that fails."""

from __future__ import annotations

import pytest
from launch.conftest import Case

from support.running import WILKINS, run_tree

FAILS = """\
import h5py
with h5py.File("step0.h5", "w") as file:
    file["x"] = [1]
for line in range(30):
    print("line", line)
raise ValueError("the mesh is empty")
"""
WORKFLOW = """\
tasks:
  - {name: bad, func: ./bad.py, outports: [{filename: "step*.h5"}]}
  - {name: read, func: ./read.py, inports: [{filename: "step*.h5"}]}
"""
TOLD = """\
wilkins:   it printed last:
wilkins:     line 14
"""
END = "wilkins:     ValueError: the mesh is empty\n"


@pytest.fixture
def failing(case: Case) -> Case:
    """A workflow whose producer fails after its first step."""
    case.program("bad.py", FAILS)
    case.workflow(WORKFLOW)
    return case


def test_the_error_of_a_program_is_shown_also_when_nothing_else_is(failing: Case) -> None:
    ran = run_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], 60, failing.folder)
    assert ran.code == 1
    assert ran.out == ""
    assert TOLD in ran.err
    assert END in ran.err
    assert ran.err.count("the mesh is empty") == 2, "the traceback has the line and the message"
    assert "the mesh is empty" in failing.summary()["reason"]


def test_what_is_shown_already_is_not_said_again(failing: Case) -> None:
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, failing.folder)
    assert "bad  | line 29\n" in ran.out
    assert "it printed last" not in ran.err


def test_a_rank_of_a_job_tells_its_error_too(failing: Case, mpiexec: str) -> None:
    ran = run_tree([mpiexec, "-n", "2", *WILKINS, "run", "--quiet", "workflow.yaml"], 90, failing.folder)
    assert ran.code == 1
    assert "line 0" not in ran.said
    assert TOLD in ran.err
    assert END in ran.err


def test_a_program_that_has_printed_nothing_adds_nothing(case: Case) -> None:
    case.workflow("tasks: [{name: bad, func: /bin/false}]\n")
    ran = run_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], 60, case.folder)
    assert "bad: failed: exit code 1" in ran.said
    assert "it printed last" not in ran.said
