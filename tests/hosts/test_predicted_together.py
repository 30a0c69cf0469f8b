"""A run with tasks whose ranks are on several hosts goes as `simulate` says, over a network of known rate."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hosts.rig import NEEDS, Rig
from programs.build import build, parallel_c

from support.running import WILKINS, run_tree, write_program
from wilkins.flow.bounds import loads
from wilkins.flow.placement import Host
from wilkins.flow.simulation import simulate
from wilkins.flow.timeline import Timeline
from wilkins.plan.graph import wire
from wilkins.report.network import network, on_hosts
from wilkins.report.predict import model_of
from wilkins.report.runs import timeline_of_run
from wilkins.spec.load import load

pytestmark = [
    pytest.mark.bench,
    pytest.mark.needs("root", "namespaces", "tc", *NEEDS, "h5pcc.openmpi"),
    pytest.mark.timeout(180),
    pytest.mark.xdist_group("hosts"),
]

BITS = 200_000_000
BANDWIDTH = round(BITS / 8 * 1448 / 1514)
"""Bytes per second that TCP gets out of this: of an Ethernet frame of 1514 bytes it fills 1448."""
HEADERS = 1514 / 1448
STEPS, SIZE = 18, 16_000_000
BESIDE = 6_000_000
"""Bytes of what is said beside steps, by MPI, too, and of acknowledgements."""
QUIET = ("env", "OMPI_MCA_mpi_yield_when_idle=1")
"""Ranks that wait leave the cores of this machine to others."""
EACH = """#!{python}
import os, sys, h5py, numpy
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0")))
data = numpy.arange(int(sys.argv[2]) // 8)
for step in range(int(sys.argv[1])):
    with h5py.File(f"out{{rank}}-{{step:03d}}.h5", "w") as file:
        file["x"] = data
"""


class Case(NamedTuple):
    """Who writes and reads on which hosts, and what bounds that."""

    writer: str
    reader: str
    bound_by: str


CASES = {
    "two hosts write together for a third": Case(
        "args: [write, STEPS, HALF], nprocs: 2, placement: [1, 1, 0]", "SERIAL, placement: [node2]",
        "w -> r over node0 -> node2",
    ),
    "and for one of them": Case(
        "args: [write, STEPS, HALF], nprocs: 2, placement: [1, 1, 0]", "SERIAL, placement: [node0]", "task r"
    ),
    "ranks on two hosts read": Case(
        "args: [write, STEPS, ALL], placement: [node0]", "PARALLEL, args: [read, 1], nprocs: 2, placement: [0, 1, 1]",
        "network of node0",
    ),
    "two hosts write together for ranks on two": Case(
        "args: [write, STEPS, HALF], nprocs: 2, placement: [1, 1, 0]",
        "PARALLEL, args: [read, 2], nprocs: 2, placement: [0, 1, 1]", "w -> r over node0 -> node2",
    ),
    "a file of each rank": Case(
        "EACH, nprocs: 2, placement: [1, 1, 0]", "SERIAL, placement: [node2]", "network of node2"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        for host in one.names:
            one.slow(host, BITS)
        yield one


def workflow(case: Case) -> str:
    program = str(build("together.c", *parallel_c("openmpi", static=False)))
    writer = case.writer if "EACH" in case.writer else f"func: {program}, {case.writer}"
    writer = writer.replace("EACH", f"func: ./each.py, args: [{STEPS}, {SIZE // 2}]")
    writer = writer.replace("STEPS", str(STEPS)).replace("HALF", str(SIZE // 16)).replace("ALL", str(SIZE // 8))
    reader = case.reader.replace("SERIAL", "func: ./look.py").replace("PARALLEL", f"func: {program}")
    files = "per-rank" if "each" in writer else "shared"
    size = SIZE // 2 if "each" in writer else SIZE
    return f"""
tasks:
  - {{name: w, {writer}, outports: [{{filename: "out*.h5"}}],
      model: {{step: 0, steps: {STEPS}, size: {size}, files: {files}}}}}
  - {{name: r, {reader}, inports: [{{filename: "out*.h5"}}], model: {{step: 0}}}}
"""


LOOK = """#!{python}
import h5py
from wilkins.transport import steps
for name in steps.names():
    with h5py.File(name) as file:
        file["x"][...]
"""


def predicted(file: Path, names: list[str]) -> Timeline:
    document = load(file, [])
    hosts = [Host(name, 2) for name in names]
    joined = network(hosts, ["0.4ms"], [f"{BANDWIDTH}B/s"])
    return simulate(on_hosts(model_of(document, wire(document)), document, hosts, joined))


def opened(timeline: Timeline) -> list[float]:
    """When the reader's ranks have taken steps."""
    return sorted(one.time for step in timeline.steps for one in step.openings if one.task == "r")


def mean_interval(times: list[float], ranks: int) -> float:
    """Between steps, without the first ones, of which parts are brought when they are read, and the last."""
    later = times[6 * ranks : -4 * ranks]
    return (later[-1] - later[0]) / (len(later) - 1) * ranks


@pytest.mark.parametrize("case", CASES)
def test_a_run_goes_as_predicted(rig: Rig, tmp_path: Path, case: str) -> None:
    for name, text in (("each.py", EACH), ("look.py", LOOK)):
        write_program(tmp_path / name, text.format(python=sys.executable))
    (tmp_path / "workflow.yaml").write_text(workflow(CASES[case]))
    before = [rig.traffic(host) for host in rig.names]
    words = [*QUIET, *WILKINS, "run", "--hosts", ",".join(f"{name}:2" for name in rig.names), "workflow.yaml"]
    finished = run_tree(rig.on("node0", *words, folder=tmp_path), 100, tmp_path)
    assert finished.code == 0, finished.err
    moved = [tuple(map(int.__sub__, rig.traffic(host), was)) for host, was in zip(rig.names, before, strict=True)]
    run, model = timeline_of_run(tmp_path / "wilkins-runs/latest"), predicted(tmp_path / "workflow.yaml", rig.names)

    crossings = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())["crossings"]
    ways = {(one["writes"], one["reads"]): (one["steps"], one["moved"]) for one in crossings}
    assert ways == {(one.writes, one.reads): (one.steps, pytest.approx(one.moved, rel=0.01)) for one in model.crossings}
    for host, counted in zip(model.hosts, moved, strict=True):
        for busy, bytes_ in zip((host.sending, host.receiving), counted, strict=True):
            foreseen = busy * BANDWIDTH
            assert foreseen <= bytes_ < HEADERS * foreseen + BESIDE
    ranks = len({one.rank for step in run.steps for one in step.openings if one.task == "r"})
    there, foreseen = mean_interval(opened(run), ranks), mean_interval(opened(model), ranks)
    print(f"\n{case}: {1e3 * there:.0f} ms a step, predicted {1e3 * foreseen:.0f}: {there / foreseen - 1:+.0%}")
    assert there == pytest.approx(foreseen, rel=0.2)
    assert loads(model)[0][0].name.startswith(CASES[case].bound_by)
