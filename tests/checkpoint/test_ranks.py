"""Several ranks: their parts become one version, on any number of files, restored by any number of ranks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.running import MPIEXEC, OWN_MOUNTS, must_run
from wilkins.tasks.checkpoint.engine.vote import Dissent, explain
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.contents import Contents

pytestmark = pytest.mark.needs(MPIEXEC)
PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"
REPLICATED = 300_001 + 7 * 8 + 3 * 50_000 * 8


def ranks(folder: Path, count: int, *words: str | Path) -> str:
    """Run the program on some ranks."""
    launch = [MPIEXEC, "-n", str(count)] if count > 1 else []
    return must_run(folder, *launch, sys.executable, PROGRAM, *words, timeout=150)


@pytest.mark.usual("2")
@pytest.mark.parametrize("saved", [2, 4])
def test_saved_by_some_restored_by_others(tmp_path: Path, saved: int) -> None:
    """On 1, 2, 3 and 4 ranks: shards, replicas, and what was a rank's own."""
    folder = tmp_path / "versions"
    ranks(tmp_path, saved, "run", folder, "3")
    for count in (1, 2, 3, 4):
        out = ranks(tmp_path, count, "restore", folder, str(saved))
        assert sorted(out.split("\n")[:-1]) == [f"rank {rank} of {count}: all right" for rank in range(count)]


@pytest.mark.usual("2-2")
@pytest.mark.parametrize(("files", "sizes"), [(1, 1), (2, 2), (9, 4)])
def test_ranks_share_the_work_and_the_files(tmp_path: Path, files: int, sizes: int) -> None:
    """Replicas are written once, each rank an equal part of them; four ranks' bytes go into M files."""
    folder = tmp_path / "versions"
    ranks(tmp_path, 4, "run", folder, "1", "0", json.dumps({"files": files}))
    (version,) = versions.versions(folder)
    manifest = versions.read_manifest(version.path)
    assert len(manifest.files) == sizes
    assert {one.name for one in version.path.iterdir()} >= set(manifest.files)
    with Contents(version.path) as contents:
        contents.verify()
        written = dict.fromkeys(contents.index(0).paths, 0)
        shares = [0] * 4
        for key, number in contents.index(0).paths.items():
            for rank, _, _, length in contents.index(0).entries[number].parts:
                written[key] += length
                shares[rank] += length if key not in ("grid", "own") else 0
    assert written["model/weight"] == 300_001 and written["optimizer/0/moment"] == 1_200_000
    assert sum(shares) == REPLICATED and max(shares) - min(shares) < 1000


@pytest.mark.usual("shape-gave different replicated state")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("corrupt", "not the same on all ranks: rank 2 differs from the majority"),
        ("shape", "gave different replicated state"),
        ("step", "gave different steps (rank 0: 1, rank 1: 2, rank 2: 3)"),
    ],
)
def test_all_ranks_are_told_of_the_trouble_of_one(tmp_path: Path, kind: str, words: str) -> None:
    """The version does not exist then; the one before stays, and the next one is written."""
    *told, names = map(json.loads, ranks(tmp_path, 3, "trouble", tmp_path / "versions", kind).splitlines())
    assert sorted(rank for rank, _ in told) == [0, 1, 2]
    assert all(words in text for _, text in told)
    assert names == [".lock", "000001-step-0", "000002-step-5", "latest"]


def test_statistics_of_each_rank_are_named_first() -> None:
    """Batch normalisation keeps each rank's own: the weights beside them in a block are not what differs."""
    keys = ["model/0.weight", "model/1.weight", "model/2.weight", "model/1.running_var"]
    told = explain([Dissent(0, 0, ())], keys)
    assert "in or next to model/1.running_var, model/0.weight, model/1.weight and 1 more, of which running" in told
    assert "running statistics" not in explain([Dissent(0, 0, ())], keys[:3])


@pytest.mark.nightly
@pytest.mark.needs("tmpfs")
def test_a_file_system_that_reserves_nothing(tmp_path: Path) -> None:
    """Such as NFS 3: ranks that share a file write to it all the same."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = 'mount -t ramfs none "$0" && "$@" && "$@"'
    program = [MPIEXEC, "-n", "3", sys.executable, str(PROGRAM), "run", str(folder / "versions"), "4", "0"]
    words = [*OWN_MOUNTS, "sh", "-c", mounted, str(folder), *program, '{"files": 1}']
    out = must_run(tmp_path, *words, timeout=150)
    assert "durable 3\n" in out and "resumed 3\n" in out
