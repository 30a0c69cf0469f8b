"""Training does not wait for representatives: they are drawn and fetched while a step is trained."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.running import MPIEXEC

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.rehearsal import measure

pytestmark = pytest.mark.bench


@pytest.mark.needs(MPIEXEC)
@pytest.mark.timeout(300)
def test_waits_are_a_small_share_of_a_step() -> None:
    """Under 2 % of steps of 50 ms with samples of 64 KB on 2 ranks. Four tries let other load on the machine pass."""
    seen = []
    for _ in range(4):
        seen.append(measure(ranks=2, steps=60))
        assert seen[-1].elsewhere == pytest.approx(0.5, abs=0.15)
        if seen[-1].wait_share < 0.02:
            return
    pytest.fail(f"never under 2 %: {seen}")
