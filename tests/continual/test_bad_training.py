"""What is wrong with samples, models and options of training is told with port, step and tensor, and ends all ranks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from continual.training import NETWORK, blobs, options_of, work, write_step

import wilkins.tasks
from support.running import MPIEXEC, WILKINS, run_tree
from wilkins.tasks.errors import TaskError

pytestmark = pytest.mark.needs("python:torch")

TRAIN = "model: 'net.py:perceptron', inputs: /x, label: /y, batch: 12"
REGRESSION = "model: 'net.py:perceptron', inputs: /x, targets: /y, loss: mse, batch: 12"
PORT = r"port 's*.h5', step 1 (s1.h5)"


def changed(**changes: Any) -> Callable[[], dict[str, Any]]:
    """A good step, with some datasets changed by functions, or left out."""

    def made() -> dict[str, Any]:
        step = blobs(1)
        for name, change in changes.items():
            step[name] = change(step[name]) if change else None
        return {name: array for name, array in step.items() if array is not None}

    return made


def spoilt(value: float) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array = array.copy()
        array[41] = value
        return array

    return change


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (changed(x=lambda x: x[:, :1]), "tensor '/x': its samples have the shape (1,), in step 0 they had (2,)"),
        (changed(x=lambda x: x.astype("f4")), "tensor '/x': its samples have the type float32, in step 0 they"),
        (changed(y=spoilt(3)), "tensor '/y': there is a sample of class 3, and classes are from 0 to 2 (the model gi"),
        (changed(y=spoilt(-1)), "tensor '/y': there is a sample of class -1, and classes are from 0 to 2"),
        (changed(x=spoilt(np.nan)), "tensor '/x': sample 41 holds NaN or infinity; mend its source, or set 'nan'"),
        (changed(x=spoilt(-np.inf)), "tensor '/x': sample 41 holds NaN or infinity"),
        (changed(x=lambda x: x[:0], y=lambda y: y[:0]), "tensor '/x': the step holds no samples"),
        (changed(y=None), "tensor '/y': there is no such dataset; datasets there are: /x"),
        (changed(y=lambda y: y[:59]), "tensor '/y': it holds 59 samples, and '/x' 60"),
        (changed(x=lambda _: np.float64(3)), "tensor '/x': it is a single value"),
        (changed(x=lambda x: np.array([b"a"] * len(x))), "tensor '/x': it holds |S1, and numbers are needed"),
    ],
)  # fmt: skip
def test_a_step_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Callable[[], dict[str, Any]], words: str
) -> None:
    write_step(tmp_path, 0, **blobs(0))
    write_step(tmp_path, 1, **step())
    with pytest.raises(TaskError) as caught:
        work(tmp_path, "continual", f"{{{TRAIN}}}", monkeypatch)
    assert f"{PORT}, {words}" in str(caught.value)
    assert (tmp_path / "model-00000.h5").exists()


@pytest.mark.parametrize(
    ("section", "first", "words"),
    [
        (TRAIN, changed(y=lambda y: y / 2), "tensor '/y': it holds float64, and classes are whole numbers; for re"),
        (TRAIN, changed(y=lambda y: y[:, None]), "tensor '/y': samples have the shape (1,), and each has one class"),
        (f"{TRAIN}, classes: 2", changed(), "there is a sample of class 2, and classes are from 0 to 1 (the number of"),
        (f"{TRAIN}, classes: 7", changed(), "'classes' is 7, but the model 'net.py:perceptron' gives 3 numbers"),
        (f"{TRAIN}, model_args: {{width: 5}}", changed(), "tensor '/x': the model 'net.py:perceptron' does not take "
         "samples of float32 (2,): RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        (TRAIN, changed(x=lambda x: x.astype("i2")), "; mend the model (x.float() in its 'forward' makes floating"),
        (REGRESSION, changed(), "tensor '/y': a sample's target has the shape (), its output (3,): for the loss"),
        (REGRESSION, changed(y=lambda _: np.full((60, 3), np.nan)), "tensor '/y': sample 0 holds NaN or infinity"),
        (TRAIN.replace("perceptron", "many"), changed(), "tensor '/x': the model 'net.py:many' gives a tuple for"),
        (TRAIN.replace("perceptron", "flat"), changed(), "the model 'net.py:flat' gives a tensor of shape (3, 1)"),
        (f"{REGRESSION.replace('mse', 'net.py:bad')}", changed(), "tensor '/y': the loss 'net.py:bad' fails: KeyError"),
        (f"{REGRESSION.replace('mse', 'net.py:wide')}", changed(), "the loss 'net.py:wide' must give one number"),
        (f"{TRAIN}, passes: 5, optimizer: {{lr: 1.0e+38}}", changed(), "; training has diverged: lower the learning"),
        (f"{TRAIN}, nan: skip", changed(x=lambda x: x * np.nan), "every sample holds NaN or infinity, so 'nan: skip'"),
        (f"{TRAIN}, nan: keep", changed(x=spoilt(np.nan)), "the objective is nan; training has diverged"),
        (TRAIN.replace("perceptron", "late"), changed(), "training fails: ArithmeticError: too late ("),
    ],
)  # fmt: skip
def test_a_model_or_loss_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, first: Callable[[], dict[str, Any]], words: str
) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\n\n" + "\n".join(line[4:] for line in NETWORK.splitlines()) + "\n\n"
        "class many(torch.nn.Linear):\n"
        "    def __init__(self): super().__init__(2, 3)\n"
        "    def forward(self, x): return super().forward(x), x\n"
        "class flat(torch.nn.Linear):\n"
        "    def __init__(self): super().__init__(2, 3)\n"
        "    def forward(self, x): return super().forward(x).T\n"
        "class late(torch.nn.Linear):\n"
        "    calls = 0\n"
        "    def __init__(self): super().__init__(2, 3)\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        if self.calls > 4: raise ArithmeticError('too late')\n"
        "        return super().forward(x)\n"
        "def bad(outputs, targets): return {}['k']\n"
        "def wide(outputs, targets): return outputs\n"
    )
    write_step(tmp_path, 0, **first())
    with pytest.raises(TaskError) as caught:
        work(tmp_path, "continual", f"{{{section}}}", monkeypatch)
    assert str(caught.value).startswith("port 's*.h5', step 0 (s0.h5)")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("model: 'nit.py:perceptron'", "'model: nit.py:perceptron': there is no file "),
        (
            "model: 'nowhere.net:Net'",
            "'model: nowhere.net:Net': there is no module 'nowhere.net'; install it, or ",
        ),
        ("model: 'net.py:Perceptron'", "'model: net.py:Perceptron': net.py has no 'Perceptron'; it has perceptron"),
        ("model: 'net.py:torch'", "'torch' is a module; name a function or a class"),
        ("model: 'broken.py:x'", "broken.py cannot be imported: ZeroDivisionError: division by zero ("),
        ("model: 'other:fails'", "'model: other:fails': called with () it fails: KeyError: 'weights' ("),
        ("model: 'other:fails', model_args: {size: 3}", "called with (size=3) it fails: TypeError: "),
        ("model: 'other:number'", "'model: other:number' gives a int, and a torch.nn.Module is needed"),
        ("model: 'other:fixed'", "has no parameters that can be trained"),
        ("model: 'net.py:perceptron', loss: 'other:no'", "'loss: other:no': other has no 'no'"),
        ("model: 'net.py:perceptron', optimizer: {name: adam, args: {lrr: 3}}", "'optimizer: adam' cannot be made: "),
        ("model: 'net.py:perceptron', optimizer: {name: 'other:number'}", "'optimizer: other:number' "),
    ],
)
def test_code_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, words: str) -> None:
    monkeypatch.delitem(sys.modules, "other", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "broken.py").write_text("x = 1 / 0\n")
    (tmp_path / "other.py").write_text(
        "import torch\n"
        "def fails(): return {}['weights']\n"
        "def number(*a, **b): return 3\n"
        "def fixed(): return torch.nn.ReLU()\n"
    )
    write_step(tmp_path, 0, **blobs(0))
    with pytest.raises(TaskError) as caught:
        work(tmp_path, "continual", f"{{inputs: /x, label: /y, {section}}}", monkeypatch)
    assert words in str(caught.value)


@pytest.mark.nightly
def test_an_empty_stream(tmp_path: Path) -> None:
    """In a run, whose producer has failed before its first step."""
    (tmp_path / "source.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "net.py").write_text("import torch\ndef line(): return torch.nn.Linear(2, 3)\n")
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n  - {func: source.py, on_failure: continue, outports: [{filename: 's*.h5'}]}\n"
        "  - {func: wilkins.tasks.continual, inports: [{filename: 's*.h5'}], "
        "train: {model: 'net.py:line', inputs: /x, label: /y}}\n"
    )
    done = run_tree([*WILKINS, "run", "workflow.yaml"], 150, tmp_path, {"OMP_NUM_THREADS": "1"})
    assert done.code == 1
    assert "wilkins.tasks.continual: error: port 's*.h5': the stream has ended without a step" in done.out + done.err
    assert "Traceback" not in done.out + done.err


START = str(Path(next(iter(wilkins.tasks.__path__))) / "__main__.py")


def on_two_ranks(folder: Path, section: str) -> str:
    """What two ranks say that fail on files on disk; they must end by themselves."""
    options, ports = options_of(folder, "continual", section), [["s*.h5"], ["model-*.h5"], str(folder)]
    words = [sys.executable, START, "continual", json.dumps(options), json.dumps(ports)]
    done = run_tree([MPIEXEC, "-n", "2", *words], 150, folder, {"OMP_NUM_THREADS": "1"})
    assert done.code not in (0, None)
    assert "Traceback" not in done.out + done.err
    assert done.err.count("wilkins.tasks.continual: error: ") == 1
    return done.err


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("section", "words"),
    [
        # Row 41 is of the second rank's part; the first one learns of it.
        (f"{TRAIN}, strategy: rehearsal, buffer: {{samples: 9}}", f"{PORT}, tensor '/x': sample 41 holds NaN"),
        (f"{TRAIN}, nan: keep, passes: 2", "the objective is nan; training has diverged"),
        (f"{TRAIN.replace('perceptron', 'late')}, nan: skip, strategy: der, buffer: {{samples: 9}}",
         "training fails: ArithmeticError: only here"),
    ],
)  # fmt: skip
def test_a_rank_that_fails_ends_the_others(tmp_path: Path, section: str, words: str) -> None:
    (tmp_path / "net.py").write_text(
        "import os, torch\n\n\n" + "\n".join(line[4:] for line in NETWORK.splitlines()) + "\n\n"
        "class late(torch.nn.Linear):\n"
        "    calls = 0\n"
        "    def __init__(self): super().__init__(2, 3)\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        if self.calls > 5 and os.environ['PMI_RANK'] == '1': raise ArithmeticError('only here')\n"
        "        return super().forward(x)\n"
    )
    write_step(tmp_path, 0, **blobs(0))
    write_step(tmp_path, 1, **changed(x=spoilt(np.nan))())
    assert words in on_two_ranks(tmp_path, f"{{{section}}}")


def test_a_save_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_step(tmp_path, 0, **blobs(0))
    work(tmp_path, "continual", f"{{{TRAIN}, save: {{}}}}", monkeypatch)
    with pytest.raises(TaskError, match=r"(?s)cannot restore a learner from saved/000001-step-5: .*size mismatch"):
        work(tmp_path, "continual", f"{{{TRAIN}, save: {{}}, model_args: {{hidden: 9}}}}", monkeypatch)
    newest = tmp_path / "saved" / "latest" / "data-0.bin"
    newest.write_bytes(newest.read_bytes()[:50])
    with pytest.raises(TaskError, match=r"no version in saved verifies: .*; remove it to go on from an older one"):
        work(tmp_path, "continual", f"{{{TRAIN}, save: {{}}}}", monkeypatch)


def test_a_chunked_stream_is_as_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever way the samples are stored."""
    samples = blobs(0)
    with h5py.File(tmp_path / "s0.h5", "w") as file:
        file.create_dataset("x", data=samples["x"].astype(">f8"), chunks=(7, 1), compression="gzip")
        file.create_dataset("y", data=samples["y"].astype("u2"), chunks=(11,))
    work(tmp_path, "continual", f"{{{TRAIN}, seed: 3}}", monkeypatch)
    with h5py.File(tmp_path / "model-00000.h5") as file:
        chunked = file["state/0.weight"][()]
    write_step(tmp_path, 0, **samples)
    work(tmp_path, "continual", f"{{{TRAIN}, seed: 3}}", monkeypatch)
    with h5py.File(tmp_path / "model-00000.h5") as file:
        assert (file["state/0.weight"][()] == chunked).all()
