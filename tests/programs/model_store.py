"""Puts models into a store, or removes some and prunes, for ever: `write FOLDER SEED` or `remove FOLDER SEED`.

It says what it has put (`put NAME`), and what it is about to remove (`removing NAME`), in single writes of whole lines.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import numpy as np

from wilkins.tasks.models import Graph, Layer, ModelStore, NoSuchModel

LAYERS = 6


def say(*words: str) -> None:
    os.write(1, f"{' '.join(words)}\n".encode())


def graph() -> Graph:
    layers = [Layer("input", "input")]
    for place in range(LAYERS):
        tensors = {"weight": f"l{place}.weight"}
        layers.append(Layer(f"l{place}", "linear", {}, (layers[-1].name,), tensors))
    return Graph(tuple(layers), "fx")


def state(moments: random.Random) -> dict[str, np.ndarray]:
    """Tensors out of few, so that models share many, and what one removes another one puts at the same time."""
    return {
        f"l{place}.weight": np.full(moments.choice([10, 3000]), moments.randrange(3) + 10 * place, "f4")
        for place in range(LAYERS)
    }


def write(store: ModelStore, moments: random.Random) -> None:
    known = store.names() if store.folder.joinpath("models").is_dir() else []
    parent = moments.choice(["", *known])
    about = {"writer": os.getpid(), "number": moments.random()}
    try:
        say("put", store.put(graph(), state(moments), parent=parent, about=about))
    except NoSuchModel:
        assert parent and parent not in store.names()  # removed by another one


def remove(store: ModelStore, moments: random.Random) -> None:
    if not store.folder.joinpath("models").is_dir():
        return  # no writer has got that far
    names = store.names()
    count = moments.randrange(3) + max(0, len(names) - 20)  # a slow machine must not let models pile up
    chosen = moments.sample(names, min(len(names), count))
    for name in chosen:
        say("removing", name)
        try:
            store.remove([name])
        except NoSuchModel:
            continue  # by another one
    store.prune()


def main() -> None:
    what, folder, seed = sys.argv[1:]
    moments, store = random.Random(seed), ModelStore(Path(folder))
    act = {"write": write, "remove": remove}[what]
    say("begins")
    while True:
        act(store, moments)


if __name__ == "__main__":
    main()
