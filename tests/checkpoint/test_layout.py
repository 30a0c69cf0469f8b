"""Who writes what where, whom the vote blames, and when a state is due: decided by functions on values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wilkins.tasks.checkpoint.engine.schedule import Schedule, When
from wilkins.tasks.checkpoint.engine.vote import Dissent, compare
from wilkins.tasks.checkpoint.storage.layout import ALIGN, PAGE, append, blocks, led_by, places, share_bytes, shares

SIZES = st.lists(st.integers(0, 1000), max_size=12)


@given(SIZES, st.integers(1, 7))
def test_shares_of_replicas_are_disjoint_complete_and_balanced(sizes: list[int], ranks: int) -> None:
    found = shares(sizes, ranks)
    assert len(found) == ranks
    taken = sorted((part.array, part.start, part.length) for parts in found for part in parts)
    for array, size in enumerate(sizes):
        end = 0
        for _, start, length in [one for one in taken if one[0] == array]:
            assert start == end and length > 0
            end += length
        assert end == size
    total = sum(sizes) + ALIGN * len(sizes)
    assert all(share_bytes(parts) <= -(-total // ranks) + 2 * ALIGN for parts in found)
    for parts in found:
        ends = [part.offset + part.length for part in parts]
        assert all(end <= part.offset for end, part in zip(ends, parts[1:], strict=False))


@given(SIZES, st.sampled_from([64, 100, 4096]), st.integers(0, 500))
def test_blocks_hold_every_byte_once(sizes: list[int], block: int, offset: int) -> None:
    parts, length = append(offset, list(enumerate(sizes)))
    found = [
        (part.array, part.start, part.length, index * block + part.offset)
        for index, cut in enumerate(blocks(parts, length, block))
        for part in cut
    ]
    assert all(at % block + size <= block for _, _, size, at in found)
    pairs = {(array, start + i): at + i for array, start, size, at in found for i in range(size)}
    assert pairs == {(part.array, i): part.offset + i for part in parts for i in range(part.length)}


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=9), st.integers(1, 12))
def test_streams_share_files_without_touching(lengths: list[int], files: int) -> None:
    found, sizes = places(lengths, files)
    assert len(sizes) == min(files, len(lengths))
    ends = [0] * len(sizes)
    for place, length in zip(found, lengths, strict=True):
        assert place.offset == ends[place.file] and place.offset % PAGE == 0
        ends[place.file] = place.offset + -(-length // PAGE) * PAGE
    assert ends == sizes
    counts = [sum(place.file == file for place in found) for file in range(len(sizes))]
    assert max(counts) - min(counts) <= 1


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=9), st.integers(1, 12))
def test_each_file_has_a_leader_which_writes_all_of_it(lengths: list[int], files: int) -> None:
    found, sizes = places(lengths, files)
    names = [f"data-{place.file}.bin" for place in found]
    led = [led_by(rank, names) for rank in range(len(lengths))]
    assert sorted(stream for streams in led for stream in streams) == list(range(len(lengths)))
    leaders = [streams for streams in led if streams]
    assert len(leaders) == len(sizes)
    for streams in leaders:
        assert len({names[stream] for stream in streams}) == 1
        assert streams == list(range(streams[0], streams[-1] + 1)) and found[streams[0]].offset == 0


def test_the_vote_blames_who_is_alone() -> None:
    good = [[1, 2], [3]]
    assert compare([good, good]) == []
    assert compare([good, [[1, 2], [4]], good]) == [Dissent(1, 0, (1,))]
    assert compare([good, [[1, 2], [4]]]) == [Dissent(1, 0, ())]
    assert compare([[], []]) == []


def saved_steps(when: When, steps: int, step_seconds: float, cost: float = 0.0, slower: float = 0.0) -> list[int]:
    """The steps that are saved when a version blocks for `cost`, and makes the step after it take `slower` more."""
    schedule, now = Schedule(when, 0.0), 0.0
    found: list[int] = []
    for step in range(1, steps + 1):
        saved = bool(found) and found[-1] == step - 1
        took = step_seconds + (cost + slower if saved else 0.0)
        now += took
        if step > 1:
            schedule.step_took(took, cost if saved else 0.0, busy=False)
        if schedule.due(step, now):
            schedule.begin(now)
            found.append(step)
    return found


def test_every_so_many_steps_or_seconds() -> None:
    assert saved_steps(When(), 3, 1.0) == [1, 2, 3]
    assert saved_steps(When(steps=4), 9, 1.0) == [4, 8]
    assert saved_steps(When(seconds=2.5), 9, 1.0) == [3, 6, 9]
    assert saved_steps(When(steps=4, seconds=2.5), 9, 1.0) == [3, 4, 7, 8]


@given(st.sampled_from([0.01, 0.05, 0.2]), st.floats(0.01, 1.0), st.floats(0.0, 5.0), st.floats(0.0, 5.0))
def test_the_overhead_stays_below_the_share(share: float, step_seconds: float, blocked: float, slower: float) -> None:
    """Time that the program is blocked counts, and what a step takes longer. What costs less comes more often."""
    found = saved_steps(When(overhead=share), 1000, step_seconds, blocked, slower)
    cost = blocked + slower
    assert found[0] == 2  # one step without a version was measured
    assert (len(found) - 1) * cost <= share * (1000 * step_seconds + len(found) * cost) * 1.001 + 2 * cost
    every = max(step_seconds, cost / share) + step_seconds + cost
    assert len(found) >= 1000 * step_seconds // every - 1


def test_versions_that_storage_cannot_keep_up_with_cost_what_they_hold_up() -> None:
    """Each is still on its way when the next step ends: none is saved before the first one's cost is known."""
    schedule = Schedule(When(overhead=0.1), 0.0)
    schedule.step_took(1.0, 0.0, busy=False)
    assert schedule.due(2, 2.0)
    schedule.begin(2.0)
    schedule.step_took(2.0, 0.5, busy=True)
    assert not schedule.due(3, 1000.0)
    schedule.step_took(1.5, 0.0, busy=False)
    assert schedule.cost == 1.5  # blocked 0.5, slower 0.5 and 0.5
    assert not schedule.due(4, 16.9) and schedule.due(4, 17.1)
    schedule.begin(17.1)
    schedule.step_took(9.0, 8.0, busy=True)
    assert not schedule.due(5, 17.1 + 79.0) and schedule.due(5, 17.1 + 81.0)  # what it has cost until now
