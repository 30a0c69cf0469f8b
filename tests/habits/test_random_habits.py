"""Random habits: what ranks read, in whatever order and by whatever calls, is what they would have read from files.

``WILKINS_FUZZ_HABITS=2000`` runs so many with fresh seeds; ``WILKINS_FUZZ_SEED=7`` one again.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from habits.random_habits import KINDS, make, run

CASES = 100
"""Of a round of all tests; `make test` has the first."""


def seeds() -> list[Any]:
    """Those to be run: one, many fresh ones, those of a round of `make soak`, or always the same."""
    if one := os.environ.get("WILKINS_FUZZ_SEED"):
        return [int(one)]
    fresh = os.environ.get("WILKINS_FUZZ_HABITS")
    alike = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # in all workers of one run of tests
    first = alike.randrange(10**9) if fresh else 1000 * int(os.environ.get("WILKINS_TEST_SEED", "0")) % 10**9
    if fresh or first:
        return list(range(first, first + int(fresh or CASES)))
    return [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, CASES))]


@pytest.mark.usual("0")
@pytest.mark.needs("hooks")
@pytest.mark.parametrize("seed", seeds())
def test_random_calls_read_what_they_read_from_files(tmp_path: Path, seed: int) -> None:
    print(f"again with: WILKINS_FUZZ_SEED={seed} python -m pytest tests/habits/test_random_habits.py")
    case = make(seed)
    wrong = run(case, tmp_path)
    assert not wrong, f"{case}\n" + "\n".join(f"{who}: {what}" for who, what in wrong.items())


def test_two_hundred_seeds_draw_all_that_there_is() -> None:
    assert set().union(*(make(seed).kinds() for seed in range(200))) == KINDS
