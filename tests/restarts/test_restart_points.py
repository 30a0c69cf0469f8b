"""What the trace of a run tells of the points that its tasks can go back to."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from wilkins.errors import WorkflowError
from wilkins.flow.trace import Event
from wilkins.plan.plan import Plan, Resumed
from wilkins.plan.planner import plan_file
from wilkins.report.show import plan_table
from wilkins.resume.history import History
from wilkins.resume.restart_point import RestartPoint
from wilkins.transport.points import CHOSEN, Point
from wilkins.transport.points import line as line_of

CHAIN = """
tasks:
  - name: sim
    func: /bin/true
    nprocs: 2
    mpiexec: /bin/true
    outports: [{filename: "u*.h5"}]
    restart: {files: "c*.h5"}
  - name: norm
    func: /bin/true
    inports: [{filename: "u*.h5"}]
    outports: [{filename: "n*.h5"}]
    restart: each-step
  - {name: sums, func: /bin/true, inports: [{filename: "n*.h5"}], restart: points}
"""


def planned(folder: Path, text: str) -> Plan:
    (folder / "workflow.yaml").write_text(text)
    return plan_file(folder / "workflow.yaml")


def events(text: str) -> list[Event]:
    """Lines of an event, a task, its rank, a pattern, a name and a number each."""
    found = []
    for time, line in enumerate(text.strip().splitlines()):
        kind, task, rank, pattern, name, number = line.split()
        found.append(Event(time, kind, task, int(rank), pattern, name, int(number)))  # type: ignore[arg-type]
    return found


def points(plan: Plan, task: int, text: str, told: tuple[Point, ...] = ()) -> list[RestartPoint]:
    return History(plan, events(text)).points_of(plan.tasks[task], told, {})


def counts(point: RestartPoint) -> tuple[list[int], list[int]]:
    return list(point.position.consumed.values()), list(point.position.published.values())


TWO_WRITERS = """
tasks:
  - {name: one, func: /bin/true, restart: {files: "a*.h5"}}
  - {name: two, func: /bin/true, restart: {files: "b*.h5"}}
"""


def test_a_file_of_another_task_may_get_the_number_of_one_that_is_gone(tmp_path: Path) -> None:
    history = History(
        planned(tmp_path, TWO_WRITERS),
        events("""
        file one 0 a*.h5 /there/a1.h5 77
        file one 0 a*.h5 /there/a2.h5 78
        file two 0 b*.h5 /there/b1.h5 77
        """),
    )
    one, two = planned(tmp_path, TWO_WRITERS).tasks
    assert [point.file for point in history.points_of(one, (), {})] == ["/there/a2.h5"]
    assert [point.file for point in history.points_of(two, (), {})] == ["/there/b1.h5"]


def test_a_checkpoint_knows_what_was_published_before_it(tmp_path: Path) -> None:
    plan = planned(tmp_path, CHAIN)
    found = points(
        plan,
        0,
        """
        publish sim 0 u*.h5 u0.h5 0
        publish sim 0 u*.h5 u1.h5 1
        file sim 0 c*.h5 /there/c1.h5 77
        publish sim 0 c*.h5 c1.h5 0
        publish sim 0 u*.h5 u2.h5 2
        file sim 0 c*.h5 /there/c2.h5 78
        """,
    )
    # The last one took its name, perhaps, before the run was killed: its inode will tell.
    assert [(point.file, point.inode, counts(point)) for point in found] == [
        ("/there/c1.h5", 77, ([], [2, 1])),
        ("/there/c2.h5", 78, ([], [3, 2])),
    ]


def test_a_number_that_is_used_again_is_that_of_the_newer_file(tmp_path: Path) -> None:
    plan = planned(tmp_path, CHAIN)
    text = "file sim 0 c*.h5 /c1.h5 77\npublish sim 0 c*.h5 c1.h5 0\nfile sim 0 c*.h5 /c2.h5 77"
    assert [point.file for point in points(plan, 0, text)] == ["/c2.h5"]


def test_one_rank_cannot_speak_for_another_that_publishes(tmp_path: Path) -> None:
    plan = planned(tmp_path, CHAIN)
    history = History(plan, events("publish sim 1 u*.h5 u0.h5 0\nfile sim 0 c*.h5 /c1.h5 77"))
    assert history.points_of(plan.tasks[0], (), {}) == []
    assert "rank 0 wrote its checkpoints, but rank 1 publishes files of its own" in history.unclear(plan.tasks[0])


STREAM = """
publish sim 0 u*.h5 u0.h5 0
open norm 0 u*.h5 u0.h5 0
publish norm 0 n*.h5 n0.h5 0
publish sim 0 u*.h5 u1.h5 1
open norm 0 u*.h5 u1.h5 1
"""


def test_a_step_that_is_told_twice_is_one(tmp_path: Path) -> None:
    """Its producer was killed between telling of it and going on to the next number."""
    plan = planned(tmp_path, CHAIN)
    twice = STREAM.replace("publish sim 0 u*.h5 u1.h5 1", "publish sim 0 u*.h5 u1.h5 1\npublish sim 0 u*.h5 u1.h5 1")
    assert twice.count("u1.h5 1") == 3
    history = History(plan, events(twice))
    assert [counts(point) for point in history.points_of(plan.tasks[1], (), {})] == [([1], [1])]
    assert not history.unclear(plan.tasks[1])


def test_a_task_without_state_goes_back_to_before_the_step_in_hand(tmp_path: Path) -> None:
    plan = planned(tmp_path, CHAIN)
    assert [counts(point) for point in points(plan, 1, STREAM)] == [([1], [1])]
    after = STREAM + "publish norm 0 n*.h5 n1.h5 1\nend norm -1 - 0 -1"
    assert [counts(point) for point in points(plan, 1, after)] == [([1], [1]), ([2], [2])]
    failed = STREAM + "end norm -1 - 1 -1"
    assert [counts(point) for point in points(plan, 1, failed)] == [([1], [1])]


def test_an_end_counts_unless_a_producer_had_failed(tmp_path: Path) -> None:
    plan = planned(tmp_path, CHAIN)
    over = "end norm -1 - 0 -1\ndone norm -1 - - -1"
    assert points(plan, 1, STREAM + over)[-1].how == "ended"
    assert points(plan, 1, STREAM + "end sim -1 - SIGKILL -1\n" + over)[-1].how == "step"
    good = "end sim -1 - 0 -1\ndone sim -1 - - -1\n"
    assert points(plan, 1, STREAM + good + over)[-1].how == "ended"


def test_what_a_task_tells(tmp_path: Path) -> None:
    plan = planned(tmp_path, CHAIN)
    text = STREAM + "open sums 0 n*.h5 n0.h5 0"
    told = (Point("a", {"n*.h5": 1}), Point("more than there was", {"n*.h5": 2}))
    found = points(plan, 2, text, told)
    assert [(point.how, counts(point)) for point in found] == [("told", ([1], []))]
    assert RestartPoint.restored(found[0].record()) == found[0]


def test_steps_of_several_producers(tmp_path: Path) -> None:
    """Names tell them apart, or nothing does."""
    text = CHAIN.replace("nprocs: 2\n    mpiexec: /bin/true", "taskCount: 2")
    plan = planned(tmp_path, text)
    published = "publish sim[0] 0 u*.h5 {} 0\npublish sim[1] 0 u*.h5 {} 0\n"
    published += "open norm 0 u*.h5 {} 0\nopen norm 0 u*.h5 {} 0"
    found = points(plan, 2, published.format("ua.h5", "ub.h5", "ub.h5", "ua.h5"))
    assert [counts(point) for point in found] == [([1], [])]
    assert points(plan, 2, published.format("u.h5", "u.h5", "u.h5", "u.h5")) == []


ENSEMBLE = CHAIN.replace("nprocs: 2\n    mpiexec: /bin/true", "taskCount: 2").replace("each-step", "points")


def test_what_a_task_tells_of_several_producers(tmp_path: Path) -> None:
    """It counts what came, and the order in which it opened that says whose steps these were."""
    plan = planned(tmp_path, ENSEMBLE)
    text = "".join(f"publish sim[{i}] 0 u*.h5 u{i}{k}.h5 {k}\n" for k in range(3) for i in range(2))
    order = [(1, 0), (0, 0), (1, 1), (1, 2), (0, 1)]
    text += "".join(f"open norm 0 u*.h5 u{i}{k}.h5 {k}\n" for i, k in order)
    told = tuple(Point(str(count), opened={"u*.h5": count}) for count in range(7))
    found = points(plan, 2, text, told)
    assert [point.line and counts(point)[0] for point in found] == [
        [],
        [1],
        [1, 1],
        [2, 1],
        [3, 1],
        [3, 2],
    ]
    assert points(plan, 2, text, (Point("3", {"u*.h5": 3}),)) == []


def test_a_count_of_steps_goes_on_in_the_next_run(tmp_path: Path) -> None:
    """It had had three steps, two of the second member; now comes another one of the first, and one of the second."""
    plan = planned(tmp_path, ENSEMBLE)
    line = line_of(Point("3", opened={"u*.h5": 3}))
    channels = tuple(
        replace(channel, rests=((number + 1, number + 1),)) if number < 2 else channel
        for number, channel in enumerate(plan.channels)
    )
    tasks = tuple(
        replace(task, resumed=Resumed(env={CHOSEN: line})) if task.name == "norm" else task for task in plan.tasks
    )
    resumed = replace(plan, tasks=tasks, channels=channels)
    text = "publish sim[0] 0 u*.h5 u01.h5 1\npublish sim[1] 0 u*.h5 u12.h5 2\n"
    text += "open norm 0 u*.h5 u01.h5 1\nopen norm 0 u*.h5 u12.h5 2\n"
    told = tuple(Point(str(count), opened={"u*.h5": count}) for count in (2, 3, 4, 5, 6))
    assert [(point.line, counts(point)[0]) for point in points(resumed, 2, text, told)] == [
        (line_of(told[1]), [1, 2]),
        (line_of(told[2]), [2, 2]),
        (line_of(told[3]), [2, 3]),
    ]


def test_the_plan_tells_who_would_begin_anew(tmp_path: Path) -> None:
    plan = planned(tmp_path, CHAIN.replace(", restart: points", ""))
    shown = plan_table(plan)
    assert re.search(r"^sim +its newest file 'c\*.h5'$", shown, re.MULTILINE)
    assert re.search(r"^norm +the step after the last that it finished$", shown, re.MULTILINE)
    assert "note: sums would begin anew, and so would all whose steps it reads" in shown


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("restart: each-step", "restart: each_step", "'each_step'; did you mean 'each-step'?"),
        ("restart: points", "restart: {file: s.h5}", "unknown key 'file'; did you mean 'files'?"),
        ("restart: points", "restart: {keep: 2}", "the key 'files' is missing; add 'files: PATTERN'"),
        ("restart: points", "restart: {files: s.h5, keep: 0}", "'keep' must be a whole number of 1 or more, not 0"),
        (
            'restart: {files: "c*.h5"}',
            "restart: each-step",
            "no in-port",
        ),
        ('restart: {files: "c*.h5"}', 'restart: {files: "u*.h5"}', "but they are in memory only; add 'mode: both'"),
        (
            '[{filename: "u*.h5"}]\n    restart',
            '[{filename: "u*.h5"}, {filename: "c1.h5", publish: next}]\n    restart',
            "must be complete when it is closed, not at 'next'",
        ),
    ],
)
def test_mistakes_are_told_with_their_cure(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in CHAIN
    with pytest.raises(WorkflowError) as told:
        planned(tmp_path, CHAIN.replace(before, after))
    assert message in str(told.value)
    assert f"{tmp_path / 'workflow.yaml'}:" in str(told.value)


def test_a_task_may_have_had_more_than_is_made_again_by_now(tmp_path: Path) -> None:
    """In a run that goes on with another one, whose producer had to go back further."""
    plan = planned(tmp_path, CHAIN)
    ports = tuple(replace(port, begins=(2,)) if port.pattern == "n*.h5" else port for port in plan.ports)
    channels = (plan.channels[0], replace(plan.channels[1], rests=((5, 2),)))
    resumed = replace(plan, ports=ports, channels=channels)
    told = (Point("a", {"n*.h5": 5}), Point("more than there ever was", {"n*.h5": 6}))
    found = points(resumed, 2, "publish norm 0 n*.h5 n2.h5 2", told)
    assert [counts(point) for point in found] == [([5], [])]


def test_a_later_step_that_was_read_first_is_no_point(tmp_path: Path) -> None:
    """One number says what was had: a point between two steps read the other way round would lose the first."""
    plan = planned(tmp_path, CHAIN)
    written = "\n".join(f"publish sim 0 u*.h5 u{number}.h5 {number}" for number in range(4))
    found = points(
        plan, 1, written + "\n" + "\n".join(f"open norm 0 u*.h5 u{number}.h5 {number}" for number in (0, 2, 1, 3))
    )
    assert [counts(point)[0] for point in found] == [[1], [3]]
    lost = "open norm 0 u*.h5 u2.h5 2\ndrop norm -1 u*.h5 u1.h5 1\nopen norm 0 u*.h5 u3.h5 3\nend norm 0 - 0 0"
    found = points(plan, 1, f"{written}\nopen norm 0 u*.h5 u0.h5 0\n{lost}")
    assert [counts(point)[0] for point in found] == [[1], [3], [4]]
    skipped = written.replace("publish sim 0 u*.h5 u1", "skip norm -1 u*.h5 u1.h5 1\npublish sim 0 u*.h5 u1")
    found = points(plan, 1, f"{skipped}\nopen norm 0 u*.h5 u0.h5 0\n{lost}")
    assert [counts(point)[0] for point in found] == [[1], [3], [4]]


def test_a_checkpoint_between_steps_in_another_order_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    """It is no point; but with its number it is not the older file, which that number would be looked for by."""
    plan = planned(tmp_path, CHAIN.replace("restart: each-step", 'restart: {files: "d*.h5"}'))
    text = "\n".join(f"publish sim 0 u*.h5 u{number}.h5 {number}" for number in range(3))
    text += "\nopen norm 0 u*.h5 u0.h5 0\nfile norm 0 d*.h5 /d1.h5 77"
    assert [(point.file, counts(point)[0]) for point in points(plan, 1, text)] == [("/d1.h5", [1])]
    text += "\nopen norm 0 u*.h5 u2.h5 2\nfile norm 0 d*.h5 /d1.h5 77"
    assert points(plan, 1, text) == []
    text += "\nopen norm 0 u*.h5 u1.h5 1\nfile norm 0 d*.h5 /d1.h5 77"
    assert [(point.file, counts(point)[0]) for point in points(plan, 1, text)] == [("/d1.h5", [3])]
