"""Over a line with a delay, as many small steps are on their way as the queue has room for, and no more."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hosts import pseudo
from hosts.rig import NEEDS, Rig

from support.running import WILKINS, run_tree, write_program
from wilkins.flow.placement import Host
from wilkins.flow.simulation import simulate
from wilkins.plan.graph import wire
from wilkins.report.network import network, on_hosts
from wilkins.report.predict import model_of
from wilkins.spec.load import load

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.needs("root", "namespaces", *NEEDS),
    pytest.mark.timeout(120),
    pytest.mark.xdist_group("hosts"),
]

ROUND_TRIP = 0.2
"""Seconds: long beside what a busy machine takes for a step."""
SIZE = 8_000
WORKFLOW = """
tasks:
  - func: ./write.py
    args: ["f{}.h5", %(steps)d, %(size)d, %(pause)s]
    outports: [{filename: "f*.h5"%(port)s}]
    model: {step: %(pause)s, steps: %(steps)d, size: %(size)d}
  - func: ./read.py
    args: [%(busy)s, %(parts)d]
    inports: [{filename: "f*.h5", %(flow)s}]
    model: {step: %(busy)s}
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(2) as one:
        one.delay("node1", ROUND_TRIP / 2)
        yield one


def said(folder: Path, task: str, word: str) -> list[float]:
    """Numbers that a program has printed, each after this word."""
    lines = (folder / f"wilkins-runs/latest/{task}.log").read_text().splitlines()
    return [float(line.split()[1]) for line in lines if line.startswith(word)]


def run(rig: Rig, folder: Path, **values: Any) -> list[float]:
    """When the reader has opened which step."""
    pseudo.programs(folder)
    filled = {"size": SIZE, "pause": 0, "busy": 0, "parts": 1, "port": "", "flow": "", **values}
    (folder / "workflow.yaml").write_text(WORKFLOW % filled)
    words = [*WILKINS, "run", "--hosts", "node0:1,node1:1", "workflow.yaml"]
    done = run_tree(rig.on("node0", *words, folder=folder), 60, folder)
    assert done.code == 0, done.err
    (crossing,) = json.loads((folder / "wilkins-runs/latest/summary.json").read_text())["crossings"]
    if filled["parts"] == 1:
        assert crossing["messages"] == 2 * crossing["steps"] + 3
    return said(folder, "read", "opened")


def predicted(folder: Path) -> list[float]:
    """When it would open which step, says the model of such hosts."""
    document = load(folder / "workflow.yaml", [])
    hosts = [Host(name, 1) for name in ("node0", "node1")]
    joined = network(hosts, [f"{ROUND_TRIP / 2}s"], [])
    timeline = simulate(on_hosts(model_of(document, wire(document)), document, hosts, joined))
    return [step.openings[0].time for step in timeline.steps]


def rate_of(opened: list[float]) -> float:
    """Steps a second, without the first ones."""
    return 40 / (opened[-1] - opened[9])


@pytest.mark.parametrize(("queue", "at_once"), [(1, 2), (2, 3), (4, 5), (20, 8)])
def test_as_many_steps_as_the_queue_has_room_for_are_on_their_way(
    rig: Rig, tmp_path: Path, queue: int, at_once: int
) -> None:
    """As `simulate` says of programs and a machine that take no time."""
    opened = run(rig, tmp_path, steps=50, flow=f"flow: {{queue: {queue}}}")
    assert len(opened) == 50
    rate, foreseen = rate_of(opened), rate_of(predicted(tmp_path))
    print(
        f"queue {queue}: {rate:.0f} steps a second, {rate * ROUND_TRIP:.1f} for each {ROUND_TRIP} s there and back; "
        f"predicted {foreseen:.0f}"
    )
    assert foreseen * ROUND_TRIP == pytest.approx(at_once, rel=0.05)
    assert 0.7 * foreseen < rate < 1.1 * foreseen


def test_large_steps_that_get_small_on_their_way_are_sent_ahead_too(rig: Rig, tmp_path: Path) -> None:
    """One at a time would be one in the time there and back."""
    port = ', compress: [{dset: "*"}]'
    opened = run(rig, tmp_path, steps=30, size=5_000_000, port=port, flow="flow: {queue: 4}")
    rate = 20 / (opened[-1] - opened[9])
    print(f"compressed: {rate:.0f} steps a second, {rate * ROUND_TRIP:.1f} for each {ROUND_TRIP} s there and back")
    assert rate * ROUND_TRIP > 1.2


@pytest.mark.parametrize(("queue", "size"), [(1, 8_000_000), (2, 400_000), (4, 2_000_000), (20, 8_000_000)])
def test_steps_that_are_partly_read_follow_each_other(rig: Rig, tmp_path: Path, queue: int, size: int) -> None:
    """Each took 4.5 times there and back, when one was kept after the other."""
    opened = run(rig, tmp_path, steps=40, size=size, parts=10, flow=f"flow: {{queue: {queue}}}")
    assert len(opened) == 40
    (crossing,) = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())["crossings"]
    rate, moved = 20 / (opened[-1] - opened[19]), crossing["moved"] / crossing["bytes"]
    print(f"queue {queue}, {size} bytes: {rate * ROUND_TRIP:.1f} steps in the time there and back, {moved:.0%} moved")
    assert rate * ROUND_TRIP > 1
    assert moved < 0.5, "most come in part"


def connections(rig: Rig, host: str, folder: Path) -> int:
    """How many the host has accepted."""
    names, values = (
        line.split()
        for line in run_tree(rig.on(host, "cat", "/proc/net/snmp"), 30, folder).out.splitlines()
        if line.startswith("Tcp:")
    )
    return int(values[names.index("PassiveOpens")])


def test_no_step_takes_a_connection(rig: Rig, tmp_path: Path) -> None:
    """The relay has one for all of which it has a part, and a reader one for all of which it brings the rest."""
    accepted = []
    for steps in (10, 30):
        folder = tmp_path / f"{steps}"
        folder.mkdir()
        before = connections(rig, "node0", folder)
        run(rig, folder, steps=steps, size=400_000, parts=10, flow="flow: {queue: 4}")
        accepted.append(connections(rig, "node0", folder) - before)
    print(f"connections for 10 and 30 steps: {accepted}")
    assert accepted[1] <= accepted[0] + 2


def test_a_step_that_comes_alone_is_not_held_back(rig: Rig, tmp_path: Path) -> None:
    opened = run(rig, tmp_path, steps=30, pause=0.1, flow="flow: {queue: 8}")
    gaps = [after - before for before, after in pairwise(opened[5:])]
    assert statistics.median(gaps) == pytest.approx(0.1, rel=0.2)


WRITE = """#!{python}
import sys, time, h5py
for step in range(60):
    time.sleep(float(sys.argv[1]))
    with h5py.File(f"f{{step}}.h5", "w") as file:
        file["made"] = time.monotonic()
        file["x"] = [step] * 1000
    print("made", time.monotonic(), flush=True)
"""
READ = """#!{python}
import time, h5py
from wilkins.transport import steps
for name in steps.names():
    with h5py.File(name) as file:
        print("opened", time.monotonic(), flush=True)
        print("age", time.monotonic() - file["made"][()], flush=True)
    time.sleep(0.1)
"""
PAIR = """
tasks:
  - {func: ./write.py, args: [%s], outports: [{filename: "f*.h5"}]}
  - {func: ./read.py, inports: [{filename: "f*.h5", %s}]}
"""


def run_slow_reader(rig: Rig, folder: Path, pause: float, flow: str) -> None:
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(folder / name, text.format(python=sys.executable))
    (folder / "workflow.yaml").write_text(PAIR % (pause, flow))
    words = [*WILKINS, "run", "--hosts", "node0:1,node1:1", "workflow.yaml"]
    done = run_tree(rig.on("node0", *words, folder=folder), 60, folder)
    assert done.code == 0, done.err


def test_the_latest_step_is_as_new_as_before(rig: Rig, tmp_path: Path) -> None:
    """As old as the way there takes, and what a reader that asks for one at a time waits for the next."""
    run_slow_reader(rig, tmp_path, 0.02, "io_freq: latest")
    age = statistics.median(said(tmp_path, "read", "age"))
    print(f"age of the latest step: {1e3 * age:.0f} ms")
    assert age < 2 * ROUND_TRIP


def test_a_slow_reader_holds_its_producer_as_before(rig: Rig, tmp_path: Path) -> None:
    """Each host has its queue, and one more step is between them; the last open may not have been printed yet."""
    queue = 3
    run_slow_reader(rig, tmp_path, 0, f"flow: {{queue: {queue}}}")
    made, opened = said(tmp_path, "write", "made"), said(tmp_path, "read", "opened")
    assert len(made) == len(opened) == 60
    ahead = max(place + 1 - sum(other <= at for other in opened) for place, at in enumerate(made))
    print(f"queue {queue}: the producer is up to {ahead} steps ahead")
    assert ahead <= 2 * queue + 2
