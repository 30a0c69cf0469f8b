"""`start_from:` and `save: {store: ...}`: a training takes over layers of a stored model, and is stored itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from continual.training import NETWORK, blobs, options_of, work, write_step
from hosts.pseudo import HERE

from support.running import MPIEXEC, WILKINS, must_run, write_program
from wilkins.errors import WorkflowError
from wilkins.tasks.errors import TaskError
from wilkins.tasks.models import ModelStore

pytestmark = pytest.mark.needs("python:torch")

TRAIN = "model: 'net.py:perceptron', inputs: /x, label: /y, batch: 12, optimizer: {lr: 0.3}"
FIRST = ("0.bias", "0.weight")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    """A store with a model that was trained on three steps."""
    for number in range(3):
        write_step(tmp_path, number, **blobs(number))
    work(tmp_path, "continual", f"{{{TRAIN}, save: {{store: models, name: base, tags: [first]}}}}", monkeypatch)
    return ModelStore(tmp_path / "models")


def trained(folder: Path, monkeypatch: pytest.MonkeyPatch, more: str, outputs: int = 4) -> None:
    section = f"{{{TRAIN}, seed: 7, model_args: {{outputs: {outputs}}}, {more}}}"
    work(folder, "continual", section, monkeypatch)


def same(store: ModelStore, one: str, other: str) -> set[str]:
    """The tensors that two models have alike."""
    tensors = [store.record(name).tensors for name in (one, other)]
    return {name for name, stored in tensors[0].items() if tensors[1].get(name) == stored}


def test_a_trained_model_is_in_the_store(base: ModelStore, tmp_path: Path) -> None:
    record = base.record("base")
    assert record.graph.traced == "fx" and record.tags == ("first",) and record.parent is None
    assert record.score is not None and -0.2 < record.score <= 0
    assert record.about["factory"] == "net.py:perceptron" and record.about["step"] == 15
    assert not (tmp_path / "saved").exists()


def test_the_prefix_is_taken_over_and_frozen(
    base: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, monkeypatch, "start_from: {store: models, freeze: true}, save: {store: models, name: child}")
    out = capsys.readouterr().out
    assert "begins with 3 layers of the model 'base'" in out and "put the model 'child' into models" in out
    child = base.record("child")
    assert child.parent is not None and child.parent.sha256 == base.record("base").seal
    assert same(base, "base", "child") == {*FIRST}
    trained(tmp_path, monkeypatch, "start_from: {store: models, model: base}, save: {store: models, name: free}")
    assert same(base, "base", "free") == set()
    more = "start_from: {store: models, model: child, freeze: true}, save: {store: models, name: again}"
    trained(tmp_path, monkeypatch, more)
    assert same(base, "child", "again") == {*FIRST}  # all is in common: the last layer is trained nevertheless
    assert base.record("again").parent == type(child.parent)("child", child.seal)


@pytest.mark.usefixtures("base")
def test_models_whose_inputs_are_prepared_otherwise_are_no_relatives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for by, name in ((255, "scaled"), (255, "again"), (100, "other")):
        more = f"preprocessing: {{scale: {{by: {by}}}, centre: {{}}}}, start_from: {{store: models}}"
        trained(tmp_path, monkeypatch, f"{more}, save: {{store: models, name: {name}}}")
    said = [line for line in capsys.readouterr().out.splitlines() if "begins" in line]
    assert "no relative" in said[0] and "begins with 6 layers of the model 'scaled'" in said[1], said
    assert "no relative" in said[2]


@pytest.mark.usefixtures("base")
def test_only_the_whole_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, monkeypatch, "start_from: {store: models, match: whole}")
    assert "has no relative of the model, which begins with its own values" in capsys.readouterr().out
    trained(tmp_path, monkeypatch, "start_from: {store: models, match: whole}", outputs=3)
    assert "begins with 4 layers of the model 'base'" in capsys.readouterr().out


def test_what_cannot_be_taken_over(base: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TaskError, match=r"'start_from': .* has no model 'bass'; did you mean 'base'"):
        trained(tmp_path, monkeypatch, "start_from: {store: models, model: bass}")
    with pytest.raises(TaskError, match="has no layer with parameters in common with this one; name another"):
        work(
            tmp_path, "continual",
            f"{{{TRAIN}, model_args: {{hidden: 5}}, start_from: {{store: models, model: base}}}}", monkeypatch,
        )  # fmt: skip
    blob = base._blobs.path(base.record("base").tensors["0.weight"].blob)
    blob.write_bytes(b"x" * blob.stat().st_size)
    with pytest.raises(TaskError, match=r"'start_from': .* is not what was written"):
        trained(tmp_path, monkeypatch, "start_from: {store: models}")


def test_where_no_store_is_training_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_step(tmp_path, 0, **blobs(0))
    trained(tmp_path, monkeypatch, "start_from: {store: none, freeze: true}")
    assert "none has no relative of the model" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


def test_a_training_that_goes_on_has_the_relative_that_it_had(
    base: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though the store has a better one by then, and the first one is gone."""
    more = "start_from: {store: models, freeze: true}, save: {folder: saved, every: 2, store: models, name: child}"
    shutil.copytree(tmp_path, tmp_path / "whole")
    whole = tmp_path / "whole"
    trained(whole, monkeypatch, more)
    trained(tmp_path, monkeypatch, f"stop: {{updates: 6}}, {more.replace('child', 'half')}")
    trained(tmp_path, monkeypatch, "save: {store: models, name: better, tags: [other]}")
    base.put(base.record("better").graph, base.get("better"), name="best", score=9)
    base.remove(["base", "half"])
    base.prune()
    capsys.readouterr()
    trained(tmp_path, monkeypatch, more)
    out = capsys.readouterr().out
    assert "goes on from 6 optimiser steps" in out and "begins with" not in out
    child, undisturbed = base.record("child"), ModelStore(whole / "models").record("child")
    assert child.tensors == undisturbed.tensors
    assert child.parent is not None and child.parent.name == "base"


def test_a_choice_that_does_not_fit_the_model(
    base: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = "start_from: {store: models}, save: {folder: saved, store: models}"
    trained(tmp_path, monkeypatch, more)
    with pytest.raises(TaskError, match=r"trained with another model, which had a tensor '0.*'; give the same model"):
        work(tmp_path, "continual", f"{{{TRAIN}, model_args: {{hidden: 5}}, {more}}}", monkeypatch)
    (tmp_path / "saved" / "start_from.json").write_text("{}")
    with pytest.raises(TaskError, match="does not say what the training began with; remove the folder"):
        trained(tmp_path, monkeypatch, more)
    assert len(base.names()) == 2


def test_a_name_that_another_model_has(
    base: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path, monkeypatch, "save: {store: models, name: base}")
    assert "models has another model 'base' already, so this one is called otherwise" in capsys.readouterr().out
    assert len(base.names()) == 2
    work(tmp_path, "continual", f"{{{TRAIN}, save: {{store: models, name: base, tags: [first]}}}}", monkeypatch)
    assert len(base.names()) == 2  # the same training gives the same model, which is there already


def test_the_score_is_of_held_out_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        held = {f"test/{name}": array for name, array in blobs(number + 9).items()}
        write_step(tmp_path, number, **blobs(number), **held)
    more = "held_out: {inputs: /test/x, targets: /test/y}, results: {}, save: {store: models, name: a}"
    work(tmp_path, "continual", f"{{{TRAIN}, {more}}}", monkeypatch)
    errors = json.loads((tmp_path / "training.json").read_text())["held_out"]["errors"][-1]
    assert ModelStore(tmp_path / "models").record("a").score == pytest.approx(-sum(errors) / 2)


def test_name_and_tags_go_with_a_store(tmp_path: Path) -> None:
    with pytest.raises(WorkflowError, match="'name' and 'tags' are of a model in a store; add 'store: FOLDER'"):
        options_of(tmp_path, "continual", f"{{{TRAIN}, save: {{name: a}}}}")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("preprocessing: {scale: {by: 2}}", "it tells models of a store apart, and there is none; add 'save: {store:"),
        ("preprocessing: {scale: 2}, start_from: {store: m}", "'scale' has no names for its settings; give {scale:"),
    ],
)
def test_preprocessing_that_says_nothing_is_refused(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(WorkflowError, match=message):
        options_of(tmp_path, "continual", f"{{{TRAIN}, {more}}}")


SOURCE = """
import h5py
import numpy as np
for number in range(3):
    rng = np.random.default_rng(number)
    with h5py.File(f"s{number}.h5", "w") as file:
        file["x"], file["y"] = rng.normal(size=(60, 2)), rng.integers(0, 3, 60)
"""


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize("hosts", [(), ("--hosts", "a:1,b:1,c:2")], ids=["one-host", "three-hosts"])
def test_tasks_of_a_workflow_use_one_store(
    tmp_path: Path, hosts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at once, one of which has two ranks; a later run takes over what they have learned."""
    monkeypatch.setenv("WILKINS_RSH", str(HERE))
    write_program(tmp_path / "net.py", NETWORK.replace("\n    ", "\n"))
    write_program(tmp_path / "source.py", SOURCE)
    tasks: list[dict[str, Any]] = [
        {"nprocs": nprocs, "outputs": outputs, "name": f"model-{outputs}"} for nprocs, outputs in ((1, 3), (2, 4))
    ]
    text = "tasks:\n  - {func: source.py, outports: [{filename: 's*.h5'}]}\n"
    for one in tasks:
        text += (
            f"  - name: train-{one['outputs']}\n    func: wilkins.tasks.continual\n    nprocs: {one['nprocs']}\n"
            f"    threads: 1\n    inports: [{{filename: 's*.h5'}}]\n    train: {{{TRAIN}, model_args: {{outputs: "
            f"{one['outputs']}}}, start_from: {{store: models, freeze: true}}, save: {{store: models}}}}\n"
        )
    (tmp_path / "workflow.yaml").write_text(text)
    must_run(tmp_path, *WILKINS, "run", *hosts, "workflow.yaml", timeout=120)
    store = ModelStore(tmp_path / "models")
    assert len(store.names()) == 2
    (tmp_path / "workflow.yaml").write_text(text.replace("save: {store: models}", "save: {store: models, tags: [b]}"))
    must_run(tmp_path, *WILKINS, "run", *hosts, "workflow.yaml", timeout=120)
    children = [one for one in store.records() if one.tags]
    assert len(children) == 2 and all(one.parent for one in children) and not any(map(store.damage, store.names()))
