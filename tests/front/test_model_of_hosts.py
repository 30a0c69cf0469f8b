"""The model over several hosts: closed formulas for what crosses, and where a network holds a workflow up."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from wilkins.flow import FlowPolicy, relays
from wilkins.flow.model import Model, ModelChannel, ModelHost, ModelInPort, ModelOutPort, ModelTask
from wilkins.flow.packing import Packing
from wilkins.flow.policy import LATEST
from wilkins.flow.simulation import simulate
from wilkins.flow.timeline import StepCounts

LATENCY, BANDWIDTH, SIZE = 0.001, 1e9, 10_000_000
CARRYING = SIZE / BANDWIDTH


def star(
    writers: int,
    readers: int,
    *,
    produce: float = 0.0,
    consume: float = 0.0,
    steps: int = 10,
    policy: FlowPolicy = FlowPolicy(),  # noqa: B008 - frozen
    ranks: int = 1,
    hosts: int | None = None,
) -> Model:
    """Writers that each feed all readers; every task has a host of its own, or as many as there are `hosts`."""
    count = hosts or writers + readers
    tasks = [
        ModelTask(name=f"w{w}", step=produce, steps=steps, ranks=ranks, share=((w % count, ranks),))
        for w in range(writers)
    ]
    tasks += [
        ModelTask(name=f"r{r}", step=consume, ranks=ranks, share=(((writers + r) % count, ranks),))
        for r in range(readers)
    ]
    return Model(
        tuple(tasks),
        tuple(ModelOutPort(task=writer, pattern="x.h5", size=SIZE) for writer in range(writers)),
        tuple(ModelInPort(task=writers + reader, pattern="x.h5", readers=ranks) for reader in range(readers)),
        tuple(ModelChannel(writer, reader, policy) for writer in range(writers) for reader in range(readers)),
        hosts=tuple(ModelHost(name=f"h{h}", latency=LATENCY, bandwidth=BANDWIDTH) for h in range(count)),
    )


def test_a_step_is_there_after_the_answer_and_its_bytes() -> None:
    timeline = simulate(star(1, 1, produce=0.1, ranks=3))
    for step in timeline.steps:
        assert step.openings[0].time == pytest.approx(step.published + LATENCY + CARRYING)
    assert timeline.end == pytest.approx(10 * 0.1 + 3 * LATENCY + CARRYING), "with the question and answer at the end"


def test_two_messages_for_each_step_and_three_more() -> None:
    (crossing,) = simulate(star(1, 1)).crossings
    assert (crossing.steps, crossing.bytes, crossing.messages) == (10, 10 * SIZE, 23)
    assert (crossing.writes, crossing.reads, crossing.readers) == ("h0", "h1", ("r0",))


def test_a_stream_without_computing_takes_a_question_an_answer_and_the_bytes_of_each_step() -> None:
    timeline = simulate(star(1, 1, steps=100))
    assert timeline.tasks[1].end == pytest.approx(100 * (2 * LATENCY + CARRYING) + 2 * LATENCY)
    assert timeline.crossings[0].under_way == pytest.approx(100 * (2 * LATENCY + CARRYING))
    assert timeline.crossings[0].carrying == pytest.approx(100 * CARRYING)


@pytest.mark.parametrize(("queue", "at_once"), [(1, 2), (2, 3), (4, 5), (20, 8)])
def test_as_many_small_steps_as_the_queue_has_room_for_are_on_their_way(queue: int, at_once: int) -> None:
    """And one more, up to eight: so many come in the time there and back."""
    model = star(1, 1, steps=400, policy=FlowPolicy(queue=queue))
    model = replace(model, outports=(replace(model.outports[0], size=1000),))
    timeline = simulate(model)
    assert timeline.end == pytest.approx(400 / at_once * 2 * LATENCY, rel=0.05)
    (crossing,) = timeline.crossings
    assert (crossing.steps, crossing.messages, crossing.at_once) == (400, 803, at_once)
    assert crossing.under_way == pytest.approx(timeline.end, rel=0.05)


def test_steps_that_are_read_whole_follow_until_many_bytes_are_on_their_way() -> None:
    for size, at_once in ((256 << 10, 8), (1 << 20, 4), (5 << 20, 1)):
        model = star(1, 1, steps=100, policy=FlowPolicy(queue=20))
        (crossing,) = simulate(replace(model, outports=(replace(model.outports[0], size=size),))).crossings
        assert crossing.at_once == at_once


def test_a_slow_reader_holds_its_producer_also_when_many_steps_are_on_their_way() -> None:
    """Each host has its queue, and one more step is between them."""
    queue = 3
    model = star(1, 1, consume=0.1, steps=60, policy=FlowPolicy(queue=queue))
    timeline = simulate(replace(model, outports=(replace(model.outports[0], size=1000),)))
    made = [step.published for step in timeline.steps]
    opened = [step.openings[0].time for step in timeline.steps]
    ahead = max(number + 1 - sum(time <= at for time in opened) for number, at in enumerate(made))
    assert queue < ahead <= 2 * queue + 2


def test_a_step_is_packed_while_the_last_one_is_sent() -> None:
    """The slower of both bounds the stream. Where too many bytes are on their way, packing waits for these, too."""
    for sent, packs, takes in ((0.1, 0.05, 0.1), (0.1, 4.0, 4.0), (0.5, 1.0, 1.5)):
        packing = Packing(sent=sent, seconds=packs * CARRYING / SIZE)
        model = star(1, 1, steps=50, policy=FlowPolicy(queue=4))
        model = replace(model, outports=(replace(model.outports[0], packing=packing),))
        model = replace(model, hosts=tuple(replace(host, latency=0.0) for host in model.hosts))
        assert simulate(model).end == pytest.approx(50 * takes * CARRYING, rel=0.05)


@pytest.mark.parametrize(("writers", "readers"), [(8, 1), (1, relays.FEW_HOSTS)])
def test_the_network_of_the_host_in_the_middle_carries_all(writers: int, readers: int) -> None:
    timeline = simulate(star(writers, readers, steps=50))
    bytes_take = max(writers, readers) * 50 * CARRYING
    assert timeline.end == pytest.approx(bytes_take, rel=0.02)
    middle = timeline.hosts[-1].receiving if readers == 1 else timeline.hosts[0].sending
    assert middle == pytest.approx(bytes_take)


def test_hosts_with_readers_carry_what_many_read() -> None:
    """Each to two others: eight readers, each on a host, take little longer than two."""
    timeline = simulate(star(1, 8, steps=50))
    bytes_take = 2 * 50 * CARRYING
    assert timeline.end == pytest.approx(bytes_take, rel=0.05)
    assert [host.sending for host in timeline.hosts] == pytest.approx([bytes_take] * 4 + [0] * 5)


def test_a_slow_host_holds_up_its_own_channel_only() -> None:
    model = star(2, 2, produce=0.05, steps=20, policy=LATEST)
    slow = Model(
        model.tasks,
        model.outports,
        model.inports,
        tuple(channel for channel in model.channels if channel.outport == channel.inport),
        hosts=(*model.hosts[:3], ModelHost(name="h3", latency=0.5, bandwidth=BANDWIDTH)),
    )
    ends = [task.end for task in simulate(slow).tasks]
    assert ends[:3] == pytest.approx([1.0, 1.0, 1.0 + 3 * LATENCY + CARRYING])
    assert ends[3] is not None
    assert ends[3] > 1.5


@pytest.mark.parametrize("policy", [FlowPolicy(5), LATEST, FlowPolicy(1, 2, "drop-newest")])
def test_only_steps_that_are_kept_cross(policy: FlowPolicy) -> None:
    timeline = simulate(star(1, 1, produce=0.01, consume=0.05, steps=40, policy=policy))
    read = timeline.counts()["r0"]
    assert read == StepCounts(0, read.consumed, 40 - read.consumed)
    assert 0 < read.consumed == timeline.crossings[0].steps < 40


def test_a_step_comes_on_demand_and_is_the_newest_then() -> None:
    """Four steps are made while one is read: the reader gets every fifth, and waits for its way."""
    timeline = simulate(star(1, 1, produce=0.01, consume=0.05 - 2 * LATENCY - CARRYING, steps=41, policy=LATEST))
    opened = [(step.number, step.openings[0].time) for step in timeline.steps if step.openings]
    assert [number for number, _ in opened[:4]] == [0, 5, 10, 15]
    for number, opens in opened[1:4]:
        taken = opens - LATENCY - CARRYING
        assert timeline.steps[number].published <= taken + 1e-9 < timeline.steps[number + 1].published


def test_readers_that_leave_out_steps_have_relays_of_their_own() -> None:
    """A slow one does not hold up what a quick one beside it gets."""
    model = star(1, 2, produce=0.01, steps=40, hosts=2)
    tasks = (model.tasks[0], *(ModelTask(name=f"r{r}", step=(0.0, 0.1)[r], share=((1, 1),)) for r in range(2)))
    channels = tuple(ModelChannel(0, reader, LATEST) for reader in range(2))
    timeline = simulate(Model(tasks, model.outports, model.inports, channels, hosts=model.hosts))
    counts = timeline.counts()
    assert [(one.readers, one.steps) for one in timeline.crossings] == [
        (("r0",), counts["r0"].consumed),
        (("r1",), counts["r1"].consumed),
    ]
    assert counts["r1"].consumed < 10 < 20 < counts["r0"].consumed


def test_readers_of_one_host_share_what_crosses() -> None:
    """Of two policies each reader has its own behind the relay."""
    model = star(1, 2, hosts=2)
    tasks = (model.tasks[0], *(ModelTask(name=f"r{r}", step=0.0, share=((1, 1),)) for r in range(2)))
    channels = (ModelChannel(0, 0, FlowPolicy()), ModelChannel(0, 1, FlowPolicy(5)))
    timeline = simulate(Model(tasks, model.outports, model.inports, channels, hosts=model.hosts))
    (crossing,) = timeline.crossings
    assert (crossing.steps, crossing.readers) == (10, ("r0", "r1"))
    assert [timeline.counts()[name].consumed for name in ("r0", "r1")] == [10, 2]


def test_on_one_host_nothing_crosses_and_all_is_as_without_hosts() -> None:
    model = star(2, 2, produce=0.1, consume=0.3, hosts=1)
    alone = simulate(Model(model.tasks, model.outports, model.inports, model.channels))
    timeline = simulate(model)
    assert timeline.crossings == ()
    assert (timeline.tasks, timeline.steps) == (alone.tasks, alone.steps)


def test_who_is_stuck_over_hosts_is_told_by_tasks() -> None:
    tasks = (ModelTask(name="a", step=0.1, steps=3), ModelTask(name="b", step=0.1, steps=3, share=((1, 1),)))
    ports = [ModelOutPort(task=task, pattern="x.h5", size=SIZE) for task in range(2)]
    inports = tuple(ModelInPort(task=task, pattern="x.h5", readers=1) for task in range(2))
    channels = (ModelChannel(0, 1, FlowPolicy()), ModelChannel(1, 0, FlowPolicy()))
    timeline = simulate(Model(tasks, tuple(ports), inports, channels, hosts=star(1, 1).hosts))
    assert {(one.task, one.on) for one in timeline.stuck} == {("a", ("b",)), ("b", ("a",))}


@pytest.mark.bench
@pytest.mark.parametrize(("writers", "readers"), [(1, 0), (0, 1), (0, 0)], ids=["out", "in", "pairs"])
def test_eight_times_the_hosts_take_about_eight_times_as_long(writers: int, readers: int) -> None:
    """64 times would be quadratic. Ranks of a task that do the same are no matter."""

    def seconds(hosts: int) -> float:
        if writers or readers:
            model = star(writers or hosts, readers or hosts, ranks=100, steps=4)
        else:
            model = star(hosts, hosts, ranks=100, steps=4)
            joined = tuple(ModelChannel(place, place, FlowPolicy()) for place in range(hosts))
            model = Model(model.tasks, model.outports, model.inports, joined, hosts=model.hosts)
        begin = time.process_time()
        assert simulate(model).end > 0
        return time.process_time() - begin

    few = min(seconds(50) for _ in range(3))
    assert min(seconds(400) for _ in range(2)) < 20 * few
