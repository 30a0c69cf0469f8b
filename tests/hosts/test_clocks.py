"""The traces of all hosts on one axis: their clocks are compared."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hosts import pseudo

from support.running import WILKINS, run_tree
from wilkins.launch.hosts.clocks import Clock, compared
from wilkins.report.runs import events_of_run, timeline_of_run

PAIR = """
tasks:
  - {func: ./write.py, args: ["f{}.h5", 8, 80000, 0.1], outports: [{filename: "f*.h5"}]}
  - {func: ./read.py, args: [0], inports: [{filename: "f*.h5"}]}
"""


def test_a_clock_is_known_as_well_as_its_best_echo_tells() -> None:
    drawn, clock = random.Random(5), None
    ahead, now = 7_000_000_123, 0
    for _ in range(50):
        there, stays, back = (drawn.randrange(100, 900_000) for _ in range(3))
        clock = compared(clock, now, now + there + ahead, now + there + stays + ahead, now + there + stays + back)
        assert abs(clock.ahead_ns - ahead) <= clock.within_ns
        now += 1_000_000_000
    assert clock is not None
    assert clock.within_ns < 300_000


def test_the_first_echo_counts() -> None:
    assert compared(None, 100, 1110, 1120, 130) == Clock(1000, 10)


@pytest.mark.timeout(120)
def test_one_trace_of_all_hosts(tmp_path: Path) -> None:
    """Here all hosts have one clock, so the order is known: no step is opened before it was published."""
    pseudo.programs(tmp_path)
    pseudo.run(tmp_path, PAIR, "a:1,b:1")
    run = tmp_path / "wilkins-runs" / "latest"
    clocks = json.loads((run / "hosts/clocks.json").read_text())
    assert clocks.keys() == {"a", "b"}
    assert all(abs(clock["ahead_ns"]) <= clock["within_ns"] for clock in clocks.values())
    _, events = events_of_run(run)
    published = {event.name: event.time_ns for event in events if event.event == "publish" and event.task == "write"}
    slack = sum(clock["within_ns"] for clock in clocks.values())
    opened = [event for event in events if event.event == "open" and event.task == "read"]
    assert len(opened) == len(published) == 8
    assert all(published[event.name] <= event.time_ns + slack for event in opened)
    steps = [step for step in timeline_of_run(run).steps if step.task != "write"]
    assert [step.openings[0].task for step in steps] == ["read"] * 8
    assert "write-to-b-0" in run_tree([*WILKINS, "trace", "latest"], 30, tmp_path).out
