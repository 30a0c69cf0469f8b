"""A CUDA driver for tests: the stand-in everywhere, and the real one where there is a GPU (``pytest -m gpu``)."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from wilkins.transport.board import native_library

HERE = Path(__file__).parent


@cache
def has_gpu() -> bool:
    """Whether a process can use a CUDA device here."""
    look = "from wilkins.transport.devices.driver import driver; driver()"
    return subprocess.run([sys.executable, "-c", look], check=False, capture_output=True).returncode == 0


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 that needs no GPU."""
    folder = tmp_path_factory.mktemp("stand-in")
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1"]
    target = folder / "libcuda.so.1"
    sources = sorted(map(str, (HERE / "stand_in").glob("*.c")))
    subprocess.run(["gcc", *flags, *sources, "-o", str(target), "-lrt"], check=True)
    return folder


@pytest.fixture
def without_gpu(stand_in: Path) -> Iterator[dict[str, str]]:
    """Variables with which programs find the stand-in as their driver."""
    run = secrets.token_hex(4)
    yield {"LD_LIBRARY_PATH": str(stand_in), "STAND_IN_RUN": run, "WILKINS_LIBRARY": str(native_library())}
    for left in Path("/dev/shm").glob(f"stand-in-{run}-*"):
        left.unlink()


@pytest.fixture(params=["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)])
def cuda(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables with which programs find a driver: the stand-in, and the real one where there is a GPU."""
    if request.param == "stand-in":
        variables: dict[str, str] = request.getfixturevalue("without_gpu")
        return variables
    if not has_gpu():
        pytest.skip("there is no GPU that CUDA can use")
    return {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""), "WILKINS_LIBRARY": str(native_library())}
