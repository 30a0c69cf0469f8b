"""What it costs to read the trace of a long run, or of a wide one, grows with its events, and not with their square."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.running import instructions
from wilkins.flow.recorded import Feeds, computing_times, recorded, without_start
from wilkins.flow.trace import AGAIN, Event, line, read_trace
from wilkins.plan.plan import Plan
from wilkins.plan.planner import plan_file
from wilkins.report.timetable import report
from wilkins.resume.history import History
from wilkins.transport.points import Point

FEW, TIMES = 60, 4
MOST = 1.25 * TIMES
"""What is allowed for so many times the events; with every event looked at for each, it would go towards the square."""


class Trace:
    """Events one after the other."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, kind: str, task: str, pattern: str = "-", name: str = "-", number: int = -1, rank: int = 0) -> None:
        """One more, a millisecond after the last; programs start and end for the whole task."""
        whole = kind in ("start", "end", "skip", "drop")
        time = 1_000_000 * len(self.events)
        self.events.append(Event(time, kind, task, -1 if whole else rank, pattern, name, number))  # type: ignore[arg-type]


def stream(steps: int) -> tuple[list[Event], Feeds | None]:
    """A simulation that rewrites one file, and a reader of it."""
    trace = Trace()
    trace.add("start", "sim")
    trace.add("start", "look")
    for step in range(steps):
        trace.add("create", "sim", "x.h5", "x.h5")
        trace.add("wait-data", "look", "x.h5", "x.h5")
        trace.add("publish", "sim", "x.h5", "x.h5", step)
        trace.add("go", "look", "x.h5", "x.h5")
        trace.add("open", "look", "x.h5", "x.h5", step)
        trace.add("close", "look", "x.h5", "x.h5", step)
    return trace.events, None


def started_for_each_step(steps: int) -> tuple[list[Event], Feeds | None]:
    trace = Trace()
    trace.add("start", "sim")
    for step in range(steps):
        name = f"x{step}.h5"
        trace.add("create", "sim", "x*.h5", name)
        trace.add("publish", "sim", "x*.h5", name, step)
        trace.add("start", "look")
        trace.add("open", "look", "x*.h5", name, step)
        trace.add("close", "look", "x*.h5", name, step)
        trace.add("end", "look", name="0")
    return trace.events, None


def closed_again_and_again(steps: int) -> tuple[list[Event], Feeds | None]:
    """A reader of many fixed names opens each once; handles on them are closed later."""
    trace = Trace()
    for step in range(steps):
        trace.add("publish", "sim", f"{step}.h5", f"{step}.h5", 0)
        trace.add("open", "look", f"{step}.h5", f"{step}.h5", 0)
    for step in range(steps):
        trace.add("close", "look", f"{step}.h5", f"{step}.h5", 0)
    return trace.events, None


def one_name_in_an_ensemble(instances: int) -> tuple[list[Event], Feeds | None]:
    """Each instance writes `x.h5` in a folder of its own, for a reader of its own."""
    trace = Trace()
    for kind, task in (("publish", "sim"), ("open", "look"), ("drop", "look")):
        for instance in range(instances):
            trace.add(kind, f"{task}[{instance}]", "x.h5", "x.h5", 0)
    feeds = {(f"look[{i}]", "x.h5"): {(f"sim[{i}]", "x.h5")} for i in range(instances)}
    return trace.events, feeds


def one_name_of_many_ranks(ranks: int) -> tuple[list[Event], Feeds | None]:
    """Ranks that each write an `x.h5`, and one that opens them all."""
    trace = Trace()
    for rank in range(ranks):
        trace.add("publish", "sim", "x.h5", "x.h5", 0, rank)
    for _ in range(ranks):
        trace.add("open", "look", "x.h5", "x.h5", 0)
    return trace.events, None


@pytest.mark.parametrize(
    "run",
    [stream, started_for_each_step, closed_again_and_again, one_name_in_an_ensemble, one_name_of_many_ranks],
    ids=lambda run: run.__name__,
)
def test_a_timeline(run: Callable[[int], tuple[list[Event], Feeds | None]]) -> None:
    def cost(count: int) -> int:
        events, feeds = run(count)
        return instructions(lambda: computing_times(without_start(recorded(events, feeds=feeds))))

    assert cost(TIMES * FEW) < MOST * cost(FEW)


def test_the_table_of_a_trace() -> None:
    def cost(count: int) -> int:
        timeline = recorded(stream(count)[0])
        return instructions(lambda: report([("run", timeline)], 100, True))

    assert cost(TIMES * FEW) < MOST * cost(FEW)


@pytest.mark.parametrize("killed", [False, True])
def test_the_file(tmp_path: Path, killed: bool) -> None:
    def cost(count: int) -> int:
        lines = [line(event) for event in stream(count)[0]]
        path = tmp_path / f"{count}.tsv"
        path.write_text("".join([*lines, f"{AGAIN}\n", lines[-1]] if killed else lines))
        return instructions(lambda: read_trace(path))

    assert cost(TIMES * FEW) < MOST * cost(FEW)


CHAIN = """
tasks:
  - {name: sim, func: /bin/true, outports: [{filename: "u*.h5"}], restart: {files: "c*.h5"}}
  - name: norm
    func: /bin/true
    inports: [{filename: "u*.h5"}]
    outports: [{filename: "n*.h5"}]
    restart: each-step
  - {name: sums, func: /bin/true, inports: [{filename: "n?*.h5"}], restart: points}
"""


def chain(steps: int) -> list[Event]:
    """What the chain does in so many steps, with a checkpoint at each."""
    trace = Trace()
    for step in range(steps):
        name = f"{step}.h5"
        trace.add("publish", "sim", "u*.h5", f"u{name}", step)
        trace.add("file", "sim", "c*.h5", f"/there/c{name}", 70 + step)
        trace.add("publish", "sim", "c*.h5", f"c{name}", step)
        trace.add("open", "norm", "u*.h5", f"u{name}", step)
        trace.add("publish", "norm", "n*.h5", f"n{name}", step)
        trace.add("open", "sums", "n?*.h5", f"n{name}", step)
    return trace.events


def planned(folder: Path, text: str) -> Plan:
    (folder / "workflow.yaml").write_text(text)
    return plan_file(folder / "workflow.yaml")


@pytest.mark.parametrize("task", [0, 1, 2], ids=["files", "each-step", "points"])
def test_the_points_of_a_run_that_is_resumed(tmp_path: Path, task: int) -> None:
    plan = planned(tmp_path, CHAIN)

    def cost(count: int) -> int:
        events = chain(count)
        told = [Point(str(step), opened={"n?*.h5": step + 1}) for step in range(count)] if task == 2 else []

        def points() -> None:
            assert len(History(plan, events).points_of(plan.tasks[task], told, {})) >= count - 1

        points()  # from now on it is remembered which names match
        return instructions(points)

    assert cost(TIMES * FEW) < MOST * cost(FEW)


def test_the_points_of_a_wide_run(tmp_path: Path) -> None:
    """Twice the instances, each with its own reader, and the same steps of each: not four times the work."""

    def cost(instances: int) -> int:
        tasks = f"""
        tasks:
          - {{name: sim, func: /bin/true, taskCount: {instances}, cwd: "{{instance}}", outports: [{{filename: x.h5}}]}}
          - name: look
            func: /bin/true
            taskCount: {instances}
            inports: [{{filename: x.h5}}]
            restart: each-step
        """
        plan = planned(tmp_path, tasks)
        trace = Trace()
        for step in range(3):
            for instance in range(instances):
                trace.add("publish", f"sim[{instance}]", "x.h5", "x.h5", step)
            for instance in range(instances):
                trace.add("open", f"look[{instance}]", "x.h5", "x.h5", step)

        def all_points() -> None:
            history = History(plan, trace.events)
            for task in plan.tasks[instances:]:
                assert len(history.points_of(task, (), {})) == 2

        return instructions(all_points)

    for instance in range(TIMES * FEW):
        (tmp_path / str(instance)).mkdir()
    assert cost(TIMES * FEW) < MOST * cost(FEW)
