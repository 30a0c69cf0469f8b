"""The model of tasks with ranks on several hosts: what crosses from where, and when it is there."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from wilkins.flow import FlowPolicy
from wilkins.flow.model import Model, ModelChannel, ModelHost, ModelInPort, ModelOutPort, ModelTask
from wilkins.flow.packing import Packing
from wilkins.flow.placement import Share
from wilkins.flow.policy import LATEST
from wilkins.flow.relays import TRIPS_OF_A_FILE, TRIPS_TO_KEEP, TRIPS_TO_OPEN
from wilkins.flow.simulation import simulate
from wilkins.flow.timeline import Timeline

LATENCY, BANDWIDTH, SIZE, STEPS = 0.001, 1e9, 12_000_000, 10
CARRYING = SIZE / BANDWIDTH
OPENING = 2 * TRIPS_TO_OPEN * LATENCY
KEEPING = 2 * TRIPS_TO_KEEP * LATENCY


def pair(
    writes: Share,
    *reads: Share,
    size: int = SIZE,
    produce: float = 0.2,
    consume: float = 0.0,
    policy: FlowPolicy = FlowPolicy(),  # noqa: B008 - frozen
    per_rank: bool = False,
    readers: int = 10**6,
    packing: Packing = Packing(),  # noqa: B008 - frozen
    fast: bool = False,
) -> Model:
    """A writer, and readers of its steps; each task's ranks are on these hosts."""
    tasks = [ModelTask(name="w", step=produce, steps=STEPS, ranks=sum(count for _, count in writes), share=writes)]
    for number, share in enumerate(reads):
        ranks = sum(count for _, count in share)
        tasks.append(ModelTask(name=f"r{number}", step=consume, ranks=ranks, share=share))
    hosts = 1 + max(host for task in tasks for host, _ in task.share)
    return Model(
        tuple(tasks),
        (ModelOutPort(task=0, pattern="x.h5", size=size, per_rank=per_rank, packing=packing),),
        tuple(
            ModelInPort(task=number, pattern="x.h5", readers=min(readers, task.ranks))
            for number, task in enumerate(tasks)
            if number
        ),
        tuple(ModelChannel(0, number, policy) for number in range(len(reads))),
        hosts=tuple(
            ModelHost(name=f"h{h}", latency=0 if fast else LATENCY, bandwidth=None if fast else BANDWIDTH)
            for h in range(hosts)
        ),
    )


def moved(timeline: Timeline) -> dict[tuple[str, str], float]:
    """Between hosts: bytes for each step, in parts of its size."""
    return {(one.writes, one.reads): one.moved / one.bytes for one in timeline.crossings}


def network(timeline: Timeline) -> list[tuple[float, float]]:
    """By host: bytes that were sent and received, in parts of the steps."""
    return [
        (round(host.sending / CARRYING / STEPS, 6), round(host.receiving / CARRYING / STEPS, 6))
        for host in timeline.hosts
    ]


def test_what_two_hosts_write_together_comes_to_a_third_from_both() -> None:
    timeline = simulate(pair(((0, 2), (1, 1)), ((2, 1),)))
    (crossing,) = timeline.crossings
    assert (crossing.writes, crossing.reads, crossing.moved) == ("h0", "h2", STEPS * SIZE)
    assert crossing.messages == 4 * STEPS + 3
    assert network(timeline) == [(round(2 / 3, 6), 0), (round(1 / 3, 6), 0), (0, 1)]
    for number, step in enumerate(timeline.steps):
        first = step.published + LATENCY + 2 / 3 * CARRYING + (KEEPING if number == 0 else 0)
        assert step.openings[0].time == pytest.approx(first + OPENING + 2 * LATENCY + CARRYING / 3)
    rank = timeline.tasks[0].ranks[2]
    assert rank.total("moving") >= STEPS * 2 * TRIPS_OF_A_FILE * LATENCY, "to the first rank's host"
    assert timeline.tasks[0].ranks[0].segments == timeline.tasks[0].ranks[1].segments


def test_on_the_first_ranks_host_who_reads_brings_the_rest() -> None:
    """Once for all who read there."""
    timeline = simulate(pair(((0, 1), (1, 1)), ((0, 2),), ((0, 1),)))
    assert timeline.crossings == ()
    assert network(timeline) == [(0, 0.5), (0.5, 0)]
    for task in timeline.tasks[1:]:
        each = OPENING + 2 * LATENCY + CARRYING / 2
        assert task.ranks[0].total("moving") == pytest.approx(STEPS * each, rel=0.01)


def test_what_a_reading_host_has_written_itself_does_not_cross() -> None:
    timeline = simulate(pair(((0, 1), (1, 2)), ((1, 1),)))
    assert moved(timeline) == {("h0", "h1"): pytest.approx(1 / 3)}
    assert network(timeline) == [(round(1 / 3, 6), 0), (0, round(1 / 3, 6))]
    alike = simulate(pair(((0, 2), (1, 2)), ((0, 2), (1, 2))))
    assert moved(alike) == {("h0", "h1"): 0}
    assert network(alike) == [(0, 0), (0, 0)]


def test_each_host_gets_what_its_ranks_read() -> None:
    """And the sender's host sends to both at once."""
    timeline = simulate(pair(((0, 1),), ((1, 1), (2, 3))))
    assert moved(timeline) == {("h0", "h1"): pytest.approx(0.25), ("h0", "h2"): pytest.approx(0.75)}
    assert network(timeline) == [(1, 0), (0, 0.25), (0, 0.75)]
    assert all(Counter(one.rank for one in step.openings) == {0: 1, 1: 1} for step in timeline.steps)
    assert sorted(one.ranks for one in timeline.steps[0].openings) == [1, 3]
    both = simulate(pair(((0, 1),), ((1, 1), (2, 3)), ((1, 1),)))
    assert moved(both) == {("h0", "h1"): 1, ("h0", "h2"): pytest.approx(0.75)}


def test_only_hosts_with_ranks_that_open_steps_get_them() -> None:
    timeline = simulate(pair(((0, 1),), ((1, 2), (2, 2)), readers=2))
    assert moved(timeline) == {("h0", "h1"): 1}
    ends = [rank.segments[-1].end for rank in timeline.tasks[1].ranks]
    assert ends == pytest.approx([ends[0]] * 4, rel=0.01)
    assert sum(one.ranks for step in timeline.steps for one in step.openings) == 2 * STEPS
    assert not timeline.stuck


def test_files_of_each_rank_cross_from_its_host() -> None:
    timeline = simulate(pair(((0, 2), (1, 1)), ((1, 1),), per_rank=True))
    (crossing,) = timeline.crossings
    assert (crossing.writes, crossing.reads, crossing.steps) == ("h0", "h1", 2 * STEPS)
    assert network(timeline) == [(2, 0), (0, 2)]
    assert len(timeline.steps) == 3 * STEPS
    assert all(len(step.openings) == 1 for step in timeline.steps)


@pytest.mark.parametrize("packing", [Packing(), Packing(0.5, 1e-9)], ids=["small", "packed"])
def test_small_and_packed_steps_come_to_the_first_ranks_host_before(packing: Packing) -> None:
    size = 120_000 if packing == Packing() else SIZE
    timeline = simulate(pair(((0, 1), (1, 2)), ((2, 1),), size=size, packing=packing))
    (crossing,) = timeline.crossings
    assert crossing.messages == 2 * STEPS + 3
    sends = [host.sending * BANDWIDTH / size / STEPS for host in timeline.hosts]
    assert sends == pytest.approx([packing.sent, 2 / 3, 0])


def test_hosts_of_a_reader_that_takes_the_latest_take_the_same_steps() -> None:
    """A step that one has taken is dropped for none, and what is dropped is dropped for all."""
    model = pair(((0, 1),), ((1, 1), (2, 1), (0, 1)), produce=0.01, consume=0.05, policy=LATEST)
    timeline = simulate(model)
    taken = [tuple(sorted(one.rank for one in step.openings)) for step in timeline.steps]
    assert set(taken) == {(), (0, 1, 2)}
    assert [step.dropped_for for step in timeline.steps] == [("r0",) if not ranks else () for ranks in taken]
    assert timeline.counts()["r0"].consumed + timeline.counts()["r0"].dropped == STEPS


def test_hosts_that_hand_steps_on_get_what_others_read_too() -> None:
    reads = tuple((host, 1) for host in range(1, 7))
    timeline = simulate(pair(((0, 1),), reads))
    own = {("h0", "h1"): 3, ("h0", "h2"): 3, ("h1", "h3"): 1, ("h1", "h4"): 1, ("h2", "h5"): 1, ("h2", "h6"): 1}
    assert moved(timeline) == {way: pytest.approx(count / 6) for way, count in own.items()}
    together = simulate(pair(((0, 1), (7, 1)), reads))
    assert {writes for writes, _ in moved(together)} == {"h0"}, "whose bytes are where they were written"


def test_large_steps_are_handed_on_as_they_come() -> None:
    """Each host sends to two others, one after the other; the last of eight waits for three such times, not for six."""
    alone, all_ = (
        simulate(pair(((0, 1),), *[((host, 1),) for host in range(1, 1 + hosts)], size=100 << 20, produce=1.0))
        for hosts in (1, 8)
    )
    after = [max(task.end or 0 for task in timeline.tasks) - STEPS * 1.0 for timeline in (alone, all_)]
    assert after[1] == pytest.approx(3 * after[0], rel=0.05)


def drawn(draw: random.Random, ranks: int) -> Share:
    """So many ranks over some of six hosts."""
    hosts = draw.sample(range(6), min(ranks, draw.randrange(1, 5)))
    cuts = sorted(draw.sample(range(1, ranks), len(hosts) - 1))
    return tuple((host, end - begin) for host, begin, end in zip(hosts, [0, *cuts], [*cuts, ranks], strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_wherever_ranks_are_all_get_every_step_and_no_byte_crosses_twice(seed: int) -> None:
    draw = random.Random(seed)
    writes = drawn(draw, draw.randrange(2, 9))
    reads = [drawn(draw, draw.randrange(2, 9)) for _ in range(draw.randrange(1, 4))]
    per_rank, drops = draw.random() < 0.3, draw.random() < 0.3
    timeline = simulate(pair(writes, *reads, per_rank=per_rank, policy=LATEST if drops else FlowPolicy(), produce=0.02))
    assert not timeline.stuck
    assert all(task.end is not None for task in timeline.tasks)
    ranks = Counter({f"r{number}": sum(count for _, count in share) for number, share in enumerate(reads)})
    for step in timeline.steps:
        openings = Counter[str]()
        for one in step.openings:
            openings[one.task] += one.ranks
        assert all(openings[name] == count or (drops and name in step.dropped_for) for name, count in ranks.items())
    if not drops:
        most = sum(len({host for host, _ in share}) for share in reads) * (len(timeline.steps) * SIZE)
        assert sum(host.receiving for host in timeline.hosts) * BANDWIDTH <= most * 1.001
    sent, received = (sum(getattr(host, what) for host in timeline.hosts) for what in ("sending", "receiving"))
    assert sent == pytest.approx(received)


def test_without_a_network_in_the_way_ranks_on_several_hosts_do_as_on_one() -> None:
    one = simulate(pair(((0, 4),), ((0, 4),), fast=True))
    many = simulate(pair(((0, 2), (1, 2)), ((1, 1), (2, 3)), fast=True))
    assert [step.published for step in many.steps] == [step.published for step in one.steps]
    assert [step.openings[0].time for step in many.steps] == [step.openings[0].time for step in one.steps]
    assert many.end == one.end
