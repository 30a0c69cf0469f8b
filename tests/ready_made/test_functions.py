"""Python functions as tasks: called with channels for in-ports and writers for out-ports, on every rank."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import wilkins
from support.running import MPIEXEC, WILKINS, Finished, must_run, run_tree
from wilkins.errors import UsageError
from wilkins.tasks.code import problem

ANALYSIS = """\
import os

FACTOR = 2

def produce(steps, count=5, scale=1.5):
    for step in range(count):
        name = steps.publish({"u": [scale * step] * 3}, attrs={"time": step})
        print("wrote", name)

def twice(steps, doubled):
    for step in steps:
        with doubled.create(f"out-{step.filename}") as made:
            made["v"] = FACTOR * step["u"]
            made.attrs["time"] = step.attrs["time"]

def show(doubled, word, number, flag):
    rank = os.environ.get("RANK", "0")
    for step in doubled:
        print(rank, step.filename, step["v"].sum(), word, number, flag)

class Kinds:
    def show(steps):
        print(sum(1 for step in steps), "steps")

def fails(steps):
    raise RuntimeError("so it is")
"""
WORKFLOW = """\
tasks:
  - {func: "analysis.py:produce", args: [4], outports: [{filename: "u*.h5"}]}
  - {func: "analysis.py:twice", inports: [{filename: "u*.h5"}], outports: [{filename: "out-*.h5"}]}
  - {func: "analysis:show", nprocs: RANKS, args: [text, 3, true], inports: [{filename: "out-*.h5"}]}
"""


def _run(folder: Path, workflow: str) -> Finished:
    (folder / "analysis.py").write_text(ANALYSIS)
    (folder / "workflow.yaml").write_text(workflow)
    return run_tree([*WILKINS, "run"], 120, folder)


@pytest.mark.usual("2")
@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize("ranks", [1, 2])
def test_functions_exchange_steps(tmp_path: Path, ranks: int) -> None:
    done = _run(tmp_path, WORKFLOW.replace("RANKS", str(ranks)))
    assert done.code == 0, done.out + done.err
    assert re.findall(r"produce \| wrote (\S+)", done.out) == [f"u{step:06}.h5" for step in range(4)]
    shown = re.findall(r"show +\| (\d) (\S+) (\S+) (.*)", done.out)
    for rank in range(ranks):
        mine = [words for number, *words in shown if number == str(rank)]
        assert mine == [[f"out-u{step:06}.h5", f"{9.0 * step}", "text 3 True"] for step in range(4)]


def test_other_programs_read_what_functions_write(tmp_path: Path) -> None:
    (tmp_path / "read.py").write_text(
        "import h5py\nfrom wilkins.transport import steps\n"
        "for name in steps.names('*.h5'):\n    with h5py.File(name) as file:\n"
        "        print(name, file['u'][0], file.attrs['time'])\n"
    )
    done = _run(
        tmp_path,
        'tasks:\n  - {func: "analysis.py:produce", args: [3, 2], outports: [{filename: "u.h5"}]}\n'
        '  - {func: read.py, inports: [{filename: "*.h5"}]}\n'
        '  - {func: "analysis.py:Kinds.show", inports: [{filename: "u.h5"}]}\n',
    )
    assert done.code == 0, done.out + done.err
    assert re.findall(r"read +\| (.*)", done.out) == ["u.h5 0 0", "u.h5 2 1", "u.h5 4 2"]
    assert "3 steps" in done.out


def test_an_error_of_the_function_is_its_own(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        'tasks:\n  - {func: "analysis.py:produce", outports: [{filename: "u*.h5"}]}\n'
        '  - {func: "analysis.py:fails", inports: [{filename: "u*.h5"}]}\n',
    )
    assert done.code == 1
    assert "RuntimeError: so it is" in done.out
    assert "fails: failed: exit code 1" in done.err


@pytest.mark.parametrize(
    ("func", "more", "message"),
    [
        ("analysis.py:shwo", "", "has no 'shwo'; did you mean 'show'?"),
        ("analyse.py:show", "", "there is no file"),
        (
            "analysis.py:twice",
            "",
            "analysis.py, line 10: twice(steps, doubled) is called with the task's in-ports, its out-ports and its "
            "'args', in this order, and these are 1 and 0; mend the one or the other",
        ),
        ("analysis.py:Kinds.show", ", args: [1]", ""),
        ("analysis.py:produce", ", args: [1, 2, 3]", "and these are 1 and 3"),
        ("broken.py:show", "", "is not valid Python in line 1"),
        ("analysis:twice", "", "analysis.py, line 10: twice(steps, doubled) is called with the task's in-ports"),
        ("elsewhere:one", "", "there is no module 'elsewhere'"),
        ("elsewhere:one", ", env: {PYTHONPATH: more}", ""),
        ("nothing:show", ", prefix: [env]", ""),
    ],
)
def test_what_is_wrong_is_told_before(tmp_path: Path, func: str, more: str, message: str) -> None:
    (tmp_path / "analysis.py").write_text(ANALYSIS)
    (tmp_path / "broken.py").write_text("def show(:\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/elsewhere.py").write_text("def one(steps):\n    pass\n")
    (tmp_path / "workflow.yaml").write_text(
        f'tasks:\n  - {{func: "{func}", outports: [{{filename: "u*.h5"}}]{more}}}\n'
    )
    done = run_tree([*WILKINS, "check"], 60, tmp_path)
    assert done.code == (2 if message else 0), done.out + done.err
    assert message in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("func", "message"),
    [
        ("analysis:shwo", "analysis.py has no 'shwo'; did you mean 'show'?"),
        ("anaylsis:show", "there is no module 'anaylsis'; did you mean 'analysis'?"),
        ("nothing:show", "there is no module 'nothing'; install it, or name a file: 'file.py:name'"),
        ("parts.inner:one", ""),
        ("parts.inner:two", "inner.py has no 'two'; it has one; name one of its own"),
        ("parts.iner:one", "there is no module 'parts.iner'; did you mean 'inner'?"),
        ("parts:inner.one", ""),
        ("bare.deeper.module:one", ""),
        ("bare.deeper.modul:one", "there is no module 'bare.deeper.modul'; did you mean 'module'?"),
        ("hidden:two", ""),
        ("other:two", ""),
        ("os.path:join", ""),
        ("math:sqrt", ""),
        ("numpy.linalg:norm", ""),
    ],
)
def test_modules_are_looked_at_and_not_executed(tmp_path: Path, func: str, message: str) -> None:
    (tmp_path / "analysis.py").write_text(ANALYSIS)
    bad = "raise RuntimeError('this module must not be executed')\n"
    for name in ("parts/__init__", "parts/inner", "bare/deeper/module"):
        (tmp_path / f"{name}.py").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.py").write_text(f"{bad}def one(steps):\n    pass\n")
    (tmp_path / "hidden.py").write_text(f"{bad}def __getattr__(name):\n    pass\n")
    (tmp_path / "other.py").write_text("import math, sys\nsys.modules[__name__] = math\n")
    told = problem(func, [tmp_path])
    assert message in told
    assert bool(told) == bool(message)


def test_a_module_that_is_not_there_where_the_task_runs(tmp_path: Path) -> None:
    done = _run(tmp_path, 'tasks:\n  - {func: "nothing:show", prefix: [env]}\n')  # in a container it may be there
    assert done.code == 1
    assert "'func: nothing:show': there is no module 'nothing'; install it, or name a file" in done.out


def test_names_of_several_kinds_are_to_be_given(tmp_path: Path) -> None:
    done = _run(tmp_path, 'tasks:\n  - {func: "analysis.py:produce", outports: [{filename: "u*-*.h5"}]}\n')
    assert done.code == 1
    assert "the files of 'u*-*.h5' can have several names; give one: publish(arrays, name)" in done.out


def test_functions_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "steps_of_a_script.py").write_text(ANALYSIS)
    (tmp_path / "script.py").write_text(
        "import wilkins, steps_of_a_script as analysis\n"
        "flow = wilkins.Workflow('functions')\n"
        "flow.task(analysis.produce, args=[3], outports=['u*.h5'])\n"
        "flow.task(analysis.Kinds.show, inports=['u*.h5'])\n"
        "run = flow.run()\nprint(run.code, run.log('show'), [task['name'] for task in run.tasks])\n"
    )
    out = must_run(tmp_path, sys.executable, "script.py")
    assert "0 3 steps" in out
    assert "['produce', 'show']" in out
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="<lambda> cannot be a task, since other processes cannot import it"):
        wilkins.Workflow("other").task(lambda: None)
