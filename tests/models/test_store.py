"""A store of models: what is put is got back bit by bit, whole or by layers; what models share is there once."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wilkins.tasks.models import DamagedModel, Graph, Layer, ModelError, ModelStore, NoSuchModel, leases

from .conftest import chain, state_of


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def needed(store: ModelStore) -> set[str]:
    """The blobs that models have."""
    return {one.blob for record in store.records() for one in record.tensors.values()}


def there(store: ModelStore) -> list[str]:
    """The blobs that are on the disk; what killed writers have left by empty names."""
    return sorted(digest for digest, _ in store._blobs.files())


@pytest.mark.needs("python:torch")
def test_random_states_come_back_bit_by_bit(store: ModelStore) -> None:
    import torch

    from wilkins.tasks.models import graph_of

    generator = torch.Generator().manual_seed(3)
    dtypes = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64]
    dtypes += [torch.float8_e4m3fn, torch.uint16, torch.float64]
    shapes = [(), (0,), (3,), (2, 0, 2), (4, 5), (2, 3, 4)]
    for number in range(20):
        state = {}
        for place in range(1 + number % 7):
            dtype = dtypes[(number + place) % len(dtypes)]
            shape = shapes[int(torch.randint(len(shapes), (), generator=generator))]
            size = int(np.prod(shape)) * dtype.itemsize
            raw = torch.randint(0, 2 if dtype == torch.bool else 256, (size,), generator=generator, dtype=torch.uint8)
            value = raw.view(dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)
            state[f"l{place}.weight"] = value.mT if len(shape) == 2 and place % 2 else value
        found = store.get(store.put(chain(0), state))
        assert list(found) == list(state)
        for name, value in state.items():
            got = found[name]
            assert (got.dtype, got.shape) == (value.dtype, value.shape)
            bits = [one.contiguous().reshape(-1).view(torch.uint8) for one in (got, value) if one.numel()]
            assert not bits or torch.equal(*bits)
    model: Any = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)))
    name = store.put(graph_of(model), model.state_dict())
    plain = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    plain.load_state_dict(store.get(name))


@pytest.mark.needs("python:torch")
def test_a_state_of_other_shapes_than_the_graph_has_is_refused(store: ModelStore) -> None:
    """Where the graph knows them, since it was traced or made of a file."""
    import torch

    from wilkins.tasks.models import graph_of

    narrow, wide = torch.nn.Sequential(torch.nn.Linear(4, 8)), torch.nn.Sequential(torch.nn.Linear(4, 9))
    text = r"'0\.weight' of the state has the shape \(9, 4\), and that of the layer '0' has \(8, 4\); give the graph"
    with pytest.raises(ModelError, match=text):
        store.put(graph_of(narrow), wide.state_dict())
    assert store.names() == []
    assert store.put(graph_of(narrow), narrow.half().state_dict(), name="half") == "half"
    assert store.put(chain(1), state_of(1, 1, size=5), name="any") == "any"


@pytest.mark.needs("python:torch")
def test_a_part_of_a_tensor_with_one_element_is_kept(store: ModelStore) -> None:
    """It has a step, though there is nothing to step over."""
    import torch

    state = {"row": torch.arange(10.0)[5::5], "one": torch.arange(21.0).reshape(3, 7)[1:2, ::7]}
    assert state["row"].stride() == (5,) and state["one"].stride() == (7, 7)
    found = store.get(store.put(chain(0), state))
    assert all(torch.equal(found[name], value) for name, value in state.items())
    with pytest.raises(ModelError, match="is a tensor of float32, nested"):
        store.put(chain(0), {"w": torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])})


def test_numpy_arrays_of_any_order_and_byte_order(store: ModelStore) -> None:
    state = {"l0.weight": np.arange(6, dtype=">f8").reshape(2, 3).T, "l0.bias": np.float32(3)}
    name = store.put(chain(0), state)
    found = store.get(name, library="numpy")
    for key, value in state.items():
        assert np.array_equal(found[key], value) and found[key].shape == np.shape(value)


def test_twenty_models_that_share_27_of_30_layers_take_the_bytes_of_what_differs(store: ModelStore) -> None:
    base = state_of(30, 0, size=4096)
    first = store.put(chain(30), base)
    for number in range(1, 20):
        store.put(
            chain(30),
            base | {k: v for k, v in state_of(30, number, size=4096).items() if _place(k) >= 27},
            parent=first,
        )
    each = store.record(first).nbytes
    shared = each * 27 // 30
    assert store.stored_bytes() == shared + 20 * (each - shared)
    assert store.stored_bytes() < 0.15 * 20 * each
    assert len(there(store)) == len(needed(store))


def _place(name: str) -> int:
    return int(name.partition(".")[0].removeprefix("l"))


def test_layers_alone_are_read_alone(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(12, 1)
    name = store.put(chain(12), state)
    read: list[str] = []
    whole = store._blobs.read

    def noted(digest: str, size: int) -> bytearray:
        read.append(digest)
        return whole(digest, size)

    monkeypatch.setattr(store._blobs, "read", noted)
    assert list(store.get(name, ["l1"], library="numpy")) == ["l1.weight"]
    assert read == [store.record(name).tensors["l1.weight"].blob]
    for pattern, count in (("l1*", 3), ("input", 0), ("l11", 1)):
        assert len(store.get(name, [pattern], library="numpy")) == count
    with pytest.raises(NoSuchModel, match="has no layer 'l12'; did you mean 'l2'"):
        store.get(name, ["l12"])
    other = next(one.blob for key, one in store.record(name).tensors.items() if key == "l3.weight")
    store._blobs.path(other).unlink()
    store.get(name, ["l1"], library="numpy")
    with pytest.raises(DamagedModel, match="cannot be read"):
        store.get(name, library="numpy")


def test_a_model_is_put_once_and_a_name_is_given_once(store: ModelStore) -> None:
    state = state_of(3, 1)
    name = store.put(chain(3), state, tags=["small"], score=0.5)
    assert store.put(chain(3), state, tags=["small"], score=0.5) == name
    assert store.put(chain(3), state, name="best", about={"lr": 0.1}) == "best"
    assert store.put(chain(3), state, name="best", about={"lr": 0.1}) == "best"
    assert store.names() == sorted([name, "best"])
    with pytest.raises(ModelError, match="has another model 'best' already; give a new name, or remove that one"):
        store.put(chain(3), state, name="best", about={"lr": 0.2})
    record = store.record("best")
    assert (record.about, record.score, record.tags, record.parent) == ({"lr": 0.1}, None, (), None)
    child = store.record(store.put(chain(3), state, parent="best"))
    assert child.parent is not None and child.parent.sha256 == record.seal
    assert not [one for one in (store.folder / "models").rglob("*") if one.name.startswith(".")]


@pytest.mark.parametrize(
    ("state", "options", "told"),
    [
        ({"l0.weight": [1, 2]}, {}, "'l0.weight' is a list, and a model store keeps tensors"),
        ({"l0.weight": np.array(["a"])}, {}, "is an array of str32"),
        ({"x": np.zeros(2)}, {}, "has no tensor 'l0.weight', which the layer 'l0' needs"),
        ({"l0.weight": np.zeros(2)}, {"name": "../a"}, "a model cannot be called '../a'"),
        ({"l0.weight": np.zeros(2)}, {"score": float("nan")}, "the score of a model is nan"),
        ({"l0.weight": np.zeros(2)}, {"about": {"x": object()}}, "what is said about the model cannot be kept"),
        ({"l0.weight": np.zeros(2)}, {"parent": "none"}, "has no model 'none'; it is empty"),
    ],
)
def test_what_cannot_be_put(store: ModelStore, state: Mapping[str, Any], options: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        store.put(chain(1), state, **options)
    assert store.names() == [] if store.folder.exists() else True


def test_folders_and_names_that_are_none(tmp_path: Path, store: ModelStore) -> None:
    with pytest.raises(NoSuchModel, match="is no folder; give the folder of a model store"):
        store.names()
    with pytest.raises(NoSuchModel, match="holds no models"):
        ModelStore(tmp_path).get("a")
    store.put(chain(1), state_of(1, 1), name="base-1")
    with pytest.raises(NoSuchModel, match="has no model 'base-2'; did you mean 'base-1'"):
        store.get("base-2")
    with pytest.raises(NoSuchModel, match="base-2"):
        store.remove(["base-1", "base-2"])
    assert store.names() == ["base-1"]


def test_damage_is_found(store: ModelStore) -> None:
    name = store.put(chain(3), state_of(3, 1), name="a")
    store.put(chain(3), state_of(3, 2), name="b")
    assert store.damage(name) == ""
    blob = store._blobs.path(store.record(name).tensors["l1.weight"].blob)
    raw = blob.read_bytes()
    for changed in (raw[:-1], raw + b"x", bytes([raw[0] ^ 1]) + raw[1:], b""):
        blob.write_bytes(changed)
        assert "is not what was written" in store.damage(name)
    blob.write_bytes(raw[:-1])
    store.put(chain(3), state_of(3, 1), name="again")  # a blob of another length is written again
    assert store.damage(name) == store.damage("b") == ""
    file = store._file("a")
    text = file.read_text()
    for changed_text in (text.replace("l1", "l2", 1), text[:-20], "{}", "[]", "\0"):
        file.write_text(changed_text)
        assert "is not what was written" in store.damage(name)
    file.write_text(text)
    store._file("c").parent.mkdir(exist_ok=True)
    file.rename(store._file("c"))
    assert "it was written for the model 'a', and has been renamed" in store.damage("c")
    with pytest.raises(ModelError, match="nothing is pruned, since nobody knows which tensors"):
        store.prune()


def test_a_sealed_model_that_is_none_is_refused(store: ModelStore) -> None:
    """Whoever writes a model's file can seal it: its values are looked at nevertheless."""
    from wilkins.tasks.checkpoint.storage.versions import seal_of

    store.put(chain(2), state_of(2, 1), name="a")
    file = store._file("a")
    values = json.loads(file.read_text())
    del values["sha256"]
    for key, value in (
        ("tensors", values["tensors"] | {"l0.weight": values["tensors"]["l0.weight"] | {"blob": "../../x"}}),
        ("tensors", {}),
        ("graph", values["graph"] | {"traced": "guessed"}),
        ("graph", {"traced": "fx", "layers": [{"name": "a", "operation": "b", "inputs": ["c"]}]}),
        ("score", "high"),
        ("version", 2),
    ):
        body = values | {key: value}
        file.write_text(json.dumps({"sha256": seal_of(body), **body}))
        assert "is not what was written" in store.damage("a")


def test_prune_keeps_what_models_have_and_removes_the_rest(store: ModelStore) -> None:
    base = state_of(4, 1)
    store.put(chain(4), base, name="a")
    store.put(chain(4), base | {"l3.weight": np.ones(7)}, name="b", parent="a")
    store._blobs.path("ab" * 32).parent.mkdir(exist_ok=True)
    (store._blobs.path("ab" * 32).parent / f".{'ab' * 32}.0123abcd.part").write_bytes(b"half")
    (store._file("a").parent / ".c.json.0123abcd.part").write_bytes(b"half")
    (store.folder / "..removed.0123abcd.part").write_bytes(b"half")
    assert (pruned := store.prune()).blobs == 0 and pruned.parts == 3
    assert not (store.folder / "..removed.0123abcd.part").exists()
    store.remove(["a"])
    assert store.damage("b") == ""
    pruned = store.prune()
    assert (pruned.blobs, pruned.bytes) == (1, base["l3.weight"].nbytes)
    assert there(store) == sorted(needed(store)) and store.damage("b") == ""
    store.remove(["b"])
    store.prune()
    assert there(store) == [] and store.stored_bytes() == 0


def test_prune_waits_for_who_puts_and_who_puts_waits_for_prune(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(chain(2), state_of(2, 1), name="a")
    with store.reading(), pytest.raises(ModelError, match="others have put models into"):
        store.prune(patience=0.05)
    monkeypatch.setattr(leases, "PATIENCE", 0.05)
    with leases.alone(store.folder):
        with (
            pytest.raises(ModelError, match=rf"is being pruned by process {os.getpid()} on"),
            leases.shared(store.folder, 0.05),
        ):
            pass
        with pytest.raises(ModelError, match="is being pruned by"):
            store.prune(patience=0.05)
    done: list[str] = []
    with leases.alone(store.folder):
        thread = threading.Thread(target=lambda: done.append(store.put(chain(2), state_of(2, 2), name="b")))
        thread.start()
        time.sleep(0.05)
        assert not done
    thread.join(10)
    assert done == ["b"] and store.damage("b") == ""


def test_where_no_locks_are_models_are_put_and_none_is_pruned(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    store.put(chain(2), state_of(2, 1), name="a")
    assert "cannot be locked (Operation not supported): prune it only while nobody uses it" in caplog.text
    with pytest.raises(ModelError, match=r"cannot be locked .* so nothing is removed there"):
        store.prune()


def test_where_no_hard_links_are(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    test_a_model_is_put_once_and_a_name_is_given_once(store)


@pytest.mark.needs("root")
def test_a_store_that_may_only_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    store = ModelStore("models")
    name = store.put(chain(2), state_of(2, 1))
    assert store.query(chain(2))  # has imported SQLite, from where others may not read
    reader = _as_nobody(lambda: [store.get(name, library="numpy").keys(), store.query(chain(2))[0].name])
    assert reader == ["l0.weight,l1.weight", name]


def _as_nobody(act: Callable[[], list[Any]]) -> list[Any]:
    """What an act gives in a process of a user who has no rights here."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run() -> None:
        os.setuid(65534)
        try:
            theirs.send([",".join(one) if not isinstance(one, str) else one for one in act()])
        except BaseException as error:
            theirs.send([repr(error)])

    process = context.Process(target=run)
    process.start()
    found: list[Any] = ours.recv() if ours.poll(20) else ["nothing"]
    process.join(10)
    return found


def test_a_full_disk_leaves_the_store_as_it_was(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(chain(2), state_of(2, 1), name="a")
    before = there(store)
    calls = iter(range(100))

    def refuse(_: int) -> None:
        if next(calls) == 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("wilkins.tasks.models.blobs.os.fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        store.put(chain(2), state_of(2, 2), name="b")
    monkeypatch.undo()
    assert store.names() == ["a"]
    store.prune()
    assert there(store) == before


def test_graph_is_kept(store: ModelStore) -> None:
    graph = Graph((Layer("x", "input"), Layer("l0", "f", {"k": [1, {"a": None}]}, ("x",), {"w": "w"})), "fx")
    assert store.record(store.put(graph, {"w": np.ones(1)})).graph == graph


def test_a_model_that_is_put_again_mends_its_blobs(store: ModelStore) -> None:
    state = state_of(3, 1)
    store.put(chain(3), state, name="a")
    for count, (_, path) in enumerate(sorted(store._blobs.files())):
        data = bytearray(path.read_bytes())
        path.write_bytes(data[:-1] if count else data[:-1] + bytes([data[-1] ^ 1]))
    assert store.damage("a")
    store.put(chain(3), state, name="a")
    assert not store.damage("a")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"tags": "small"}, r"give a list of them: \['small'\]"),
        ({"tags": [1]}, r"tags\[0\] is 1, and must be a string"),
        ({"tags": ["x" * (65 << 20)]}, "of which 67,108,864 are kept"),
        ({"score": "0.5"}, "must be a finite number"),
        ({"score": True}, "must be a finite number"),
        ({"score": 10**400}, "must be a finite number"),
        ({"name": 5}, "cannot be called 5"),
    ],
    ids=["text-for-tags", "number-for-tag", "large-tag", "text-for-score", "truth-for-score", "huge-score", "no-name"],
)
def test_what_could_not_be_read_again_is_not_put(store: ModelStore, said: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        store.put(chain(1), state_of(1, 1), **{"name": "a", **said})
    assert not list(store.folder.rglob("*.json"))


@pytest.mark.timeout(30)
def test_a_model_of_the_same_name_that_is_removed_meanwhile(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(chain(1), state_of(1, 1), name="a")
    link = os.link

    def removed_then(part: Path, path: Path) -> None:
        try:
            link(part, path)
        except FileExistsError:
            Path(path).unlink()
            raise

    monkeypatch.setattr("os.link", removed_then)
    assert store.put(chain(1), state_of(1, 2), name="a") == "a"
    assert np.array_equal(store.get("a", library="numpy")["l0.weight"], state_of(1, 2)["l0.weight"])


def test_scores_may_be_numbers_of_numpy(store: ModelStore) -> None:
    store.put(chain(1), state_of(1, 1), name="a", score=np.float32(0.5))
    assert store.record("a").score == 0.5


def test_what_is_given_in_place_of_a_graph_or_a_state_is_named(store: ModelStore) -> None:
    state = state_of(1, 1)
    words: Any
    for words, message in [
        (({}, state), "graph_of"),
        ((chain(1), [1]), r"model.state_dict\(\)"),
        ((chain(1), {1: np.ones(2)}), r"model.state_dict\(\)"),
        ((chain(1), {"model": state}), "entry of a checkpoint"),
        ((chain(1), {**state, "_orig_mod.l0.weight": np.ones(2)}), "'l0.weight' twice"),
    ]:
        with pytest.raises(ModelError, match=message):
            store.put(*words)
    store.put(chain(1), state, name="a")
    asks: list[Callable[[], Any]] = [
        lambda: store.query({}),  # type: ignore[arg-type]
        lambda: store.get("a", layers="l0"),
        lambda: store.get("a", library="jax"),  # type: ignore[arg-type]
    ]
    for ask, message in zip(asks, ["graph_of", r"give a list of them: \['l0'\]", "torch, numpy"], strict=True):
        with pytest.raises(ModelError, match=message):
            ask()


def test_a_full_disk_can_be_pruned(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(chain(2), state_of(2, 1), name="a")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.pwrite", full)
    monkeypatch.setattr("wilkins.tasks.models.store.put", full)
    store.remove(["a"])
    assert store.prune().blobs == 2


def test_files_beside_those_of_models_are_none(store: ModelStore) -> None:
    store.put(chain(1), state_of(1, 1), name="a")
    next(store.folder.glob("models/*/a.json")).with_name("my notes.json").write_text("{}")
    assert store.names() == ["a"] and [one.name for one in store.records()] == ["a"]
