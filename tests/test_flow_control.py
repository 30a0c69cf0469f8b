"""Short forms of the flow-control experiment: runs take as long as the model says, and `latest` costs no time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.flow_control import cost_of_latest, measure


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", ["all", "some", "latest"])
def test_runs_take_as_long_as_the_model_says(tmp_path: Path, policy: str) -> None:
    """A consumer 5 times slower: medians of 3 within 10 % of the model. Four tries let other load pass."""
    tried = []
    for attempt in range(4):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        outcome = measure(folder, policy, 5, "5" if policy == "some" else policy, repeat=3)
        for run in outcome.runs:
            assert run.read[-1] == outcome.model.read[-1], "the last step that the policy keeps arrives"
            if policy != "latest":
                assert run.read == outcome.model.read
        tried.append((outcome.median, outcome.deviation))
        if max(map(abs, outcome.deviation)) <= 0.1:
            recorded = outcome.run_timeline
            assert recorded.counts()["consumer"].consumed in {len(run.read) for run in outcome.runs}
            assert recorded.end == pytest.approx(outcome.median[1], abs=0.3), "the trace tells the same"
            return
    pytest.fail(f"never within 10 % of {outcome.model}: {tried}")


@pytest.mark.timeout(300)
def test_latest_costs_a_computing_producer_nothing(tmp_path: Path) -> None:
    """Under 5 %, beside a consumer that computes ten times as long per step, against the same programs uncoupled.

    The fastest runs of each kind are compared, in up to five rounds, since other load makes any run longer.
    """
    tried = []
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        cost = cost_of_latest(folder, repeat=2, steps=12)
        assert all(read[-1] == cost.steps - 1 for read in cost.read), "the last step arrives"
        assert all(len(read) < cost.steps / 2 for read in cost.read), "the consumer is slower"
        tried.append(cost)
        if cost.least < 0.05:
            return
    pytest.fail(f"always 5 % or more: {[cost.least for cost in tried]} {tried}")
