"""What became of each test, and how two ways of running a suite differ. Pure but for reading files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

Outcomes = Mapping[str, str]
"""Test -> passed, failed, skipped, or begun: it never ended."""


@dataclass(frozen=True, slots=True)
class Known:
    """Tests that pass on files and not in memory, and why."""

    tests: tuple[str, ...]
    """Names or shell patterns."""
    reason: str
    refused: bool = False
    """They are about what is refused on purpose, so they count for no share."""

    def covers(self, test: str) -> bool:
        """Whether a test is one of them. Brackets, of parametrised tests, mean themselves."""
        return any(fnmatchcase(test, pattern.replace("[", "[[]")) for pattern in self.tests)


@dataclass(frozen=True, slots=True)
class Compared:
    """Two ways, test by test."""

    passing: int
    """Tests that pass the first way."""
    kept: int
    """Of them, those that pass the second way."""
    lost: tuple[str, ...]
    """The others."""
    changed: tuple[str, ...]
    """All tests whose outcomes differ."""

    @property
    def share(self) -> float:
        """Kept of passing."""
        return self.kept / self.passing if self.passing else 0.0


def read(path: Path) -> dict[str, str]:
    """The outcomes that a recorder has written. The last word counts, but nothing undoes a failure."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        outcome, _, test = line.partition("\t")
        if found.get(test) != "failed" and not (outcome == "begun" and test in found):
            found[test] = outcome
    return found


def compare(first: Outcomes, second: Outcomes) -> Compared:
    """How the second way differs from the first."""
    passing = [test for test, outcome in first.items() if outcome == "passed"]
    lost = tuple(test for test in passing if second.get(test) != "passed")
    changed = tuple(sorted(test for test in {*first, *second} if first.get(test) != second.get(test)))
    return Compared(len(passing), len(passing) - len(lost), lost, changed)


def exceptions(path: Path) -> dict[str, tuple[Known, ...]]:
    """The list of exceptions: suite -> groups of tests with one reason."""
    told = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return {
        suite: tuple(
            Known(tuple(group["tests"]), " ".join(group["reason"].split()), group.get("refused", False))
            for group in groups
        )
        for suite, groups in told.items()
    }


def unexplained(lost: Sequence[str], known: Sequence[Known]) -> list[str]:
    """Lost tests that no exception covers."""
    return [test for test in lost if not any(group.covers(test) for group in known)]


def outdated(outcomes: Outcomes, known: Sequence[Known]) -> list[str]:
    """Exceptions that are none: what they cover passes. Where only a part of a suite ran, the rest is not judged."""
    told = []
    for group in known:
        for pattern in group.tests:
            covered = [test for test in outcomes if Known((pattern,), "").covers(test)]
            told += [test for test in covered if outcomes[test] == "passed"]
    return told
