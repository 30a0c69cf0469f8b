"""Plans for very many hosts take time and memory that grow as their instances and hosts do, and no faster."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from wilkins.flow.placement import Host
from wilkins.flow.trace import Event
from wilkins.launch.hosts.crossings import crossings_of, host_trace
from wilkins.launch.hosts.merge import ends_of, merged, wrong
from wilkins.launch.hosts.partreport import PartReport, used_only
from wilkins.launch.hosts.relaynames import relay_name_replacer
from wilkins.launch.hosts.relays import needed_hosts
from wilkins.launch.hosts.status import HostResult
from wilkins.launch.records.hosttraces import joined
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.plan import planfile, split
from wilkins.plan.graph import wire
from wilkins.plan.placing import placed
from wilkins.plan.plan import Plan
from wilkins.plan.planner import make_plan
from wilkins.plan.relayrules import Relay
from wilkins.plan.split import HostPart, host_parts
from wilkins.report.runs import timeline_of
from wilkins.report.shared_memory import footprints
from wilkins.report.show import plan_table
from wilkins.spec.load import load
from wilkins.transport.report_table import ChannelFacts, PortFacts, Report, TaskFacts
from wilkins.values import replace

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
TREE = """
tasks:
  - {{func: ./sim.py, model: {{size: 1GB}}, outports: [{{filename: "f*.h5"}}]}}
  - {{func: ./ana.py, nprocs: {ranks}, inports: [{{filename: "f*.h5"}}]}}
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


def test_hosts_hear_where_others_listen_without_a_list_of_relays(folder: Path) -> None:
    """Each of 500 hosts sends to 500 others: an address for each of these, where there was one for each relay."""
    _, found = planned(folder, ONE_PAIR, 1000)
    seconds, most = cost(lambda: [len(needed_hosts(part)) for part in found])
    assert [len(needed_hosts(found[host])) for host in (0, 499, 500)] == [500, 500, 0]
    assert most < 10e6, "140 MB when relays were listed"
    assert seconds < 2


@pytest.mark.parametrize("text", [PAIRS, ONE_READER, ONE_PAIR, TREE])
def test_a_host_sends_to_those_to_which_its_relays_lead(folder: Path, text: str) -> None:
    for part in planned(folder, text, 10)[1]:
        assert part.sends_to() == {relay.reads for _, relay in part.senders}


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The relays of which halves were planned."""
    made: list[int] = []
    plans = split._half

    def counted(plan: Plan, relay: Relay, *rest: Any) -> int:
        made.append(relay.index)
        return plans(plan, relay, *rest)

    monkeypatch.setattr(split, "_half", counted)
    return made


def report_of(plan: Plan) -> Report:
    """Of a board on which nothing has happened."""
    board = BoardPorts(plan)
    return Report(
        tuple(TaskFacts(task.name, task.nprocs, "ended") for task in plan.tasks),
        tuple(PortFacts(port.task, port.direction, port.pattern) for port in board.board_ports()),
        tuple(ChannelFacts(one.outport, one.inport) for one in board.planned_channels(plan)),
    )


def test_the_end_of_a_run_costs_what_its_relays_have_done(folder: Path, halves: list[int]) -> None:
    """Rank 0 writes: of 250,000 relays, 500 carry its steps. All hosts report, and the head makes the account."""
    plan, found = planned(folder, ONE_PAIR, 1000)
    began = [relay.index for _, relay in found[0].senders]
    results = []
    for part in found:
        kept = part.only(began if part.host == 0 else [began[part.host - 500]] if part.host >= 500 else ())
        told = report_of(kept.plan)
        # Of a relay that takes steps, or brings them, the only ports that are not of its host's tasks.
        ports = tuple(replace(port, steps=3, bytes=24) if port.task else port for port in told.ports)
        channels = tuple(replace(one, published=3, read=3) for one in told.channels)
        account = PartReport(
            replace(told, ports=ports, channels=channels), tuple(relay.index for _, relay in kept._relays)
        )
        messages = {relay.index: 9 for _, relay in kept.receivers}
        results.append((part, HostResult(0, account, messages=messages)))
    reports = [(part.only(one.report.relays), one.report.report) for part, one in results if one.report]
    report = merged(plan, reports)
    assert not wrong(plan, reports, report)[2:]
    assert len(ends_of(plan, results)) == 2
    crossings = crossings_of(plan, results)
    assert [(one.writes, one.steps, one.bytes) for one in crossings] == [("n0", 3, 24)] * 500
    assert [one.read for one in report.channels] == [3]
    trace = host_trace(plan, found[7], folder / "trace.tsv")
    last = found[7].senders[-1][1]
    assert trace.readers((f"sim-to-n999-{last.index}", "f*.h5")) == [("ana", "f*.h5")]
    assert trace.readers(("sim", "f*.h5")) is None
    assert relay_name_replacer(plan)(f"sim-from-n7-{last.index} waits") == "sim on n7 waits"
    assert len(halves) == 2 * len(began)


def test_reports_of_a_run_cost_what_its_traces_tell(folder: Path, halves: list[int]) -> None:
    plan, found = planned(folder, ONE_PAIR, 1000)
    first = found[0].senders[3][1].index
    (folder / "plan.json").write_text(planfile.dumps(plan))
    told = [
        (0, Event(1, "publish", "sim", 0, "f*.h5", "f0.h5", 0)),
        (0, Event(2, "open", f"sim-to-n503-{first}", 0, "f*.h5", "f0.h5", 0)),
        (503, Event(3, "publish", f"sim-from-n0-{first}", 0, "f*.h5", "f0.h5", 0)),
        (503, Event(4, "open", "ana", 0, "f*.h5", "f0.h5", 0)),
    ]
    timeline = timeline_of(folder, [event for _, event in told])
    assert [task.name for task in timeline.tasks] == ["sim", "ana", told[1][1].task, told[2][1].task]
    assert [[opening.task for opening in step.openings] for step in timeline.steps] == [[told[1][1].task], ["ana"]]
    parts = host_parts(plan, [event.task for _, event in told])
    whole = joined(plan, parts, {host: [event for one, event in told if one == host] for host in (0, 503)})
    assert [(event.event, event.task, event.rank, event.sequence) for event in whole] == [
        ("publish", "sim", 0, 0),
        ("open", "ana", 3 * RANKS, 0),
    ]
    assert set(halves) == {first}


SHAPES = """
tasks:
  - {func: ./sim.py, nprocs: 10, placement: [n1, n2, n0], outports: [{filename: "f*.h5"}, {filename: "g*.h5"}]}
  - {func: ./ana.py, nprocs: 6, placement: [n3, n0], inports: [{filename: "f*.h5"}]}
  - {func: ./ana.py, name: two, nprocs: 6, placement: [n4, n5], inports: [{filename: "f*.h5"}, {filename: "g*.h5"}]}
  - {func: ./ana.py, name: new, nprocs: 6, placement: [n6, n5], inports: [{filename: "f*.h5", io_freq: latest}]}
"""


@pytest.mark.parametrize("seed", range(30))
def test_a_report_without_what_has_done_nothing_gives_the_same_account(folder: Path, seed: int) -> None:
    """Whichever relays have carried something, or only taken it, or done nothing."""
    draw = random.Random(seed)
    file = folder / "shapes.yaml"
    file.write_text(SHAPES)
    document = load(file, [])
    hosts = [Host(f"n{number}", 4) for number in range(7)]
    plan = placed(make_plan(document, wire(document)), document, hosts)
    parts = host_parts(plan)
    assert [len(task.share) for task in plan.tasks] == [3, 2, 2, 2]
    took = {relay.index for part in parts for _, relay in part.senders if draw.random() < 0.4}
    came = {index for index in took if draw.random() < 0.6}
    whole, cut = [], []
    for part in parts:
        blank = report_of(part.plan)
        quiet = {place for place, relay in part.senders if relay.index not in took}
        quiet |= {place for place, relay in part.receivers if relay.index not in came}
        ports = [port if port.task in quiet else replace(port, steps=5) for port in blank.ports]
        channels = [
            one
            if quiet & {ports[one.outport].task, ports[one.inport].task}
            else replace(one, published=5, read=draw.randrange(3), queued=draw.randrange(2), dropped=draw.randrange(2))
            for one in blank.channels
        ]
        full = replace(blank, ports=tuple(ports), channels=tuple(channels))
        told = used_only(part, full)
        whole.append((part, full))
        cut.append((part.only(told.relays), told.report))
        assert len(told.report.tasks) == len(part.tasks) + len(told.relays)
    assert any(len(told.tasks) < len(full.tasks) for (_, full), (_, told) in zip(whole, cut, strict=True))
    assert merged(plan, cut) == merged(plan, whole)
