"""Parity over any number of nodes and ranks, with parts of any size: what m losses leave is all there, more is told."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs.same_state import same

from support.running import mounted
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Partners
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.clearing import damage
from wilkins.tasks.checkpoint.storage.erasure import groups, spans
from wilkins.tasks.checkpoint.storage.node_parts import PARITY, read_part

from .rank_threads import ThreadRanks, on_ranks

pytestmark = pytest.mark.needs("python:pyeclib")


def state_of(rank: int, sizes: list[int], step: int = 0) -> dict[str, Any]:
    """Of a rank; some have nothing but plain values."""
    rng = np.random.default_rng([rank, step])
    return {
        "all": np.random.default_rng(step).integers(0, 256, 30_001, np.uint8),
        "own": rng.integers(0, 256, sizes[rank], np.uint8),
        "rank": rank,
        "step": step,
    }


class Job:
    """Ranks on nodes, in a folder."""

    def __init__(self, folder: Path, nodes: list[int], **options: Any) -> None:
        self.folder, self.nodes = folder, nodes
        self.options: dict[str, Any] = {
            "replicated": ("all",),
            "block": 4096,
            "storage_every": 1000,
            "niceness": 0,
        } | options

    def memory(self, node: int) -> Path:
        return self.folder / f"memory{node}"

    def checkpointer(self, ranks: ThreadRanks) -> Checkpointer:
        node = self.nodes[ranks.rank]
        return Checkpointer(
            self.folder / "storage", ranks=ranks, memory=self.memory(node), node=f"node {node}", **self.options
        )

    def save(self, sizes: list[int], steps: int = 1) -> None:
        """Save versions, and fail: memory stays as it is."""

        def work(ranks: ThreadRanks) -> None:
            checkpointer = self.checkpointer(ranks)
            try:
                for step in range(steps):
                    checkpointer.save(step, state_of(ranks.rank, sizes, step))
                checkpointer.wait()
            finally:
                checkpointer.close(failed=True)

        on_ranks(len(self.nodes), work)

    def restore(self) -> list[Any]:
        """What each rank restores."""

        def work(ranks: ThreadRanks) -> Any:
            with self.checkpointer(ranks) as checkpointer:
                return checkpointer.restore()

        return on_ranks(len(self.nodes), work)

    def parts(self) -> list[Path]:
        return [one.path for node in sorted(set(self.nodes)) for one in versions.versions(self.memory(node))]


@pytest.mark.usual("0", "1", "2", "3", "4", "5")
@pytest.mark.parametrize("number", range(25))
def test_any_layout(tmp_path: Path, number: int) -> None:
    """Random codes, nodes, ranks and sizes; random losses, up to m per group, or one more."""
    draws = random.Random(number)
    data, parity = draws.choice([(1, 1), (2, 1), (3, 1), (2, 2), (1, 2), (3, 2)])
    count = draws.randint(data + parity, 2 * (data + parity) + 1)
    nodes = [node for node in range(count) for _ in range(draws.choice([1, 1, 2]))]
    if draws.random() < 0.3:
        draws.shuffle(nodes)  # ranks placed round about
        nodes = [list(dict.fromkeys(nodes)).index(node) for node in nodes]
    sizes = [draws.choice([0, 1, 5000, 70_000, 200_000]) for _ in nodes]
    job = Job(tmp_path, nodes, partners=Partners(data, parity))
    job.save(sizes)
    assert len(job.parts()) == count and not versions.versions(tmp_path / "storage")
    assert not any(damage(versions.versions(path.parent)[0]) for path in job.parts())
    lost = [node for group in groups(count, Partners(data, parity)) for node in draws.sample(group, parity)]
    whole = draws.random() < 0.7
    if not whole:
        lost.append(draws.choice([node for node in range(count) if node not in lost]))
    for node in lost:
        if draws.random() < 0.5:
            shutil.rmtree(job.memory(node))
        else:
            for path in job.parts():
                if path.parent == job.memory(node):
                    (path / "manifest.json").write_text("{}")
    if draws.random() < 0.5:  # other nodes and ranks than before, of which some have the parts
        kept = [node for node in range(count) if node not in lost]
        nodes = [node for node in [*kept, count, count + 1] for _ in range(draws.choice([1, 2]))]
        job = Job(tmp_path, nodes)
    if not (whole or job.parts()):
        assert job.restore() == [None] * len(nodes)  # nobody remembers that there was one
    elif not whole:
        with pytest.raises(
            CheckpointError, match=f"any {parity} may be lost, not more; to begin|its digest does not match"
        ):
            job.restore()
    for rank, one in enumerate(job.restore() if whole else []):
        assert one is not None and not one.skipped
        old = rank % len(sizes)
        expected = state_of(old, sizes)
        if rank >= len(sizes):
            assert one.missing == ("own",)
            del expected["own"]
        assert same(one.state, expected)
    assert not whole or not any(job.memory(node).exists() for node in set(nodes))


def test_pieces_of_all_nodes_are_bad(tmp_path: Path) -> None:
    """But never more than m of a stripe: a bad piece does not make its node a lost one."""
    sizes = [60_000, 40_000, 50_000, 60_000]
    job = Job(tmp_path, [0, 1, 2, 3], partners=Partners(2, 2))
    job.save(sizes)
    draws, bad = random.Random(3), 0
    parts = [read_part(path) for path in job.parts()]
    code = parts[0].sheet.code if parts[0].sheet else None
    assert code is not None
    (group,) = code.groups
    stripes = code.stripes(group)
    for stripe, piece in itertools.product(range(4), range(len(spans(group.chunk, code.piece)))):
        begin, _ = spans(group.chunk, code.piece)[piece]
        for fragment in draws.sample(range(4), 2):
            path, part = parts[stripes.member_with(stripe, fragment)].path, stripes.part_of(fragment)
            at = part * group.chunk + begin
            if fragment < stripes.data:
                stream = parts[0].manifest.streams[int(path.parent.name[-1])]
                if at >= stream.bytes:
                    continue
                flip(path / stream.file, at)
            else:
                flip(path / PARITY, at)
            bad += 1
    assert bad > 60
    restored = job.restore()
    assert all(same(one.state, state_of(rank, sizes)) and not one.skipped for rank, one in enumerate(restored))


def flip(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte[0] ^ 16]))


def test_without_parity(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Memory of several nodes survives the program; a lost node is named."""
    sizes = [10_000, 20_000, 0]
    job = Job(tmp_path, [0, 1, 1], storage_every=2)
    job.save(sizes, 3)
    shutil.copytree(tmp_path, tmp_path / "again", symlinks=True)
    restored = job.restore()
    assert [one.step for one in restored] == [2, 2, 2] and same(restored[1].state, state_of(1, sizes, 2))
    job = Job(tmp_path / "again", [0, 1, 1])
    shutil.rmtree(job.memory(1))
    assert [one.step for one in job.restore()] == [1, 1, 1]
    assert "it was in the memory of node 1, which is gone, and has no parity" in caplog.text


def test_every_second_version_has_parity(tmp_path: Path) -> None:
    sizes = [10_000] * 3
    job = Job(tmp_path, [0, 1, 2], partners=Partners(2, 1, every=2), keep=4)
    job.save(sizes, 4)
    assert [(path / PARITY).exists() for path in job.parts()] == [True, False, True, False] * 3
    shutil.rmtree(job.memory(2))
    restored = job.restore()
    assert [one.step for one in restored] == [2] * 3 and restored[0].skipped[0].startswith("000004-step-3: it was in")


def test_damage_on_storage_is_mended_from_memory(tmp_path: Path) -> None:
    """And what a restore has brought to storage is not copied once more at the end."""
    sizes = [10_000] * 3
    job = Job(tmp_path, [0, 1, 2], partners=Partners(2, 1))
    job.save(sizes)

    def work(ranks: ThreadRanks) -> int:
        with job.checkpointer(ranks) as checkpointer:
            restored = checkpointer.restore()
            assert restored is not None
            if ranks.rank == 0:
                flip(restored.path / "data-1.bin", 100)
            restored = checkpointer.restore()
            assert restored is not None and len(restored.skipped) == 1 and "data-1.bin" in restored.skipped[0]
            assert same(restored.state, state_of(ranks.rank, sizes))
            checkpointer.save(1, state_of(ranks.rank, sizes, 1))
            restored = checkpointer.restore()
            assert restored is not None and restored.step == 1
        return len(versions.versions(tmp_path / "storage"))

    assert on_ranks(3, work) == [2, 2, 2]
    assert not job.parts()
    assert not [damage(one) for one in versions.versions(tmp_path / "storage") if damage(one)]


def test_what_is_sent_is_capped(tmp_path: Path) -> None:
    """Each node sends its 90 KB once: at 200 KB/s that takes most of half a second."""
    job = Job(tmp_path, [0, 1, 2], partners=Partners(2, 1), rate=200_000.0)
    began = time.monotonic()
    job.save([80_000] * 3)
    assert time.monotonic() - began > 0.35


@pytest.mark.needs("root")
def test_full_memory_on_one_node(tmp_path: Path) -> None:
    """No node has the version then; the one before stays whole on all."""
    with mounted(tmp_path / "memory1", "400k"):
        job = Job(tmp_path, [0, 1, 2], partners=Partners(2, 1))
        with pytest.raises(CheckpointError, match=r"rank 1: cannot write .*parity.bin: No space left on device; fr"):
            job.save([140_000] * 3, 2)
        assert [path.name for path in job.parts()] == ["000001-step-0"] * 3, job.parts()
        assert not [one for node in range(3) for one in job.memory(node).glob(".0*")]
        shutil.rmtree(job.memory(0))
        assert [one.step for one in job.restore()] == [0] * 3


def test_a_half_renamed_version_is_finished(tmp_path: Path) -> None:
    """A job was killed when one node had renamed it; if none that has is left, it does not exist."""
    sizes = [10_000] * 3
    for lost, step in ((2, 1), (0, 0)):
        folder = tmp_path / str(lost)
        job = Job(folder, [0, 1, 2], partners=Partners(2, 1))
        job.save(sizes, 2)
        for node in (1, 2):
            path = job.memory(node) / "000002-step-1"
            path.rename(path.with_name(f".{path.name}.0123abcd.new"))
        shutil.rmtree(job.memory(lost))
        restored = job.restore()
        assert [one.step for one in restored] == [step] * 3
        assert same(restored[2].state, state_of(2, sizes, step))


def test_leaders_and_names(tmp_path: Path) -> None:
    """Leaders read on one node; a folder in the way is nobody's memory."""
    with pytest.raises(CheckpointError, match="leaders read in the memory of one node, and the ranks are on 2"):
        Job(tmp_path, [0, 1], leaders=True).save([1, 1])
    with pytest.raises(CheckpointError, match="2 data and 1 parity need 3 nodes, and the job has 2"):
        Job(tmp_path, [0, 1], partners=Partners(2, 1)).save([1, 1])
    job = Job(tmp_path, [0, 1], partners=Partners(1, 1))
    job.save([1, 1])
    assert json.loads((tmp_path / "storage" / ".memory").read_text())["nodes"] == ["node 0", "node 1"]
