"""Versions in the memory of the node: there at once, restored first, copied to storage, freed at the end."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.kill_points import kill_at
from support.running import MPIEXEC, must_run, run_tree
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
from wilkins.tasks.checkpoint.errors import Damaged
from wilkins.tasks.checkpoint.storage import levels, versions
from wilkins.tasks.checkpoint.storage.contents import Contents
from wilkins.tasks.checkpoint.storage.files import Pace
from wilkins.tasks.checkpoint.storage.levels import memory_of
from wilkins.tasks.group import Group

PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"


def steps_in(folder: Path) -> list[int]:
    return [one.step for one in versions.versions(folder)]


@pytest.mark.usual("2")
@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.needs(MPIEXEC))])
def test_what_storage_does_not_have_yet_comes_from_memory(tmp_path: Path, ranks: int) -> None:
    """Every third version goes to storage; the program is killed after the eighth is in memory."""
    storage, memory = tmp_path / "storage", tmp_path / "memory"
    launch = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
    options = json.dumps({"memory": str(memory), "storage_every": 3})
    command: list[str | Path] = [*launch, sys.executable, PROGRAM, "run", storage, "20", "0", options]
    # Two of the renames up to the eighth in memory were those of copies on storage.
    killed = run_tree(command, 120, tmp_path, kill_at("commit.renamed", 10, 0))
    assert killed.code in (-signal.SIGKILL, signal.SIGKILL), killed.err
    assert (steps_in(memory)[-1], steps_in(storage)[-1]) == (7, 5)
    out = must_run(tmp_path, *command)
    assert "resumed 7" in out
    assert not memory.exists() and steps_in(storage)[-1] == 19
    assert "resumed 19" in must_run(tmp_path, *command)


def test_damage_in_memory(tmp_path: Path) -> None:
    """What is damaged there is restored from storage, and never copied there."""
    checkpointer = Checkpointer(tmp_path / "storage", memory=tmp_path / "memory", storage_every=2)
    for step in range(4):
        checkpointer.save(step, {"x": step})
    checkpointer.wait()
    (tmp_path / "memory" / "000004-step-3" / "manifest.json").write_text("{}")
    restored = checkpointer.restore()
    assert restored is not None and restored.state == {"x": 3} and restored.path.parent == tmp_path / "storage"
    checkpointer.save(4, {"x": 4})
    checkpointer.wait()
    assert steps_in(tmp_path / "storage") == [1, 3]
    (tmp_path / "memory" / "000005-step-4" / "index-0.json").write_text("{}")
    (tmp_path / "memory" / "000005-step-4" / "manifest.json").write_text("{}")
    with pytest.raises(CheckpointError, match="it is in memory only: the version in memory has changed"):
        checkpointer.close()
    assert steps_in(tmp_path / "storage") == [1, 3] and (tmp_path / "memory").exists()


def test_whose_bytes_are_damaged_in_memory(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path / "storage", memory=tmp_path / "memory", storage_every=2)
    checkpointer.save(0, {"w": np.arange(1000.0), "layer": {"bias": np.arange(3.0)}})
    checkpointer.wait()
    data = tmp_path / "memory" / "000001-step-0" / "data-0.bin"
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    with pytest.raises(CheckpointError, match=r"do not match their digest; they are of .*layer/bias"):
        checkpointer.close()


def test_a_failing_program_leaves_its_memory_to_the_next(tmp_path: Path) -> None:
    memory = memory_of(tmp_path)
    try:
        with pytest.raises(ZeroDivisionError), Checkpointer(tmp_path, memory=True, storage_every=9) as checkpointer:
            checkpointer.save(1, {"x": 1})
            raise ZeroDivisionError
        assert steps_in(memory) == [1] and not steps_in(tmp_path)
        with Checkpointer(tmp_path, memory=True, storage_every=9) as checkpointer:
            restored = checkpointer.restore()
            assert restored is not None and restored.state == {"x": 1}
            checkpointer.save(2, {"x": 2})
        assert steps_in(tmp_path) == [2] and not memory.exists()
    finally:
        if memory.exists():
            import shutil

            shutil.rmtree(memory)


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
def test_leaders_take_the_streams_of_other_ranks_to_storage(tmp_path: Path) -> None:
    """Four ranks, two files; three ranks restore what was written."""
    options = json.dumps({"memory": str(tmp_path / "memory"), "files": 2, "leaders": True})
    must_run(tmp_path, MPIEXEC, "-n", "4", sys.executable, PROGRAM, "run", tmp_path / "storage", "3", "0", options)
    with Contents(versions.versions(tmp_path / "storage")[-1].path) as contents:
        contents.verify()
        assert len(contents.manifest.files) == 2 and len(contents.manifest.streams) == 4
    out = must_run(tmp_path, MPIEXEC, "-n", "3", sys.executable, PROGRAM, "restore", tmp_path / "storage", "4")
    assert sorted(out.split("\n")[:-1]) == [f"rank {rank} of 3: all right" for rank in range(3)]


@pytest.mark.needs(MPIEXEC)
def test_the_leader_needs_no_other_rank_to_write(tmp_path: Path) -> None:
    """Rank 0 is alone: as a leader it copies the whole file, else its own stream only."""

    class First(Group):
        size = 2

        def allgather(self, value: Any) -> list[Any]:
            return [value, value]

    options = json.dumps({"files": 1})
    must_run(tmp_path, MPIEXEC, "-n", "2", sys.executable, PROGRAM, "run", tmp_path / "memory", "1", "0", options)
    (version,) = versions.versions(tmp_path / "memory")
    for leaders in (True, False):
        storage = tmp_path / str(leaders)
        storage.mkdir()
        memory = version.path.parent
        assert levels.copy(version.name, memory, storage, First(), Pace(None), 2, files=1, leaders=leaders) == ""
        with Contents(storage / version.name) as contents:
            if leaders:
                contents.verify()
            else:
                with pytest.raises(Damaged):
                    contents.verify()


def test_leaders_need_memory_to_read_from(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="give memory=True as well"):
        Checkpointer(tmp_path, leaders=True)
