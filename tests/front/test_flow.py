"""Flow policies: how they are written, and which steps a reader gets, as one table of cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.flow_machines import Case, Reference, table
from wilkins.flow import FlowPolicy
from wilkins.flow.machine import SPARE_STEPS, ChannelQueue, Go, Kept, Opened, Skipped, Wait
from wilkins.flow.policy import LATEST, from_flow, from_io_freq


@pytest.mark.parametrize(
    ("value", "policy"),
    [
        (1, FlowPolicy()),
        (0, FlowPolicy()),
        ("all", FlowPolicy()),
        (3, FlowPolicy(3, offset=2)),
        ("latest", LATEST),
        (-1, LATEST),
        ({"some": 1}, FlowPolicy()),
        ({"some": 4}, FlowPolicy(4, offset=3)),
        ({"every": 4, "offset": 3}, FlowPolicy(4, offset=3)),
        ({"every": 4}, FlowPolicy(4)),
        ({"every": 2, "queue": 4, "when_full": "drop-oldest"}, FlowPolicy(2, 4, "drop-oldest")),
        ({}, FlowPolicy()),
    ],
)
def test_forms(value: object, policy: FlowPolicy) -> None:
    assert from_flow(value) == policy  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (FlowPolicy(), "all, queue 2, block"),
        (FlowPolicy(5), "every 5th from the 1st, queue 2, block"),
        (FlowPolicy(5, offset=4), "every 5th from the 5th, queue 2, block"),
        (FlowPolicy(5, 1, "drop-oldest", 1), "every 5th from the 2nd, queue 1, drop-oldest"),
        (FlowPolicy(30, offset=20), "every 30th from the 21st, queue 2, block"),
        (LATEST, "latest"),
    ],
)
def test_words(policy: FlowPolicy, words: str) -> None:
    assert str(policy) == words


@pytest.mark.parametrize(
    "value",
    [
        -2,
        "often",
        {"every": 0},
        {"each": 2},
        {"when_full": "wait"},
        {"some": "x"},
        {"every": 3, "offset": 3},
        {"every": 3, "offset": -1},
        {"offset": 1},
        {"some": 3, "offset": 1},
    ],
)
def test_mistakes(value: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_flow(value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\w"):
        from_io_freq(value if isinstance(value, (int, str)) else "x")


@pytest.mark.parametrize("case", table(), ids=lambda case: case.name)
def test_table(case: Case) -> None:
    machine = Reference(case.policy, case.readers, case.begin, case.first)
    assert [machine.do(event) for event in case.events] == list(case.answers)


def test_block_holds_the_producer_until_every_reader_has_opened() -> None:
    queue = ChannelQueue(FlowPolicy(queue=2), readers=2)
    assert [queue.publish(), queue.publish()] == [Kept(0), Kept(1)]
    assert queue.create() == Wait("room")
    assert queue.open(0) == Opened(0)
    assert queue.create() == Wait("room")
    assert queue.open(1) == Opened(0)
    assert queue.create() == Go()
    assert queue.open(0) == Opened(1)
    assert queue.open(0) == Wait("data")
    queue.leave()
    assert queue.create() == Go()
    assert queue.publish() == Skipped(2)


@given(st.lists(st.sampled_from(["p", "0", "1", "2"]), max_size=60), st.sampled_from(table()))
def test_all_ranks_read_the_same_steps_in_order(events: list[str], case: Case) -> None:
    policy = case.policy
    queue = ChannelQueue(policy, readers=3)
    read: list[list[int]] = [[], [], []]
    for event in events:
        if event == "p":
            if queue.create() == Go():
                queue.publish()
        elif isinstance(opened := queue.open(int(event)), Opened):
            read[int(event)].append(opened.step)
        if policy.when_full == "block":
            assert len(queue.queued()) <= policy.queue
        assert len(queue.held()) <= policy.queue + SPARE_STEPS + len(read)
    queue.end()
    for rank in range(3):
        while isinstance(opened := queue.open(rank), Opened):
            read[rank].append(opened.step)
    assert read[0] == read[1] == read[2] == sorted(set(read[0]))
    assert all(step % policy.every == policy.offset for step in read[0])
    if policy.when_full == "block":
        assert read[0] == list(range(policy.offset, queue.published, policy.every))
