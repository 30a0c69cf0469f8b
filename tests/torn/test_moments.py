"""Real programs are killed at random moments: nobody ever sees a step that is not whole, and the run ends.

`WILKINS_TEST_KILLS` says at how many moments (`make soak`: more), `WILKINS_TEST_SEED` at which. A try that failed is
repeated by its `WILKINS_TORN_SEED`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torn.cases import kill_at, kinds_here, random_case

KILLS = int(os.environ.get("WILKINS_TEST_KILLS", "30"))
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
AT_ONCE = 3
BATCH = 10

WRITING = ("create", "extend", "write", "write", "write", "rest", "reopen", "flush", "close", "close", "done")
READING = ("open", "read", "read", "leave", "done")


def seeds() -> list[int]:
    """One for each kill."""
    if one := os.environ.get("WILKINS_TORN_SEED"):
        return [int(one)]
    return [SEED * 100_000 + number for number in range(KILLS)]


BATCHES = [seeds()[first : first + BATCH] for first in range(0, len(seeds()), BATCH)]


def attempt(folder: Path, seed: int) -> str:
    """Kill one process of a random workflow; says what it was doing, or why something does not hold."""
    folder.mkdir()
    draw = random.Random(seed)
    case = random_case(draw, kinds_here())
    phase = draw.choice(READING if case.victim.startswith("look") else WRITING)
    later = draw.choice([0, draw.uniform(0, 0.005), draw.uniform(0, 0.05)])
    try:
        return kill_at(case, folder, draw.randint(0, 4), phase, later)
    except (AssertionError, OSError, pytest.fail.Exception) as error:
        return f"WILKINS_TORN_SEED={seed}, {later:.4f} s after {phase}: {error}"


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"{batch[0]}-{batch[-1]}")
def test_killed_at_random_moments(
    tmp_path: Path, batch: list[int], record_property: Callable[[str, object], None]
) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = list(pool.map(attempt, [tmp_path / str(seed) for seed in batch], batch))
    failed = [words for words in said if words.startswith("WILKINS_TORN_SEED")]
    assert not failed, "\n\n".join(failed)
    for moment, times in Counter(said).items():
        record_property(moment, times)
