"""`wilkins simulate` and `plan` of steps that are compressed between hosts: what crosses, and whether that pays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.running import WILKINS, must_run, run_tree, write_program
from wilkins.flow import FlowPolicy
from wilkins.flow.model import Model, ModelChannel, ModelHost, ModelInPort, ModelOutPort, ModelTask
from wilkins.flow.packing import Packing, least_ratio
from wilkins.flow.simulation import simulate

SIZE = 10_000_000
WORKFLOW = """\
tasks:
  - func: ./write.sh
    args: ["{instance}"]
    taskCount: 2
    outports: [{filename: "f{instance}*.h5", compress: [{dset: u, absolute: %s}]}]
    model: {step: 0.1s, steps: 4, size: 10MB}
  - func: ./read.sh
    inports: [{filename: "f*.h5"}]
    model: {step: 1ms}
"""
HOSTS = ("--hosts", "a:1,b:1,c:1")


def pair(packing: Packing, bandwidth: float, cores: int = 1, steps: int = 10) -> Model:
    """A writer whose steps are there at once, and a reader on another host."""
    return Model(
        (ModelTask(name="w", step=0.0, steps=steps), ModelTask(name="r", step=0.0, share=((1, 1),))),
        (ModelOutPort(task=0, pattern="x.h5", size=SIZE, packing=packing),),
        (ModelInPort(task=1, pattern="x.h5", readers=1),),
        (ModelChannel(0, 0, FlowPolicy()),),
        hosts=tuple(ModelHost(name=name, bandwidth=bandwidth, cores=count) for name, count in (("a", 4), ("b", cores))),
    )


def test_a_packed_step_takes_its_packing_and_the_bytes_that_are_left() -> None:
    """It is packed while the one before is sent."""
    timeline = simulate(pair(Packing(sent=0.1, seconds=1e-8), 1e8, cores=2))
    (crossing,) = timeline.crossings
    packing, carrying = 10 * SIZE * 1e-8 / 2, 10 * SIZE * 0.1 / 1e8
    assert (crossing.bytes, crossing.moved) == (10 * SIZE, SIZE)
    assert crossing.packing == pytest.approx(packing)
    assert timeline.end == crossing.under_way == pytest.approx(packing + carrying / 10)


@pytest.mark.parametrize("sent", [0.02, 0.5])
@pytest.mark.parametrize("cores", [1, 4])
def test_it_pays_below_the_bandwidth_that_is_said(sent: float, cores: int) -> None:
    """For a step that comes alone."""
    packing = Packing(sent, 1e-8)
    for part, pays in ((0.95, True), (1.01, False)):
        bandwidth = part * packing.pays_below(cores)
        packed, plain = (simulate(pair(one, bandwidth, cores, steps=1)).end for one in (packing, Packing()))
        assert (packed < plain) == pays
        least = least_ratio(packing.rate(cores), bandwidth)
        assert least is not None
        assert (1 / sent > least) == pays
    assert least_ratio(packing.rate(cores), 2 * packing.rate(cores)) is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a run, in whose records 20 MB of each writer became 1 MB and took 2 s."""
    folder = tmp_path_factory.mktemp("packed")
    write_program(folder / "write.sh", "#!/bin/sh\necho step > f$1-0.h5\n")
    write_program(folder / "read.sh", "#!/bin/sh\ncat f0-0.h5 f1-0.h5\n")
    (folder / "workflow.yaml").write_text(WORKFLOW % 0.001)
    must_run(folder, *WILKINS, "run", "--quiet", "workflow.yaml")
    summary = folder / "wilkins-runs/latest/summary.json"
    crossing = {"steps": 2, "bytes": 20_000_000, "compressed": 19_500_000, "compressed_to": 500_000}
    crossings = [
        {**crossing, "producer": f"write[{number}]", "files": f"f{number}*.h5", "compression_s": 2} for number in (0, 1)
    ]
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "crossings": crossings}))
    return folder


def said(folder: Path, command: str, *options: str, rule: str = "0.001") -> str:
    """What a command says, without line breaks."""
    (folder / "workflow.yaml").write_text(WORKFLOW % rule)
    done = run_tree([*WILKINS, command, "workflow.yaml", *HOSTS, *options], 60, folder)
    assert done.code == 0, done.err
    return " ".join((done.out + done.err).split())


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_where_a_run_has_measured_it(folder: Path, command: str) -> None:
    fast = said(folder, command, "--from", "latest", "--bandwidth", "100MB/s")
    assert (
        "warning: write[0] -> read and 1 alike: 'compress' of 'f0*.h5' makes steps arrive later: 1 core packs and "
        "unpacks 10 MB/s and steps get 20 times smaller (measured in latest), so it pays on networks below 9.5 MB/s, "
        "and this network has 100 MB/s; remove it from the out-port" in fast
    )
    slow = said(folder, command, "--from", "latest", "--bandwidth", "9MB/s")
    assert "write[0] -> read and 1 alike: 'compress' of 'f0*.h5' pays, since this network has 9 MB/s: 1 core" in slow
    assert "warning" not in slow
    unknown = said(folder, command, "--from", "latest")
    assert "pays on networks below 9.5 MB/s (give that of your network: --bandwidth 125MB/s)" in unknown


def test_steps_are_counted_as_small_as_in_the_run(folder: Path) -> None:
    text = said(folder, "simulate", "--from", "latest")
    assert "f0*.h5 a -> c 4 40 MB 2 MB 11" in text
    assert "% packing" in text


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_where_it_is_used_only_if_it_pays(folder: Path, command: str) -> None:
    (folder / "workflow.yaml").write_text((WORKFLOW % 0.001).replace("}]}]", "}], compress_when: faster}]"))
    for bandwidth, words, moved in (
        ("100MB/s", "is not used, since steps arrive sooner", "40"),
        ("9MB/s", "pays", "2"),
    ):
        options = ("--from", "latest", "--bandwidth", bandwidth)
        done = run_tree([*WILKINS, command, "workflow.yaml", *HOSTS, *options], 60, folder)
        text = " ".join((done.out + done.err).split())
        assert f"'compress' of 'f0*.h5' {words}" in text and "warning" not in text
        assert command == "plan" or f"f0*.h5 a -> c 4 40 MB {moved} MB 11" in text


@pytest.mark.parametrize("command", ["simulate", "plan"])
@pytest.mark.parametrize(
    ("options", "rule", "why"),
    [((), "0.001", "no run is given"), (("--from", "latest"), "0.1", "latest had other entries, and is no run")],
)
def test_where_none_has(folder: Path, command: str, options: tuple[str, ...], rule: str, why: str) -> None:
    """They count with all bytes; a fast network is still told from a slow one, by the rate of this machine."""
    slow = said(folder, command, *options, "--bandwidth", "100kB/s", rule=rule)
    assert f"'compress' of 'f0*.h5' counts as if it was not there, since {why} that says how small steps get" in slow
    assert (
        "(measured here, of a smooth field), and it pays if steps get smaller at all, since this network has 100 kB/s"
        in slow
    )
    fast = said(folder, command, *options, "--bandwidth", "100GB/s", rule=rule)
    assert "'compress' of 'f0*.h5' makes steps arrive later: 1 core packs and unpacks" in fast
    assert "so it pays on slower networks only, and this network has 100 GB/s; remove it from the out-port" in fast
    if command == "simulate":
        assert "f0*.h5 a -> c 4 40 MB 40 MB 11" in slow


def test_a_bandwidth_is_of_hosts(folder: Path) -> None:
    done = run_tree([*WILKINS, "plan", "workflow.yaml", "--bandwidth", "1GB/s"], 60, folder)
    assert done.code == 2
    assert "--bandwidth is of the network between hosts" in done.err
    one = run_tree([*WILKINS, "plan", "workflow.yaml", "--hosts", "a:4", "--bandwidth", "1GB/s"], 60, folder)
    assert "'compress'" not in one.out + one.err


def test_a_plan_takes_the_sizes_of_steps_from_a_run(folder: Path) -> None:
    """For the shared memory that they take."""
    without = ("plan", "workflow.yaml", "--set", "write.model={step: 0.1, steps: 4}")
    assert "shared memory: at most" not in must_run(folder, *WILKINS, *without)
    assert "shared memory: at most" in must_run(folder, *WILKINS, *without, "--from", "latest")
