"""`func: wilkins.tasks.continual`: a model is trained on the steps of a stream, measured, published and saved."""

from __future__ import annotations

import csv
import json
import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from continual.training import blobs, version, work, write_step

from wilkins.tasks.errors import TaskError
from wilkins.transport import points

pytestmark = pytest.mark.needs("python:torch")

TRAIN = "model: 'net.py:perceptron', inputs: /x, label: /y, batch: 12, optimizer: {lr: 0.3, momentum: 0.5}"
ALL = ("incremental", "from-scratch", "rehearsal", "der", "der++")


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "training.csv").open() as file:
        return list(csv.DictReader(file))


def results_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "training.json").read_text())
    return found


@pytest.mark.usual("der++", "rehearsal")
@pytest.mark.parametrize("strategy", ALL)
def test_every_strategy_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    """The error on samples not yet trained on falls, is in the table, and travels with every version."""
    for number in range(5):
        write_step(tmp_path, number, **blobs(number))
    buffer = ", buffer: {samples: 60}" if "r" in strategy.replace("from-scratch", "").replace("incremental", "") else ""
    work(tmp_path, "continual", f"{{{TRAIN}, passes: 4, strategy: {strategy}{buffer}, results: {{}}}}", monkeypatch)
    rows = rows_of(tmp_path)
    assert [row["file"] for row in rows] == [f"s{number}.h5" for number in range(5)]
    assert [int(row["samples"]) for row in rows] == [60] * 5
    updates = [20, 40, 60, 80, 100] if strategy == "from-scratch" else [20] * 5
    assert [int(row["updates"]) for row in rows] == updates
    errors = [float(row["error"]) for row in rows]
    assert errors[0] > 0.3
    assert errors[-1] < 0.05
    for number, error in enumerate(errors):
        attributes, state = version(tmp_path, number)
        assert attributes["version"] == number
        assert attributes["error"] == error
        assert attributes["step"] == sum(updates[: number + 1])
        assert attributes["steps_seen"] == number + 1
        assert attributes["factory"] == "net.py:perceptron"
        assert json.loads(attributes["factory_args"]) == {}
        assert {name: array.shape for name, array in state.items()} == {
            "0.weight": (12, 2),
            "0.bias": (12,),
            "2.weight": (3, 12),
            "2.bias": (3,),
        }
    assert not (tmp_path / "model-00005.h5").exists()
    results = results_of(tmp_path)
    assert (results["strategy"], results["steps"], results["versions"]) == (strategy, 5, 5)
    assert results["error"] == errors[-1]
    assert (results["buffer"] is None) == (not buffer)


def test_regression_with_a_loss_and_an_optimizer_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def absolute(outputs, targets): return (outputs - targets).abs().mean()\n"
        "def fast(parameters, lr): return torch.optim.Adam(parameters, lr, amsgrad=True)\n"
    )
    for number in range(6):
        x = np.random.default_rng(number).uniform(-1, 1, (80, 2)).astype(">f4")
        write_step(tmp_path, number, **{"in/x": x, "out/y": np.stack([x[:, 0] * x[:, 1], x[:, 0]], 1)})
    section = (
        "{model: 'net.py:perceptron', model_args: {outputs: 2}, inputs: in/x, targets: /out/y, loss: 'mine:absolute', "
        "error: relative, batch: 16, passes: 10, optimizer: {name: 'mine.py:fast', lr: 0.01}, "
        "strategy: rehearsal, buffer: {bytes: 1kB, balance: proportional}, results: {}}"
    )
    work(tmp_path, "continual", section, monkeypatch)
    errors = [float(row["error"]) for row in rows_of(tmp_path)]
    assert errors[0] > 0.8
    assert errors[-1] < 0.3
    buffer = results_of(tmp_path)["buffer"]
    assert buffer["size"] == 1000 // buffer["sample_bytes"] < 100
    assert json.loads(version(tmp_path, 5)[0]["factory_args"]) == {"outputs": 2}


def test_classes_beside_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`label` says what the buffer keeps equally much of, though the targets are numbers."""
    for number in range(4):
        x = np.random.default_rng(number).uniform(-1, 1, (64, 2))
        write_step(tmp_path, number, x=x, y=x, kind=np.arange(64) % 8 == 0)
    section = (
        "{model: 'net.py:perceptron', model_args: {outputs: 2}, inputs: /x, targets: /y, label: /kind, loss: mse, "
        "batch: 16, passes: 1, strategy: rehearsal, buffer: {samples: 20, candidates: 16}, results: {}}"
    )
    work(tmp_path, "continual", section, monkeypatch)
    assert results_of(tmp_path)["buffer"]["classes"] == {"0": 10, "1": 10}


@pytest.mark.parametrize(
    ("publish", "steps"),
    [
        ("", [5, 10, 15]),
        ("publish: {every: 2}", [10, 15]),
        ("publish: {when: update, every: 4}", [4, 8, 12, 15]),
        ("publish: {when: end}", [15]),
    ],
)
def test_when_versions_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publish: str, steps: list[int]
) -> None:
    for number in range(3):
        write_step(tmp_path, number, **blobs(number))
    work(tmp_path, "continual", f"{{{TRAIN}, {publish}}}", monkeypatch)
    assert [version(tmp_path, number)[0]["step"] for number in range(len(steps))] == steps
    assert len(list(tmp_path.glob("model-*"))) == len(steps)


@pytest.mark.parametrize(
    ("stop", "updates", "steps"),
    [
        ("updates: 7", 7, 2),
        ("steps: 2", 10, 2),
        ("loss: 1000", 5, 1),
        ("error: 0.9999", 5, 1),
        ("seconds: 0.000001", 1, 1),
        ("updates: 100, steps: 100, seconds: 1h, loss: 1.0e-9", 15, 3),
    ],
)
def test_when_training_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str, updates: int, steps: int
) -> None:
    for number in range(3):
        write_step(tmp_path, number, **blobs(number))
    work(tmp_path, "continual", f"{{{TRAIN}, results: {{}}, stop: {{{stop}}}}}", monkeypatch)
    results = results_of(tmp_path)
    assert results["updates"] == updates
    assert results["steps"] == steps
    last = version(tmp_path, results["versions"] - 1)[0]
    assert last["step"] == updates


def test_held_out_samples_give_a_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One class a step: the errors are those of the published versions, computed here by hand."""
    tests = []
    for number in range(3):
        train, test = blobs(number, 300), blobs(10 + number, 90)
        for one in (train, test):
            one["x"] *= 0.1
        ours, theirs = train["y"] == number, test["y"] == number
        tests.append(test["x"][theirs])
        write_step(tmp_path, number, x=train["x"][ours], y=train["y"][ours])
        with h5py.File(tmp_path / f"s{number}.h5", "a") as file:
            file["test/x"], file["test/y"] = test["x"][theirs], test["y"][theirs]
    held_out = "held_out: {inputs: test/x, targets: test/y}, results: {plot: true}"
    work(tmp_path, "continual", f"{{{TRAIN}, passes: 10, {held_out}}}", monkeypatch)
    found = results_of(tmp_path)["held_out"]
    expected = np.full((3, 3), np.nan)
    for number in range(3):
        state = version(tmp_path, number)[1]
        for place, x in enumerate(tests[: number + 1]):
            hidden = np.tanh(x.astype("f4") @ state["0.weight"].T + state["0.bias"])
            guessed = (hidden @ state["2.weight"].T + state["2.bias"]).argmax(1)
            expected[number, place] = (guessed != place).mean()
    assert np.array(found["errors"], float) == pytest.approx(expected, nan_ok=True)
    assert found["metrics"]["final_accuracy"] == pytest.approx(1 - expected[2].mean())
    assert expected[2, :2].max() > 0.1  # something was forgotten, else this test would not tell much
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")


def test_samples_that_are_not_finite_can_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = blobs(0)
    samples["x"][[3, 50], 1] = [np.nan, np.inf]
    write_step(tmp_path, 0, **samples)
    work(tmp_path, "continual", f"{{{TRAIN}, nan: skip, results: {{}}}}", monkeypatch)
    assert rows_of(tmp_path)[0]["samples"] == "58"
    assert all(np.isfinite(tensor).all() for tensor in version(tmp_path, 0)[1].values())


def test_the_same_seed_gives_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        write_step(tmp_path / name, 0, **blobs(0))
        work(tmp_path / name, "continual", f"{{{TRAIN}, seed: {seed}}}", monkeypatch)
        found.append(version(tmp_path / name, 0)[1]["0.weight"])
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).any()


def test_a_restart_goes_on_with_a_stream_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`stream: continued`: nothing is skipped, and versions, steps and the table go on."""
    section = f"{{{TRAIN}, save: {{stream: continued, every: 1}}, results: {{}}}}"
    for number in (0, 1):
        write_step(tmp_path, number, **blobs(number))
    work(tmp_path, "continual", section, monkeypatch)
    (tmp_path / "s0.h5").unlink()
    (tmp_path / "s1.h5").rename(tmp_path / "s2.h5")
    work(tmp_path, "continual", section, monkeypatch)
    assert [row["file"] for row in rows_of(tmp_path)] == ["s0.h5", "s1.h5", "s2.h5"]
    attributes, _ = version(tmp_path, 3)  # 0, 1; 2 is what was restored
    assert (attributes["steps_seen"], attributes["step"]) == (3, 15)


def test_a_restart_point_is_told_with_each_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the save needs no more, and the newest version before it, which a resumed trainer publishes again."""
    monkeypatch.setenv(points.POINTS, str(tmp_path / "points.jsonl"))
    for number in (0, 1):
        write_step(tmp_path, number, **blobs(number))
    work(tmp_path, "continual", f"{{{TRAIN}, save: {{every: 3}}}}", monkeypatch)  # a step takes five updates
    told = points.read(tmp_path / "points.jsonl")
    assert [(one.label, one.consumed["s*.h5"], one.published["model-*.h5"]) for one in told] == [
        ("3", 0, 0),
        ("6", 1, 0),
        ("9", 1, 0),
        ("10", 2, 1),
    ]
    names = [f"{number:06}-step-{one.label}" for number, one in enumerate(told, 1)]
    assert [one.file for one in told] == [str(tmp_path / "saved" / name / "manifest.json") for name in names]
    assert all(Path(one.file).exists() for one in told)


def test_a_run_that_began_from_a_save_is_resumed_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before it has made one of its own: to begin anew would lose what only that save has."""
    section = f"{{{TRAIN}, save: {{stream: continued}}, results: {{}}}}"
    for number in (0, 1):
        write_step(tmp_path, number, **blobs(number))
    work(tmp_path, "continual", section, monkeypatch)
    for number in (0, 1):
        (tmp_path / f"s{number}.h5").unlink()
    monkeypatch.setenv(points.POINTS, str(tmp_path / "points.jsonl"))
    with pytest.raises(TaskError):  # the stream ends before anything is trained
        write_step(tmp_path, 2, x=np.zeros((0, 2)), y=np.zeros(0, int))
        work(tmp_path, "continual", section.replace("batch", "nan: error, batch"), monkeypatch)
    [start] = points.read(tmp_path / "points.jsonl")
    assert (start.consumed, start.published) == ({"s*.h5": 0}, {"model-*.h5": 0})
    monkeypatch.setenv(points.CHOSEN, points.line(start))
    write_step(tmp_path, 2, **blobs(2))
    work(tmp_path, "continual", section, monkeypatch)
    assert [row["file"] for row in rows_of(tmp_path)] == ["s0.h5", "s1.h5", "s2.h5"]
    monkeypatch.setenv(points.CHOSEN, "")
    with pytest.raises(
        TaskError, match="began from a save of 10 optimiser steps, and is to begin anew, which would lose"
    ):
        work(tmp_path, "continual", section, monkeypatch)


def test_a_resumed_run_spares_saves_of_another_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They kept it from training; to begin anew over them would be what they were kept from."""
    write_step(tmp_path, 0, **blobs(0))
    work(tmp_path, "continual", f"{{{TRAIN}, save: {{}}}}", monkeypatch)
    saved = {path: path.read_bytes() for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    monkeypatch.setenv(points.CHOSEN, "")
    with pytest.raises(TaskError, match="belongs to another training, which differs in 'passes'"):
        work(tmp_path, "continual", f"{{{TRAIN}, passes: 3, save: {{}}}}", monkeypatch)
    assert {path: path.read_bytes() for path in (tmp_path / "saved").rglob("*") if path.is_file()} == saved


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
def test_samples_of_any_number_and_strides_have_a_digest(dtype: str) -> None:
    """A rank may have one of a step, or none."""
    import torch

    from wilkins.tasks.continual.task.trained_with import digest_of

    whole = torch.arange(12).to(getattr(torch, dtype)).reshape(4, 3)
    for count in (0, 1, 4):
        some = {"x": whole[:count], "y": whole[:1, 0].expand(count) if count < 2 else whole[:, 0]}
        assert digest_of(some) == digest_of({name: one.clone() for name, one in some.items()})
    assert digest_of({"x": whole}) != digest_of({"x": whole + 1})


def test_what_is_left_out_is_what_it_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_step(tmp_path, 0, **blobs(0))
    plain = TRAIN.replace(", optimizer: {lr: 0.3, momentum: 0.5}", "")
    work(tmp_path, "continual", f"{{{plain}, save: {{}}}}", monkeypatch)
    work(tmp_path, "continual", f"{{{plain}, optimizer: {{name: sgd, lr: 0.01}}, save: {{}}}}", monkeypatch)


@pytest.mark.parametrize("stream", ["replayed", "resumed"])
def test_a_run_that_begins_anew_takes_no_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    """One that was written, but not told of any more, or that is for resumed runs alone: the stream and the versions
    begin anew too."""
    write_step(tmp_path, 0, **blobs(0))
    section = f"{{{TRAIN}, save: {{stream: {stream}}}}}"
    work(tmp_path, "continual", section, monkeypatch)
    first = version(tmp_path, 0)
    (tmp_path / "model-00000.h5").unlink()
    if stream == "replayed":
        monkeypatch.setenv(points.CHOSEN, "")
    work(tmp_path, "continual", section, monkeypatch)
    again = version(tmp_path, 0)
    assert again[0]["step"] == first[0]["step"] == 5
    assert all(np.array_equal(again[1][name], value) for name, value in first[1].items())


@pytest.mark.parametrize(
    ("section", "code", "words"),
    [
        (TRAIN.replace("lr: 0.3", "lr: 0.2"), "", "differs in 'optimizer: lr' (it was 0.3, and is 0.2)"),
        (TRAIN + ", passes: 2", "", "differs in 'passes' (it was 1, and is 2)"),
        (TRAIN, "VERSION = 2", "differs in the code of 'model: net.py:perceptron'"),
        (TRAIN + ", device: cpu, stop: {steps: 9}", "# a comment", ""),
    ],
    ids=["rate", "passes", "code", "what is no matter"],
)
def test_a_save_of_another_training(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    section: str,
    code: str,
    words: str,
) -> None:
    """Refused where it would be all that comes out, whatever was asked for; told where the stream goes on."""
    write_step(tmp_path, 0, **blobs(0))
    saves = [f"save: {{folder: {stream}, stream: {stream}}}" for stream in ("replayed", "continued")]
    for save in saves:
        work(tmp_path, "continual", f"{{{TRAIN}, {save}}}", monkeypatch)
    with (tmp_path / "net.py").open("a") as file:
        print(code, file=file)
    with pytest.raises(TaskError, match="remove the folder") if words else nullcontext() as caught:
        work(tmp_path, "continual", f"{{{section}, {saves[0]}}}", monkeypatch)
    assert words in (str(caught.value) if caught else "")
    capsys.readouterr()
    work(tmp_path, "continual", f"{{{section}, {saves[1]}}}", monkeypatch)
    told = capsys.readouterr().out
    assert ("the save in 'continued' was trained otherwise; it " + words in told) if words else "otherwise" not in told


@pytest.mark.parametrize(
    ("updates", "files", "words"),
    [
        (10, "s0.h5 s7.h5", "step 1 (s7.h5): the save in 'saved' was trained up to 's1.h5', so this stream is another"),
        (7, "s0.h5 s7.h5", "step 1 (s7.h5): the save in 'saved' was trained up to 's1.h5', so this stream is another"),
        (10, "s0.h5", "the stream has ended after 1 steps, but the save in 'saved' was trained on 2; let the same"),
        (7, "s0.h5", "the stream has ended after 1 steps, but the save in 'saved' was trained on 2; let the same"),
        (
            5,
            "s0.h5 s1.h5",
            "step 0 (s0.h5): it holds other samples than the step of this name that the save in 'saved'",
        ),
        (
            3,
            "s0.h5 s1.h5",
            "step 0 (s0.h5): it holds other samples than the step of this name that the save in 'saved'",
        ),
    ],
)
def test_a_restart_notices_another_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: int, files: str, words: str
) -> None:
    """One with other steps, or fewer; also in the middle of a step of the stream (each takes five updates)."""
    section = f"{TRAIN}, save: {{}}"
    for number in (0, 1):
        write_step(tmp_path, number, **blobs(number))
    work(tmp_path, "continual", f"{{{section}, stop: {{updates: {updates}}}}}", monkeypatch)
    for number in (0, 1):
        (tmp_path / f"s{number}.h5").unlink()
    for name in files.split():
        write_step(tmp_path, int(name[1]), **blobs(1))
    with pytest.raises(TaskError) as caught:
        work(tmp_path, "continual", f"{{{section}}}", monkeypatch)
    assert words in str(caught.value)


def test_a_restart_in_the_middle_of_the_last_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that looks at whole steps of the stream lets the step that was begun come to its end; what a model draws
    at random does not depend on the restart."""
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class perceptron(torch.nn.Linear):\n"
        "    def __init__(self): super().__init__(2, 3)\n"
        "    def forward(self, x): return super().forward(x + 0.1 * torch.rand_like(x))\n"
    )
    for number in (0, 1):
        write_step(tmp_path, number, **blobs(number))
    section = f"{TRAIN}, stop: {{error: 1.0}}, publish: {{when: end}}"  # enough after the first step
    work(tmp_path, "continual", f"{{{section}}}", monkeypatch)
    attributes, expected = version(tmp_path, 0)
    assert attributes["step"] == 5
    work(tmp_path, "continual", f"{{{section.replace('error: 1.0', 'updates: 3')}, save: {{}}}}", monkeypatch)
    work(tmp_path, "continual", f"{{{section}, save: {{}}}}", monkeypatch)
    attributes, found = version(tmp_path, 2)  # 0 by the one that was stopped, and again by the one that goes on
    assert attributes["step"] == 5
    for name, values in expected.items():
        assert np.array_equal(found[name], values), name


def test_a_version_holds_every_type_of_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from wilkins.tasks.continual.task.model_file import read_model

    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    def __init__(self):\n"
        "        super().__init__(2, 3)\n"
        "        self.register_buffer('brief', torch.arange(4).to(torch.bfloat16).reshape(2, 2) / 3)\n"
        "        self.register_buffer('flag', torch.tensor(True))\n"
        "        self.register_buffer('empty', torch.zeros(0, 5))\n"
        "        self.register_buffer('small', torch.tensor([0.5, -2]).to(torch.float8_e4m3fn))\n"
    )
    write_step(tmp_path, 0, **blobs(0))
    work(tmp_path, "continual", f"{{{TRAIN.replace('perceptron', 'Net')}}}", monkeypatch)
    with h5py.File(tmp_path / "model-00000.h5") as file:
        state = read_model(file, "").state
    assert torch.equal(state["brief"], torch.arange(4).to(torch.bfloat16).reshape(2, 2) / 3)
    assert state["flag"].dtype == torch.bool
    assert state["flag"].shape == ()
    assert state["empty"].shape == (0, 5)
    assert state["small"].dtype == torch.float8_e4m3fn
    assert state["small"].float().tolist() == [0.5, -2]
    assert not math.isnan(version(tmp_path, 0)[0]["loss"])
