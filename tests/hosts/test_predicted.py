"""A run on hosts goes as `simulate` says: steps, bytes, messages and times, over a network of known rate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hosts import pseudo
from hosts.rig import NEEDS, Rig

from support.running import WILKINS, run_tree
from wilkins.flow.bounds import loads
from wilkins.flow.placement import Host
from wilkins.flow.simulation import simulate
from wilkins.flow.timeline import Timeline
from wilkins.plan.graph import wire
from wilkins.report.network import network, on_hosts
from wilkins.report.predict import model_of
from wilkins.spec.load import load

pytestmark = [
    pytest.mark.bench,
    pytest.mark.needs("root", "namespaces", "tc", *NEEDS),
    pytest.mark.timeout(120),
]

BITS = 200_000_000
BANDWIDTH = round(BITS / 8 * 1448 / 1514)
"""Bytes per second that TCP gets out of this: of an Ethernet frame of 1514 bytes it fills 1448."""
HEADERS = 1514 / 1448

WRITER = """
tasks:
  - func: ./write.py
    args: ["f{instance}-{}.h5", %(steps)d, %(size)d, %(pause)s]
    taskCount: %(writers)d
    outports: [{filename: "f{instance}-*.h5"}]
    model: {step: %(pause)s, steps: %(steps)d, size: %(size)d}
"""
READER = """
  - func: ./read.py
    name: %(name)s
    args: [0]
    inports: [{filename: "f*-*.h5", io_freq: %(keeps)s}]
    model: {step: 0}
"""


def workflow(writers: int, readers: int, steps: int, size: int, pause: float, keeps: str = "all") -> str:
    writer = WRITER % {"writers": writers, "steps": steps, "size": size, "pause": pause}
    return writer + "".join(READER % {"name": f"r{number}", "keeps": keeps} for number in range(readers))


CASES = {
    "one channel": (workflow(1, 1, 24, 4_000_000, 0), "network of node0, sending"),
    "two readers": (workflow(1, 2, 24, 4_000_000, 0), "network of node0, sending"),
    "two writers": (workflow(2, 1, 24, 4_000_000, 0), "network of node2, receiving"),
    "a writer that computes": (workflow(1, 1, 10, 400_000, 0.2), "task write"),
    "the latest of many": (workflow(1, 1, 60, 2_000_000, 0.03, "latest"), "write -> r0 over node0 -> node1"),
}
"""Each with what it is bound by."""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        for host in one.names:
            one.slow(host, BITS)
        yield one


def predicted(file: Path, names: list[str]) -> Timeline:
    document = load(file, [])
    hosts = [Host(name, 1) for name in names]
    joined = network(hosts, ["0.4ms"], [f"{BANDWIDTH}B/s"])
    return simulate(on_hosts(model_of(document, wire(document)), document, hosts, joined))


def mean_interval(times: list[float]) -> float:
    """Between steps. Of the first few, parts are brought while later steps come, so the last ones are there at once."""
    later = sorted(times)[6:-4]
    return sum(after - before for before, after in pairwise(later)) / (len(later) - 1)


@pytest.mark.parametrize("case", CASES)
def test_a_run_goes_as_predicted(rig: Rig, tmp_path: Path, case: str) -> None:
    pseudo.programs(tmp_path)
    text, bound_by = CASES[case]
    (tmp_path / "workflow.yaml").write_text(text)
    names = rig.names if "two" in case else rig.names[:2]
    before = [rig.traffic(host) for host in names]
    words = [*WILKINS, "run", "--hosts", ",".join(f"{name}:1" for name in names), "workflow.yaml"]
    finished = run_tree(rig.on("node0", *words, folder=tmp_path), 60, tmp_path)
    assert finished.code == 0, finished.err
    moved = [tuple(map(int.__sub__, rig.traffic(host), was)) for host, was in zip(names, before, strict=True)]
    timeline = predicted(tmp_path / "workflow.yaml", names)
    crossings = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())["crossings"]
    few = 0.15 if "latest" in case else 0

    for model, run in zip(timeline.crossings, crossings, strict=True):
        assert (model.task, model.writes, model.reads) == (run["producer"], run["writes"], run["reads"])
        assert run["steps"] == pytest.approx(model.steps, rel=few)
        # Parts of large steps are brought when they are read, which takes more of them.
        assert run["messages"] >= 2 * run["steps"] + 3
        assert run["messages"] >= model.messages * (1 - few)
        assert run["bytes"] == pytest.approx(model.bytes, rel=few or 0.01)
    for host, (sent, received) in zip(names, moved, strict=True):
        for what, bytes_ in (("writes", sent), ("reads", received)):
            carried = sum(run["moved"] for run in crossings if run[what] == host)
            assert carried <= bytes_ < HEADERS * carried + 3_000_000, (
                "steps, what is said beside them, and acknowledgements"
            )
    for reader in {one.readers[0] for one in timeline.crossings}:
        log = (tmp_path / f"wilkins-runs/latest/{reader}.log").read_text()
        times = [float(line.split()[1]) for line in log.splitlines()]
        model_times = [one.time for step in timeline.steps for one in step.openings if one.task == reader]
        assert mean_interval(times) == pytest.approx(mean_interval(model_times), rel=0.15)
    assert loads(timeline)[0][0].name == bound_by
