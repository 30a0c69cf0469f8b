"""The measurements of what checkpoints cost run, and their figures mean something."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import aggregation, partners
from benchmarks.checkpoint import ENGINE, Cost, measure, verdicts
from support.running import MPIEXEC, run_tree
from wilkins.transport.board import native_library


@pytest.mark.nightly
@pytest.mark.needs("python:torch")
def test_the_measurement_runs() -> None:
    cost = measure(ENGINE, mib=1, tensors=2, batch=2, steps=2)
    assert len(cost.blocked) == len(cost.durable) == len(cost.slower) == 2
    assert all(0 < blocked < 60 for blocked in cost.blocked) and all(0 < durable < 60 for durable in cost.durable)
    assert cost.step[0] > 0 and cost.state[0] > 0


def cost(blocked: float, slower: float, durable: float) -> Cost:
    return Cost([blocked], [slower], [durable], [0.0], [0.0], [1.0], [0.0])


def test_goals_are_judged_against_the_others_of_the_same_run() -> None:
    costs = {"torch.save": cost(1.0, 0.0, 1.0), "dcp.save": cost(0.5, 0.0, 0.5), "dcp.async_save": cost(0.1, 0.3, 2.0)}
    met = [(one.met, one.most) for one in verdicts({ENGINE: cost(0.019, 0.15, 1.2), **costs})]
    assert met == [(True, 0.02), (True, 0.02), (True, 0.2), (True, 1.3)]
    missed = verdicts({ENGINE: cost(0.021, 0.19, 1.4), **costs})
    assert not any(one.met for one in missed) and str(missed[1]).startswith("MISSED blocked below 1/5 of the best")
    assert "(dcp.async_save): 21.0 ms, at most 20.0 ms" in str(missed[1])
    assert verdicts(costs) == []


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize(("way", "files"), [("each rank", 1), ("memory, then leaders", 1)])
def test_several_ranks(way: str, files: int) -> None:
    written = aggregation.measure(2, files, way, mib=1, steps=1, compute=0.0)
    assert written.files == files and 0 < written.blocked < 60
    assert written.bandwidth == pytest.approx(2 * (1 << 20) / written.durable)


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC, "python:pyeclib")
def test_parity() -> None:
    kept = partners.measure("partners", 1, 1, mib=1, steps=1, compute=0.0)
    assert 0 < kept.blocked < 60 and 0 < kept.done < 60 and kept.cpu > 0


@pytest.mark.nightly
@pytest.mark.needs("python:torch", MPIEXEC)
def test_all_parts_for_a_gpu_run_without_one(tmp_path: Path) -> None:
    """On a stand-in for the driver and on the CPU: what is misspelt must not be found on a machine lent for minutes."""
    script = Path(__file__).parents[2] / "benchmarks/gpu.sh"
    variables = {"PYTHON": sys.executable, "WILKINS_LIBRARY": str(native_library())}
    words: list[str | Path] = [script, "--stand-in", "--only", "channels", "checkpoint", "rehearsal"]
    finished = run_tree(words, 170, tmp_path, variables)
    assert finished.code == 0, finished.out + finished.err
    assert finished.out.count("| measured |") == 3
