"""The model: closed formulas, properties that hold for every workflow, and deadlocks that are explained."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wilkins.flow import FlowPolicy
from wilkins.flow.model import Model, ModelChannel, ModelInPort, ModelOutPort, ModelTask
from wilkins.flow.policy import LATEST
from wilkins.flow.simulation import simulate
from wilkins.flow.timeline import StepCounts, Timeline

POLICIES = st.one_of(
    st.just(LATEST),
    st.builds(
        FlowPolicy, st.integers(1, 4), st.integers(1, 4), st.sampled_from(["block", "drop-oldest", "drop-newest"])
    ),
)
TIMES = st.integers(0, 50).map(lambda hundredths: hundredths / 100)


def pipeline(
    produce: float,
    consume: float,
    steps: int,
    policy: FlowPolicy,
    *,
    ranks: int = 1,
    readers: int = 1,
    reading_ranks: int | None = None,
    size: int = 0,
    rate: float | None = None,
    per_rank: bool = False,
) -> Model:
    """A producer `a` and a consumer `b`."""
    return Model(
        (ModelTask(name="a", step=produce, steps=steps, ranks=ranks), ModelTask(name="b", step=consume, ranks=readers)),
        (ModelOutPort(task=0, pattern="x.h5", size=size, per_rank=per_rank),),
        (ModelInPort(task=1, pattern="x.h5", readers=reading_ranks or readers),),
        (ModelChannel(0, 0, policy),),
        rate,
    )


def ends(timeline: Timeline) -> list[float | None]:
    """When each task completed."""
    return [task.end for task in timeline.tasks]


def numbers_read(timeline: Timeline, task: str, rank: int = 0) -> list[int]:
    """The steps that a rank opened, in the order of its opens."""
    taken = [
        (opening.time, step.number)
        for step in timeline.steps
        for opening in step.openings
        if opening.task == task and opening.rank <= rank < opening.rank + opening.ranks
    ]
    return [number for _, number in sorted(taken)]


@pytest.mark.parametrize(
    ("policy", "consume", "producer", "whole", "read"),
    [
        (FlowPolicy(), 0.4, 3.0, 4.2, 10),
        (FlowPolicy(), 1.0, 7.2, 10.2, 10),
        (FlowPolicy(queue=1), 1.0, 8.2, 10.2, 10),
        (FlowPolicy(), 2.0, 14.2, 20.2, 10),
        (FlowPolicy(2), 0.4, 2.0, 2.2, 5),
        (FlowPolicy(5), 1.0, 2.0, 2.2, 2),
        (FlowPolicy(10), 2.0, 2.0, 2.2, 1),
        (FlowPolicy(2, offset=1), 0.4, 2.0, 2.4, 5),
        (FlowPolicy(5, offset=4), 1.0, 2.0, 3.0, 2),
        (FlowPolicy(10, offset=9), 2.0, 2.0, 4.0, 1),
        (FlowPolicy(11, offset=10), 2.0, 2.0, 2.0, 0),
        (LATEST, 0.4, 2.0, 2.6, 6),
        (LATEST, 1.0, 2.0, 3.2, 3),
        (LATEST, 2.0, 2.0, 4.2, 2),
    ],
)
def test_the_flow_control_experiment(
    policy: FlowPolicy, consume: float, producer: float, whole: float, read: int
) -> None:
    """0.2 s per step, 10 steps: worked out by hand."""
    timeline = simulate(pipeline(0.2, consume, 10, policy))
    assert ends(timeline) == pytest.approx([producer, whole])
    assert timeline.end == pytest.approx(whole)
    assert timeline.counts()["b"] == StepCounts(0, read, 10 - read)


@given(TIMES, TIMES, st.integers(1, 20), st.integers(1, 4))
def test_all_is_a_pipeline_at_the_slower_rate(produce: float, consume: float, steps: int, queue: int) -> None:
    timeline = simulate(pipeline(produce, consume, steps, FlowPolicy(queue=queue)))
    whole = produce + (steps - 1) * max(produce, consume) + consume
    producer = max(steps * produce, produce + max(0, steps - 1 - queue) * consume if steps > queue else 0)
    assert ends(timeline) == pytest.approx([producer, whole])


@given(TIMES, TIMES, st.integers(1, 20), POLICIES)
def test_a_queue_that_drops_never_holds_the_producer(
    produce: float, consume: float, steps: int, policy: FlowPolicy
) -> None:
    timeline = simulate(pipeline(produce, consume, steps, policy))
    if policy.when_full != "block":
        assert timeline.tasks[0].end == pytest.approx(produce * steps)
        assert timeline.tasks[0].mean("waiting for room") == 0
    if policy.when_full == "drop-oldest":
        assert numbers_read(timeline, "b")[-1] == (steps - 1) // policy.every * policy.every, "the last step arrives"
    if policy.when_full == "block":
        assert numbers_read(timeline, "b") == list(range(0, steps, policy.every))


@given(TIMES, TIMES, st.integers(1, 12), st.integers(1, 4), st.integers(1, 3))
def test_blocking_is_monotonous(produce: float, consume: float, steps: int, every: int, queue: int) -> None:
    """Slower programs and more steps never make it shorter; a longer queue and fewer steps kept never longer."""

    def whole(produce: float, consume: float, steps: int, every: int, queue: int) -> list[float]:
        return [end or 0 for end in ends(simulate(pipeline(produce, consume, steps, FlowPolicy(every, queue))))]

    here = whole(produce, consume, steps, every, queue)
    slack = 1e-9
    for slower in (
        whole(produce + 0.1, consume, steps, every, queue),
        whole(produce, consume + 0.1, steps, every, queue),
        whole(produce, consume, steps + 1, every, queue),
    ):
        assert all(a <= b + slack for a, b in zip(here, slower, strict=True))
    for faster in (whole(produce, consume, steps, every, queue + 1), whole(produce, consume, steps, every * 2, queue)):
        assert all(a >= b - slack for a, b in zip(here, faster, strict=True))


@st.composite
def models(draw: st.DrawFn, most_inports: int = 2) -> Model:
    """Workflows without cycles: up to 5 tasks, fan-in, fan-out, several ranks, files of each rank."""
    tasks = []
    outports: list[ModelOutPort] = []
    inports: list[ModelInPort] = []
    channels = []
    for index in range(draw(st.integers(2, 5))):
        first = len(inports)
        ranks = draw(st.integers(1, 3))
        for _ in range(draw(st.integers(0, most_inports)) if outports else 0):
            inports.append(ModelInPort(task=index, pattern="in", readers=draw(st.integers(1, ranks))))
            writers = draw(st.lists(st.sampled_from(range(len(outports))), min_size=1, max_size=3, unique=True))
            channels += [ModelChannel(writer, len(inports) - 1, draw(POLICIES)) for writer in writers]
        steps = draw(st.integers(0, 8)) if len(inports) == first or draw(st.booleans()) else None
        start = draw(st.sampled_from([0, 0.3]))
        tasks.append(ModelTask(name=f"t{index}", step=draw(TIMES), steps=steps, start=start, ranks=ranks))
        outports += [
            ModelOutPort(
                task=index,
                pattern=f"out{index}-{number}",
                size=draw(st.sampled_from([0, 1000])),
                per_rank=draw(st.booleans()),
                publish_at_next=draw(st.booleans()),
            )
            for number in range(draw(st.integers(0 if index else 1, 2)))
        ]
    rate = draw(st.sampled_from([None, 10000.0]))
    return Model(tuple(tasks), tuple(outports), tuple(inports), tuple(channels), rate)


@given(models())
@settings(max_examples=300)
def test_it_adds_up(model: Model) -> None:
    """Segments touch; a task ends or waits for one that does not; steps are opened after they were published."""
    timeline = simulate(model)
    unended = {task.name for task in timeline.tasks if task.end is None}
    assert {blocked.task for blocked in timeline.stuck} == unended
    for blocked in timeline.stuck:
        assert blocked.on
        assert set(blocked.on) <= unended
    for task, said in zip(timeline.tasks, model.tasks, strict=True):
        end = timeline.end if task.end is None else task.end
        for rank in task.ranks:
            assert all(one.end == two.begin for one, two in pairwise(rank.segments))
            times = [rank.segments[0].begin, rank.segments[-1].end] if rank.segments else [0, 0]
            assert times[0] == 0
            assert times[1] <= end
            assert rank.total("starting") == pytest.approx(said.start)
    feeds = {(model.outports[c.outport].task, model.inports[c.inport].task) for c in model.channels}
    for step in timeline.steps:
        writer = next(index for index, task in enumerate(model.tasks) if task.name == step.task)
        for opening in step.openings:
            reader = next(index for index, task in enumerate(model.tasks) if task.name == opening.task)
            assert (writer, reader) in feeds
            assert opening.time >= step.published
    published = [step.published for step in timeline.steps]
    assert published == sorted(published)


@given(models(most_inports=1))
def test_without_cycles_and_second_inports_everything_ends_and_is_read(model: Model) -> None:
    """Where no program is ended early, every step is opened by each of its readers or was dropped for it."""
    timeline = simulate(model)
    assert not timeline.stuck
    if any(
        task.steps is not None and port.task == index
        for index, task in enumerate(model.tasks)
        for port in model.inports
    ):
        return
    for step in timeline.steps:
        fed = {
            model.tasks[model.inports[channel.inport].task].name
            for channel in model.channels
            if model.outports[channel.outport].pattern == step.pattern
        }
        assert {opening.task for opening in step.openings} | set(step.dropped_for) >= fed


@given(models())
def test_a_model_gives_one_timeline(model: Model) -> None:
    assert simulate(model) == simulate(model)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), POLICIES, TIMES, TIMES)
def test_reading_ranks_get_the_same_steps_and_the_others_follow(
    ranks: int, readers: int, reading: int, policy: FlowPolicy, produce: float, consume: float
) -> None:
    model = pipeline(
        produce, consume, 6, policy, ranks=ranks, readers=readers, reading_ranks=min(reading, readers), per_rank=True
    )
    timeline = simulate(model)
    first = [step for step in timeline.steps if any(opening.rank == 0 for opening in step.openings)]
    for step in first:
        taken = [opening.rank + more for opening in step.openings for more in range(opening.ranks)]
        assert sorted(taken) == list(range(min(reading, readers)))
    for rank in timeline.tasks[1].ranks:
        assert rank.total("computing") == pytest.approx(consume * len(first))
    assert {step.source for step in timeline.steps} == set(range(ranks))


def test_copies_take_their_time_and_ranks_share_them() -> None:
    """8 kB at 1 kB/s: 8 s for one rank to write, 4 s for two; reading likewise."""
    one = simulate(pipeline(1, 0, 1, FlowPolicy(), size=8000, rate=1000))
    assert ends(one) == [9, 17]
    two = simulate(pipeline(1, 0, 1, FlowPolicy(), size=8000, rate=1000, ranks=2, readers=4))
    assert ends(two) == [5, 7]
    assert [rank.total("moving") for rank in two.tasks[1].ranks] == [2, 2, 2, 2]
    own = simulate(pipeline(1, 0, 1, FlowPolicy(), size=8000, rate=1000, ranks=2, per_rank=True))
    assert ends(own) == [9, 25], "each rank writes a whole file, and the reader reads both"


def test_fan_in_is_read_in_the_order_of_publication() -> None:
    tasks = (
        ModelTask(name="slow", step=3, steps=2),
        ModelTask(name="fast", step=1, steps=3),
        ModelTask(name="reader", step=0.25),
    )
    model = Model(
        tasks,
        tuple(ModelOutPort(task=task, pattern=f"{task}.h5") for task in (0, 1)),
        (ModelInPort(task=2, pattern="*.h5", readers=1),),
        (ModelChannel(0, 0, FlowPolicy()), ModelChannel(1, 0, FlowPolicy())),
    )
    timeline = simulate(model)
    assert [(step.task, step.number) for step in timeline.steps] == [
        ("fast", 0),
        ("fast", 1),
        ("slow", 0),
        ("fast", 2),
        ("slow", 1),
    ]
    opened = [step.openings[0].time for step in timeline.steps]
    assert opened == [1, 2, 3, 3.25, 6]


def test_two_policies_between_the_same_two_tasks() -> None:
    """The blocking port sets the pace; the other hands over the newest at each turn."""
    model = Model(
        (ModelTask(name="a", step=0.1, steps=6), ModelTask(name="b", step=1)),
        (ModelOutPort(task=0, pattern="all", size=1), ModelOutPort(task=0, pattern="new", size=1)),
        (ModelInPort(task=1, pattern="all", readers=1), ModelInPort(task=1, pattern="new", readers=1)),
        (ModelChannel(0, 0, FlowPolicy(queue=1)), ModelChannel(1, 1, LATEST)),
        rate=1000,
    )
    timeline = simulate(model)
    read = {
        pattern: [step.number for step in timeline.steps if step.pattern == pattern and step.openings]
        for pattern in ("all", "new")
    }
    assert read == {"all": [0, 1, 2, 3, 4, 5], "new": [0, 1, 2, 3, 4, 5]}
    assert timeline.tasks[1].end == pytest.approx(0.101 + 6 * 1.002, abs=0.002)


def cycle(first_waits: bool, queue: int = 2, steps: int | None = 5) -> Model:
    """A simulation that reads what its analysis wrote."""
    return Model(
        (ModelTask(name="sim", step=1, steps=steps), ModelTask(name="ana", step=0.5)),
        (ModelOutPort(task=0, pattern="state.h5"), ModelOutPort(task=1, pattern="steer.h5")),
        (
            ModelInPort(task=0, pattern="steer.h5", readers=1, first_waits=first_waits),
            ModelInPort(task=1, pattern="state.h5", readers=1),
        ),
        (ModelChannel(0, 1, FlowPolicy(queue=queue)), ModelChannel(1, 0, FlowPolicy(queue=queue))),
    )


def test_a_steering_loop() -> None:
    timeline = simulate(cycle(first_waits=False))
    assert ends(timeline) == [7.0, 7.5]
    assert numbers_read(timeline, "sim") == [0, 1, 2, 3]
    assert timeline.tasks[0].mean("waiting for data") == 2.0


def test_a_deadlock_is_explained() -> None:
    timeline = simulate(cycle(first_waits=True))
    assert ends(timeline) == [None, None]
    assert [str(blocked) for blocked in timeline.stuck] == [
        "task 'sim', rank 0, has been waiting since 0 s for a step of 'steer.h5' from 'ana'",
        "task 'ana', rank 0, has been waiting since 0 s for a step of 'state.h5' from 'sim'",
    ]


def test_a_deadlock_for_room_is_explained() -> None:
    """The reader wants a step of `late` first, which its producer writes only after it got rid of `early`."""
    model = Model(
        (ModelTask(name="a", step=1, steps=3), ModelTask(name="b", step=1, steps=1), ModelTask(name="c", step=1)),
        (
            ModelOutPort(task=0, pattern="early"),
            ModelOutPort(task=1, pattern="late"),
        ),
        (
            ModelInPort(task=1, pattern="ready", readers=1),
            ModelInPort(task=2, pattern="late", readers=1),
            ModelInPort(task=2, pattern="early", readers=1),
        ),
        (
            ModelChannel(0, 2, FlowPolicy(queue=1)),
            ModelChannel(1, 1, FlowPolicy()),
            ModelChannel(1, 0, FlowPolicy()),
        ),
    )
    stuck = [str(blocked) for blocked in simulate(model).stuck]
    assert "task 'a', rank 0, has been waiting since 2 s for room on 'early', until 'c' opens a step of it" in stuck
    assert "task 'c', rank 0, has been waiting since 0 s for a step of 'late' from 'b'" in stuck


def test_a_step_published_at_the_next_one_comes_that_much_later() -> None:
    model = pipeline(1, 0, 3, FlowPolicy())
    late = Model(
        model.tasks, (ModelOutPort(task=0, pattern="x.h5", publish_at_next=True),), model.inports, model.channels
    )
    assert [step.published for step in simulate(model).steps] == [1, 2, 3]
    assert [step.published for step in simulate(late).steps] == [2, 3, 3]


def test_a_consumer_that_ends_early_releases_its_producer() -> None:
    model = pipeline(1, 5, 10, FlowPolicy())
    short = Model((model.tasks[0], ModelTask(name="b", step=5, steps=1)), model.outports, model.inports, model.channels)
    timeline = simulate(short)
    assert timeline.tasks[1].end == 6
    assert timeline.tasks[0].end is not None
    assert timeline.tasks[0].end < 15
    assert not timeline.stuck


def test_what_never_ends_is_refused() -> None:
    assert cycle(first_waits=False, steps=None).endless() == ("sim", "ana")
    with pytest.raises(ValueError, match="how many steps 'sim', 'ana' make"):
        simulate(cycle(first_waits=False, steps=None))


def test_a_thousand_tasks() -> None:
    """A large ensemble takes no noticeable time."""
    tasks = [ModelTask(name=f"p{n}", step=0.1, steps=10) for n in range(500)]
    tasks += [ModelTask(name=f"c{n}", step=0.2) for n in range(500)]
    model = Model(
        tuple(tasks),
        tuple(ModelOutPort(task=n, pattern=f"{n}.h5") for n in range(500)),
        tuple(ModelInPort(task=500 + n, pattern=f"{n}.h5", readers=1) for n in range(500)),
        tuple(ModelChannel(n, n, FlowPolicy()) for n in range(500)),
    )
    timeline = simulate(model)
    assert timeline.end == pytest.approx(0.1 + 10 * 0.2)
    assert len(timeline.steps) == 5000
