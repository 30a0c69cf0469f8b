"""Runs inside a library's test suite: writes down the outcome of every test, a line at a time, in spite of crashes.

As a plugin of pytest (``-p recorder``) for suites that pytest runs; as a program for PyTables', which has a runner of
its own. It imports nothing of Wilkins: the suite must see the process that its users would have.
"""

from __future__ import annotations

import importlib
import os
import sys
import unittest
from pathlib import Path
from typing import Any, cast

BEGUN = "begun"
"""What stands for the outcome of a test that has not ended."""


def note(outcome: str, test: str) -> None:
    """Add a line to the file of outcomes; the last one of a test counts, but nothing undoes a failure."""
    with Path(os.environ["SUITE_OUTCOMES"]).open("a", encoding="utf-8") as file:
        file.write(f"{outcome}\t{test}\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    """A test begins."""
    note(BEGUN, nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """Set-up, call or tear-down of a test has ended, or a part of it that reports by itself (a subtest)."""
    if report.outcome == "failed" or report.when == "call" or report.outcome == "skipped":
        note(report.outcome, report.nodeid)


class Recorded(unittest.TextTestResult):
    """The result of unittest, written down."""

    test = ""
    """The name of the present test: PyTables' tests forget theirs when they are torn down."""

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.test = test.id()
        note(BEGUN, self.test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        note("passed", self.test)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        note("skipped", self.test)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        note("failed", self.test)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        note("failed", self.test)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            note("failed", self.test)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        note("skipped", self.test)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        note("passed", self.test)


def main(module: str, parts: list[str]) -> int:
    """Run ``module.suite()``, or of it the tests whose names begin with one of the parts."""
    chosen = unittest.TestSuite()
    waiting: list[Any] = [importlib.import_module(module).suite()]
    while waiting:
        first = waiting.pop(0)
        if isinstance(first, unittest.TestCase):
            if not parts or first.id().startswith(tuple(parts)):
                chosen.addTest(first)
        else:
            waiting[:0] = list(first)
    result = unittest.TextTestRunner(resultclass=cast(Any, Recorded), stream=sys.stdout, verbosity=0).run(chosen)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
