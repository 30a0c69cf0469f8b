"""The page on a run's records: it has every file, field, event and variable that there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from wilkins.flow import TRACE_FILE, trace
from wilkins.launch.records.account import ChannelAccount
from wilkins.launch.records.crossings import Crossing
from wilkins.launch.records.rundir import KEPT, RESUMPTION, START
from wilkins.launch.records.summary import TaskSummary, record
from wilkins.launch.watch.taskrun import Outcome

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "run-directory.md").read_text(encoding="utf-8")
_SUMMARY = record([], exit_code=0, reason=None, wall_s=0.0, peak=0)


def section(heading: str) -> str:
    """What stands on the page below a heading."""
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def listed(text: str) -> set[str]:
    """What the rows of its tables begin with."""
    first = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}


def outcomes(kind: object = Outcome) -> set[str]:
    return {kind} if isinstance(kind, str) else set().union(*map(outcomes, get_args(kind)))


def test_every_field_of_the_summary_and_no_other() -> None:
    of_parts = {field.name for part in (TaskSummary, ChannelAccount, Crossing) for field in fields(part)}
    assert listed(section("summary.json")) == of_parts | set(_SUMMARY)


def test_every_outcome_of_a_task() -> None:
    row = next(line for line in section("summary.json").splitlines() if line.startswith("| `outcome` |"))
    assert {outcome for outcome in outcomes() if f"`{outcome}`" in row} == outcomes()


def test_every_column_and_event_of_a_trace_and_no_other() -> None:
    columns = {field.name for field in fields(trace.Event)}
    assert listed(section("trace.tsv")) == columns | set(get_args(trace.Kind)) | {trace.AGAIN}


@pytest.mark.parametrize("name", [f"{KEPT}/", RESUMPTION, START, TRACE_FILE])
def test_files_by_the_names_that_the_code_has(name: str) -> None:
    assert name in listed(section("The directory"))


def test_every_variable_and_no_other() -> None:
    there = set()
    for folder in ("wilkins", "flow", "transport", "tasks"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".cpp", ".hpp"}:
                there |= set(re.findall(r'"(WILKINS_[A-Z_]+)"', path.read_text(encoding="utf-8")))
    assert set(re.findall(r"`(WILKINS_[A-Z_]+)`", PAGE)) == there
