"""The timeline of a run from its trace: what each rank did, what became of the steps, start and end of programs."""

from __future__ import annotations

from typing import get_args

import pytest

from wilkins.flow.recorded import computing_times, recorded, steps_written, without_start
from wilkins.flow.timeline import Activity, Opening, StepCounts, Timeline
from wilkins.flow.trace import Event

MS = 1_000_000


def events(text: str) -> list[Event]:
    """Lines of `ms event task rank pattern name sequence`, from the second of which on the end may be left out."""
    found = []
    for line in text.strip().splitlines():
        words = line.split()
        time, kind, task, rank, pattern, name, sequence = [*words, *["-1", "-", "-", "-1"][len(words) - 3 :]]
        found.append(Event(5_000 * MS + int(time) * MS, kind, task, int(rank), pattern, name, int(sequence)))  # type: ignore[arg-type]
    return sorted(found, key=lambda event: event.time_ns)


def activities(timeline: Timeline, task: int, rank: int = 0) -> list[tuple[str, int]]:
    """A rank's activities and how long each took, in ms."""
    segments = timeline.tasks[task].ranks[rank].segments
    return [(segment.activity, round(1000 * (segment.end - segment.begin))) for segment in segments]


PAIR = events(
    """
      0 start sim
     10 start look
    100 wait-data look 0 *.h5 x.h5
    300 create sim 0 x.h5 x.h5
    310 publish sim 0 x.h5 x.h5 0
    311 open look 0 *.h5 x.h5 0
    311 go look 0 *.h5 x.h5
    315 close look 0 *.h5 x.h5 0
    410 create sim 0 x.h5 x.h5
    420 publish sim 0 x.h5 x.h5 1
    520 create sim 0 x.h5 x.h5
    530 publish sim 0 x.h5 x.h5 2
    530 drop look -1 *.h5 x.h5 1
    560 end sim -1 - 0
    600 open look 0 *.h5 x.h5 2
    605 close look 0 *.h5 x.h5 2
    999 end look -1 - 0
    """
)


def test_a_pair() -> None:
    timeline = recorded(PAIR)
    assert activities(timeline, 0) == [
        ("starting", 200),
        ("computing", 100),
        ("moving", 10),
        ("computing", 100),
        ("moving", 10),
        ("computing", 100),
        ("moving", 10),
        ("ending", 30),
    ]
    assert activities(timeline, 1) == [
        ("starting", 90),
        ("waiting for data", 211),
        ("moving", 4),
        ("computing", 285),
        ("moving", 5),
        ("computing", 285),
        ("ending", 109),
    ]
    assert [task.end for task in timeline.tasks] == pytest.approx([0.56, 0.999])
    assert timeline.counts() == {"sim": StepCounts(3, 0, 0), "look": StepCounts(0, 2, 1)}
    assert timeline.steps[2].openings == (Opening("look", 0, 0.6),)
    assert timeline.steps[1].dropped_for == ("look",)


def test_what_carries_steps_waits_between_them() -> None:
    """It computes nothing; programs do what they did."""
    plain, carried = recorded(PAIR), recorded(PAIR, carriers={"sim"})
    assert {activity for activity, _ in activities(carried, 0)} == {"starting", "waiting for data", "moving", "ending"}
    assert [took for _, took in activities(carried, 0)] == [took for _, took in activities(plain, 0)]
    assert carried.tasks[1] == plain.tasks[1]


def test_start_and_end_can_be_left_out() -> None:
    timeline = without_start(recorded(PAIR))
    assert activities(timeline, 1)[0] == ("waiting for data", 211), "the clock begins when `look` was up"
    assert activities(timeline, 0)[0] == ("starting", 100), "what `sim` still needed stays"
    assert [task.end for task in timeline.tasks] == pytest.approx([0.43, 0.79])
    assert "ending" not in {activity for task in (0, 1) for activity, _ in activities(timeline, task)}
    assert timeline.steps[0].published == pytest.approx(0.21)


def test_computing_times_are_medians_between_steps() -> None:
    assert computing_times(recorded(PAIR)) == pytest.approx({"sim": 0.1, "look": 0.285})


def test_steps_written_are_counted_per_task() -> None:
    assert steps_written(recorded(PAIR)) == {"sim": len(recorded(PAIR).steps)}


def test_a_wait_for_room_is_neither_computing_nor_moving() -> None:
    timeline = recorded(
        events(
            """
            0 start a
            50 create a 0 x x
            60 publish a 0 x x 0
            100 wait-room a 0 x x
            400 go a 0 x x
            401 create a 0 x x
            410 publish a 0 x x 1
            """
        )
    )
    assert ("waiting for room", 300) in activities(timeline, 0)
    assert timeline.tasks[0].end is None, "its end was not noted"


def test_a_restarted_program_starts_again() -> None:
    timeline = recorded(
        events(
            """
            0 start a
            10 open a 0 x s0 0
            20 close a 0 x s0 0
            50 end a -1 - 0
            60 start a
            70 open a 0 x s1 1
            80 close a 0 x s1 1
            90 end a -1 - 0
            """
        )
    )
    assert [what for what, _ in activities(timeline, 0)].count("starting") == 2
    assert timeline.tasks[0].end == pytest.approx(0.09)


def test_files_of_one_name_are_told_apart_by_what_is_joined() -> None:
    text = """
        0 publish w[0] 0 out.h5 out.h5 0
        1 publish w[1] 0 out.h5 out.h5 0
        5 open r[1] 0 out.h5 out.h5 0
        6 open r[0] 0 out.h5 out.h5 0
    """
    feeds = {(f"r[{n}]", "out.h5"): {(f"w[{n}]", "out.h5")} for n in (0, 1)}
    timeline = recorded(events(text), feeds=feeds)
    assert [step.openings[0].task for step in timeline.steps] == ["r[0]", "r[1]"]


def test_a_parallel_file_is_moved_until_its_lead_rank_publishes() -> None:
    timeline = recorded(
        events(
            """
            0 start a
            10 create a 0 x x
            10 create a 1 x x
            30 publish a 0 x x 0
            40 end a -1 - 0
            """
        )
    )
    assert ("moving", 20) in activities(timeline, 0, 1)


def test_segments_touch_and_nothing_is_unknown() -> None:
    for task in recorded(PAIR).tasks:
        for rank in task.ranks:
            ends = [segment.end for segment in rank.segments]
            assert [segment.begin for segment in rank.segments[1:]] == ends[:-1]
            assert {segment.activity for segment in rank.segments} <= set(get_args(Activity))


def test_an_empty_trace() -> None:
    assert recorded([], ["a"]).end == 0
