"""Plans for very many hosts take time and memory that grow as their instances and hosts do, and no faster."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from wilkins.flow.placement import Host
from wilkins.plan.graph import wire
from wilkins.plan.placing import placed
from wilkins.plan.plan import Plan
from wilkins.plan.planner import make_plan
from wilkins.plan.split import HostPart, host_parts
from wilkins.report.shared_memory import footprints
from wilkins.report.show import plan_table
from wilkins.spec.load import load

RANKS = 100
"""On each host."""
PAIRS = """
tasks:
  - {{func: ./sim.py, nprocs: 100, taskCount: {half}, model: {{size: 1GB}}, outports: [{{filename: "f*.h5"}}]}}
  - {{func: ./ana.py, nprocs: 100, taskCount: {half}, inports: [{{filename: "f*.h5"}}]}}
"""
ONE_READER = """
tasks:
  - {{func: ./sim.py, nprocs: 100, taskCount: {rest}, model: {{size: 1GB}}, outports: [{{filename: "f*.h5"}}]}}
  - {{func: ./ana.py, nprocs: 100, inports: [{{filename: "f*.h5"}}]}}
"""
ONE_PAIR = """
tasks:
  - {{func: ./sim.py, nprocs: {ranks}, model: {{size: 1GB}}, outports: [{{filename: "f*.h5"}}]}}
  - {{func: ./ana.py, nprocs: {ranks}, inports: [{{filename: "f*.h5"}}]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("sim.py", "ana.py"):
        (tmp_path / name).touch()
    return tmp_path


def planned(folder: Path, text: str, hosts: int) -> tuple[Plan, tuple[HostPart, ...]]:
    """All that `wilkins plan --hosts` does, and what a run does with the plan before it starts anything."""
    file = folder / f"{hosts}.yaml"
    file.write_text(text.format(half=hosts // 2, rest=hosts - 1, ranks=hosts // 2 * RANKS))
    document = load(file, [])
    wiring = wire(document)
    plan = placed(make_plan(document, wiring), document, [Host(f"n{number}", RANKS) for number in range(hosts)])
    assert plan_table(plan)
    assert footprints(document, wiring)[0]
    return plan, host_parts(plan)


def cost(work: Callable[[], Any]) -> tuple[float, int]:
    """The least CPU time of three, and the most memory."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return min(times), most


@pytest.mark.nightly
@pytest.mark.parametrize("text", [PAIRS, ONE_READER])
def test_eight_times_the_hosts_take_about_eight_times_the_time_and_memory(folder: Path, text: str) -> None:
    """64 times would be quadratic."""
    few, many = (cost(partial(planned, folder, text, hosts)) for hosts in (250, 2000))
    assert many[0] < 20 * few[0]
    assert many[1] < 12 * few[1]


@pytest.mark.nightly
@pytest.mark.timeout(60)
def test_a_million_ranks_on_ten_thousand_hosts(folder: Path) -> None:
    """Every channel crosses, and both hosts have their half of it."""
    plan, found = planned(folder, PAIRS, 10_000)
    assert plan.total_ranks == 1_000_000
    assert len(found) == 10_000
    assert [len(part.senders) for part in found] == [1] * 5000 + [0] * 5000
    assert [len(part.receivers) for part in found] == [0] * 5000 + [1] * 5000
    assert [part.tasks for part in found] == [(task,) for task in range(10_000)]


def test_a_host_of_a_thousand_finds_what_concerns_it_alone(folder: Path) -> None:
    """A task on 500 hosts writes for one on 500 others: of 250,000 relays, each host has a half of 500."""
    _, found = planned(folder, ONE_PAIR, 1000)
    began = time.process_time()
    for part in (found[0], found[-1]):
        assert len(part.plan.tasks) == 501
        assert len(part.plan.channels) == 500
    assert [len(found[host].senders) for host in (0, 499, 500)] == [500, 500, 0]
    assert {relay.reads for _, relay in found[7].senders} == set(range(500, 1000))
    assert {relay.index for _, relay in found[500].receivers} & {relay.index for _, relay in found[7].senders}
    assert time.process_time() - began < 5, "35 seconds when all were listed"
