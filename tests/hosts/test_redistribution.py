"""A matrix that ranks write by rows and others read by columns, over three hosts: how many bytes cross for that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig
from programs.build import build, parallel_c

from support import WILKINS, run_tree

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.needs("root", "namespaces", *NEEDS),
    pytest.mark.timeout(150),
    pytest.mark.xdist_group("hosts"),
]

STEPS = 6
RANKS = {8: [3, 3, 2], 3: [1, 1, 1]}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        yield one


def lacked(writers: list[int], readers: list[int]) -> float:
    """The part of the matrix that hosts read and have not written, summed over them."""
    shares = zip(writers, readers, strict=True)
    return sum(reads / sum(readers) * (1 - writes / sum(writers)) for writes, reads in shares)


@pytest.mark.parametrize(
    ("rows", "columns", "bound"), [(64, 1 << 17, 2.4), (1024, 1 << 13, 4.4)], ids=["long rows", "short rows"]
)
@pytest.mark.parametrize(("writers", "readers"), [(8, 3), (3, 8)])
def test_rows_to_columns(
    rig: Rig, tmp_path: Path, writers: int, readers: int, rows: int, columns: int, bound: float
) -> None:
    """Bytes cross to the lead's host and back; parts of rows that are shorter than a block cross with all of it."""
    program = build("redistribute.c", *parallel_c("openmpi", static=False))
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {program}, name: w, nprocs: {writers}, args: [write, {STEPS}, {rows}, {columns}],
      placement: {RANKS[writers]}, outports: [{{filename: "matrix*.h5"}}]}}
  - {{func: {program}, name: r, nprocs: {readers}, args: [read, {STEPS}],
      placement: {RANKS[readers]}, inports: [{{filename: "matrix*.h5"}}]}}
""")
    before = [rig.traffic(host)[0] for host in rig.names]
    words = [*WILKINS, "run", "--hosts", "node0:8,node1:8,node2:8", "workflow.yaml"]
    done = run_tree(rig.on("node0", *words, folder=tmp_path), 120, tmp_path)
    sent = sum(rig.traffic(host)[0] - was for host, was in zip(rig.names, before, strict=True))
    assert done.code == 0, done.err
    size = STEPS * rows * columns * 8
    lacks = lacked(RANKS[writers], RANKS[readers])
    times = sent / size / lacks
    print(f"{writers} -> {readers}, {rows} x {columns}: {times:.2f} times what the reading hosts lack")
    assert times <= bound
