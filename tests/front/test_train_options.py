"""The sections `train:` and `inference:` in a workflow file: what contradicts itself is told before anything runs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import pytest
from front.front_case import Case

from wilkins.report.show import plan_table

HEAD = "tasks:\n  - {func: ./sim, outports: [{filename: 's*.h5'}]}\n"
GOOD = "model: 'net.py:Net', inputs: /x, label: /y"


def train(case: Case, options: str, outport: str = "model-*.h5") -> Case:
    """A trainer whose options stand on line 6."""
    return case.write(
        f"{HEAD}  - func: wilkins.tasks.continual\n    inports: [{{filename: 's*.h5'}}]\n"
        f"    outports: [{outport and '{filename: ' + repr(outport) + '}'}]\n    train: {{{options}}}\n"
    )


def infer(case: Case, options: str, inports: str = "{filename: 's*.h5'}, {filename: 'm*.h5'}") -> Case:
    """An inference whose options stand on line 6."""
    return case.write(
        "tasks:\n  - {func: ./sim, outports: [{filename: 's*.h5'}, {filename: 'm*.h5'}]}\n"
        f"  - func: wilkins.tasks.inference\n    inports: [{inports}]\n"
        f"    outports: [{{filename: 'p*.h5'}}]\n    inference: {{{options}}}\n"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("model: net, inputs: /x, label: /y", "'model' must be 'module:name' or 'file.py:name', not 'net'"),
        ("model: 'net.py:Net', label: /y", "the key 'inputs' is missing"),
        (
            "model: 'net.py:Net', inputs: /x",
            "there is nothing to learn; add 'label: PATH' (classes), or 't",
        ),
        (f"{GOOD}, loss: l1", "'loss' must be 'cross_entropy', 'mse', or 'module:name' or 'file.py:name', not 'l1'"),
        (f"{GOOD}, loss: mse", "'mse' needs numbers to compare with; add 'targets: PATH'"),
        (f"{GOOD}, error: rmse", "'rmse' compares numbers, and 'loss: cross_entropy' has classes"),
        (f"{GOOD}, strategy: rehersal", "did you mean 'rehearsal'?"),
        (f"{GOOD}, strategy: der", "'der' needs a buffer; add 'buffer: {samples: 1000}'"),
        (f"{GOOD}, strategy: rehearsal, buffer: {{}}", "given by either 'samples' or 'bytes', one of the two"),
        (f"{GOOD}, batch: 8, strategy: der, buffer: {{samples: 5, candidates: 9}}", "(9) must not exceed 'batch' (8)"),
        (f"{GOOD}, strategy: der, buffer: {{samples: 5}}, beta: 1", "'beta' is of the strategy der++, not of 'der'"),
        (f"{GOOD}, optimizer: {{name: adam, momentum: 0.9}}", "'momentum' is of sgd and rmsprop, not of 'adam'"),
        (f"{GOOD}, optimizer: {{lr: 0}}", "'lr' must be a number above 0, not 0"),
        (
            f"{GOOD}, publish: {{filename: 'v{{version}}.h5'}}",
            "gives 'v1.h5', which the out-port 'model-*.h5' does",
        ),
        (f"{GOOD}, publish: {{filename: 'model-{{step}}.h5'}}", "cannot be filled in; it may hold {version}"),
        (f"{GOOD}, stop: {{epochs: 3}}", "unknown key 'epochs'"),
        (f"{GOOD}, schedule: {{name: CosineLR}}", "not 'CosineLR' (did you mean"),
        (f"{GOOD}, regularise: {{strength: 3}}", "the key 'name' is missing"),
        (f"{GOOD}, strategy: der, buffer: {{samples: 5, balance: task}}", "needs to know the tasks; add 'task: PATH'"),
    ],
)
def test_wrong_training(case: Case, options: str, words: str) -> None:
    found = train(case, options).error()
    assert found.startswith("workflow.yaml:6:")
    assert words in found


@pytest.mark.parametrize(
    ("outport", "words"),
    [
        ("model-[0-9]*.h5", "files of the out-port 'model-[0-9]*.h5' are called; add 'filename: ...' under 'publish'"),
        ("", "the task has no out-port to publish to; add 'outports:', or remove 'publish'"),
    ],
)
def test_wrong_out_port(case: Case, outport: str, words: str) -> None:
    assert words in train(case, f"{GOOD}, publish: {{when: end}}", outport).error()


@pytest.mark.parametrize(
    ("options", "inports", "words"),
    [
        ("models: 'n*.h5'", "", "'n*.h5' is no in-port of the task; its in-ports are s*.h5, m*.h5"),
        ("models: 's*.h5'", "{filename: 's*.h5'}", "needs two in-ports, the inputs and 's*.h5', and has 1"),
        ("models: 'm*.h5', output: /z, dsets: [z]", "", "two datasets would have the same path"),
        ("models: 'm*.h5', filename: 'q{step}.h5'", "", "gives 'q1.h5', which the out-port 'p*.h5' does not match"),
    ],
)
def test_wrong_inference(case: Case, options: str, inports: str, words: str) -> None:
    section = f"model: 'net.py:Net', inputs: /x, {options}"
    assert words in (infer(case, section, inports) if inports else infer(case, section)).error()


def test_options_as_the_task_gets_them(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    case.program("net.py", "class Net: ...\n")
    arguments = "{sizes: [1, 2.5, '3'], deep: {on: true, name: 'a b', none: null}}"
    train(case, f"{GOOD}, model_args: {arguments}, stop: {{seconds: 2min}}, save: {{}}")
    options = json.loads(case.plan().tasks[1].args[2])
    assert options["model_args"] == {"sizes": [1, 2.5, "3"], "deep": {"on": True, "name": "a b", "none": None}}
    assert options["stop"] == {"updates": None, "steps": None, "seconds": 120.0, "loss": None, "error": None}
    saves: dict[str, Any] = {
        "folder": None,
        "every": 100,
        "stream": "replayed",
        "store": None,
        "name": None,
        "tags": [],
    }
    assert options["save"] == saves
    assert options["buffer"] is None


@pytest.mark.parametrize(("save", "can_resume"), [("", False), (", save: {every: 3}", True)])
def test_saves_make_a_run_resumable(case: Case, monkeypatch: pytest.MonkeyPatch, save: str, can_resume: bool) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    case.program("net.py", "class Net: ...\n")
    train(case, GOOD + save)
    plan = case.plan()
    assert (plan.can_resume, plan.tasks[1].saves) == (can_resume, can_resume)
    assert ("its newest save that fits" in plan_table(plan)) == can_resume


NET = """
try:
    from fast import Layer
except ImportError:
    Layer = None
def network(): ...
"""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            "model: 'nettwork.py:network'",
            "'model: nettwork.py:network': there is no file nettwork.py; did you mean 'n",
        ),
        ("model: 'network.py:netwrk'", "network.py has no 'netwrk'; did you mean 'network'?"),
        ("model: 'network.py:zzz'", "network.py has no 'zzz'; it has Layer, network; name one of its own"),
        ("model: 'broken.py:x'", "broken.py is not valid Python in line 2: "),
        ("model: 'network.py:network', loss: 'network.py:lss'", "'loss: network.py:lss': network.py has no 'lss'"),
        (
            "model: 'network.py:network', optimizer: {name: 'no.py:adam'}",
            "'optimizer: no.py:adam': there is no file n",
        ),
        ("model: 'network.py:network', strategy: 'network.py:Mine'", "'strategy: network.py:Mine': network.py has no"),
        (
            "model: 'network.py:network', strategy: der, buffer: {samples: 9, eviction: 'network.py:oldest'}",
            "'buffer: network.py:oldest': network.py has no",
        ),
        ("model: 'network.py:network', schedule: {name: 'no.py:cosine'}", "'schedule: no.py:cosine': there is no file"),
        ("model: 'network.py:network', regularise: {name: 'no.py:Si'}", "'regularise: no.py:Si': there is no file"),
    ],
)
def test_code_that_is_not_there(case: Case, monkeypatch: pytest.MonkeyPatch, options: str, words: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    case.program("network.py", NET)
    case.program("broken.py", "x = 1\nx = = 2\n")
    found = train(case, f"inputs: /x, label: /y, {options}").error()
    assert found.startswith("workflow.yaml:6:")
    assert words in found


@pytest.mark.parametrize(
    "model",
    [
        "network.py:network",
        "network.py:Layer",
        "all.py:any",
        pytest.param("torch.nn:ReLU", marks=pytest.mark.needs("python:torch")),
    ],
)
def test_code_that_may_be_there(case: Case, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    case.program("network.py", NET)
    case.program("all.py", "from network import *\n")
    train(case, f"inputs: /x, label: /y, model: '{model}'").plan()


def test_code_in_the_tasks_folder(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    case.program("deep/network.py", NET)
    words = "'model: network.py:network': there is no file network.py; "
    assert words in infer(case, "models: 'm*.h5', inputs: /x, model: 'network.py:network'").error()
    case.plan("inference.cwd=deep")


def test_a_python_without_torch_is_told_how_to_get_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Exception, match=r"needs the Python package 'torch', .* run: pip install 'wilkins\[torch\]'"):
        case.program("net.py", "class Net: ...\n")
        train(case, GOOD).plan()


def test_the_front_imports_neither_torch_nor_numpy() -> None:
    program = (
        "import sys; from wilkins.tasks.registry import all_tasks; all_tasks(); "
        "print(sorted({'torch', 'numpy', 'h5py', 'mpi4py', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout == b"[]\n"


NETS = """\
import functools
import torch

class Net(torch.nn.Module):
    def __init__(self, width, depth=1, *, bias=True, act): ...

class Plain(torch.nn.Module):
    pass

def net(width, **more): ...

@functools.cache
def cached(width): ...

if torch:
    def either(width): ...
else:
    def either(depth): ...
"""


@pytest.mark.needs("python:torch")
@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        ("net.py:Net", "{widht: 3, act: r}", "net.py, line 4: Net(width, depth, bias, act) takes no 'widht'; did you"),
        (
            "net.py:Net",
            "{width: 3, act: r, size: 1}",
            "net.py, line 4: Net(width, depth, bias, act) takes no 'size'; r",
        ),
        ("net.py:Net", "{width: 3}", "net.py, line 4: Net(width, depth, bias, act) needs 'act'; add it"),
        ("net.py:net", "{depth: 3}", "net.py, line 10: net(width, ...) needs 'width'; add it"),
        ("torch.nn:Linear", "{in_features: 3, out: 1}", "takes no 'out'"),
        ("torch.nn:Linear", "{in_features: 3}", "needs 'out_features'; add it"),
        ("net.py:Net", "{width: 3, bias: false, act: r}", ""),
        ("net.py:net", "{width: 3, anything: 1}", ""),
        ("torch.nn:Linear", "{in_features: 3, out_features: 1}", ""),
        ("net.py:Plain", "{width: 3}", ""),
        ("net.py:cached", "{depth: 3}", ""),
        ("net.py:either", "{size: 3}", ""),
    ],
)
def test_arguments_that_a_model_does_not_take_are_found_without_running_it(
    case: Case, model: str, given: str, message: str
) -> None:
    (case.folder / "net.py").write_text(NETS)
    train(case, f"model: '{model}', inputs: /x, label: /y, model_args: {given}")
    if not message:
        assert case.plan()
        return
    column = 12 + len(f"{{model: '{model}', inputs: /x, label: /y, model_args: ")
    assert case.error().startswith(f"workflow.yaml:6:{column}: error: task 'continual', train: 'model_args': ")
    assert message in case.error()


@pytest.mark.needs("python:torch")
def test_a_model_without_arguments_needs_those_that_have_no_default(case: Case) -> None:
    (case.folder / "net.py").write_text(NETS)
    train(case, GOOD)
    assert "train: 'model_args': net.py, line 4: Net(width, depth, bias, act) needs 'width'" in case.error()
    infer(case, "models: 'm*.h5', model: 'net.py:Net', inputs: /x")
    assert case.plan(), "they come with the model's versions"
