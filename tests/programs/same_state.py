"""Compares the states that checkpoints hold; for tests, and for the programs that they run."""

from __future__ import annotations

from typing import Any

import numpy as np

from wilkins.tasks.checkpoint import Shard


def same(one: Any, other: Any) -> bool:
    """Whether two states are the same, bit by bit, and of the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Shard):
        return (one.shape, one.offsets) == (other.shape, other.offsets) and same(one.array, other.array)
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other or (one != one and other != other))
