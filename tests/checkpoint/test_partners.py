"""Versions in the memory of several nodes: any m of a group are lost, and what is restored is the newest, bit by bit.

Nodes are folders of one machine; ranks are told by name which is theirs, or are under host names of their own.
`WILKINS_TEST_KILLS` says at how many random moments (`make soak`: more of them, and every rank at every point), and how
often fragments are damaged; `WILKINS_TEST_SEED` at which.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import pytest

from support.kill_points import kill_at
from support.running import MPIEXEC, OWN_MOUNTS, mounted, must_run, run_tree, started_tree, wait_for
from wilkins.cli import main
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Partners
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.erasure import Coder, Stripes, chunk_bytes, groups
from wilkins.tasks.checkpoint.storage.node_parts import PARITY, SHEET, read_part

from .test_kills import check, told

PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"
FULL = "WILKINS_TEST_KILLS" in os.environ
CASES = -(-int(os.environ.get("WILKINS_TEST_KILLS", "12")) // 6)
SEED = int(os.environ.get("WILKINS_TEST_SEED", "1"))
LIMIT = 150
NODES = 4
needs = pytest.mark.needs(MPIEXEC, "python:pyeclib")
POINTS = (
    "partners.sent", "partners.coded", "partners.prepared", "partners.renamed", "prune.hidden", "prune.removed",
    "copy.synced", "memory.hidden", "decode.begun", "decode.piece", "decode.written",
)  # fmt: skip


@pytest.mark.parametrize(("size", "parity"), [(2, 1), (3, 1), (4, 1), (4, 2), (5, 3), (7, 2)])
def test_a_member_has_one_fragment_of_each_stripe(size: int, parity: int) -> None:
    """As many parity fragments on each; chunks and stripes lead to each other."""
    stripes = Stripes(size, parity)
    for stripe in range(size):
        assert sorted(stripes.member_with(stripe, fragment) for fragment in range(size)) == list(range(size))
        assert stripes.member_with(stripe, stripes.data) == stripe  # who makes parity keeps one
        for chunk in range(stripes.data):
            assert stripes.stripe_of(stripes.member_with(stripe, chunk), chunk) == stripe
    kept = [stripes.member_with(stripe, stripes.data + part) for stripe in range(size) for part in range(parity)]
    assert all(kept.count(member) == parity for member in range(size))


@pytest.mark.needs("python:pyeclib")
@pytest.mark.parametrize(("data", "parity"), [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2), (4, 3), (8, 2)])
def test_any_fragments_make_the_others(data: int, parity: int) -> None:
    """Every choice of k, pieces longer than what is coded in one call."""
    draws = random.Random(data)
    pieces = [draws.randbytes(64 * 5003) for _ in range(data)]
    coder = Coder(data, parity)
    made = [bytearray(64 * 5003) for _ in range(parity)]
    coder.parity([memoryview(one) for one in pieces], [memoryview(one) for one in made])
    every = [*pieces, *map(bytes, made)]
    for chosen in itertools.combinations(range(data + parity), data):
        assert coder.data({number: memoryview(every[number]) for number in chosen}) == pieces


@pytest.mark.parametrize(("nodes", "data", "parity"), [(2, 1, 1), (4, 3, 1), (9, 3, 1), (11, 2, 2), (64, 7, 1)])
def test_groups(nodes: int, data: int, parity: int) -> None:
    found = groups(nodes, Partners(data, parity))
    assert sorted(itertools.chain(*found)) == list(range(nodes))
    assert all(data + parity <= len(one) < 2 * (data + parity) for one in found)
    assert len(found) == 1 or not any(one + 1 == other for group in found for one, other in itertools.pairwise(group))


def test_chunks_hold_the_longest_member() -> None:
    assert chunk_bytes([0, 0], 1) == 0
    assert chunk_bytes([1, 700, 3], 2) == 384
    with pytest.raises(CheckpointError, match="3 data and 2 parity need 5 nodes, and the job has 4; give less"):
        groups(4, Partners(3, 2))
    with pytest.raises(CheckpointError, match="each must be positive"):
        Partners(0)
    with pytest.raises(CheckpointError, match="up to 16 nodes"):
        Partners(12, 5)


def test_what_partners_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory, nodes, and pyeclib; whoever is refused holds no lock."""
    with pytest.raises(CheckpointError, match="give memory=True as well"):
        Checkpointer(tmp_path, partners=Partners(1))
    with pytest.raises(CheckpointError, match="1 data and 1 parity need 2 nodes, and the job has 1"):
        Checkpointer(tmp_path, memory=tmp_path / "memory", partners=Partners(1))
    monkeypatch.setitem(sys.modules, "pyeclib.ec_iface", None)
    with pytest.raises(CheckpointError, match=r"pip install 'wilkins\[partners\]'"):
        Coder(2, 1)
    Checkpointer(tmp_path, memory=tmp_path / "memory").close()


def options(folder: Path, nodes: int = NODES, **more: Any) -> str:
    """What the program opens its folder with: memory per node, every third version on storage."""
    given = {"memory": str(folder / "memory-{node}"), "nodes": nodes, "partners": [3, 1], "storage_every": 3, "keep": 2}
    return json.dumps(given | more)


def launched(folder: Path, *words: str, ranks: int = NODES) -> list[str]:
    return [MPIEXEC, "-n", str(ranks), sys.executable, str(PROGRAM), words[0], str(folder / "versions"), *words[1:]]


def memories(folder: Path) -> list[Path]:
    return sorted(folder.glob("memory-*"))


def newest(folder: Path) -> int:
    """The step of the newest version that some node, or storage, has."""
    found = [one for where in (*memories(folder), folder / "versions") for one in versions.versions(where)]
    return max(((one.serial, one.step) for one in found), default=(0, -1))[1]


def lose(folder: Path, nodes: Iterable[int]) -> None:
    """Machines that reboot: what was in their memory is gone."""
    for node in nodes:
        shutil.rmtree(folder / f"memory-node{node}", ignore_errors=True)


class Saved(Protocol):
    """Makes a folder in which a job was killed: step 7 is in memory, 5 on storage."""

    def __call__(self, data: int, parity: int) -> Path: ...


@pytest.fixture(scope="module")
def killed_jobs() -> dict[tuple[int, int], Path]:
    return {}


@pytest.fixture
def saved(tmp_path: Path, killed_jobs: dict[tuple[int, int], Path], tmp_path_factory: pytest.TempPathFactory) -> Saved:
    def make(data: int, parity: int) -> Path:
        if (data, parity) not in killed_jobs:
            folder = killed_jobs[data, parity] = tmp_path_factory.mktemp("killed")
            words = launched(folder, "run", "20", "0", options(folder, partners=[data, parity]))
            done = run_tree(words, LIMIT, folder, kill_at("save.planned", 10, 1))
            assert done.code != 0, done.out
            # Step 7 is in memory on all nodes. The next one, if it came so far, is taken away.
            for where in (*memories(folder), folder / "versions"):
                for one in versions.versions(where):
                    if one.step > 7:
                        shutil.rmtree(one.path)
        return Path(shutil.copytree(killed_jobs[data, parity], tmp_path / "job", symlinks=True))

    return make


def restored(folder: Path, count: int) -> None:
    """Restore on so many ranks, each on a node of its own, comparing every bit."""
    given = options(folder, count, partners=None)
    out = must_run(folder, *launched(folder, "restore", "4", given, ranks=count), timeout=LIMIT)
    assert sorted(out.split("\n")[:-1]) == [f"rank {rank} of {count}: all right" for rank in range(count)]


@pytest.mark.usual("2-2-lost2-4")
@needs
@pytest.mark.parametrize(
    ("data", "parity", "lost", "count"),
    [(3, 1, [2], 4), (3, 1, [3], 3), (2, 2, [0, 3], 4), (2, 2, [2, 3], 2), (1, 3, [1, 2, 3], 1)],
)
def test_lost_nodes(saved: Saved, data: int, parity: int, lost: list[int], count: int) -> None:
    """All ranks are killed and m machines reboot: what only memory had comes back, on any number of ranks."""
    folder = saved(data, parity)
    assert newest(folder) == 7 and versions.versions(folder / "versions")[-1].step == 5
    lose(folder, lost)
    restored(folder, count)
    assert check(folder / "versions") == 7 and (folder / "versions" / "latest").readlink().name == "000008-step-7"
    assert not [one for one in memories(folder) if one.name[-1] in "0123"[:count]]


@pytest.mark.nightly
@needs
def test_more_than_m_nodes_are_lost(saved: Saved) -> None:
    """The newest on storage is restored, and it is said why no newer one."""
    folder = saved(3, 1)
    lose(folder, [1, 3])
    done = run_tree(launched(folder, "run", "10", "0", options(folder)), LIMIT, folder)
    assert done.code == 0 and told(done.out, "resumed") == 5, done.err
    assert "000008-step-7 in memory is left out: the memory of node1, node3 is gone" in done.err
    assert "any 1 may be lost, not more" in done.err
    assert check(folder / "versions") == 9 and not memories(folder)


def resumed(folder: Path, given: str, *, steps: int = 12) -> None:
    """Run a job to its end after one that was killed: it resumes from the newest version, and leaves nothing."""
    expected = newest(folder)
    done = run_tree(launched(folder, "run", str(steps), "0", given), LIMIT, folder)
    assert done.code == 0, done.err
    assert told(done.out, "resumed") == expected, done.err
    assert check(folder / "versions") == steps - 1
    assert not memories(folder)
    assert not [one for one in (folder / "versions").iterdir() if one.name.endswith((".new", ".old"))]


@pytest.mark.nightly
@needs
@pytest.mark.parametrize(
    ("point", "rank"),
    [(point, rank) for point in POINTS for rank in (0, 2)]
    if FULL
    else [("partners.coded", 2), ("partners.renamed", 0), ("prune.hidden", 2), ("decode.piece", 1)],
)
def test_an_agent_is_killed_at_a_point(saved: Saved, point: str, rank: int) -> None:
    """The others end, too. Then a node is lost, and the next job goes on from the newest version that any node has."""
    folder = saved(3, 1)
    given = options(folder)
    count = {"partners.sent": 7, "partners.coded": 7}.get(point, 1 if "hidden" in point or "decode" in point else 2)
    if point.startswith("decode"):
        lose(folder, [3])
    done = run_tree(launched(folder, "run", "12", "0", given), LIMIT, folder, kill_at(point, count, rank))
    assert done.code != 0, done.out
    durable = told(done.out, "durable")
    if not point.startswith("decode") and point != "memory.hidden":
        lose(folder, [1])
    assert newest(folder) >= max(durable, 7)
    resumed(folder, given)


def flipped(file: Path, draws: random.Random) -> None:
    raw = bytearray(file.read_bytes())
    raw[draws.randrange(len(raw))] ^= 1 << draws.randrange(8)
    file.write_bytes(raw)


def cut(file: Path, draws: random.Random) -> None:
    os.truncate(file, draws.randrange(file.stat().st_size))


def gone(file: Path, _: random.Random) -> None:
    file.unlink()


@pytest.mark.nightly
@needs
@pytest.mark.parametrize("number", range(CASES))
def test_fragments_are_damaged(saved: Saved, number: int) -> None:
    """What is damaged on m nodes counts as lost there; on more, an older version may be the newest one."""
    draws = random.Random(f"{SEED} {number}")
    folder = saved(2, 2)
    hit = draws.sample(range(NODES), [2, 3, 1, 4][number % 4])
    for node in hit:
        path = folder / f"memory-node{node}" / "000008-step-7"
        for file in draws.sample(sorted(path.iterdir()), draws.choice([1, 1, 2])):
            draws.choice([flipped, flipped, cut, gone])(file, draws)
    done = run_tree(launched(folder, "run", "9", "0", options(folder, partners=[2, 2])), LIMIT, folder)
    assert done.code == 0, done.err
    step = told(done.out, "resumed")
    assert step == 7 or (len(hit) > 2 and step >= 5 and "000008-step-7" in done.err and "left out" in done.err), (
        done.err
    )
    assert check(folder / "versions") == 8 and not memories(folder)


@pytest.mark.nightly
@needs
@pytest.mark.parametrize("number", range(-(-CASES // 2)))
def test_nodes_are_killed_at_a_random_moment(
    tmp_path: Path, number: int, record_property: Callable[[str, object], None]
) -> None:
    """Of encoding, sending, committing, pruning, decoding, three times in a row. Up to m nodes are lost each time."""
    draws = random.Random(f"{SEED} nodes {number}")
    given = options(tmp_path, partners=[2, 2])
    durable = expected = -1
    for _ in range(3):
        out = tmp_path / ".stdout"
        with started_tree(launched(tmp_path, "run", "10000", draws.choice(["0", "0.02"]), given), tmp_path) as tree:
            wait_for(lambda: "restoring\n" in out.read_text(), LIMIT, "it restores")  # noqa: B023 - called here only
            if draws.random() < 0.7:
                before = newest(tmp_path)
                wait_for(lambda: newest(tmp_path) > before, LIMIT, "a version")  # noqa: B023 - called here only
            time.sleep(draws.random() * 0.5)
            victims = dict(re.findall(r"^rank (\d+) is process (\d+)\n", out.read_text(), re.MULTILINE))
            victim = draws.choice(["all", *victims])
            if victim == "all":
                tree.kill()
            else:
                os.kill(int(victims[victim]), signal.SIGKILL)
                assert tree.wait(LIMIT).code != 0
        text = out.read_text()
        left = [one.name for where in (*memories(tmp_path), tmp_path / "versions") for one in where.glob(".0*")]
        stage = "after" if "restored" in text else "in"
        record_property("moment", f"rank {victim}, {len(left)} unfinished, {stage} restore")
        if "restored\n" in text:
            assert told(text, "resumed") == expected, "the newest whole version was not restored"
        check(tmp_path / "versions")
        durable = max(durable, told(text, "durable"))
        lose(tmp_path, draws.sample(range(NODES), draws.choice([0, 1, 2])))
        expected = newest(tmp_path)
        assert expected >= durable, "a version that was done was lost"


@pytest.mark.nightly
@needs
@pytest.mark.needs("tmpfs")
def test_nodes_are_told_apart_by_their_host_names(tmp_path: Path) -> None:
    """Each rank is in a host name space of its own, as on a machine of its own; two on another one."""
    named = 'hostname "machine$((PMI_RANK / 2))" && exec "$@"'
    given = options(tmp_path, 0, partners=[1, 1])

    def job(*words: str) -> list[str]:
        program = [*OWN_MOUNTS, "--uts", "sh", "-c", named, "sh", sys.executable, str(PROGRAM)]
        return [MPIEXEC, "-n", "4", *program, words[0], str(tmp_path / "versions"), *words[1:], given]

    done = run_tree(job("run", "20", "0"), LIMIT, tmp_path, kill_at("save.planned", 9))
    assert done.code != 0
    assert [one.name for one in memories(tmp_path)] == ["memory-machine0", "memory-machine1"]
    part = read_part(versions.versions(tmp_path / "memory-machine1")[-1].path)
    assert part.ranks == (2, 3) and part.sheet is not None and part.sheet.code is not None
    expected = newest(tmp_path)
    shutil.rmtree(tmp_path / "memory-machine0")
    out = must_run(tmp_path, *job("run", "10", "0"), timeout=LIMIT)
    assert told(out, "resumed") == expected and not memories(tmp_path)


@needs
def test_on_the_command_line(
    saved: Saved, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A node's folder: what it has of a version is listed, read, shown; storage says that memory has newer ones."""
    folder = saved(3, 1)
    node = folder / "memory-node2"

    def ckpt(*words: str | Path) -> tuple[int, str]:
        code = main(["ckpt", *map(str, words)])
        told = capsys.readouterr()
        return code, told.out + told.err

    assert "here: node 2 of 4 (node2), rank 2, parity for 1 of 4 nodes" in ckpt("list", node)[1]
    assert "newer versions, up to number 8, are in memory, in" in ckpt("list", folder / "versions")[1]
    where = folder / "versions" / ".memory"
    where.write_text(where.read_text().replace("/memory-node0", "/elsewhere"))
    code, text = ckpt("list", folder / "versions")
    assert code == 0 and "newer versions may be in memory" in text and "on node0, node1, node2, node3" in text
    with Checkpointer(folder / "versions") as checkpointer:
        restored = checkpointer.restore()
    assert restored is not None and restored.step == 5 and "newer versions may be in memory" in caplog.text
    code, text = ckpt("verify", node)
    assert code == 0 and "000008-step-7: all right" in text and "of this node's part, and its parity" in text
    code, text = ckpt("show", node)
    assert code == 0 and "   2  own " in text and "   1  own " not in text
    code, text = ckpt("export", node, folder / "file.safetensors")
    assert code == 1 and "has one node's part" in text
    flipped(node / "000008-step-7" / PARITY, random.Random(1))
    code, text = ckpt("verify", node)
    assert code == 1 and "1 pieces of parity do not match their digests" in text
    assert ckpt("prune", node, "--keep", "1")[0] == 1
    (node / "000008-step-7" / SHEET).write_text("{}")
    assert f"{SHEET} is not what was written: its digest does not match" in ckpt("list", node)[1]
    code, text = ckpt("prune", folder / "memory-node1", "--keep", "1")
    assert code == 0 and [one.step for one in versions.versions(folder / "memory-node1")] == [7], text


@pytest.mark.nightly
@needs
@pytest.mark.needs("root")
def test_versions_beyond_those_to_keep_make_room_on_all_nodes(tmp_path: Path) -> None:
    """A job that keeps fewer than the one before, in memory that is full: all nodes give the same versions up."""
    with mounted(tmp_path / "disk", "60m") as disk:
        given = {"memory": str(disk / "memory-{node}"), "nodes": 2, "partners": [1, 1], "storage_every": 1000}

        def job(steps: int, keep: int) -> list[str]:
            return launched(tmp_path, "run", str(steps), "0", json.dumps(given | {"keep": keep}), ranks=2)

        assert run_tree(job(20, 6), LIMIT, tmp_path, kill_at("save.planned", 9, 1)).code != 0
        held = [{one.step for one in versions.versions(where)} for where in memories(disk)]
        assert len(held) == 2 and min(map(len, held)) >= 6
        with (disk / "ballast").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, os.statvfs(disk).f_bavail * 4096)
        done = run_tree(job(15, 2), LIMIT, tmp_path)
        assert done.code == 0, done.err
        assert told(done.out, "resumed") >= 6
        assert done.err.count("those beyond the 2 to keep go now") == 2
        assert check(tmp_path / "versions") == 14
