"""No garbage is collected while a state is described, and it is as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from wilkins.tasks.checkpoint import Unsupported
from wilkins.tasks.checkpoint.state.garbage import uncollected

from .conftest import Opener


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """How many there were so far, one for each generation of objects."""
    begun: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            begun.append(info["generation"])

    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)


def test_many_arrays(opened: Opener, collections: list[int]) -> None:
    checkpointer = opened()
    state = {str(number): np.full(3, number) for number in range(3000)}
    for step in range(2):  # described when it is saved, and later
        gc.collect()
        collections.clear()
        checkpointer.save(step, state)
        assert len(collections) <= 3, "but for one when they are allowed again, in either thread"
        checkpointer.wait()
    restored = checkpointer.restore()
    assert restored is not None
    assert collections.count(2) == 0
    assert all((restored.state[name] == array).all() for name, array in state.items())


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_as_before(opened: Opener, enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        with uncollected(), uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        with pytest.raises(Unsupported):
            opened().save(1, {"x": object()})
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
