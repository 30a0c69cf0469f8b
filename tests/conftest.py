"""What every test file shares: tests say what they need from the machine; nothing that must run is left out unseen."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from functools import cache

import pytest

SYSTEM_PYTHON = "/usr/bin/python3"

if os.geteuid() == 0:
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


@cache
def missing(thing: str) -> bool:
    """Whether the machine lacks a program, a ``python:MODULE`` or a ``system-python:MODULE``."""
    kind, _, name = thing.rpartition(":")
    if kind == "python":
        return importlib.util.find_spec(name) is None
    if kind == "system-python":
        found = subprocess.run(
            [SYSTEM_PYTHON, "-c", f"import importlib.util as u; raise SystemExit(u.find_spec('{name}') is None)"],
            check=False,
        )
        return found.returncode != 0
    return shutil.which(name) is None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test whose needs are not met, and say so; with WILKINS_TEST_ALL set, that is a failure."""
    for mark in item.iter_markers("needs"):
        absent = [thing for thing in mark.args if missing(thing)]
        if absent:
            message = f"needs {', '.join(absent)}"
            if os.environ.get("WILKINS_TEST_ALL"):
                pytest.fail(f"{message}: nothing may be left out on this machine (WILKINS_TEST_ALL is set)")
            pytest.skip(message)
