"""What the tests of checkpoints share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from wilkins.tasks.checkpoint import Checkpointer


class Opener(Protocol):
    """Makes checkpointers that are closed at the end."""

    def __call__(self, **options: Any) -> Checkpointer: ...


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Checkpointers in `tmp_path`, in small blocks."""
    found: list[Checkpointer] = []

    def make(**options: Any) -> Checkpointer:
        for one in found:
            one.close()
        found[:] = [Checkpointer(tmp_path, **{"block": 65536, **options})]
        return found[0]

    yield make
    for one in found:
        one.close()


def arrays(seed: int, size: int = 200_000) -> dict[str, Any]:
    """A state of several blocks."""
    rng = np.random.default_rng(seed)
    return {"a": rng.standard_normal(size), "b": {"c": rng.integers(0, 9, (3, 100_000)), "n": seed}}
