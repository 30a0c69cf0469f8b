"""The cut: one restart point per task, the latest ones at which every channel is whole."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from wilkins.flow.recovery import Joint, Position, latest_cut

Points = list[list[Position[int]]]
START: Position[int] = Position({}, {})


def at(consumed: dict[int, int] | None = None, published: dict[int, int] | None = None) -> Position[int]:
    """A position; of each channel, the only stream has the channel's number."""
    return Position({(channel, channel): count for channel, count in (consumed or {}).items()}, published or {})


def joint(channel: int, producer: int, consumer: int) -> Joint[int]:
    return Joint(channel, channel, producer, consumer)


def test_a_producer_goes_back_to_before_what_its_consumer_has_not_had() -> None:
    producer = [START, at(published={0: 4}), at(published={0: 8}), at(published={0: 12})]
    consumer = [START, at(consumed={0: 5}), at(consumed={0: 10})]
    assert latest_cut([producer, consumer], [joint(0, 0, 1)]) == [2, 2]


def test_a_consumer_that_begins_anew_needs_all_steps() -> None:
    producer = [START, at(published={0: 4}), at(published={0: 8})]
    assert latest_cut([producer, [START]], [joint(0, 0, 1)]) == [0, 0]


def test_who_goes_back_drags_those_before_it() -> None:
    """Steps that the last task of a chain needs again are made of steps that the middle one needs again."""
    first = [START, at(published={0: 3}), at(published={0: 6}), at(published={0: 9})]
    middle = [START, at({0: 4}, {1: 4}), at({0: 8}, {1: 8})]
    last = [START, at(consumed={1: 5})]
    assert latest_cut([first, middle, last], [joint(0, 0, 1), joint(1, 1, 2)]) == [1, 1, 1]


def test_two_readers_of_one_port() -> None:
    producer = [START, at(published={0: 2}), at(published={0: 4}), at(published={0: 6})]
    fast, slow = [START, at(consumed={0: 6})], [START, Position({(1, 0): 3}, {})]
    joints = [Joint(0, 0, 0, 1), Joint(1, 0, 0, 2)]
    assert latest_cut([producer, fast, slow], joints) == [1, 1, 1]


def test_a_cycle() -> None:
    """A simulation that is steered by what its analysis publishes."""
    simulation = [START, at({1: 4}, {0: 5}), at({1: 8}, {0: 9})]
    analysis = [START, at({0: 5}, {1: 5}), at({0: 9}, {1: 9})]
    # The analysis's newest point has published answer 8, which the simulation's newest has not had yet.
    assert latest_cut([simulation, analysis], [joint(0, 0, 1), joint(1, 1, 0)]) == [0, 0]
    simulation = [START, at({1: 5}, {0: 5}), at({1: 9}, {0: 9})]
    assert latest_cut([simulation, analysis], [joint(0, 0, 1), joint(1, 1, 0)]) == [2, 2]


def is_whole(points: Points, cut: tuple[int, ...] | list[int], joints: list[Joint[int]]) -> bool:
    """No step is lost: the first one that the consumer has not had is made again."""
    return all(
        points[one.producer][cut[one.producer]].published.get(one.stream, 0)
        <= points[one.consumer][cut[one.consumer]].consumed.get((one.channel, one.stream), 0)
        for one in joints
    )


@st.composite
def workflows(draw: st.DrawFn) -> tuple[Points, list[Joint[int]]]:
    """Up to four tasks, joined at random, cycles too, with up to three points beside the beginning."""
    tasks = draw(st.integers(2, 4))
    ends = st.tuples(st.integers(0, tasks - 1), st.integers(0, tasks - 1)).filter(lambda pair: pair[0] != pair[1])
    joints = [joint(number, *pair) for number, pair in enumerate(draw(st.lists(ends, min_size=1, max_size=5)))]
    points: Points = []
    for task in range(tasks):
        of_task = [START]
        for _ in range(draw(st.integers(0, 3))):
            before = of_task[-1]
            more = st.integers(0, 4)
            consumed = {
                one.channel: before.consumed.get((one.channel, one.stream), 0) + draw(more)
                for one in joints
                if one.consumer == task
            }
            published = {
                one.stream: before.published.get(one.stream, 0) + draw(more) for one in joints if one.producer == task
            }
            of_task.append(at(consumed, published))
        points.append(of_task)
    return points, joints


@settings(max_examples=300)
@given(workflows())
def test_it_is_the_greatest_of_all_whole_cuts(workflow: tuple[Points, list[Joint[int]]]) -> None:
    points, joints = workflow
    cut = latest_cut(points, joints)
    assert is_whole(points, cut, joints)
    for other in itertools.product(*(range(len(of_task)) for of_task in points)):
        if is_whole(points, other, joints):
            assert all(mine >= theirs for mine, theirs in zip(cut, other, strict=True)), (cut, other)
