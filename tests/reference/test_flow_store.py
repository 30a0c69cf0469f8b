"""The rules of names, ranks and circles of waits, one by one, as the reference machine and the native layer have them.

What a wait leaves on the board, and what is done about circles, the native layer cannot be asked event by event; of the
rest it answers to random sequences of names as the reference does, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.native import NativeStore, can_do
from reference.words import ReferenceStore, StoreCase, store_table

LOG = Path(tempfile.gettempdir()) / "no-such-folder" / "layer.log"


@contextmanager
def native(setup: dict[str, Any]) -> Iterator[NativeStore]:
    """The native layer, with a board that is removed."""
    machine = NativeStore(setup, LOG)
    try:
        yield machine
    finally:
        machine.close()


@pytest.mark.parametrize("case", store_table(), ids=lambda case: case.name)
def test_table(case: StoreCase) -> None:
    machine = ReferenceStore(case.setup)
    assert [(event, machine.do(event)) for event, _ in case.events] == list(case.events)


@pytest.mark.needs("hooks")
@pytest.mark.parametrize("case", [case for case in store_table() if can_do(case)], ids=lambda case: case.name)
def test_table_natively(case: StoreCase) -> None:
    with native(case.setup) as machine:
        assert [machine.do(event) for event, _ in case.events] == [answer.split(":")[0] for _, answer in case.events]


@pytest.mark.needs("hooks")
@settings(max_examples=100)
@given(
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([(), (1, 1), (2, 2), (1, 1, "drop-oldest"), (1, 2, "drop-newest")]),
    st.sampled_from([1000, 3, 2]),
    st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 2), st.integers(-4, 1)), max_size=60),
)
def test_any_sequence_of_names(
    sources: int, readers: int, policy: tuple[Any, ...], names: int, moves: list[tuple[bool, int, int, int]]
) -> None:
    setup = {
        "tasks": [sources, readers],
        "outports": [{"task": 0, "pattern": "plt*", "retained": len(moves) + 1}],
        "inports": [{"task": 1, "pattern": "plt*", "readers": readers}],
        "channels": [{"outport": 0, "inport": 0, "policy": policy}],
    }
    reference = ReferenceStore(setup)
    # The native layer gives each rank answers of its own here.
    reference.store.ports[0].apart.update(range(readers))
    writing: dict[int, str] = {}
    count = [0, 0]
    past = []
    with native(setup) as machine:
        for writes, source, reader, back in moves:
            source, reader = source % sources, reader % readers
            if writes and source in writing:
                event = f"0.{source} publish {writing.pop(source)}"
                count[source] += 1
            elif writes:
                event = f"0.{source} create plt{source}-{count[source] % names}"
            else:
                event = f"1.{reader} open plt{source}-{max(0, count[source] + back) % names}"
            answer = reference.do(event)
            reference.store.waits.clear()
            past.append((event, answer))
            assert machine.do(event) == answer.split(":")[0], past
            name = event.split()[-1]
            if answer == "go":
                writing[source] = name
            elif answer.startswith("opened"):
                reference.do(f"1.{reader} close {name} {answer.split()[1]}")
