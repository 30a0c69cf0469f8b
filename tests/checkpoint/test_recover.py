"""What a job finds in its folder: what a killed one left, links that lead nowhere, folders that were copied."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from support.running import processes_in, run_tree, started_tree, wait_for
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
from wilkins.tasks.checkpoint.storage import versions

from .conftest import Opener, arrays

PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"


def saved(checkpointer: Checkpointer, *steps: int) -> None:
    """Save some steps, and end."""
    for step in steps:
        checkpointer.save(step, arrays(step))
    checkpointer.close()


def leads_to(folder: Path) -> str:
    """The version that `latest` leads to."""
    return (folder / "latest").readlink().name if (folder / "latest").is_symlink() else ""


def flip(path: Path) -> None:
    """Change a bit in the middle."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 64
    path.write_bytes(raw)


def test_latest_lags_behind_or_is_lost(opened: Opener, tmp_path: Path) -> None:
    """A job killed between a version and its link; a link that somebody has removed, or that leads nowhere."""
    saved(opened(keep=3), 1, 2, 3)
    latest = tmp_path / "latest"
    for target in ("000001-step-1", "", "000009-step-9"):
        latest.unlink()
        if target:
            latest.symlink_to(target)
        opened(keep=3)
        assert leads_to(tmp_path) == "000003-step-3"


def test_latest_never_moves_to_what_does_not_verify(opened: Opener, tmp_path: Path) -> None:
    saved(opened(keep=3), 1, 2, 3)
    (tmp_path / "latest").unlink()
    flip(tmp_path / "000003-step-3" / "data-0.bin")
    opened(keep=3)
    assert leads_to(tmp_path) == "000002-step-2"


@pytest.mark.parametrize("asked", [None, 3])
def test_latest_leaves_what_does_not_verify(opened: Opener, tmp_path: Path, asked: int | None) -> None:
    """As soon as a restore finds out, on each level; when nothing verifies, there is no `latest`."""
    memory = tmp_path / "memory"
    checkpointer = opened(keep=2, memory=memory)
    for step in (1, 2, 3):
        checkpointer.save(step, arrays(step))
    checkpointer.wait()
    for folder in (memory, tmp_path):
        flip(folder / "000003-step-3" / "data-0.bin")
    if asked is None:
        restored = checkpointer.restore()
        assert restored is not None and restored.step == 2 and len(restored.skipped) == 2
    else:
        with pytest.raises(CheckpointError, match=r"no version in .* verifies"):
            checkpointer.restore(step=asked)
    assert (leads_to(memory), leads_to(tmp_path)) == ("000002-step-2",) * 2
    for folder in (memory, tmp_path):
        flip(folder / "000002-step-2" / "index-0.json")
    with pytest.raises(CheckpointError, match=r"no version in .* verifies"):
        checkpointer.restore()
    assert not (memory / "latest").is_symlink() and not (tmp_path / "latest").is_symlink()
    checkpointer.save(4, arrays(4))
    checkpointer.wait()
    assert (leads_to(memory), leads_to(tmp_path)) == ("000004-step-4",) * 2


def test_versions_that_were_renamed(opened: Opener, tmp_path: Path) -> None:
    """The step of what is restored is the one that it was saved at."""
    saved(opened(), 1, 2)
    shutil.copytree(tmp_path / "000001-step-1", tmp_path / "000007-step-9")
    restored = opened().restore()
    assert restored is not None and restored.step == 2
    assert "was written as 000001-step-1, and has been renamed" in restored.skipped[0]
    assert leads_to(tmp_path) == "000002-step-2"


def test_a_folder_that_was_copied_with_its_links_followed(opened: Opener, tmp_path: Path) -> None:
    saved(opened(), 1, 2)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy)
    with pytest.raises(CheckpointError, match=r"latest is to be a link .* remove .*latest, the versions stand beside"):
        Checkpointer(copy)
    shutil.rmtree(copy / "latest")
    with Checkpointer(copy) as checkpointer:
        restored = checkpointer.restore()
        assert restored is not None and restored.step == 2 and leads_to(copy) == "000002-step-2"


def test_two_jobs_with_one_memory(tmp_path: Path) -> None:
    """Each would remove what the other is writing."""
    with Checkpointer(tmp_path / "one", memory=tmp_path / "memory"):
        options = json.dumps({"memory": str(tmp_path / "memory")})
        done = run_tree([sys.executable, PROGRAM, "run", tmp_path / "two", "3", "0", options], 60, tmp_path)
        assert done.code and f"checkpoints in {tmp_path / 'memory'} are being written by process" in done.err
    with Checkpointer(tmp_path / "two", memory=tmp_path / "memory") as checkpointer:
        checkpointer.save(1, {"x": 1})
    assert [one.step for one in versions.versions(tmp_path / "two")] == [1] and not (tmp_path / "memory").exists()


def test_a_job_that_saves_nothing_frees_what_storage_has(tmp_path: Path) -> None:
    """And leaves in memory what storage has not."""
    storage, memory = tmp_path / "storage", tmp_path / "memory"
    checkpointer = Checkpointer(storage, memory=memory, storage_every=2)
    for step in (1, 2, 3):
        checkpointer.save(step, arrays(step))
    checkpointer.wait()
    checkpointer.close(failed=True)
    with Checkpointer(storage, memory=memory) as again:
        assert again.restore() is not None
    assert [one.step for one in versions.versions(memory)] == [2, 3]
    shutil.rmtree(memory / "000003-step-3")
    with Checkpointer(storage, memory=memory) as again:
        assert again.restore() is not None
    assert not memory.exists()


def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As Lustre mounted without `flock`: it is told, and is no reason to save nothing."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {"x": 1})
    assert leads_to(tmp_path) == "000001-step-1"
    assert "cannot be locked (Function not implemented), so nothing keeps a second job" in caplog.text


def test_what_a_dying_job_still_writes_to(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A rank that has outlived the one with the lock fills a folder that is emptied; the next job clears it."""
    saved(opened(), 1)
    left = tmp_path / ".000002-step-2.0a1b2c3d.new"
    left.mkdir()

    def refuse(path: Path) -> None:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refuse)
        restored = opened().restore()
    assert restored is not None and restored.step == 1
    assert f"cannot be removed yet: {left}: Directory not empty" in caplog.text
    opened()
    assert not left.exists()


HOLDER = """
import subprocess, sys, time
from wilkins.tasks.checkpoint import Checkpointer
checkpointer = Checkpointer("versions")
checkpointer.save(1, {"x": 1})
checkpointer.wait()
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
print("held", flush=True)
time.sleep(600)
"""


def test_a_killed_holder_of_the_lock(tmp_path: Path) -> None:
    """Its lock is free at once, though a program that it started lives on with all its files open."""
    with started_tree([sys.executable, "-c", HOLDER], tmp_path) as tree:
        wait_for(lambda: "held\n" in (tmp_path / ".stdout").read_text(), 60, "the lock")
        with pytest.raises(CheckpointError, match=f"being written by process {tree.process.pid} on"):
            Checkpointer(tmp_path / "versions")
        tree.process.kill()
        tree.process.wait()
        assert processes_in(tmp_path)
        with Checkpointer(tmp_path / "versions") as checkpointer:
            restored = checkpointer.restore()
            assert restored is not None and restored.state == {"x": 1}
