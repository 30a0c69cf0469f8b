"""Who reads versions, copies or verifies them while a job saves; what keeps two jobs from saving in one folder."""

from __future__ import annotations

import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.running import must_run, started_tree, wait_for, write_program
from wilkins.tasks import checkpoint
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Unsupported
from wilkins.tasks.checkpoint.command import verified
from wilkins.tasks.checkpoint.errors import Damaged
from wilkins.tasks.checkpoint.storage import contents, versions
from wilkins.tasks.checkpoint.storage.locks import reading, unless_read

from .conftest import Opener

SAVES = """
import sys, time
import numpy as np
from wilkins.tasks.checkpoint import Checkpointer
with Checkpointer(sys.argv[1], keep=1, block=65536) as checkpointer:
    step = 0
    while True:
        step += 1
        checkpointer.save(step, {"x": np.full(300_000, float(step)), "step": step})
        checkpointer.wait()
"""
LOOKS = {
    "restored": """
restored = checkpoint.restore(folder)
assert restored is not None and (restored.state["x"] == restored.step).all() and not restored.skipped
""",
    "filled": """
x = np.zeros(300_000)
restored = checkpoint.restore(folder, {"x": x})
assert restored is not None and (x == restored.state["step"]).all()
""",
    "verified": """
from wilkins.tasks.checkpoint.command import verified
text, good = verified(folder)
assert good, text
""",
    "by torch": """
import torch, torch.distributed.checkpoint as dcp
from wilkins.tasks.checkpoint.dcp import VersionReader
state = {"step": 0}
dcp.load(state, storage_reader=VersionReader(folder / "latest"), no_dist=True)
assert state["step"] > 0
""",
}


@pytest.mark.usual("verified")
@pytest.mark.parametrize("look", [*list(LOOKS)[:3], pytest.param("by torch", marks=pytest.mark.needs("python:torch"))])
def test_a_reader_beside_a_job_that_keeps_one_version(tmp_path: Path, look: str) -> None:
    """What it reads is whole and stays until it is read, though the job has pruned it meanwhile, or would."""
    folder = tmp_path / "versions"
    saver = write_program(tmp_path / "saves.py", SAVES)
    reader = write_program(
        tmp_path / "reads.py",
        f"""
import sys, warnings
from pathlib import Path
import numpy as np
from wilkins.tasks import checkpoint
warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
for _ in range(60):
{"".join(f"    {line}{chr(10)}" for line in LOOKS[look].strip().splitlines())}
print("all right")
""",
    )
    with started_tree([sys.executable, saver, folder], tmp_path):
        wait_for(lambda: (folder / "latest").exists(), 60, "a version")
        assert must_run(tmp_path, sys.executable, reader, folder, timeout=120) == "all right\n"
    assert len(versions.versions(folder)) <= 2


@pytest.mark.parametrize("removed", [False, True])
def test_a_reader_waits_while_a_version_is_about_to_be_removed(opened: Opener, removed: bool) -> None:
    """Between the pruner's lock and its rename, the version is neither damaged nor gone."""
    checkpointer = opened(keep=2)
    for step in (1, 2):
        checkpointer.save(step, {"x": np.ones(3)})
        checkpointer.wait()
    newest = versions.versions(checkpointer.folder)[-1]
    with ThreadPoolExecutor() as threads:
        with unless_read(newest.path / versions.MANIFEST) as free:
            assert free
            text = threads.submit(verified, checkpointer.folder)
            found = threads.submit(checkpoint.restore, checkpointer.folder)
            time.sleep(0.3)
            if removed:
                versions.hide(newest)
        assert text.result(30)[1], text.result()[0]
        restored = found.result(30)
    assert restored is not None
    assert restored.step == (1 if removed else 2)
    assert not restored.skipped


def test_what_a_link_led_to_may_be_gone_before_it_is_open(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the link and the open there may be a save, and a prune."""
    checkpointer = opened(keep=1)

    def save(step: int) -> None:
        checkpointer.save(step, {"x": np.full(3, step)})
        checkpointer.wait()

    save(1)
    late = iter([2, 3])

    def opens_late(manifest: Path) -> Any:
        for step in late:
            save(step)
            break
        return reading(manifest)

    monkeypatch.setattr(contents, "reading", opens_late)
    with contents.Contents(checkpointer.folder / versions.LATEST) as found:
        assert found.manifest.step == 3
        save(4)
        found.verify()
    newest = versions.versions(checkpointer.folder)[-1]
    with pytest.raises(Damaged, match="cannot be read"), unless_read(newest.path / versions.MANIFEST):
        versions.hide(newest)
        contents.Contents(checkpointer.folder / versions.LATEST)


@pytest.mark.needs("python:torch")
def test_ranks_that_open_different_versions_by_one_link_load_none(opened: Opener) -> None:
    """Else a sharded model would be made of two."""
    from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner

    from wilkins.tasks.checkpoint.dcp import VersionReader

    checkpointer = opened(keep=2)
    plans = []
    for step in (1, 2):
        checkpointer.save(step, {"step": step})
        checkpointer.wait()
        reader, planner = VersionReader(checkpointer.folder / versions.LATEST), DefaultLoadPlanner()
        metadata = reader.read_metadata()
        planner.set_up_planner({"step": 0}, metadata, False)
        reader.set_up_storage_reader(metadata, False)
        plans.append(reader.prepare_local_plan(planner.create_local_plan()))
    assert reader.prepare_global_plan(plans[1:]) == plans[1:]
    with pytest.raises(CheckpointError, match=r"different versions by .*: 0.*-step-1, 0.*-step-2, as"):
        reader.prepare_global_plan(plans)


def test_a_copy_of_the_folder_does_not_give_up_its_lock(tmp_path: Path) -> None:
    """A process's own record locks go when it closes any descriptor of the file, as of a backup."""
    other = write_program(
        tmp_path / "other.py",
        """
import sys
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
try:
    Checkpointer(sys.argv[1])
except CheckpointError as error:
    print(error)
""",
    )
    with Checkpointer(tmp_path / "versions") as checkpointer:
        checkpointer.save(1, {"x": np.ones(3)})
        checkpointer.wait()
        shutil.copytree(tmp_path / "versions", tmp_path / "copy", symlinks=True)
        told = must_run(tmp_path, sys.executable, other, tmp_path / "versions")
        assert f"are being written by process {os.getpid()} on" in told


def test_a_forked_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    """As a worker of a loader that has not noticed yet that the training was killed."""
    script = write_program(
        tmp_path / "forks.py",
        """
import os, signal, sys, time
import numpy as np
from wilkins.tasks.checkpoint import Checkpointer
checkpointer = Checkpointer(sys.argv[1])
checkpointer.save(1, {"x": np.ones(3)})
checkpointer.wait()
reads, writes = os.pipe()
if os.fork() == 0:
    os.write(writes, b"x")
    time.sleep(60)
    os._exit(0)
os.read(reads, 1)
os.kill(os.getpid(), signal.SIGKILL)
""",
    )
    with started_tree([sys.executable, script, tmp_path / "versions"], tmp_path) as tree:
        tree.wait(40)
        with Checkpointer(tmp_path / "versions") as checkpointer:
            assert checkpointer.restore() is not None


def test_a_forked_process_closes_nothing_of_its_own(tmp_path: Path) -> None:
    """It gives its parent's lock up once: the number of that descriptor is soon another file's."""
    script = write_program(
        tmp_path / "forks.py",
        """
import gc, os, sys
from wilkins.tasks.checkpoint import Checkpointer
checkpointer = Checkpointer(sys.argv[1])
if (child := os.fork()) == 0:
    mine = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
    checkpointer._folders.unlock()
    del checkpointer
    gc.collect()
    for one in mine:
        os.fstat(one)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("all right")
""",
    )
    assert must_run(tmp_path, sys.executable, script, tmp_path / "versions") == "all right\n"


@pytest.mark.parametrize(
    "state",
    [
        {"a/b": np.ones(3), "a": {"b": np.zeros(3)}},
        {1: np.ones(3), "1": np.zeros(3)},
        {"x": {True: np.ones(3), "True": np.zeros(3)}},
    ],
    ids=["a slash", "a number", "a truth"],
)
def test_arrays_of_one_path_are_refused(opened: Opener, state: Any) -> None:
    """By their paths they are restored: both would come into one of them."""
    with pytest.raises(Unsupported, match="two arrays have this path"):
        opened().save(1, state)
    checkpointer = opened()
    checkpointer.save(1, {"a": {"b": np.ones(3)}})
    with pytest.raises(CheckpointError, match=r"two arrays of the state have this path|it has no place for"):
        checkpointer.restore(state)


def test_where_no_link_can_be_made_there_is_no_version(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that has failed leaves none that a restore would take."""
    checkpointer = opened(keep=3)
    checkpointer.save(1, {"x": np.ones(3)})
    checkpointer.wait()

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "symlink_to", refused)
        checkpointer.save(2, {"x": np.ones(3)})
        with pytest.raises(CheckpointError, match="Operation not permitted"):
            checkpointer.wait()
    assert [one.step for one in versions.versions(checkpointer.folder)] == [1]
    checkpointer.save(3, {"x": np.ones(3)})
    restored = checkpointer.restore()
    assert restored is not None and restored.step == 3
    assert checkpoint.restore(checkpointer.folder, step=1) is not None
    assert not list(checkpointer.folder.glob(".0*"))


def test_a_version_that_is_read_is_pruned_later(opened: Opener) -> None:
    checkpointer = opened(keep=1)
    checkpointer.save(1, {"x": np.ones(3)})
    checkpointer.wait()
    with reading(versions.versions(checkpointer.folder)[0].path / versions.MANIFEST):
        for step in (2, 3):
            checkpointer.save(step, {"x": np.ones(3)})
            checkpointer.wait()
        assert [one.step for one in versions.versions(checkpointer.folder)] == [1, 3]
    checkpointer.save(4, {"x": np.ones(3)})
    checkpointer.wait()
    assert [one.step for one in versions.versions(checkpointer.folder)] == [4]
