"""Ranks that leave, stand still, join or disagree: nothing goes wrong without a word, and nobody waits for ever."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.running import must_run

pytestmark = pytest.mark.needs("python:torch")

NAMES = ("joins", "own_schedule", "leaves", "totals_differ", "frozen_differ", "connects_to_none", "loses")


def tried(folder: Path, *names: str) -> dict[str, Any]:
    """What became of each training; there is no room for temporary files."""
    variables = f"TMPDIR=/nonexistent/{100 * 'x'}", "TORCH_CPP_LOG_LEVEL=FATAL"
    program = Path(__file__).with_name("scenarios.py")
    out = must_run(folder, "env", *variables, sys.executable, program, *names, timeout=100)
    return {one["name"]: one for one in map(json.loads, out.splitlines())}


@pytest.fixture(scope="module")
def became(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tried(tmp_path_factory.mktemp("partings"), *NAMES)


@pytest.mark.nightly
def test_who_joins_while_a_step_is_discarded_becomes_equal(became: dict[str, Any]) -> None:
    one, other = sorted(became["joins"]["ranks"], key=lambda one: int(one["rank"]))
    assert "it is started again" in " ".join(became["joins"]["said"])
    assert one["batches"] == one["step"] == 12
    assert {**one, "rank": 1} == other


def test_learning_rates_that_differ_end_the_training(became: dict[str, Any]) -> None:
    found = became["own_schedule"]
    assert found["code"] == 1 and not found["ranks"]
    assert "learning rates differ between ranks" in found["errors"] and "`schedule=`" in found["errors"]


@pytest.mark.nightly
def test_a_training_that_nobody_has_finished_has_failed(became: dict[str, Any]) -> None:
    found = became["leaves"]
    assert found["code"] == 128 + 9
    assert (
        "rank 1 has left the training, with exit code 0, before all steps were made; 1 go on without it"
        in (found["said"])
    )


def test_ranks_that_want_different_numbers_of_steps_are_told(became: dict[str, Any]) -> None:
    found = became["totals_differ"]
    assert "another rank has come to the end after step 8" in found["errors"], found
    assert [one["rank"] for one in found["ranks"]] == [0]


@pytest.mark.nightly  # it waits until patience is over, twice
def test_a_rank_that_is_stopped_before_it_connects_is_given_up(tmp_path: Path) -> None:
    found = tried(tmp_path, "stands_still")["stands_still"]
    assert found["code"] == 0, found
    assert "ranks 1 have not answered for 4 s, and are killed" in found["said"]
    assert [one["ranks"] for one in found["ranks"]] == [[0]]


@pytest.mark.nightly
def test_ranks_that_train_other_parameters_are_told(became: dict[str, Any]) -> None:
    errors = became["frozen_differ"]["errors"]
    assert "'first.weight' has the shape None here, and [8, 6] there; make the same model on all ranks" in errors


def test_ranks_that_cannot_connect_give_up(became: dict[str, Any]) -> None:
    found = became["connects_to_none"]
    assert found["code"] == 1 and "cannot connect to the others, in 13 attempts" in found["errors"], found


def test_what_is_lost_with_a_rank_is_said(became: dict[str, Any]) -> None:
    assert "rank 1 was killed by signal 9; 1 go on without it; lost with it: 5 samples" in became["loses"]["said"]
