"""Notebooks: functions of cells as tasks, the cell magic, and what is shown, in Jupyter's kernel."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.running import must_run

pytestmark = pytest.mark.needs("python:ipykernel")

PROGRAMS = """\
import json as js
import xml.etree.ElementTree
from dataclasses import dataclass
from functools import lru_cache, wraps
from math import pi as turn
import numpy as np
import wilkins

STEPS, NAMES = 3, ("a", 2.5, None)
square = lambda x: x * x

@dataclass
class Config:
    size: int = STEPS
    def scaled(self) -> "anything": return Longer(self.size).size + odd(2)
class Longer(Config): pass

@lru_cache
def even(x): return x == 0 or odd(x - 1)
def odd(x):
    '''Strings
  keep their lines.'''
    return x != 0 and even(x - 1)
other = even

def traced(function):
    @wraps(function)
    def inner(*all):
        print("traced", js.dumps(NAMES), xml.etree.ElementTree.__name__)
        return function(*all)
    return inner

@traced
def simulate(heat, steps=STEPS, config: Config = Config()):
    if not other(2):
        open("never")
    for step in range(steps):
        heat.publish({"u": np.full(4, square(step) + config.scaled() + int(turn))}, attrs={"step": step})

def mean(heat):
    for step in heat:
        print(step.filename, step["u"].mean())
"""

BUILT = """\
workflow = wilkins.Workflow("heat")
workflow.task(simulate, args=[2], outports=["heat*.h5"])
workflow.task(mean, inports=["heat*.h5"]);
"""

SLOW = """\
import time
def simulate(heat):
    for step in range(15):
        heat.publish({"u": [step]})
        time.sleep(0.1)
"""


@dataclass
class Shown:
    """What a cell has shown."""

    text: str = ""
    error: str = ""
    data: list[Mapping[str, str]] = field(default_factory=list)
    """Results and displays, by their type."""


class Notebook:
    """A kernel in a folder."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def cell(self, text: str) -> Shown:
        shown = Shown()

        def take(message: Mapping[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.text += content["text"]
            elif message["msg_type"] == "error":
                shown.error += "\n".join(content["traceback"])
            elif "data" in content:
                shown.data.append(content["data"])

        reply = self._client.execute_interactive(text, output_hook=take, timeout=120)
        if reply["content"]["status"] == "error" and not shown.error:
            shown.error = shown.text
        return shown

    def good(self, text: str) -> Shown:
        shown = self.cell(text)
        assert not shown.error, shown.error
        return shown


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path_factory.mktemp("kernel")))
    yield Notebook(client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(kernel: Notebook, tmp_path: Path) -> Notebook:
    """Without variables, in a folder of its own."""
    kernel.good("%reset -f")
    kernel.good(f"%cd -q {tmp_path}")
    return kernel


def test_functions_of_cells_are_tasks(notebook: Notebook, tmp_path: Path) -> None:
    """With all that they use, and also when the workflow is run by hand, from another folder."""
    notebook.good(PROGRAMS)
    notebook.good(BUILT)
    words = notebook.good("print(workflow.run().log('mean'))").text.split()
    assert words == ["heat000000.h5", "6.0", "heat000001.h5", "7.0"]
    text = (tmp_path / "heat_simulate.py").read_text()
    assert "from math import pi as turn\n" in text
    assert "\nSTEPS = 3\n" in text
    assert "rng" not in text
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    must_run(elsewhere, sys.executable, "-m", "wilkins", "run", "--quiet", str(tmp_path / "heat.yaml"))
    log = tmp_path / "wilkins-runs" / "latest" / "simulate.log"
    assert log.read_text() == 'traced ["a", 2.5, null] xml.etree.ElementTree\n'


def test_a_function_is_that_of_the_last_run_of_its_cell(notebook: Notebook, tmp_path: Path) -> None:
    """Of a notebook that is run twice, the files are written anew; two functions of one name have two files."""
    built = "def a(x): {}\nw = wilkins.Workflow('w').task(a, outports=['x.h5']); w.save();"
    notebook.good("import wilkins")
    notebook.good(built.format("'first'"))
    assert "first" in (tmp_path / "w_a.py").read_text()
    notebook.good(built.format("'second'"))
    assert "second" in (tmp_path / "w_a.py").read_text()
    notebook.good("def a(x): 'third'\nw.task(a, name='b').task(a, name='c').save()")
    assert "second" in (tmp_path / "w_a.py").read_text()
    assert "third" in (tmp_path / "w_a_2.py").read_text()
    assert (tmp_path / "w.yaml").read_text().count("w_a_2.py:a") == 2
    (tmp_path / "w_a.py").write_text("mine")
    assert "w_a.py: no Workflow has written this file" in notebook.cell("w.save()").error


@pytest.mark.parametrize(
    ("cell", "kept"),
    [
        ("%%time\ndef f(x): print(1)", "def f(x): print(1)\n"),
        ("count = 2\ndef f(x):\n    global count, new\n    count += 1\n    new = count", "count = 2\n\n\ndef f"),
        ("from numpy import *\ndef f(x): return sin(x)", "from numpy import sin\n\n\ndef f"),
        ("def f(x): open(x); exit()", "annotations\n\n\ndef f"),
        ("def outer():\n    def f(x):\n        return 'a'\n    return f\nf = outer()", "def f(x):\n    return 'a'\n"),
        ("class A: pass\nB = dict[str, A]\ndef f(x: A, y: B): pass", "y: B): pass\n\n\nclass A: pass\n"),
    ],
)
def test_what_is_kept_of_a_function(notebook: Notebook, tmp_path: Path, cell: str, kept: str) -> None:
    notebook.good(cell)
    notebook.good("import wilkins\nwilkins.Workflow('w').task(f).save();")
    assert kept in (tmp_path / "w_f.py").read_text()


def test_modules_beside_the_notebook_are_found(notebook: Notebook, tmp_path: Path) -> None:
    """Also if the workflow has another folder; a class is a task, too."""
    (tmp_path / "own.py").write_text("from random import Random\nword = Random(1).choice\n")
    (tmp_path / "runs").mkdir()
    notebook.good("import sys, wilkins\nsys.path.insert(0, '')\nfrom own import word")
    notebook.good("class Task:\n    def __init__(self):\n        print(word(['so', 'so']))")
    assert notebook.good("print(wilkins.Workflow('w', 'runs').task(Task).run().log('Task'))").text == "so\n\n"


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (
            "def f(x): print(rng, helper(), nowhere, get_ipython())\ndef helper(): return table\n"
            "import numpy as np\nrng, table = np.random.default_rng(), [1]",
            "the function f cannot be a task, since it uses 'get_ipython' (a method), 'table' (a list, in 'helper'), "
            "'nowhere' (not defined), 'rng' (a Generator), which its process would not have; pass values by 'args', "
            "or import or make them inside the function",
        ),
        (
            "def make(k):\n    def f(x): print(k)\n    return f\nf = make(1)",
            "since it closes over 'k', which its",
        ),
        ("f = lambda x: 1", "<lambda> cannot be a task, since other processes cannot import it: it has no name"),
        (
            "class A:\n    def go(self, x): pass\nf = A().go",
            "since it belongs to an A, which other processes",
        ),
        ("async def f(x): pass", "since it is asynchronous, and nobody awaits it; write it without 'async'"),
        ("def f(x): yield 1", "since it is a generator, of which a call executes nothing; let it publish"),
        ("import functools\nf = functools.partial(print, 1)", "the partial object cannot be a task"),
        ("f = len", "the function len cannot be a task, since other processes cannot import it; write a function"),
        (
            "import functools\n@functools.singledispatch\ndef f(x): pass\n@f.register\ndef _(x: int): pass",
            "since other functions are registered with it; put them into a file",
        ),
        ("exec('def f(x): pass')", "since its text cannot be found; define it in a cell, or in a file"),
        (
            "def bare(g):\n    def w(x): g(x)\n    return w\n@bare\ndef f(x): pass",
            "over 'g', which its process",
        ),
    ],
)
def test_what_cannot_be_a_task_is_told(notebook: Notebook, cell: str, told: str) -> None:
    notebook.good(cell)
    error = notebook.cell("import wilkins\nwilkins.Workflow().task(f)").error
    assert error.startswith("UsageError: the ")
    assert told in error
    assert "Traceback" not in error


def test_a_script_without_a_guard_is_not_imported(tmp_path: Path) -> None:
    """That would start it again. With one it is, as it always was."""
    script = (
        "import wilkins\ntable = [1]\n\ndef f():\n    print('f', BODY)\n\nGUARD\n"
        "    run = wilkins.Workflow('w').task(f).run()\n    print(run.log('f'), run.plan.tasks[0].args[1])\n"
    )
    for name, body, guard in (("bare", "1", "if True:"), ("guarded", "table", "if __name__ == '__main__':")):
        (tmp_path / f"{name}.py").write_text(script.replace("BODY", body).replace("GUARD", guard))
    assert must_run(tmp_path, sys.executable, "bare.py") == "f 1\n w_f.py:f\n"
    assert must_run(tmp_path, sys.executable, "guarded.py") == f"f [1]\n {tmp_path}/guarded.py:f\n"


def test_a_cell_is_a_workflow_file(notebook: Notebook, tmp_path: Path) -> None:
    notebook.good("%load_ext wilkins")
    notebook.good(PROGRAMS)
    notebook.good(BUILT + "workflow.save()")
    cell = "parameters: {steps: {default: 5}}\n" + (tmp_path / "heat.yaml").read_text().replace("- 2", "- ${steps}")
    shown = notebook.good(f"%%wilkins heat --set steps=1\n{cell}")
    assert "<run heat-" in shown.data[-1]["text/plain"]
    assert notebook.good("print(heat.log('mean'))").text.split() == ["heat000000.h5", "6.0"]
    assert "<svg" in notebook.good(f"%%wilkins --plan\n{cell}").data[-1]["text/html"]
    notebook.good(f"%%wilkins --set steps=2 --timeout 1min\n{cell}")
    assert len(notebook.good("print(_run.log('mean'))").text.split()) == 4


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (
            "out\ntasks:\n  - func: a.py\n    nproc: 1",
            "WorkflowError: out.yaml:4:5: error: task 'a': unknown",
        ),
        ("out\ntasks:\n  - func: [a.py\n    nprocs: 1", "WorkflowError: out.yaml:4:11: error: not valid YAML"),
        ("out", "the cell body is empty"),
        ("\n# nothing\n", "WorkflowError: cell.yaml: error: the file holds no data; it needs a list 'tasks:'"),
        ("a-b\ntasks:", "UsageError: %%wilkins a-b: this cannot be the name of a variable"),
        ("--set b\ntasks:", "UsageError: --set b: there is no '='; write it as NAME=VALUE"),
        ("--sett b=1\ntasks:", "UsageError: unrecognized arguments: --sett"),
        ("--timeout soon\ntasks: [{func: 'true'}]", "UsageError: --timeout must be a time"),
        ("taken\ntasks: [{func: 'true'}]", "taken.yaml: no Workflow has written this file"),
    ],
)
def test_a_wrong_cell_is_told_in_lines(notebook: Notebook, tmp_path: Path, cell: str, told: str) -> None:
    (tmp_path / "taken.yaml").write_text("tasks: []\n")
    notebook.good("%load_ext wilkins")
    error = notebook.cell(f"%%wilkins {cell}").error
    assert told in error
    assert "Traceback" not in error


def test_a_run_that_fails_has_its_name(notebook: Notebook) -> None:
    notebook.good("%load_ext wilkins")
    error = notebook.cell("%%wilkins out\ntasks: [{func: python, args: [-c, 'exit(3)']}]").error
    assert "TaskFailed: " in error
    assert "failed: exit code 3" in error
    (shown,) = notebook.good("out").data
    assert "exit code 1" in shown["text/html"]
    assert "failed: exit code 3" in shown["text/html"]


def test_what_is_returned_shows_itself(notebook: Notebook) -> None:
    notebook.good(PROGRAMS)
    notebook.good(BUILT + "run = workflow.run()")
    plan, graph, timeline, run = (
        notebook.good(cell).data[0] for cell in ("workflow.plan()", "workflow.graph()", "run.timeline()", "run")
    )
    assert "<svg" in plan["text/html"] and "<table" in plan["text/html"]
    assert plan["text/plain"].startswith("ShownPlan(")
    assert "simulate" in graph["image/svg+xml"] and "heat*.h5" in graph["image/svg+xml"]
    assert "mean" in timeline["image/svg+xml"]
    assert "ended well" in run["text/html"] and "<svg" in run["text/html"]
    assert run["text/plain"].startswith("<run heat-")
    several = notebook.good("workflow.set(**{'mean.taskCount': 2}).graph()").data[0]
    assert "mean x 2" in several["image/svg+xml"]
    others = notebook.good("import networkx\nnetworkx.MultiDiGraph([(1, 2)])").data[0]
    assert list(others) == ["text/plain"]


@pytest.mark.usual("workflow.run();")
@pytest.mark.parametrize("way", ["workflow.run();", "await workflow.start();"])
def test_a_run_is_shown_while_it_goes_on(notebook: Notebook, way: str) -> None:
    notebook.good(PROGRAMS)
    notebook.good(SLOW)
    shown = notebook.good(BUILT.replace("args=[2], ", "") + way).data
    assert "simulate" in shown[0]["text/plain"] and "<table" in shown[0]["text/html"]
    assert shown[-1]["text/plain"].endswith("exit code 0>")
