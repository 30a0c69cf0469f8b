"""The state of all random generators that training may draw from: torch's, NumPy's and Python's."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch


def seed_generators(seeds: Sequence[int]) -> None:
    """Set them all; what they draw follows from these numbers."""
    values = np.random.SeedSequence(list(seeds)).generate_state(4)
    torch.manual_seed(int(values[0]) << 31 | int(values[1]) >> 1)
    np.random.seed(int(values[2]))
    random.seed(int(values[3]))


def generator_state(device: torch.device) -> dict[str, Any]:
    """Their state: tensors and plain values."""
    name, key, *rest = np.random.get_state()
    kind, numbers, gauss = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": [str(name), torch.from_numpy(np.asarray(key).astype(np.int64)), *rest],
        "python": [kind, list(numbers), gauss],
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_generators(state: Mapping[str, Any], device: torch.device) -> None:
    """Continue from `generator_state`."""
    torch.set_rng_state(state["torch"])
    name, key, *rest = state["numpy"]
    np.random.set_state((name, key.numpy().astype(np.uint32), *rest))
    kind, numbers, gauss = state["python"]
    random.setstate((kind, tuple(numbers), gauss))
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
