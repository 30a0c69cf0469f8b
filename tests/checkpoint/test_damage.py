"""Whatever becomes of a version's files, what is restored is the newest whole version, or a clear error.

Each case damages files of one to three versions that two ranks wrote, at random places. `WILKINS_TEST_KILLS` says how
many cases (`make soak`: more of them), `WILKINS_TEST_SEED` which.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs.same_state import same

from support.running import MPIEXEC, must_run
from wilkins.tasks import checkpoint
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.clearing import damage

from .conftest import Opener

pytestmark = pytest.mark.needs(MPIEXEC)
PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"
CASES = int(os.environ.get("WILKINS_TEST_KILLS", "40"))
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
STEPS = (0, 1, 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Any]]:
    """Three versions of two ranks, in one file and in two, and what one rank restores of each."""
    folder = tmp_path_factory.mktemp("whole")
    for files in (1, 2):
        words = [
            "run",
            str(folder / str(files)),
            str(len(STEPS)),
            "0",
            json.dumps({"files": files, "keep": len(STEPS)}),
        ]
        must_run(folder, MPIEXEC, "-n", "2", sys.executable, PROGRAM, *words, timeout=150)
    with Checkpointer(folder / "2") as checkpointer:
        restored = [checkpointer.restore(step=step) for step in STEPS]
    return folder, {one.step: one.state for one in restored if one is not None}


def flipped(path: Path, draws: random.Random, _: list[Path]) -> None:
    raw = bytearray(path.read_bytes())
    raw[draws.randrange(len(raw))] ^= 1 << draws.randrange(8)
    path.write_bytes(raw)


def cut(path: Path, draws: random.Random, _: list[Path]) -> None:
    os.truncate(path, draws.randrange(path.stat().st_size))


def longer(path: Path, draws: random.Random, _: list[Path]) -> None:
    with path.open("ab") as file:
        file.write(draws.randbytes(draws.randint(1, 9000)))


def gone(path: Path, _: random.Random, __: list[Path]) -> None:
    path.unlink()


def zeros(path: Path, draws: random.Random, _: list[Path]) -> None:
    """As a page that never reached the disk."""
    size = path.stat().st_size
    begin = draws.randrange(size) // 4096 * 4096
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(bytes(min(4096, size - begin)))


def a_folder(path: Path, _: random.Random, __: list[Path]) -> None:
    path.unlink()
    path.mkdir()


def another_version_s(path: Path, draws: random.Random, intact: list[Path]) -> None:
    shutil.copyfile(draws.choice([one for one in intact if one.name != path.parent.name]) / path.name, path)


def another_file_s(path: Path, draws: random.Random, intact: list[Path]) -> None:
    mine = next(one for one in intact if one.name == path.parent.name)
    shutil.copyfile(draws.choice(sorted(one for one in mine.iterdir() if one.name != path.name)), path)


KINDS: list[Callable[[Path, random.Random, list[Path]], None]] = [
    flipped, flipped, flipped, cut, longer, gone, zeros, a_folder, another_version_s, another_file_s,
]  # fmt: skip


@pytest.mark.usual("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
@pytest.mark.parametrize("number", range(CASES))
def test_files_are_damaged(tmp_path: Path, whole: tuple[Path, dict[int, Any]], number: int) -> None:
    draws = random.Random(f"{SEED} {number}")
    folder = tmp_path / "versions"
    source = whole[0] / draws.choice("12")
    shutil.copytree(source, folder, symlinks=True)
    found = [one.path for one in versions.versions(folder)]
    intact = [one.path for one in versions.versions(source)]
    done = []
    for path in draws.sample(found, draws.choice([1, 1, 2, 3])):
        for file in draws.sample(sorted(path.iterdir()), draws.choice([1, 1, 2])):
            kind = draws.choice(KINDS)
            kind(file, draws, intact)
            done.append(f"{kind.__name__} {file.relative_to(folder)}")
    latest = folder / "latest"
    if draws.random() < 0.3:
        latest.unlink()
        if draws.random() < 0.7:
            latest.symlink_to(draws.choice([*(one.name for one in found), "nowhere", "000001-step-0/data-0.bin"]))
        done.append("latest")
    print(done)
    good = [int(path.name.rpartition("-")[2]) for path in found if same_bytes(path, source / path.name)]
    with Checkpointer(folder, keep=4) as checkpointer:
        try:
            restored = checkpointer.restore()
        except CheckpointError as error:
            assert not good and all(path.name in str(error) for path in found), str(error)
            assert not latest.is_symlink()
        else:
            assert restored is not None and same(restored.state, whole[1][restored.step])
            assert restored.step >= max(good, default=-1)
            assert latest.resolve() == restored.path.resolve()
        checkpointer.save(9, {"x": 9})
        restored = checkpointer.restore()
        assert restored is not None and restored.state == {"x": 9} and not restored.skipped
    if latest.is_symlink():
        assert not damage(next(one for one in versions.versions(folder) if one.name == latest.readlink().name))


def same_bytes(path: Path, other: Path) -> bool:
    """Whether a version's files are as they were written."""
    files = sorted(one.name for one in other.iterdir())
    return files == sorted(one.name for one in path.iterdir()) and all(
        (path / one).is_file() and (path / one).read_bytes() == (other / one).read_bytes() for one in files
    )


@pytest.mark.usual("new")
@pytest.mark.parametrize("given", [False, True], ids=["new", "in place"])
def test_blocks_that_threads_read_are_compared(opened: Opener, tmp_path: Path, given: bool) -> None:
    """Large arrays go to their places at once, many small ones by a buffer; what is damaged in any block is found."""
    checkpointer = opened(block=1 << 20, keep=2)
    chance = np.random.default_rng(1)
    state = {f"large {n}": chance.random(300_000) for n in range(4)} | {f"{n}": chance.random(50) for n in range(4000)}
    for step in (1, 2):
        state["0"][:] = step
        checkpointer.save(step, state)
        checkpointer.wait()
    target = {name: np.zeros_like(one) for name, one in state.items()} if given else None
    restored = checkpointer.restore(target)
    assert restored is not None and restored.step == 2
    assert all(np.array_equal(restored.state[name], one) for name, one in state.items())
    data = tmp_path / "latest" / "data-0.bin"
    size = versions.read_manifest(tmp_path / "latest").streams[0].bytes  # the file has whole pages
    assert size > 10 << 20
    for place in (5, size // 2, size - 1):
        with data.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1]))
        restored = checkpoint.restore(tmp_path)
        assert restored is not None and restored.step == 1 and len(restored.skipped) == 1
        assert (restored.state["0"] == 1).all() and np.array_equal(restored.state["large 3"], state["large 3"])
        with data.open("r+b") as file:
            file.seek(place)
            file.write(bytes([byte]))
