"""Representatives are drawn exactly: uniformly, without replacement, whatever the ranks hold."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
import pytest
from continual.chance import equal_cells, rejected, tail, uniform_inclusion
from hypothesis import given
from hypothesis import strategies as st

from wilkins.tasks.continual.rehearsal.draws import Ints, Located, draw_candidates, draw_numbers, generators, locate

DRAWS = 200_000
PATTERNS = {
    "even": [[10, 10, 10], [10, 10, 10]],
    "one rank": [[7, 8, 9]],
    "one class": [[5], [5], [5], [5]],
    "empty ranks": [[], [12, 3], [], [0, 0, 6]],
    "only the last rank": [[], [], [30]],
    "a new class on one rank": [[20, 20], [20, 20, 1]],
    "a new class on all ranks": [[20, 20, 1], [20, 20, 1], [20, 20, 1]],
    "unequal ranks": [[1], [60, 2], [7, 7, 7], [0, 31]],
    "emptied classes": [[0, 9, 0, 4], [0, 0, 3]],
    "partly filled": [[300, 100, 3], [50], [0, 0, 9], [41]],
    "just one more than drawn": [[3], [2, 3]],
}
Sampler = Callable[[np.random.Generator, list[Ints], int], Located]


def exact(rng: np.random.Generator, counts: list[Ints], representatives: int) -> Located:
    """What a round does."""
    return locate(draw_numbers(rng, int(sum(table.sum() for table in counts)), representatives), counts)


def modulo(rng: np.random.Generator, counts: list[Ints], representatives: int) -> Located:
    """Planted: number the samples as if all classes were full on all ranks, and wrap what is not there."""
    rank = np.repeat(np.arange(len(counts)), [len(table) for table in counts])
    entry = np.concatenate([np.arange(len(table)) for table in counts])
    flat = np.concatenate(counts)
    held = np.flatnonzero(flat)
    room = flat.max()
    numbers = rng.choice(room * len(held), size=representatives, replace=False)
    place = held[numbers // room]
    return Located(rank[place], entry[place], numbers % room % flat[place])


def chance(sampler: Sampler, pattern: list[list[int]], seed: int) -> tuple[float, bool]:
    """How likely the counts of a sampler's draws are for an exact one; whether a draw held a sample twice."""
    counts = [np.array(table, np.int64) for table in pattern]
    rows, longest = max(map(len, pattern)), max(max(table, default=0) for table in pattern)
    seen = np.zeros((len(pattern), rows, longest), np.int64)
    population = sum(map(sum, pattern))
    representatives = population - 1 if population < 10 else population // 3
    rng = np.random.default_rng(seed)
    rounds, twice = DRAWS // representatives, False
    for _ in range(rounds):
        rank, entry, position = sampler(rng, counts, representatives)
        names = (rank * rows + entry) * longest + position
        twice |= len(set(names.tolist())) < representatives
        np.add.at(seen.reshape(-1), names, 1)
    held = [seen[r, e, :n] for r, table in enumerate(pattern) for e, n in enumerate(table)]
    assert sum(int(part.sum()) for part in held) == rounds * representatives
    return uniform_inclusion(np.concatenate(held), rounds), twice


@pytest.fixture(scope="module")
def chances() -> dict[str, tuple[float, bool]]:
    """For every pattern, an exact sampler's chance and duplicates."""
    return {name: chance(exact, pattern, seed) for seed, (name, pattern) in enumerate(PATTERNS.items())}


@pytest.mark.nightly
def test_every_sample_is_equally_likely(chances: dict[str, tuple[float, bool]]) -> None:
    assert not rejected({name: value for name, (value, _) in chances.items()})


@pytest.mark.nightly
def test_no_sample_is_drawn_twice(chances: dict[str, tuple[float, bool]]) -> None:
    assert not any(twice for _, twice in chances.values())


@pytest.mark.nightly
def test_a_modulo_sampler_is_rejected() -> None:
    """The same test tells a sampler that wraps indices, wherever classes are not equally full."""
    uneven = ("empty ranks", "a new class on one rank", "unequal ranks", "emptied classes", "partly filled")
    results = {name: chance(modulo, PATTERNS[name], 0) for name in uneven}
    assert set(rejected({name: value for name, (value, _) in results.items()})) == set(uneven)
    assert all(twice for _, twice in results.values())


def test_every_set_is_equally_likely() -> None:
    """Not only each sample: all 35 sets of 3 out of 7 come equally often."""
    sets = {chosen: k for k, chosen in enumerate(combinations(range(7), 3))}
    seen = np.zeros(len(sets), np.int64)
    rng = np.random.default_rng(5)
    for _ in range(DRAWS // 3):
        seen[sets[tuple(sorted(draw_numbers(rng, 7, 3).tolist()))]] += 1
    assert not rejected({"sets": equal_cells(seen)})


@pytest.mark.parametrize(("population", "representatives"), [(5, 3), (4, 9)], ids=["some", "all there are"])
def test_every_order_is_equally_likely(population: int, representatives: int) -> None:
    """Of a set that is drawn, any sample may come first, second, last."""
    orders = {chosen: k for k, chosen in enumerate(permutations(range(population), min(population, representatives)))}
    seen = np.zeros(len(orders), np.int64)
    rng = np.random.default_rng(6)
    for _ in range(20_000):
        seen[orders[tuple(draw_numbers(rng, population, representatives).tolist())]] += 1
    assert not rejected({"orders": equal_cells(seen)})


def test_ranks_draw_independently() -> None:
    """Two ranks' generators have nothing in common: pairs of their draws fill a table evenly."""
    first, second = (generators(3, rank, 2)[1] for rank in (0, 1))
    table = np.zeros(36, np.int64)
    for _ in range(30_000):
        table[draw_numbers(first, 6, 1)[0] * 6 + draw_numbers(second, 6, 1)[0]] += 1
    assert not rejected({"pairs": equal_cells(table)})


@given(
    counts=st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=5), representatives=st.integers(1, 40)
)
def test_located_samples_exist(counts: list[list[int]], representatives: int) -> None:
    """Numbers 0 .. N-1 mean all samples, each once, in order of rank; there are never more than N."""
    tables = [np.array(table, np.int64) for table in counts]
    every = [(r, e, i) for r, table in enumerate(counts) for e, n in enumerate(table) for i in range(n)]
    rank, entry, position = locate(np.arange(len(every)), tables)
    assert list(zip(rank.tolist(), entry.tolist(), position.tolist(), strict=True)) == every
    drawn = list(
        zip(*(part.tolist() for part in exact(np.random.default_rng(0), tables, representatives)), strict=True)
    )
    assert len(set(drawn)) == len(drawn) == min(representatives, len(every))
    assert set(drawn) <= set(every)


@pytest.mark.usual("64-each with c/b", "61-exactly c")
@pytest.mark.parametrize("each", [False, True], ids=["exactly c", "each with c/b"])
@pytest.mark.parametrize("samples", [64, 61, 5, 100])
def test_candidates(each: bool, samples: int) -> None:
    """Every sample of a batch, full, short or long, is a candidate with probability c/b."""
    rng = np.random.default_rng(11)
    seen = np.zeros(samples, np.int64)
    numbers = set()
    for _ in range(20_000):
        chosen = draw_candidates(rng, samples, 64, 14, each=each)
        assert len(set(chosen.tolist())) == len(chosen)
        seen[chosen] += 1
        numbers.add(len(chosen))
    share, spread = seen.mean() / 20_000, np.sqrt(14 / 64 * 50 / 64 / (20_000 * samples))
    assert abs(share - 14 / 64) < 4 * spread
    assert np.abs(seen / 20_000 - 14 / 64).max() < 5 * spread * np.sqrt(samples)
    if not each:
        assert numbers <= {samples * 14 // 64, samples * 14 // 64 + 1}
        assert samples != 64 or numbers == {14}


def test_tail_of_chi_square() -> None:
    """Against tabulated values."""
    known_values = [(3.841459, 1, 0.05), (18.307038, 10, 0.05), (135.806723, 100, 0.01), (67.327563, 100, 0.995)]
    for value, freedom, known in known_values:
        assert tail(value, freedom) == pytest.approx(known, rel=1e-5)
