"""A disk that is full, at every page and at every name that a version needs: a small one, made for the test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support import MPIEXEC, OWN_MOUNTS, must_run

pytestmark = pytest.mark.needs("tmpfs")
PROGRAM = Path(__file__).parents[1] / "programs" / "full_disk.py"


@pytest.mark.usual("1-storage behind memory", "2-storage behind memory")
@pytest.mark.parametrize("full", ["storage", "memory", "storage behind memory"])
@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.needs(MPIEXEC))])
def test_a_full_disk(tmp_path: Path, ranks: int, full: str) -> None:
    """What was there stays, the program is told, and goes on when there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = {
        "storage": {},
        "memory": {"folder": str(tmp_path / "elsewhere"), "memory": str(disk / "versions"), "storage_every": 1000},
        "storage behind memory": {"memory": str(tmp_path / "elsewhere")},
    }[full]
    launch = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
    program = [*launch, sys.executable, str(PROGRAM), str(disk), json.dumps(options)]
    mounted = 'mount -t tmpfs -o size=4m,nr_inodes=200 none "$0" && exec "$@"'
    out = must_run(tmp_path, *OWN_MOUNTS, "sh", "-c", mounted, disk, *program, timeout=150)
    counts = json.loads(out)
    print(counts)
    assert all(counts[f"{what} told"] >= 4 and counts[f"{what} fits"] >= 1 for what in ("pages", "names")), counts
