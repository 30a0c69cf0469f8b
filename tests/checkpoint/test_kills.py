"""Whenever a rank is killed, what is restored is the newest whole version, bit by bit as it was saved.

`WILKINS_TEST_KILLS` says at how many random moments (`make soak`: more of them, and every rank at every point);
`WILKINS_TEST_SEED` at which.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support import kill_points
from support.running import MPIEXEC, Tree, run_tree, started_tree, wait_for
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.clearing import damage

PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"
FULL = "WILKINS_TEST_KILLS" in os.environ
KILLS = int(os.environ.get("WILKINS_TEST_KILLS", "18"))
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
LIMIT = 120
POINTS = [one for one in kill_points.POINTS if not one.startswith(("partners", "decode"))]
"""The others are met by jobs on several nodes: `test_partners.py`."""
OF_LEVELS = ("copy.begun", "copy.synced", "memory.hidden")
"""Points that are met only by programs that keep versions in memory, too."""
OF_ALL_RANKS = [one for one in POINTS if one.startswith(("save", "flush", "copy", "restore", "commit.voted"))]
"""The others are met by rank 0 alone."""


def argv(ranks: int, folder: Path, steps: int, pause: float = 0.0, memory: Path | None = None) -> list[str]:
    """The program, on some ranks; it checks what it resumes from."""
    launch = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
    options: dict[str, object] = {"keep": 2}
    if memory is not None:
        options |= {"memory": str(memory), "storage_every": 2}
    return [*launch, sys.executable, str(PROGRAM), "run", str(folder), str(steps), str(pause), json.dumps(options)]


def told(out: str, word: str) -> int:
    """The last step that a program has told of; -1: none. A kill may have cut the last line short."""
    return max((int(step) for step in re.findall(rf"^{word} (\d+)\n", out, re.MULTILINE)), default=-1)


def check(*folders: Path) -> int:
    """All versions are whole, and `latest` leads to one; returns the newest one's step, -1 if there is none."""
    newest = (0, -1)
    for folder in folders:
        found = versions.versions(folder)
        for version in found:
            assert not damage(version)
            newest = max(newest, (version.serial, version.step))
        latest = folder / "latest"
        if latest.is_symlink():
            assert latest.resolve() in [one.path.resolve() for one in found], f"latest leads to {latest.readlink()}"
        else:  # killed between the first version and the link to it, or when the link was removed before the versions
            assert len(found) <= (1 if folder is folders[0] else 2)
    return newest[1]


def killed_and_resumed(tmp_path: Path, ranks: int, point: str, count: int, rank: int) -> None:
    """Kill a rank when it is at a point, then let the program go on to its end."""
    folder, memory = tmp_path / "versions", tmp_path / "memory" if point in OF_LEVELS else None
    folders = [one for one in (folder, memory) if one is not None]
    if point.startswith("restore"):
        count = 1
        assert run_tree(argv(ranks, folder, 2), LIMIT, tmp_path).code == 0
    if point == "memory.hidden":
        count = 1
    killed = run_tree(argv(ranks, folder, 8, memory=memory), LIMIT, tmp_path, kill_points.kill_at(point, count, rank))
    assert killed.code == -signal.SIGKILL if ranks == 1 else killed.code != 0, killed.err
    newest = check(*folders)
    assert newest >= told(killed.out, "durable")
    again = run_tree(argv(ranks, folder, 8, memory=memory), LIMIT, tmp_path)
    assert again.code == 0, again.err
    assert told(again.out, "resumed") == newest
    assert check(folder) == 7
    assert (folder / "latest").readlink().name == versions.versions(folder)[-1].name
    assert not [one for one in folder.iterdir() if one.name.endswith((".new", ".old"))]
    assert memory is None or not memory.exists()


@pytest.mark.usual("3-flush.block", "3-commit.renamed")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("count", [1, 3] if FULL else [3])
def test_killed_at_every_point(tmp_path: Path, point: str, count: int) -> None:
    killed_and_resumed(tmp_path, 1, point, count, 0)


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize(
    ("point", "rank"),
    [(point, rank) for point in POINTS for rank in (0, 2) if rank == 0 or point in OF_ALL_RANKS]
    if FULL
    else [("flush.block", 2), ("flush.synced", 0), ("commit.voted", 2), ("commit.renamed", 0), ("copy.synced", 2)],
)
def test_a_rank_is_killed_at_a_point(tmp_path: Path, point: str, rank: int) -> None:
    """One of three: the others find out, and end."""
    killed_and_resumed(tmp_path, 3, point, 3, rank)


@pytest.mark.usual("0")
@pytest.mark.parametrize("number", range(-(-KILLS // 3)))
def test_killed_at_a_random_moment(tmp_path: Path, number: int, record_property: Callable[[str, object], None]) -> None:
    """Of saving, flushing, copying, committing, pruning and restoring, three times; one rank, or all at once."""
    moments = random.Random(f"{SEED} {number}")
    ranks = moments.choice([1, 1, 2, 3]) if Path(MPIEXEC).exists() else 1
    folder, memory = tmp_path / "versions", tmp_path / "memory" if moments.random() < 0.4 else None
    folders = [one for one in (folder, memory) if one is not None]
    durable = newest = -1
    for _ in range(3):
        with started_tree(argv(ranks, folder, 10_000, moments.choice([0, 0.01, 0.05]), memory), tmp_path) as tree:
            whom = kill_at_a_moment(tree, folders, ranks, moments)
            out = (tmp_path / ".stdout").read_text()
        record_property("moment", f"{moment_of(out, folders)}, {whom} of {ranks}")
        if "restored\n" in out:
            assert told(out, "resumed") == newest, "the newest whole version was not restored"
        newest = check(*folders)
        durable = max(durable, told(out, "durable"))
        assert newest >= durable, "a version that was on storage was lost"
        if memory is not None and moments.random() < 0.3:  # the node has failed, too
            shutil.rmtree(memory, ignore_errors=True)
            durable = newest = check(folder)


def kill_at_a_moment(tree: Tree, folders: list[Path], ranks: int, moments: random.Random) -> str:
    """While it starts, while it restores, or later; returns whom."""
    stage = moments.choice(["start", "restoring", "running", "running", "running"])
    out = tree.folder / ".stdout"
    if stage == "start":
        time.sleep(moments.random() * 1.2)
    elif stage == "restoring":
        wait_for(lambda: "restoring" in out.read_text(), LIMIT, "it restores")
        time.sleep(moments.random() * 0.03)
    else:
        before = {one.name for folder in folders for one in versions.versions(folder)}
        wait_for(
            lambda: {one.name for folder in folders for one in versions.versions(folder)} - before, LIMIT, "a version"
        )
        time.sleep(moments.random() * 0.4)
    found = dict(re.findall(r"^rank (\d+) is process (\d+)\n", out.read_text(), re.MULTILINE))
    victim = moments.choice(["all", *map(str, range(ranks))])
    if ranks == 1 or victim not in found:
        tree.kill()
        return "all"
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(found[victim]), signal.SIGKILL)
    finished = tree.wait(LIMIT)
    assert finished.code != 0, finished.out
    return f"rank {victim}"


def moment_of(out: str, folders: list[Path]) -> str:
    """What the job was doing when it was killed, by what it has left."""
    names = [one for folder in folders if folder.exists() for one in folder.iterdir() if one.name.startswith(".0")]
    if "restoring\n" not in out:
        return "starting"
    if "restored\n" not in out:
        return "restoring"
    if any(one.suffix == ".old" for one in names):
        return "pruning"
    if any((one / versions.MANIFEST).exists() for one in names):
        return "committing"
    if any(any(one.iterdir()) for one in names):
        return "flushing"
    return "saving"
