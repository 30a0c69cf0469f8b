"""Random workflows: every step that the policy promises arrives once, whole and in order; nothing else is left behind.

``WILKINS_FUZZ=n`` runs n of them with fresh seeds (`make fuzz`), ``WILKINS_FUZZ_SEED=s`` the one of a seed again.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from support.random_workflows import check, make, make_between_hosts, run

CASES = 30
"""Workflows of a round of all tests; `make test` has the first."""


def seeds() -> list[Any]:
    """Those to be run: one, many fresh ones, those of a round of `make soak`, or always the same few."""
    if one := os.environ.get("WILKINS_FUZZ_SEED"):
        return [int(one)]
    fresh = os.environ.get("WILKINS_FUZZ")
    first = random.randrange(10**9) if fresh else 1000 * int(os.environ.get("WILKINS_TEST_SEED", "0")) % 10**9
    if fresh or first:
        return list(range(first, first + int(fresh or CASES)))
    return [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, CASES))]


@pytest.mark.needs("hooks")
@pytest.mark.parametrize("seed", seeds())
def test_a_random_workflow(tmp_path: Path, seed: int) -> None:
    print(f"again with: WILKINS_FUZZ_SEED={seed} python -m pytest tests/graphs/test_random_workflows.py")
    case = make(seed)
    check(case, tmp_path, run(case, tmp_path))


@pytest.mark.needs("hooks")
@pytest.mark.parametrize("seed", seeds())
def test_a_random_workflow_between_hosts(tmp_path: Path, seed: int) -> None:
    print(f"again with: WILKINS_FUZZ_SEED={seed} python -m pytest tests/graphs/test_random_workflows.py -k hosts")
    case = make_between_hosts(seed)
    check(case, tmp_path, run(case, tmp_path))
