"""The points at which tests kill programs are met as often as the program does what they are named for."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.kill_points import POINTS, counted_in, kill_at
from support.running import MPIEXEC, must_run, run_tree

from .test_kills import PROGRAM

SAVES, KEEP, EVERY = 6, 2, 2
OF_VERSIONS = {"save.planned", "save.captured", "flush.begun", "flush.written", "flush.synced", "commit.voted"}
OF_PARTNERS = {"partners.sent", "partners.coded", "partners.prepared", "partners.renamed"}
OF_RESCUES = {"decode.begun", "decode.piece", "decode.written"}


def met(folder: Path, argv: list[str]) -> dict[int, Counter[str]]:
    """How often each rank of a program gets to each point."""
    counts = folder / "counts"
    counts.mkdir(exist_ok=True)
    done = run_tree(argv, 120, folder, counted_in(counts))
    assert done.code == 0, done.err
    found = {int(file.name): Counter(file.read_text().split()) for file in counts.iterdir()}
    for file in counts.iterdir():
        file.unlink()
    return found


def argv(folder: Path, steps: int, **options: object) -> list[str]:
    return [sys.executable, str(PROGRAM), "run", str(folder / "versions"), str(steps), "0", json.dumps(options)]


def test_points_of_a_program_without_ranks(tmp_path: Path) -> None:
    """On storage alone, restored, and with memory, of which every second version is copied to storage."""
    every = met(tmp_path, argv(tmp_path, SAVES, keep=KEEP))[0]
    assert every.pop("flush.block") % SAVES == 0
    expected = dict.fromkeys([*OF_VERSIONS, "commit.manifest", "commit.renamed", "commit.latest"], SAVES)
    assert every == {**expected, **dict.fromkeys(["prune.hidden", "prune.removed"], SAVES - KEEP)}
    again = met(tmp_path, argv(tmp_path, SAVES, keep=KEEP))[0]
    assert again == {"restore.verified": 1, "restore.read": 1}
    both = met(tmp_path, argv(tmp_path, 2 * SAVES, keep=KEEP, memory=str(tmp_path / "memory"), storage_every=EVERY))[0]
    assert both["save.planned"] == SAVES and both["commit.latest"] == SAVES + SAVES // EVERY
    assert both["copy.begun"] == both["copy.synced"] == SAVES // EVERY and both["memory.hidden"] == 1


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC, "python:pyeclib")
def test_points_of_four_nodes(tmp_path: Path) -> None:
    """Ranks are told apart; a node is lost, and rescued. With the test above, every point is met."""
    alone = met(tmp_path, argv(tmp_path, SAVES, keep=KEEP, memory=str(tmp_path / "memory")))[0]
    given = {"nodes": 4, "partners": [3, 1], "memory": str(tmp_path / "memory-{node}"), "storage_every": SAVES}
    launch = [MPIEXEC, "-n", "4"]
    folder = tmp_path / "partners"
    folder.mkdir()
    saved = [*launch, *argv(folder, 20, keep=KEEP, **given)]
    assert run_tree(saved, 120, folder, kill_at("save.planned", 5, 1)).code != 0
    for file in (tmp_path / "memory-node3").iterdir():
        must_run(tmp_path, "rm", "-r", file)
    found = met(folder, [*launch, *argv(folder, SAVES, keep=KEEP, **given)])
    assert sorted(found) == [0, 1, 2, 3]
    for rank in found:
        assert found[rank].keys() >= OF_VERSIONS | OF_PARTNERS
        assert "commit.renamed" not in found[rank] or rank == 0
    assert found[0].keys() >= OF_RESCUES
    assert POINTS.keys() == alone.keys() | found[0].keys()
