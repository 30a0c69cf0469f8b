"""`wilkins models`: what it says of a store, and what it writes, takes in and removes."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from wilkins.cli import main
from wilkins.tasks.models import Graph, Layer, ModelStore
from wilkins.tasks.models.index import file_in

from .conftest import chain, state_of

READER = pytest.mark.needs("python:safetensors")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A base, two models derived from it and one derived from these."""
    store = ModelStore(tmp_path / "store")
    base = state_of(4, 0)
    store.put(chain(4), base, name="base", score=0.5, tags=["first"], about={"config": {"model_type": "chain"}})
    for number, name in enumerate(("left", "right")):
        changed = base | {"l3.weight": np.full(9, number, "f4")}
        store.put(chain(4, head=name), changed, name=name, score=0.6 + number / 10, parent="base")
    store.put(chain(4, head="right"), base | {"l3.weight": np.full(9, 7, "f4")}, name="last", parent="right", score=0.9)
    return tmp_path / "store"


def said(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    assert main(["models", *map(str, words)]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def test_letters_that_would_change_a_terminal_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of layers, tags and what is said of a model come from anywhere."""
    bad, shown = "x\x1b[2J\r\n\u202e", "x\\x1b[2J\\r\\n\\u202e"
    store = ModelStore(tmp_path / "store")
    for name in ("a", "b"):
        graph = Graph((Layer(bad, bad + name),), "fx")
        store.put(graph, {}, name=name, tags=[bad], about={bad: bad}, score=1.0)
    for words in (("list", store.folder), ("show", store.folder, "a"), ("diff", store.folder, "a", "b")):
        out = said(capsys, *words)
        assert shown in out and all(line.isprintable() for line in out.split("\n"))
    assert shown in said(capsys, "lineage", store.folder)


def test_list_show_diff(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, *lines, last = said(capsys, "list", folder).splitlines()
    assert head.split()[:5] == ["model", "layers", "bytes", "score", "parent"]
    assert [line.split()[0] for line in lines] == ["last", "right", "left", "base"]
    assert last == "4 models, 2,708 bytes, stored in 908"
    assert len(said(capsys, "list", folder, "--tag", "first").splitlines()) == 3
    out = said(capsys, "show", folder, "left").splitlines()
    assert out[0] == "left: 5 layers, traced by torch.fx; 4 tensors, 636 bytes"
    assert "derived from base; score: 0.6" in out[1]
    assert out[-1].split()[1:] == ["l3", "left", "36", "l2"]
    assert said(capsys, "diff", folder, "right", "last").splitlines() == [
        "4 layers of both, with the same values; 600 bytes of tensors that both have",
        "1 layer of both, with other values:",
        "  l3",
        "0 layers only in right",
        "0 layers only in last",
    ]
    assert "1 layer only in base:\n  l3\n1 layer only in left:\n  l3" in said(capsys, "diff", folder, "base", "left")


def test_lineage(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    family = [
        "base: score 0.5, first",
        "  left: score 0.6, 4 of 5 layers from its parent",
        "  right: score 0.7, 4 of 5 layers from its parent",
        "    last: score 0.9, 5 of 5 layers from its parent",
    ]
    assert said(capsys, "lineage", folder).splitlines() == family
    assert said(capsys, "lineage", folder, "right").splitlines() == [family[0], *family[2:]]
    said(capsys, "lineage", folder, "-o", tmp_path / "family.svg")
    texts = [one.text for one in ElementTree.parse(tmp_path / "family.svg").iter() if one.tag.endswith("text")]
    assert {"base", "left", "right", "last", "score 0.9", "4 of 5 layers", "5 of 5 layers"} <= {*texts}
    said(capsys, "prune", folder, "--remove", "right")
    assert said(capsys, "lineage", folder, "last").splitlines() == ["right: removed", "  last: score 0.9"]
    assert "has no model 'nobody'" in said(capsys, "lineage", folder, "nobody", code=2)
    ModelStore(folder).put(chain(1), state_of(1, 1), name="right")  # another model, which is nobody's parent
    assert said(capsys, "lineage", folder, "last").splitlines() == ["right (before): removed", "  last: score 0.9"]


@READER
def test_export_is_read_by_safetensors(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library: Any = importlib.import_module("safetensors.numpy")
    file = tmp_path / "out" / "model.safetensors"
    assert said(capsys, "export", folder, "left", file) == f"wrote 4 tensors of left, 636 bytes: {file}\n"
    wanted = ModelStore(folder).get("left", library="numpy")
    found = library.load_file(file)
    assert found.keys() == wanted.keys() and all(np.array_equal(found[name], wanted[name]) for name in found)
    said(capsys, "export", folder, "left", file, "--layers", "l1", "--layers", "l2")
    assert library.load_file(file).keys() == {"l1.weight", "l2.weight"}
    said(capsys, "export", folder, "base", tmp_path / "hf")
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["model_type"] == "chain"
    assert library.load_file(tmp_path / "hf" / "model.safetensors").keys() == wanted.keys()
    assert "is there already" in said(capsys, "export", folder, "base", tmp_path / "hf", code=1)
    assert "has no tensor there" in said(capsys, "export", folder, "base", file, "--layers", "input", code=1)


def test_import_gives_what_was_exported(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, other = ModelStore(folder), ModelStore(tmp_path / "other")
    for target in ("hf", "model.safetensors"):
        said(capsys, "export", folder, "base", tmp_path / target)
        said(capsys, "import", other.folder, tmp_path / target, "--name", target, "--tag", "new")
        record, before = other.record(target), store.record("base")
        assert (record.graph, record.tensors, record.score) == (before.graph, before.tensors, before.score)
        assert (record.about, record.tags) == (before.about, ("first", "new"))
        assert other.damage(target) == ""
    said(capsys, "import", other.folder, tmp_path / "hf", "--score", "3", "--parent", "hf", "--name", "child")
    assert other.record("child").score == 3 and other.record("child").parent is not None


@READER
@pytest.mark.needs("python:torch")
def test_models_of_others_are_imported(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one file, or in several parts with an index, as transformers write large ones."""
    torch: Any = importlib.import_module("torch")
    library: Any = importlib.import_module("safetensors.torch")
    state = {f"encoder.{n}.{role}": torch.randn(3, n + 1) for n in (0, 1, 10) for role in ("weight", "bias")}
    state["encoder.1.weight"] = state["encoder.1.weight"].to(torch.bfloat16)
    library.save_file(state, tmp_path / "whole.safetensors")
    said(capsys, "import", folder, tmp_path / "whole.safetensors", "--name", "whole")
    parts = tmp_path / "parts"
    parts.mkdir()
    names = sorted(state)
    for number, part in enumerate((names[:2], names[2:])):
        library.save_file({name: state[name] for name in part}, parts / f"model-{number}.safetensors")
    where = {name: f"model-{int(name not in names[:2])}.safetensors" for name in names}
    (parts / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    (parts / "config.json").write_text(json.dumps({"model_type": "bert"}))
    said(capsys, "import", folder, parts, "--name", "parts")
    store = ModelStore(folder)
    for name in ("whole", "parts"):
        got = store.get(name)
        assert got.keys() == state.keys() and all(torch.equal(got[key], state[key]) for key in state)
        layers = [layer.name for layer in store.record(name).graph.layers]
        assert layers == ["input", "encoder.0", "encoder.1", "encoder.10"]
    assert store.record("parts").about == {"config": {"model_type": "bert"}}
    assert "not traced: from the names of its tensors" in said(capsys, "show", folder, "whole")


def test_what_is_no_model_is_not_imported(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "export", folder, "base", tmp_path / "base.safetensors")
    raw = (tmp_path / "base.safetensors").read_bytes()
    file = tmp_path / "bad.safetensors"
    header = json.dumps({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode()
    for data, told in (
        (b"", "its header does not fit into it"),
        (raw[:40], "its header does not fit into it"),
        (raw[:-4], "the bytes of 'l3.weight' are not where it says"),
        (len(header).to_bytes(8, "little") + header + bytes(12), "the bytes of 'a' are not where it says"),
        (raw.replace(b"fx", b"xx"), "does not say what a model store writes"),
    ):
        file.write_bytes(data)
        assert told in said(capsys, "import", folder, file, code=1)
    (tmp_path / "empty").mkdir()
    assert "holds neither model.safetensors nor" in said(capsys, "import", folder, tmp_path / "empty", code=1)
    assert "cannot be read: No such file" in said(capsys, "import", folder, tmp_path / "none", code=1)
    (tmp_path / "empty" / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../base.safetensors"}}')
    assert "does not say where tensors are" in said(capsys, "import", folder, tmp_path / "empty", code=1)


def test_prune(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "prune", folder, "--remove", "left", "--keep", "2").splitlines() == [
        "removed left",
        "removed base",
        "removed 2 tensors that no model has, 236 bytes",
    ]
    assert ModelStore(folder).names() == ["last", "right"]
    ModelStore(folder).put(chain(1), state_of(1, 5), name="unscored")
    assert "unscored have no score" in said(capsys, "prune", folder, "--keep", "1", code=1)
    assert "must be 1 or more" in said(capsys, "prune", folder, "--keep", "0", code=2)


def test_verify_mends_the_index(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ModelStore(folder)
    assert store.query(chain(4))
    out = said(capsys, "verify", folder)
    assert out.count("all right") == 4 and "made anew" not in out
    assert said(capsys, "verify", folder, "left") == "left: all right: 636 bytes\n"
    sqlite3 = importlib.import_module("sqlite3")
    base = sqlite3.connect(file_in(folder))
    base.execute("DELETE FROM models WHERE name = 'left'")
    base.commit()
    base.close()
    assert "the index was made anew" in said(capsys, "verify", folder)
    assert "made anew" not in said(capsys, "verify", folder)
    blob = store._blobs.path(store.record("left").tensors["l3.weight"].blob)
    blob.write_bytes(b"x" * blob.stat().st_size)
    assert main(["models", "verify", str(folder)]) == 1
    out = capsys.readouterr().out
    assert out.count("all right") == 3 and "left: damaged:" in out


def test_verify_makes_an_index_anew_that_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file_in(folder).write_bytes(b"garbage" * 100)
    assert "left: all right" in said(capsys, "verify", folder)
    assert [one.name for one in ModelStore(folder).query(chain(4, head="left"))] == ["left"]


def test_what_is_pruned_meanwhile_is_not_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ModelStore(folder)
    before, found = store.stored_bytes(), list(store._blobs.files())
    monkeypatch.setattr(store._blobs, "files", lambda: iter([*found, ("00" * 32, folder / "removed")]))
    assert store.stored_bytes() == before


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is no folder; give the folder of a model store" in said(capsys, "list", tmp_path / "none", code=2)
    assert "holds no models" in said(capsys, "prune", tmp_path, code=2)
    assert "did you mean 'lineage'" in said(capsys, "linage", tmp_path, code=2)


def test_a_store_that_cannot_be_written_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = folder.parent / "base.safetensors"
    said(capsys, "export", folder, "base", target)
    place = folder.parent / "file"
    place.touch()
    assert f"{place / 'store'}: cannot be written" in said(capsys, "import", place / "store", target, code=3)


def test_a_model_with_what_is_no_configuration_is_exported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ModelStore(folder).put(chain(1), state_of(1, 1), name="odd", about={"config": "small"})
    said(capsys, "export", folder, "odd", folder.parent / "odd")
    said(capsys, "import", folder, folder.parent / "odd", "--name", "again")
    assert ModelStore(folder).record("again").about == {"config": "small"}
