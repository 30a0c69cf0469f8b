"""Versions in the memory of the node: there at once, restored first, copied to storage, freed at the end."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from support import MPIEXEC, must_run, run_tree
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, versions
from wilkins.tasks.checkpoint.faults import VARIABLE
from wilkins.tasks.checkpoint.levels import memory_of

PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"


def steps_in(folder: Path) -> list[int]:
    return [one.step for one in versions.versions(folder)]


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.needs(MPIEXEC))])
def test_what_storage_does_not_have_yet_comes_from_memory(tmp_path: Path, ranks: int) -> None:
    """Every third version goes to storage; the program is killed after the eighth is in memory."""
    storage, memory = tmp_path / "storage", tmp_path / "memory"
    launch = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
    options = json.dumps({"memory": str(memory), "storage_every": 3})
    command: list[str | Path] = [*launch, sys.executable, PROGRAM, "run", storage, "20", "0", options]
    # Two of the renames up to the eighth in memory were those of copies on storage.
    killed = run_tree(command, 120, tmp_path, {VARIABLE: "kill=commit.renamed:10,rank=0"})
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
