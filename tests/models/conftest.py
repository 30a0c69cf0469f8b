"""What the tests of model stores share."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from wilkins.tasks.models import Graph, Layer


def chain(count: int, *, head: str = "") -> Graph:
    """Layers one after the other; the last one does what `head` says."""
    layers = [Layer("input", "input", {"position": 0})]
    for place in range(count):
        operation = head if head and place == count - 1 else "linear"
        layers.append(
            Layer(f"l{place}", operation, {"place": place}, (layers[-1].name,), {"weight": f"l{place}.weight"})
        )
    return Graph(tuple(layers), "fx")


def state_of(count: int, seed: int, size: int = 50) -> dict[str, Any]:
    """Its tensors; each differs from those of other layers and seeds, whatever the number of layers is."""
    return {
        f"l{place}.weight": np.random.default_rng([seed, place]).standard_normal(size).astype("f4")
        for place in range(count)
    }


def digest(text: str) -> str:
    """What a text has in common with no other one."""
    return hashlib.sha256(text.encode()).hexdigest()
