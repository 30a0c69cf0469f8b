"""Whenever a rank is killed, what is restored is the newest whole version, bit by bit as it was saved.

`WILKINS_TEST_KILLS` says how many random moments are tried (`make soak`: more), `WILKINS_TEST_SEED` which.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from support import MPIEXEC, run_tree, started_tree, wait_for
from wilkins.tasks.checkpoint import versions
from wilkins.tasks.checkpoint.contents import Contents
from wilkins.tasks.checkpoint.faults import POINTS, VARIABLE

PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"
KILLS = int(os.environ.get("WILKINS_TEST_KILLS", "6"))
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
LIMIT = 120


def argv(ranks: int, folder: Path, steps: int, pause: float = 0.0) -> list[str]:
    """The program, on some ranks; it checks what it resumes from."""
    launch = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
    return [*launch, sys.executable, str(PROGRAM), "run", str(folder), str(steps), str(pause), json.dumps({"keep": 2})]


def told(out: str, word: str) -> int:
    """The last step that a program has told of; -1: none."""
    return max((int(step) for step in re.findall(rf"^{word} (\d+)$", out, re.MULTILINE)), default=-1)


def check(folder: Path) -> None:
    """All versions are whole, and `latest` leads to one."""
    found = versions.versions(folder)
    for version in found:
        with Contents(version.path) as contents:
            contents.verify()
    latest = folder / "latest"
    assert latest.is_symlink() is bool(found) or (len(found) == 1 and not latest.is_symlink())
    if latest.is_symlink():
        assert latest.exists(), f"latest leads to {latest.readlink()}, and there are {found}"


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("count", [1, 3])
def test_killed_at_every_point(tmp_path: Path, point: str, count: int) -> None:
    folder = tmp_path / "versions"
    restoring = point.startswith("restore")
    if restoring:
        assert run_tree(argv(1, folder, 2), LIMIT, tmp_path).code == 0
    env = {VARIABLE: f"kill={point}:{1 if restoring else count}"}
    killed = run_tree(argv(1, folder, 8), LIMIT, tmp_path, env)
    assert killed.code == -signal.SIGKILL, killed.err
    check(folder)
    again = run_tree(argv(1, folder, 8), LIMIT, tmp_path)
    assert again.code == 0, again.err
    assert told(again.out, "resumed") >= told(killed.out, "durable")
    check(folder)
    assert versions.versions(folder)[-1].step == 7
    assert not [one for one in folder.iterdir() if one.name.endswith((".new", ".old"))]


@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize(
    ("point", "rank"), [("flush.block", 1), ("flush.synced", 1), ("commit.voted", 0), ("commit.renamed", 0)]
)
def test_a_rank_is_killed_at_a_point(tmp_path: Path, point: str, rank: int) -> None:
    folder = tmp_path / "versions"
    killed = run_tree(argv(2, folder, 8), LIMIT, tmp_path, {VARIABLE: f"kill={point}:5,rank={rank}"})
    assert killed.code != 0
    check(folder)
    again = run_tree(argv(2, folder, 8), LIMIT, tmp_path)
    assert again.code == 0, again.err
    assert told(again.out, "resumed") >= told(killed.out, "durable")
    check(folder)
    assert versions.versions(folder)[-1].step == 7


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_random_moment(tmp_path: Path, number: int) -> None:
    """Of saving, flushing, committing, pruning and restoring, three times in a row."""
    moments = random.Random(f"{SEED} {number}")
    folder = tmp_path / "versions"
    ranks = 2 if number % 6 == 5 and Path(MPIEXEC).exists() else 1
    durable = -1
    for _ in range(3):
        with started_tree(argv(ranks, folder, 10_000, 0.01), tmp_path) as tree:
            if moments.random() < 0.7:
                before = set(folder.glob("0*")) if folder.exists() else set()
                wait_for(lambda: folder.exists() and set(folder.glob("0*")) != before, LIMIT, "a version")  # noqa: B023
                time.sleep(moments.random() * 0.4)
            else:  # while it starts or restores
                time.sleep(moments.random() * 1.5)
            tree.kill()
            out = (tmp_path / ".stdout").read_text()
        resumed = told(out, "resumed")
        if resumed >= 0 or "durable" in out:
            assert resumed >= durable, "a version that was on storage was lost"
        durable = max(durable, resumed, told(out, "durable"))
        check(folder)
