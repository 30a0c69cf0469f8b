"""What every test file shares: tests say what they need from the machine; nothing that must run is left out unseen."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from programs.build import NEWER

from support import OWN_MOUNTS

SYSTEM_PYTHON = "/usr/bin/python3"

os.environ.pop("PYTHONUNBUFFERED", None)
"""With it Python writes the words of a line one by one, and ``mpiexec`` mixes those of several ranks."""

if os.geteuid() == 0:
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


@cache
def missing(thing: str) -> bool:
    """Whether the machine lacks a program, ``python:MODULE``, ``system-python:MODULE``, ``newer-hdf5``, or a right.

    Rights are those of ``root``, and to make a ``tmpfs`` that nobody else sees. ``tools/newer-hdf5`` brings the former.
    """
    if thing == "newer-hdf5":
        return not NEWER.exists()
    if thing == "root":
        return os.geteuid() != 0
    if thing == "tmpfs":
        made = [*OWN_MOUNTS, "mount", "-t", "tmpfs", "none", "/mnt"]
        return shutil.which("unshare") is None or subprocess.run(made, check=False, capture_output=True).returncode != 0
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


def segments_of_mpi() -> set[Path]:
    """Shared memory of MPI jobs that no process maps any more."""
    found = set(Path("/dev/shm").glob("mpich_shm_*")) | set(Path("/dev/shm").glob("vader_segment.*"))
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            text = maps.read_text(errors="replace")
            found = {segment for segment in found if str(segment) not in text}
    return found


@pytest.fixture(scope="session", autouse=True)
def _leave_nothing() -> Iterator[None]:
    """Tests also kill MPI jobs that run without Wilkins; what those leave is removed at the end."""
    before = segments_of_mpi()
    yield
    for segment in segments_of_mpi() - before:
        segment.unlink(missing_ok=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test whose needs are not met, and say so; with WILKINS_TEST_ALL set, that is a failure."""
    for mark in item.iter_markers("needs"):
        absent = [thing for thing in mark.args if missing(thing)]
        if absent:
            message = f"needs {', '.join(absent)}"
            if os.environ.get("WILKINS_TEST_ALL"):
                pytest.fail(f"{message}: nothing may be left out on this machine (WILKINS_TEST_ALL is set)")
            pytest.skip(message)
