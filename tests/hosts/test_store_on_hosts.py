"""A model store that tasks on several hosts use at once, each with an index of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig

from support.running import WILKINS, run_tree, write_program
from wilkins.tasks.models import ModelStore

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(300),
    pytest.mark.needs("root", "namespaces", *NEEDS),
]

SEARCH = """#!{python}
import random, socket, sys
import numpy as np
from wilkins.tasks.models import Graph, Layer, ModelStore

who, draw = sys.argv[1], random.Random(sys.argv[1])
store = ModelStore("models")
for number in range(60):
    kinds = ["input", *(draw.choice("ab") for _ in range(4)), who]
    layers = [
        Layer(f"l{{n}}", kind, {{}}, (f"l{{n - 1}}",) if n else (), {{"w": f"w{{n}}"}} if n else {{}})
        for n, kind in enumerate(kinds)
    ]
    graph = Graph(tuple(layers), "fx")
    found = store.inherit(graph, library="numpy")
    tensors = {{f"w{{n}}": np.full(2000, draw.random()) for n in range(1, 6)}} | (found.tensors if found else {{}})
    parent = found.parent if found else ""
    name = store.put(graph, tensors, name=f"{{who}}-{{number}}", parent=parent, score=draw.random())
    assert store.query(graph)[0].length == 6
    assert any(one.name == name for one in store.query(graph, 1000)), name
    mine = [one for one in store.names() if one.startswith(who)]
    if number % 6 == 5:
        store.remove([draw.choice(mine)])
    if number % 20 == 19:
        store.prune()
foreign = {{one.split("-")[0] for one in store.names()}} - {{who}}
print("on", socket.gethostname(), "beside", *sorted(foreign), flush=True)
"""


def test_searches_on_three_hosts_share_a_store(tmp_path: Path) -> None:
    """They put, inherit, look, remove and prune at once; all is whole in the end, and nothing is left over."""
    write_program(tmp_path / "search.py", SEARCH.format(python=sys.executable))
    tasks = [f"  - {{func: ./search.py, name: s{n}, args: [h{n}], placement: [node{n}]}}" for n in range(3)]
    (tmp_path / "workflow.yaml").write_text("\n".join(["tasks:", *tasks, ""]))
    with Rig(3) as rig:
        words = rig.on("node0", *WILKINS, "run", "--hosts", "node0:1,node1:1,node2:1", folder=tmp_path)
        done = run_tree(words, 200, tmp_path)
    assert done.code == 0, done.out + done.err
    assert all(f"on node{n} beside" in done.out for n in range(3)) and "beside h" in done.out, done.out
    store = ModelStore(tmp_path / "models")
    assert len(store.names()) == 3 * (60 - 10)
    assert not any(map(store.damage, store.names()))
    store.prune()
    assert store.prune().blobs == 0
    assert not any(map(store.damage, store.names()))
    assert {file.name for file in (tmp_path / "models").glob(".index-*.sqlite")} == {
        f".index-node{n}.sqlite" for n in range(3)
    }
