"""Ranks of a real training are killed at random moments: it ends, with equal parameters, as good as undisturbed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("python:torch")

ROOT = Path(__file__).parents[2]
_TRIALS = """
import json, sys
from dataclasses import asdict
from benchmarks.elastic import prepare, trial
prepare()
print(json.dumps([asdict(trial(*one, steps=40, span=0.5)) for one in json.loads(sys.argv[1])]))
"""


def trials(*wanted: tuple[str, int, int]) -> list[dict[str, Any]]:
    """Runs, each (what happens after a death, how many are killed, seed), in a process of their own: it forks ranks."""
    words = [sys.executable, "-c", _TRIALS, json.dumps(wanted)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.nightly  # `test_partings.py` has deaths and a join
def test_training_goes_on_without_the_dead() -> None:
    free, *runs = trials(("again", 0, 0), ("again", 3, 1), ("lossy", 2, 2), ("joining", 2, 3))
    for run in runs:
        assert run["ended"] and run["equal"], run
        assert abs(run["accuracy"] - free["accuracy"]) < 0.06, (run, free)
        for seconds in run["lost"]:
            # Two steps, the one that was made again, and 3 s.
            assert seconds <= 3 + 3 * run["step_ms"] / 1e3, run


@pytest.mark.nightly
@pytest.mark.timeout(2400)
def test_two_hundred_kills() -> None:
    words = [sys.executable, "-m", "benchmarks.elastic", "--kills", "200"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=2300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
