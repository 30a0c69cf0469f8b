"""`func: wilkins.tasks.inference`: the newest model version serves predictions, and what does not fit is told."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from continual.training import NETWORK, work

from support.running import MPIEXEC, WILKINS, run_tree
from wilkins.tasks.errors import TaskError

pytestmark = pytest.mark.needs("python:torch")

SERVE = "models: 'model-*.h5', model: 'net.py:perceptron', inputs: /x"


def write_inputs(folder: Path, number: int, x: Any, **more: Any) -> None:
    with h5py.File(folder / f"s{number}.h5", "w") as file:
        file["x"] = x
        file.attrs["time"] = number / 2
        for name, value in more.items():
            file[name] = value


def write_version(folder: Path, number: int, error: float = 0.1, **changes: Any) -> dict[str, Any]:
    """A model version with weights of its own, as any program could write it; its state."""
    rng = np.random.default_rng(number)
    shapes = {"0.weight": (12, 2), "0.bias": (12,), "2.weight": (3, 12), "2.bias": (3,)} | changes.pop("shapes", {})
    state = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items() if shape is not None}
    attributes = {
        "version": number,
        "step": 10 * number,
        "steps_seen": number,
        "factory": "net.py:perceptron",
        "factory_args": "{}",
        "loss": 0.2,
        "error": error,
    } | changes
    with h5py.File(folder / f"model-{number}.h5", "w") as file:
        file.attrs.update(attributes)
        for name, values in state.items():
            file[f"state/{name}"] = values
    return state


def expected(state: dict[str, Any], x: Any) -> Any:
    return np.tanh(x.astype("f4") @ state["0.weight"].T + state["0.bias"]) @ state["2.weight"].T + state["2.bias"]


X = np.random.default_rng(7).normal(size=(10, 2))


@pytest.mark.parametrize(
    ("options", "error", "good"),
    [("", np.nan, 1), ("threshold: 0.2", 0.2, 1), ("threshold: 0.2", 0.21, 0), ("threshold: 0.2", np.nan, 0)],
)
def test_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, error: float, good: int) -> None:
    """Of the newest version, with its number and error, and what is passed on."""
    write_version(tmp_path, 1)
    state = write_version(tmp_path, 2, error)
    for number in range(3):
        write_inputs(tmp_path, number, X + number, extra=np.arange(5), **{"deep/er": np.arange(4.0)})
    work(tmp_path, "inference", f"{{{SERVE}, batch: 3, dsets: [/extra, deep/er], {options}}}", monkeypatch)
    for number in range(3):
        with h5py.File(tmp_path / f"p{number:05}.h5") as file:
            assert file["prediction"][()] == pytest.approx(expected(state, X + number), abs=1e-5)
            assert file["extra"][()].tolist() == [0, 1, 2, 3, 4]
            assert file["deep/er"].dtype == np.float64
            attributes = dict(file.attrs)
        assert attributes.pop("model_error") == pytest.approx(error, nan_ok=True)
        assert attributes == {"time": number / 2, "model_version": 2, "good": good, "step": number}


def test_predictions_that_are_no_numbers_are_not_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_version(tmp_path, 0)
    write_inputs(tmp_path, 0, np.where(np.arange(20).reshape(10, 2) == 7, np.nan, X))
    work(tmp_path, "inference", f"{{{SERVE}, nan: keep, output: a/b, filename: 'p-{{name}}.h5'}}", monkeypatch)
    with h5py.File(tmp_path / "p-s0.h5") as file:
        assert np.isnan(file["a/b"][()]).any(1).tolist() == [row == 3 for row in range(10)]
        assert file.attrs["good"] == 0


@pytest.mark.parametrize(
    ("options", "changes", "words"),
    [
        ("", {"factory": "os:system"}, "port 'model-*.h5', step 0 (model-0.h5): it is a version of the model "
         "'os:system', and 'model' says 'net.py:perceptron'"),
        ("model_args: {hidden: 9}", {}, "its model was made with {}, and 'model_args' says {'hidden': 9}"),
        ("", {"shapes": {"2.bias": (4,)}}, "tensor '2.bias': it has the shape (4,), in the model of"),
        ("", {"shapes": {"2.bias": None}}, "tensor '2.bias': it is missing"),
        ("", {"shapes": {"3.bias": (4,)}}, "tensor '3.bias': the model of 'model: net.py:perceptron' has no "),
        ("", {"factory_args": "{"}, "the file is no model version of wilkins.tasks.continual"),
        ("", {"factory_args": "[3]"}, "wilkins.tasks.continual: 'factory_args' is [3]; arguments by name are needed"),
        ("", {"step": "ten"}, "the file is no model version of wilkins.tasks.continual: invalid literal for int()"),
        ("", {"factory_args": '{"widht": 3}'}, "called with (widht=3) it fails: TypeError"),
        ("inputs: /y", {}, "port 's*.h5', step 0 (s0.h5), tensor '/y': there is no such dataset"),
        ("dsets: [/z]", {}, "port 's*.h5', step 0 (s0.h5), tensor '/z': there is no dataset to pass on"),
        ("", {"factory_args": '{"width": 3}', "shapes": {"0.weight": (12, 3)}}, "port 's*.h5', step 0 (s0.h5), tensor "
         "'/x': the model 'net.py:perceptron' does not take samples of float32 (2,)"),
    ],
)  # fmt: skip
def test_what_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, changes: dict[str, Any], words: str
) -> None:
    write_version(tmp_path, 0, **changes)
    write_inputs(tmp_path, 0, X)
    section = SERVE.replace(", inputs: /x", "") + f", {options}" if "inputs" in options else f"{SERVE}, {options}"
    with pytest.raises(TaskError) as caught:
        work(tmp_path, "inference", f"{{{section}}}", monkeypatch)
    assert words in str(caught.value)


WORKFLOW = """
tasks:
  - func: source.py
    outports: [{filename: "s*.h5"}]
    inports: [{filename: "p*.h5"}]
  - func: models.py
    inports: [{filename: "p*.h5"}]
    outports: [{filename: "model-*.h5"}]
  - func: wilkins.tasks.inference
    nprocs: 3
    inports: [{filename: "s*.h5"}, {filename: "model-*.h5", io_freq: latest}]
    outports: [{filename: "p*.h5"}]
    inference: {models: "model-*.h5", model: "net.py:perceptron", inputs: /x, threshold: 0.5}
"""

SOURCE = """
import h5py, json
from wilkins.transport import steps
names = steps.names("p*.h5")
told = []
for step in range(40):
    with h5py.File(f"s{step}.h5", "w") as file:
        file["x"] = [[step, row / 2] for row in range(1 + step % 5)]   # fewer rows than ranks, too
    with h5py.File(next(names)) as file:
        told.append({**{name: float(value) for name, value in file.attrs.items()}, "rows": (
            file["prediction"][()].tolist() if "prediction" in file else None)})
json.dump(told, open("told.json", "w"))
"""

MODELS = """
import h5py, numpy
from wilkins.transport import steps
for number, name in enumerate(steps.names("p*.h5")):
    if number % 4 == 3:
        version = number // 4
        with h5py.File(f"model-{version}.h5", "w") as file:
            file.attrs.update(version=version, step=0, steps_seen=0, factory="net.py:perceptron", factory_args="{}",
                              loss=0.0, error=1.0 / (1 + version))
            for key, shape in {"0.weight": (12, 2), "0.bias": (12,), "2.weight": (3, 12), "2.bias": (3,)}.items():
                file["state/" + key] = numpy.full(shape, version if key == "2.bias" else 0, "f4")
"""


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.timeout(200)
def test_all_ranks_serve_the_same_version(tmp_path: Path) -> None:
    """In a cycle, on more ranks than some steps have rows: before there is a model, and while versions come."""
    for name, text in {"source": SOURCE, "models": MODELS, "net": NETWORK}.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    done = run_tree([*WILKINS, "run", "workflow.yaml"], 180, tmp_path, {"OMP_NUM_THREADS": "1"})
    assert done.code == 0, done.out + done.err
    told = json.loads((tmp_path / "told.json").read_text())
    assert len(told) == 40
    assert told[0]["rows"] is None
    assert (told[0]["good"], told[0]["model_version"]) == (0, -1)
    versions = [one["model_version"] for one in told]
    assert versions == sorted(versions)
    assert versions[-1] >= 5
    for number, one in enumerate(told):
        if one["rows"] is not None:  # each row is the bias of the version that is told
            assert one["rows"] == [[one["model_version"]] * 3] * (1 + number % 5)
            assert one["good"] == (one["model_error"] <= 0.5)


@pytest.mark.nightly
def test_no_model_came(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def perceptron(): ...\n")
    (tmp_path / "source.py").write_text(
        "import h5py\nfor k in range(2):\n    with h5py.File(f's{k}.h5', 'w') as file: file['x'] = [[1.0, 2.0]]\n"
    )
    (tmp_path / "trainer.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n  - {func: source.py, outports: [{filename: 's*.h5'}]}\n"
        "  - {func: trainer.py, on_failure: continue, outports: [{filename: 'model-*.h5'}]}\n"
        "  - func: wilkins.tasks.inference\n    inports: [{filename: 's*.h5'}, {filename: 'model-*.h5'}]\n"
        f"    outports: [{{filename: 'p*.h5'}}]\n    inference: {{{SERVE}}}\n"
    )
    done = run_tree([*WILKINS, "run", "workflow.yaml"], 150, tmp_path, {"OMP_NUM_THREADS": "1"})
    assert "predicted for 0 of 2 steps well enough; no model version came" in done.out
