"""The libraries' own test suites under the layer: how outcomes are compared, and the short form of `make suites`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from suites import outcomes

from support.running import run_tree

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.rig
def test_the_last_outcome_counts_but_nothing_undoes_a_failure(tmp_path: Path) -> None:
    """A test fails if its set-up, a part of it or its tear-down does; one without an end has not passed."""
    lines = [
        ("begun", "a"),
        ("passed", "a"),
        ("begun", "b"),
        ("passed", "b"),
        ("failed", "b"),
        ("begun", "c"),
        ("failed", "c"),
        ("passed", "c"),
        ("begun", "d"),
        ("skipped", "e"),
    ]
    (tmp_path / "outcomes").write_text("".join(f"{outcome}\t{test}\n" for outcome, test in lines))
    found = outcomes.read(tmp_path / "outcomes")
    assert found == {"a": "passed", "b": "failed", "c": "failed", "d": "begun", "e": "skipped"}


@pytest.mark.rig
def test_shares_and_changes() -> None:
    """What fails on files does not count, what is not run any more does."""
    first = {"a": "passed", "b": "passed", "c": "failed", "d": "skipped", "e": "passed"}
    second = {"a": "passed", "b": "failed", "c": "passed", "d": "skipped"}
    compared = outcomes.compare(first, second)
    assert (compared.passing, compared.kept, compared.lost) == (3, 1, ("b", "e"))
    assert compared.changed == ("b", "c", "e")


@pytest.mark.rig
def test_exceptions_are_checked_in_both_directions(tmp_path: Path) -> None:
    """A lost test must be listed; a listed one must be lost. Brackets of parametrised tests are no patterns."""
    (tmp_path / "exceptions.yaml").write_text("lib:\n- {tests: ['t::a', 't::p[1-*'], reason: why}\n")
    known = outcomes.exceptions(tmp_path / "exceptions.yaml")["lib"]
    assert outcomes.unexplained(["t::a", "t::p[1-x]", "t::p[2-x]"], known) == ["t::p[2-x]"]
    assert outcomes.outdated({"t::a": "passed", "t::p[1-x]": "failed", "t::b": "passed"}, known) == ["t::a"]


@pytest.mark.rig
def test_every_exception_names_a_suite_and_a_reason() -> None:
    """The list is read by people."""
    known = outcomes.exceptions(ROOT / "tests" / "suites" / "exceptions.yaml")
    assert set(known) <= {"h5py", "netcdf4", "pytables"}
    assert all(len(group.reason) > 40 and group.tests for groups in known.values() for group in groups)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_part_of_h5pys_suite(tmp_path: Path) -> None:
    """The same outcomes under the layer; in memory, too, but for the exceptions."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "wilkins").symlink_to(ROOT / "wilkins")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "tests.suites",
        "h5py",
        "--short",
        "--folder",
        tmp_path / "suites",
    ]
    ran = run_tree(command, 540, tmp_path)
    assert ran.code == 0, ran.out + ran.err
