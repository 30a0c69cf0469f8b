"""A matrix that ranks write by rows and others read by columns, over three hosts: how many bytes cross for that.

``pytest -m nightly -s tests/hosts/test_redistribution.py`` prints a line for each case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from hosts.rig import NEEDS, Rig
from programs.build import build, parallel_c

from support.running import WILKINS, run_tree

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.needs("root", "namespaces", *NEEDS, "h5pcc.openmpi"),
    pytest.mark.timeout(150),
]

SIZE = 32 << 20
"""Bytes of a matrix, about."""
RANKS = {8: [3, 3, 2], 3: [1, 1, 1]}


class Case(NamedTuple):
    """``part``: bytes of a row that one reader reads. ``fill``: by HDF5, before that, with a ``value`` or ``never``."""

    writers: int
    readers: int
    part: int
    transfer: str
    fill: str

    @property
    def columns(self) -> int:
        return self.readers * self.part // 8

    @property
    def steps(self) -> int:
        """An independent transfer is a call for each part, and of the first step asks for each by itself."""
        return 12 if self.part < 4096 else 4

    @property
    def rows(self) -> int:
        return SIZE // (8 * self.columns)

    def __str__(self) -> str:
        return f"{self.writers} to {self.readers}, parts of {self.part}, {self.transfer}, fill {self.fill}"


class Bound(NamedTuple):
    """At most so many times the bytes that the reading hosts lack, and so many packets for each step."""

    times: float
    packets: int


BOUNDS = {
    "collective": {128 << 10: Bound(1.1, 2600), 4 << 10: Bound(1.1, 2900), 512: Bound(1.1, 3000)},
    "independent": {128 << 10: Bound(1.1, 2900), 4 << 10: Bound(1.1, 9000), 512: Bound(1.12, 12000)},
}
"""By transfers and parts."""

CASES = [
    Case(*ranks, part, transfer, fill)
    for ranks, part, transfer, fill in product(
        [(8, 3), (3, 8)], [128 << 10, 4 << 10, 512], ["collective", "independent"], ["value", "never"]
    )
]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        yield one


def lacked(writers: list[int], readers: list[int]) -> float:
    """The part of the matrix that hosts read and have not written, summed over them."""
    shares = zip(writers, readers, strict=True)
    return sum(reads / sum(readers) * (1 - writes / sum(writers)) for writes, reads in shares)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_to_columns(rig: Rig, tmp_path: Path, case: Case) -> None:
    program = build("redistribute.c", *parallel_c("openmpi", static=False))
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {program}, name: w, nprocs: {case.writers}, placement: {RANKS[case.writers]},
      args: [write, {case.steps}, {case.transfer}, {case.rows}, {case.columns}, {case.fill}],
      outports: [{{filename: "matrix*.h5"}}]}}
  - {{func: {program}, name: r, nprocs: {case.readers}, placement: {RANKS[case.readers]},
      args: [read, {case.steps}, {case.transfer}], inports: [{{filename: "matrix*.h5"}}]}}
""")
    before = [rig.sent(host) for host in rig.names]
    words = [*WILKINS, "run", "--hosts", "node0:8,node1:8,node2:8", "workflow.yaml"]
    done = run_tree(rig.on("node0", *words, folder=tmp_path), 120, tmp_path)
    after = [rig.sent(host) for host in rig.names]
    assert done.code == 0, done.err
    sent, packets = (sum(now[k] - was[k] for now, was in zip(after, before, strict=True)) for k in (0, 1))
    crossings = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())["crossings"]
    relayed = sum(one["messages"] for one in crossings) / case.steps
    times = sent / (case.steps * case.rows * case.columns * 8) / lacked(RANKS[case.writers], RANKS[case.readers])
    each = packets // case.steps
    print(f"\n{case}: {times:.2f} times what hosts lack; a step: {each} packets, {relayed:.0f} messages of relays")
    bound = BOUNDS[case.transfer][case.part]
    assert times <= bound.times
    assert each <= bound.packets
