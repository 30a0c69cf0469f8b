"""The native layer's queue does what the reference does: on the table of cases, and on any other sequence of events."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flow_machines import Case, Native, Reference, table
from wilkins.flow import FlowPolicy

pytestmark = pytest.mark.needs("hooks")

LOG = Path(tempfile.gettempdir()) / "no-such-folder" / "layer.log"

POLICIES = st.sampled_from([(every, offset) for every in range(1, 4) for offset in range(every)]).flatmap(
    lambda kept: st.builds(
        FlowPolicy,
        st.just(kept[0]),
        st.integers(1, 4),
        st.sampled_from(["block", "drop-oldest", "drop-newest"]),
        st.just(kept[1]),
    )
)
RESUMED = [(0, 0), (0, 5), (3, 3), (3, 8), (2**31 + 1, 2**31 + 4)]
"""Numbers of the producer's first step, and of the first one that is kept, of runs that go on with another one."""
EVENTS = st.sampled_from(["create", "publish", *(f"open {rank}" for rank in range(3)), "restart"])


@pytest.mark.parametrize("case", table(), ids=lambda case: case.name)
def test_table(case: Case) -> None:
    machine = Native(case.policy, case.readers, LOG, case.begin, case.first)
    try:
        assert [machine.do(event) for event in case.events] == list(case.answers)
    finally:
        machine.close()


def possible(events: Iterable[str], readers: int, last: str) -> Iterable[str]:
    """Those of the events that can happen: a step is published once, after it was created, by a producer that lives."""
    for event in events:
        if not event.startswith("open") or int(event[5:]) < readers:
            yield event
    yield last
    # What is left is the same for both, too.
    if last == "end":
        yield from [f"open {rank}" for rank in range(readers) for _ in range(20)]
    else:
        yield from ["create", "publish"] * 6


@settings(max_examples=200)
@given(
    st.lists(EVENTS, max_size=80),
    POLICIES,
    st.integers(1, 3),
    st.sampled_from(["end", "leave"]),
    st.sampled_from(RESUMED),
)
def test_any_sequence(events: list[str], policy: FlowPolicy, readers: int, last: str, resumed: tuple[int, int]) -> None:
    reference, native = Reference(policy, readers, *resumed), Native(policy, readers, LOG, *resumed)
    creating = False
    past: list[tuple[str, str]] = []
    try:
        for event in possible(events, readers, last):
            if (event == "create" and creating) or (event == "publish" and not creating):
                continue
            if event == "end" and creating:  # its step is complete, or it never was one
                past.append(("publish", expected := reference.do("publish")))
                assert native.do("publish") == expected, past
            expected = reference.do(event)
            past.append((event, expected))
            assert native.do(event) == expected, past
            assert event == "leave" or native.queued() == reference.queued(), past
            creating = expected == "go" if event == "create" else creating and event != "publish"
    finally:
        native.close()
