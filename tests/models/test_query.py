"""Queries: which models begin as an architecture does, best score first; and the index, made anew if need be."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from wilkins.tasks.models import Graph, Layer, ModelStore
from wilkins.tasks.models.graph import common_prefix
from wilkins.tasks.models.index import Found, Index, file_in

from .conftest import chain, state_of


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def random_graph(moments: random.Random) -> Graph:
    """A chain or a graph with branches, of few kinds of layers, so that many begin alike."""
    branches = moments.random() < 0.5
    layers = [Layer("x0", "input")]
    for place in range(1, moments.randrange(2, 12)):
        inputs = [f"x{place - 1}"]
        if branches and place > 2 and moments.random() < 0.4:
            inputs.append(f"x{moments.randrange(place - 1)}")
        layers.append(Layer(f"x{place}", moments.choice("aaab"), {}, tuple(inputs), {}, len(inputs) == 2))
    return Graph(tuple(layers), "fx")


def test_what_is_found_is_what_a_look_at_every_model_finds(store: ModelStore) -> None:
    moments = random.Random(5)
    graphs = [random_graph(moments) for _ in range(150)]
    scores = [None if moments.random() < 0.2 else moments.randrange(5) for _ in graphs]
    names = [store.put(graph, {}, name=f"m{n}", score=scores[n]) for n, graph in enumerate(graphs)]
    for limit in (1, 7, 500):
        for asked in [random_graph(moments) for _ in range(20)]:
            found = store.query(asked, limit)
            lengths = {name: common_prefix(asked, graph) for name, graph in zip(names, graphs, strict=True)}
            best = sorted(
                ((lengths[name], -1 if score is None else score) for name, score in zip(names, scores, strict=True)),
                reverse=True,
            )
            got = [(one.length, -1 if one.score is None else one.score) for one in found]
            assert got == [one for one in best if one[0]][:limit]
            assert all(one.length == lengths[one.name] for one in found)


def test_what_the_best_relative_has_learned_is_inherited(store: ModelStore) -> None:
    """Of the layers that both have, and by the new model's names; no other tensor is read."""
    assert store.inherit(chain(3)) is None
    for seed, score in ((1, 0.5), (2, 0.7), (3, 0.6)):
        store.put(chain(3, head="other"), state_of(3, seed), name=f"m{seed}", score=score)
    renamed = {layer.name: f"new-{layer.name}" for layer in chain(3).layers}
    graph = Graph(
        tuple(
            Layer(
                renamed[one.name], one.operation, one.configuration, tuple(renamed[name] for name in one.inputs),
                {role: f"new-{name}" for role, name in one.tensors.items()},
            )
            for one in chain(3).layers
        ),
        "fx",
    )  # fmt: skip
    head = store.record("m2").tensors["l2.weight"].blob
    (store.folder / "blobs" / head[:2] / head).unlink()
    found = store.inherit(graph, library="numpy")
    assert found is not None
    assert (found.parent.name, found.score, found.layers) == ("m2", 0.7, 3)
    assert list(found.tensors) == ["new-l0.weight", "new-l1.weight"]
    for name, tensor in found.tensors.items():
        assert np.array_equal(tensor, state_of(3, 2)[name.removeprefix("new-")])
    assert store.inherit(Graph((Layer("x", "image"),), "fx")) is None


def test_a_relative_that_is_removed_meanwhile_is_not_inherited_from(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, score in (("best", 0.9), ("next", 0.8)):
        store.put(chain(2), state_of(2, 1), name=name, score=score)
    ask = store.query

    def removed_after(graph: Graph, limit: int = 1) -> list[Found]:
        found = ask(graph, limit)
        if found[0].name == "best":
            store.remove(["best"])
        return found

    monkeypatch.setattr(store, "query", removed_after)
    found = store.inherit(chain(2), library="numpy")
    assert found is not None and found.parent.name == "next"


def test_models_that_come_and_go(store: ModelStore) -> None:
    for number in range(4):
        store.put(
            chain(5, head=f"head{number}"),
            {f"l{n}.weight": np.ones(1) for n in range(5)},
            name=f"m{number}",
            score=number,
        )
        assert store.query(chain(5)) == [Found(f"m{number}", number, 5)]
    store.remove(["m3"])
    assert store.query(chain(5), 9) == [Found(f"m{n}", n, 5) for n in (2, 1, 0)]
    assert store.query(chain(5, head="head1"), 2) == [Found("m1", 1, 6), Found("m2", 2, 5)]
    store.remove(["m0", "m1", "m2"])
    assert store.query(chain(5)) == []


def test_a_name_that_is_given_to_another_model(store: ModelStore) -> None:
    store.put(chain(5), state_of(5, 1), name="a", score=1)
    assert store.query(chain(5)) == [Found("a", 1, 6)]
    time.sleep(0.15)
    assert store.query(chain(5)) == [Found("a", 1, 6)]
    store.remove(["a"])
    store.put(chain(5, head="other"), state_of(5, 2), name="a", score=2)
    assert store.query(chain(5)) == [Found("a", 2, 5)]


@pytest.mark.usual("cut", "missing")
@pytest.mark.parametrize("broken", ["missing", "text", "cut", "of another format", "empty"])
def test_the_index_is_made_anew(store: ModelStore, broken: str, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(30):
        store.put(chain(20, head=f"h{number}"), {f"l{n}.weight": np.ones(1) for n in range(20)}, name=f"m{number}")
    time.sleep(0.15)
    before = store.query(chain(20), 50)
    assert len(before) == 30
    file = file_in(store.folder)
    if broken == "missing":
        file.unlink()
    elif broken == "of another format":
        base = sqlite3.connect(file)
        base.execute("PRAGMA user_version = 77")
        base.close()
    else:
        raw = file.read_bytes()
        file.write_bytes({"text": b"no base" * 999, "cut": raw[: len(raw) // 2], "empty": b""}[broken])
    assert sorted(store.query(chain(20), 50), key=str) == sorted(before, key=str)
    assert store.query(chain(20, head="h7"))[0].name == "m7"
    assert ("is made anew" in caplog.text) == (broken in ("text", "cut"))


def test_a_damaged_model_is_left_out(store: ModelStore, caplog: pytest.LogCaptureFixture) -> None:
    for name in "ab":
        store.put(chain(3), state_of(3, ord(name)), name=name)
    store._file("a").write_text("{}")
    assert [one.name for one in store.query(chain(3), 9)] == ["b"]
    assert "left out of the index" in caplog.text


PUT = """
import sys
import numpy as np
from wilkins.tasks.models import Graph, Layer, ModelStore
who = sys.argv[2]
layers = [Layer("x", "input"), Layer("y", "f", {}, ("x",)), Layer("z", who, {}, ("y",), {"w": "w"})]
store = ModelStore(sys.argv[1])
for number in range(15):
    name = store.put(Graph(tuple(layers), "fx"), {"w": np.full(9, number)}, name=f"{who}-{number}", score=number)
    found = store.query(Graph(tuple(layers), "fx"))
    assert (found[0].name, found[0].length) == (name, 3), found
"""


def test_several_processes_put_and_ask_at_once(store: ModelStore) -> None:
    workers = [subprocess.Popen([sys.executable, "-c", PUT, str(store.folder), who]) for who in "abc"]
    try:
        assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    finally:
        for worker in workers:
            worker.kill()
    graph = Graph((Layer("x", "input"), Layer("y", "f", {}, ("x",))), "fx")
    assert [one.score for one in store.query(graph, 99)] == sorted([*range(15)] * 3, reverse=True)
    with Index(store.folder, store.folder / "models") as index:
        assert sorted(index.content()) == store.names()


def test_another_model_of_a_removed_one_s_name_is_found_though_a_lesser_one_is_there(store: ModelStore) -> None:
    store.put(chain(1), state_of(1, 1), name="lesser")
    store.put(Graph((Layer("x", "other"),), "fx"), {}, name="best")
    time.sleep(0.15)
    for _ in range(2):
        assert store.query(chain(4), 1) == [Found("lesser", None, 2)]
    store.remove(["best"])
    store.put(chain(4), state_of(4, 1), name="best")
    assert store.query(chain(4), 1) == [Found("best", None, 5)]
