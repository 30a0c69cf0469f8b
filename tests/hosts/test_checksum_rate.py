"""What checksums cost of messages between hosts: over lines that bound them, at most 3 % of the transfer."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.checksums import build, measure

pytestmark = pytest.mark.timeout(180)

LINE = pytest.mark.needs("root", "namespaces", "c++", "ip", "tc", "unshare", "nsenter")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Path]]:
    yield build(tmp_path_factory.mktemp("crossing"))


@LINE
@pytest.mark.bench
@pytest.mark.parametrize(("gigabits", "rounds"), [(1, 60), (2.5, 120), (5, 200), (10, 400)])
def test_a_line_hides_what_checksums_cost(programs: dict[bool, Path], gigabits: float, rounds: int) -> None:
    """The kernel sends what it has while the core sums what comes next."""
    size = 16 << 20
    cost = measure(programs, gigabits, size, rounds)
    print(f"{gigabits:g} Gbit/s: with checksums {cost.more_seconds('with')}, made before {cost.more_seconds('known')}")
    if statistics.median(cost.seconds()) > 1.1 * 8 * size / (1e9 * gigabits):
        pytest.skip("without checksums, too, the cores bound the rate: they are busy, or too slow for the line")
    for more in (cost.more_seconds("with"), cost.more_seconds("known")):
        assert min(more.median, more.fastest) <= 0.03, "neither in the median, nor where others take the fewest cores"


@pytest.mark.nightly
@pytest.mark.needs("c++")
def test_messages_of_all_ways_are_measured(programs: dict[bool, Path]) -> None:
    cost = measure(programs, 0, 1 << 20, 4)
    assert all(0 < message.seconds < 5 and 0 < message.cpu < 5 for took in cost.took.values() for message in took)
