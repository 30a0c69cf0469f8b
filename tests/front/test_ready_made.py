"""Ready-made tasks in a workflow file: their options are checked like any key, and handed to the program as JSON."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest
from front.front_case import Case

from wilkins.report.show import plan_table
from wilkins.spec import reference

HEAD = "tasks:\n  - {func: ./sim, outports: [{filename: 'x*.h5'}]}\n"


def analysis(case: Case, options: str, rest: str = "") -> Case:
    """A workflow with an analysis on line 3; its options stand on line 5."""
    return case.write(
        f"{HEAD}  - func: wilkins.tasks.analysis\n    inports: [{{filename: 'x*.h5'}}]\n"
        f"    analysis: {options}\n{rest and '    ' + rest}\n"
    )


def test_the_program_gets_its_options(case: Case) -> None:
    analysis(case, "{folder: 'out{instance}', moments: [{dset: /u}]}", "taskCount: 2")
    task = case.plan().tasks[2]
    assert task.name == "analysis[1]"
    assert str(task.executable) == sys.executable
    assert task.args[0].endswith("/tasks/__main__.py")
    assert task.args[1] == "analysis"
    options = json.loads(task.args[2])
    assert options["folder"] == "out1"
    assert [json.loads(word) for word in task.args[3:]] == [[["x*.h5"], [], str(case.path.parent.resolve())]]
    assert task.rerun == "never"
    assert task.strict_end
    assert options["moments"] == [{"dset": "/u", "filename": None}]
    assert options["slice"] == []


def test_a_bound_needs_an_extra(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found before anything starts; compression that keeps every bit needs none."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    analysis(case, "{archive: [{compress: [{dset: /u}]}]}").plan()
    found = analysis(case, "{archive: [{compress: [{dset: /u, relative: 0.1}]}]}").error()
    assert "needs the Python package 'hdf5plugin'" in found
    assert "run: pip install 'wilkins[compression]'" in found


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("{moments: [{dset: /v, dst: /u}]}", "unknown key 'dst'; did you mean 'dset'?"),
        ("{moment: [{dset: /u}]}", "task 'analysis', analysis: unknown key 'moment'; did you mean 'moments'?"),
        ("{histogram: [{bins: 3}]}", "the key 'dset' is missing"),
        ("{histogram: [{dset: /u, bins: 0}]}", "histogram '/u': 'bins' must be a whole number of 1 or more, not 0"),
        ("{histogram: [{dset: /u, range: [2, 1]}]}", "the 'range' of '/u' must be [low, high], the lower one first"),
        ("{slice: [{dset: /u, axes: [1, 1]}]}", "must be two different ones"),
        ("{slice: [{dset: /u, colours: gray}]}", "did you mean 'grey'?"),
        ("{subsample: [{dsets: [], stride: 2, filename: a.h5}]}", "'dsets' is empty"),
        ("{archive: [{filename: '{filename}.h5'}]}", "holds {filename}; it may hold {step}, {name} and {instance}"),
        ("{archive: [{filename: '{step:z}.h5'}]}", "cannot be filled in"),
        ("{moments: [{dset: /u}, {dset: u}]}", "two results would be written to the files of 'u'"),
        ("{folder: x}", "nothing is asked for; add 'moments:'"),
        ("3", "task 'analysis', analysis must be a mapping"),
    ],
)
def test_wrong_options(case: Case, options: str, words: str) -> None:
    found = analysis(case, options).error()
    assert found.startswith("workflow.yaml:5:")
    assert words in found


def test_a_section_belongs_to_its_func(case: Case) -> None:
    case.write("tasks:\n  - func: ./sim\n    analysis: {moments: [{dset: u}]}\n")
    assert case.error() == (
        "workflow.yaml:3:15: error: task 'sim': the section 'analysis' goes with 'func: wilkins.tasks.analysis'; "
        "set that, or remove it"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("func: wilkins.tasks.analysis", "needs its options; add 'analysis: {...}'"),
        ("func: wilkins.tasks.analysys", "there is no ready-made task 'wilkins.tasks.analysys'; did you mean"),
    ],
)
def test_a_func_needs_its_section(case: Case, line: str, words: str) -> None:
    case.write(f"{HEAD}  - {line}\n    inports: [{{filename: 'x*.h5'}}]\n")
    assert words in case.error()


def test_arguments_are_refused(case: Case) -> None:
    assert "takes no 'args'" in analysis(case, "{archive: [{}]}", "args: [1]").error()


def test_one_stream_each(case: Case) -> None:
    case.write("tasks: [{func: wilkins.tasks.analysis, analysis: {archive: [{}]}}]\n")
    assert "the task needs one in-port and has 0" in case.error()


def test_misspelt_section(case: Case) -> None:
    analysis(case, "{archive: [{}]}").path.write_text(case.path.read_text().replace("analysis: {", "analisis: {"))
    assert "unknown key 'analisis'; did you mean 'analysis'?" in case.errors()[0]


def test_the_schema_knows_the_section() -> None:
    definitions = reference.json_schema()["$defs"]
    assert definitions["Task"]["properties"]["analysis"]["$ref"] == "#/$defs/Analysis"
    assert definitions["Moments"]["required"] == ["dset"]
    assert "## The ready-made task `wilkins.tasks.analysis`" in reference.reference()


def test_the_plan_names_the_task(case: Case) -> None:
    """The options, as JSON, are for the process; programs of users show as they are started, cut where too long."""
    case.program("sim")
    case.write(
        f"tasks:\n  - {{func: ./sim, args: ['{'a' * 400}'], outports: [{{filename: 's*.h5'}}]}}\n"
        "  - {func: wilkins.tasks.analysis, inports: [{filename: 's*.h5'}], analysis: {moments: [{dset: /u}]}}\n"
    )
    table = plan_table(case.plan())
    row = next(line for line in table.splitlines() if line.startswith("analysis"))
    assert row.endswith("  wilkins.tasks.analysis")
    assert "aaa...\n" in table
    assert max(map(len, table.splitlines())) < 200
