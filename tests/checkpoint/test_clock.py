"""A clock that jumps, years ahead and back, while a program saves, when it is killed and when it restores."""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import pytest
from programs.build import build

from support.running import MPIEXEC, run_tree, started_tree, wait_for
from wilkins.cli import main
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.clearing import damage

pytestmark = pytest.mark.needs("gcc")
PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"
YEAR = 365 * 86400
LIMIT = 60


@pytest.mark.usual("2")
@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.needs(MPIEXEC))])
def test_a_clock_that_jumps(tmp_path: Path, ranks: int, capsys: pytest.CaptureFixture[str]) -> None:
    """What is newest is decided by no clock, and nothing waits for one; `time` in a manifest is for people."""
    folder, memory, clock = tmp_path / "versions", tmp_path / "memory", tmp_path / "clock"
    jumps = itertools.cycle((-80 * YEAR, 10 * YEAR, -YEAR, 70 * YEAR))
    jump(clock, next(jumps))
    env = {"LD_PRELOAD": str(build("clock_moves.c", "gcc", "-shared", "-fPIC")), "CLOCK_MOVES": str(clock)}
    launch = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
    options = json.dumps({"keep": 20, "rate": 3e8, "memory": str(memory), "storage_every": 2})
    program = [*launch, sys.executable, str(PROGRAM), "run", str(folder)]
    newest, times = -1, []
    for _ in range(2):
        with started_tree([*program, "10000", "0.02", options], tmp_path, env) as tree:
            for _ in range(3):
                before = last_step(folder)
                wait_for(lambda: last_step(folder) >= before + 4, LIMIT, "versions")  # noqa: B023
                times.append(versions.read_manifest(versions.versions(folder)[-1].path).time)
                jump(clock, next(jumps))
            time.sleep(0.1)
            tree.kill()
            out = (tmp_path / ".stdout").read_text()
        assert newest < 0 or f"resumed {newest}\n" in out
        newest = max(last_step(folder), last_step(memory))
        assert not any(damage(one) for one in versions.versions(folder))
    assert max(times) - min(times) > 50 * YEAR, "the clock did not jump"
    assert main(["ckpt", "list", str(folder)]) == 0
    assert versions.versions(folder)[-1].name in capsys.readouterr().out
    jump(clock, -60 * YEAR)
    ended = run_tree([*program, str(newest + 3), "0", options], LIMIT, tmp_path, env)
    assert ended.code == 0, ended.err
    assert f"resumed {newest}\n" in ended.out
    assert last_step(folder) == newest + 2 and not memory.exists()
    assert (folder / "latest").readlink().name == versions.versions(folder)[-1].name


def last_step(folder: Path) -> int:
    """The newest version's, -1 if there is none."""
    found = versions.versions(folder)
    return found[-1].step if found else -1


def jump(clock: Path, seconds: int) -> None:
    """Let the clock of all that map the file be so many seconds off."""
    with clock.open("r+b" if clock.exists() else "wb") as file:
        file.write(seconds.to_bytes(8, sys.byteorder, signed=True))
