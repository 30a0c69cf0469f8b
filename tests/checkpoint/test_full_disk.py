"""A disk that is full, at every page and at every name that a version needs: a small one, made for the test."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from support.running import MPIEXEC, OWN_MOUNTS, mounted, must_run
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
from wilkins.tasks.checkpoint.storage import versions

pytestmark = pytest.mark.needs("tmpfs")
PROGRAM = Path(__file__).parents[1] / "programs" / "full_disk.py"


@pytest.mark.usual("1-storage behind memory")
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


def fill(disk: Path) -> None:
    """Leave no page free."""
    with (disk / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, os.statvfs(disk).f_bavail * 4096)


def filled_by_five(folder: Path, disk: Path, memory: Path | None = None) -> None:
    """Versions of steps 0 to 4, 0.6 MB each, and a disk that has no room for another."""
    with Checkpointer(folder, keep=5, block=65536, memory=memory or False) as checkpointer:
        for step in range(5):
            checkpointer.save(step, {"x": np.full(75_000, float(step))})
    fill(disk)


def steps(folder: Path) -> list[int]:
    return [one.step for one in versions.versions(folder)]


@pytest.mark.needs("root")
@pytest.mark.parametrize("behind", [False, True], ids=["storage", "storage behind memory"])
def test_versions_beyond_those_to_keep_make_room(tmp_path: Path, behind: bool) -> None:
    """Who keeps fewer than the job before gets room on a full disk: by what goes anyway, and never by more."""
    with mounted(tmp_path / "disk", "4m") as disk:
        folder, memory = disk / "versions", tmp_path / "memory" if behind else None
        filled_by_five(folder, disk, memory)
        newest = folder / "000005-step-4"
        raw = bytearray((newest / "data-0.bin").read_bytes())
        raw[1000] ^= 1
        (newest / "data-0.bin").write_bytes(raw)
        with Checkpointer(folder, keep=2, block=65536, memory=memory or False) as checkpointer:
            checkpointer.save(5, {"x": np.zeros(400_000)})
            with pytest.raises(CheckpointError, match="No space left"):
                checkpointer.wait()
            assert steps(folder) == [2, 3, 4]  # two that are whole, as promised, and what is damaged
            checkpointer.save(6, {"x": np.full(75_000, 6.0)})
            checkpointer.wait()
            assert steps(folder) == [4, 6]
            restored = checkpointer.restore()
            assert restored is not None and restored.step == 6


@pytest.mark.needs("root")
def test_a_disk_that_does_not_say_how_full_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a quota: what failed is told, and the next version finds the room that older ones took."""
    with mounted(tmp_path / "disk", "4m") as disk:
        folder = disk / "versions"
        filled_by_five(folder, disk)
        free = SimpleNamespace(f_bavail=2**40, f_frsize=4096, f_files=0, f_favail=0)
        monkeypatch.setattr(os, "statvfs", lambda *_: free)
        with Checkpointer(folder, keep=2, block=65536) as checkpointer:
            checkpointer.save(5, {"x": np.zeros(75_000)})
            with pytest.raises(CheckpointError, match="No space left"):
                checkpointer.wait()
            assert steps(folder) == [0, 1, 2, 3, 4]
            checkpointer.save(6, {"x": np.zeros(75_000)})
            checkpointer.wait()
            assert steps(folder) == [4, 6]
