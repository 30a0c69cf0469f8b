"""A folder that may only be read: what is there is restored, listed and exported, and saving says what is wrong."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from support.running import OWN_MOUNTS, must_run
from wilkins.tasks.checkpoint import Checkpointer
from wilkins.tasks.checkpoint.storage import versions

LOOKS = Path(__file__).parents[1] / "programs" / "looks_at_versions.py"
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""Root, too, may then write only where its permissions say."""
BOUND = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
SAVES = """
import logging, sys
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
logging.basicConfig(stream=sys.stdout, format="%(message)s")
with Checkpointer(sys.argv[1]) as checkpointer:
    print(checkpointer.restore().step)
    try:
        checkpointer.save(3, {"x": 1})
        checkpointer.wait()
    except CheckpointError as error:
        print(error)
"""
MISSES = """
import sys
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
try:
    Checkpointer(sys.argv[1])
except CheckpointError as error:
    print(error)
"""


@pytest.fixture(params=[False, True], ids=["tidy", "left by a killed job"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Two versions; or also what is removed, and a link that is moved on, where one may write."""
    found = tmp_path / "versions"
    with Checkpointer(found) as checkpointer:
        for step in (1, 2):
            checkpointer.save(step, {"x": np.full(1000, float(step))})
    if request.param:
        (found / ".000003-step-3.0123abcd.new").mkdir()
        (found / "latest").unlink()
        (found / "latest").symlink_to("000001-step-1")
        (found / ".lock").unlink()
    return found


def read_alone(folder: Path, launch: list[str | Path]) -> None:
    """Look at it in every way, and try to save."""
    before = sorted(one.name for one in folder.iterdir())
    answer = json.loads(must_run(folder.parent, *launch, sys.executable, LOOKS, folder))
    assert answer["restore"] == {"step": 2, "sum": 2000.0, "told": ""}
    assert all(answer[action]["code"] == 0 for action in ("list", "verify", "show", "export")), answer
    assert answer["prune"]["code"] == 3 and f"error: {folder}" in answer["prune"]["told"], answer["prune"]
    told = must_run(folder.parent, *launch, sys.executable, "-c", SAVES, folder)
    assert "\n2\n" in f"\n{told}" and "give" in told
    assert f"cannot write {folder}" in told or f"step 3 cannot be saved: {folder} cannot be written to" in told
    assert sorted(one.name for one in folder.iterdir()) == before
    assert versions.versions(folder)[-1].step == 2


@pytest.mark.usual("left by a killed job")
@pytest.mark.needs("tmpfs")
def test_a_folder_mounted_read_only(folder: Path) -> None:
    read_alone(folder, [*OWN_MOUNTS, "sh", "-c", BOUND, folder])


@pytest.mark.usual("tidy")
@pytest.mark.needs("setpriv")
def test_a_folder_without_the_right_to_write(folder: Path) -> None:
    folder.chmod(0o555)
    try:
        read_alone(folder, [*WITHOUT_RIGHTS])
    finally:
        folder.chmod(0o755)


@pytest.mark.needs("setpriv")
def test_an_empty_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """There is nothing to restore, so it is told before the first state is computed."""
    folder = tmp_path / "versions"
    folder.mkdir(mode=0o555)
    told = must_run(tmp_path, *WITHOUT_RIGHTS, sys.executable, "-c", MISSES, folder)
    assert f"cannot write checkpoints to {folder}: Permission denied; give another folder" in told
