"""Short forms of the flow-control experiment: runs take as long as the model says, and `latest` costs no time."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.flow_control import Cost, cost_of_latest, measure

pytestmark = pytest.mark.bench


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", ["all", "some", "latest"])
def test_runs_take_as_long_as_the_model_says(tmp_path: Path, policy: str) -> None:
    """A consumer 5 times slower: medians of 3 within 10 % of the model. Four tries let other load pass."""
    tried = []
    for attempt in range(4):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        outcome = measure(folder, policy, 5, "{every: 5}" if policy == "some" else policy, repeat=3)
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


SMALL = 0.05


def cost_in_rounds(folder: Path, most: int, planted: float = 0.0) -> tuple[float, list[Cost]]:
    """What `latest` costs the producer, relative, by as many rounds of four pairs of runs as it takes to be small.

    What counts is the producer's own time, without that in which other load kept it from running. Both the median of
    the pairs and the cheapest runs must agree, and no run is thrown away, so that no lucky one can hide a cost.
    """
    rounds: list[Cost] = []
    for attempt in range(most):
        place = folder / str(attempt)
        place.mkdir()
        cost = cost_of_latest(place, repeat=4, steps=12, mib=0.25, planted=planted)
        assert all(read[-1] == cost.steps - 1 for read in cost.read), "the last step arrives"
        assert all(len(read) < cost.steps / 2 for read in cost.read), "the consumer is slower"
        assert not any(cost.waited), "the producer never waits"
        rounds.append(cost)
        pairs = [pair for cost in rounds for pair in cost.own]
        alone = min(run.own for cost in rounds for run in cost.alone)
        coupled = min(run.own for cost in rounds for run in cost.coupled)
        seen = max(median(pairs), coupled / alone - 1)
        if seen < SMALL:
            break
    return seen, rounds


@pytest.mark.timeout(600)
def test_latest_costs_a_computing_producer_nothing(tmp_path: Path) -> None:
    """Under 5 %, beside a consumer that computes ten times as long per step, against the same programs uncoupled."""
    cost, rounds = cost_in_rounds(tmp_path, 5)
    assert cost < SMALL, rounds


@pytest.mark.timeout(600)
def test_a_cost_of_a_tenth_would_be_seen(tmp_path: Path) -> None:
    """The measure above, of a producer that is given a cost."""
    cost, rounds = cost_in_rounds(tmp_path, 1, planted=0.1)
    assert cost >= SMALL, rounds
