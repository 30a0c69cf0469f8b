"""1 to 4 ranks, exchanging samples over MPI, draw from the same distribution: the uniform one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from continual.chance import equal_cells, rejected, two_sided, uniform_inclusion
from numpy.typing import NDArray

from support.running import MPIEXEC, run_tree

PROGRAM = Path(__file__).resolve().parent.parent / "programs" / "rehearsal" / "draws.py"
DRAWS = 200_000
R = 150
PHASES = {
    1: [[[160, 80]], [[0, 0, 31]], [[97]]],
    2: [[[1], [159, 80]], [[], [0, 0, 31]], [[97], []]],
    3: [[[], [160, 10], [0, 70]], [[0, 0, 4], [], [0, 0, 27]], [[97], [], []]],
    4: [[[150, 80], [], [10], []], [[], [], [0, 0, 31], []], [[], [1], [], [96]]],
}
"""By ranks: a start with unequal and empty ranks, a new class, and more of an old class where there was little."""


Counts = dict[tuple[int, int], list[NDArray[np.int64]]]
"""By number of ranks and phase, for each rank."""


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counts, Counts]:
    """How often each sample was drawn; and how often it was the first, the middle and the last one of a draw."""
    found: Counts = {}
    places: Counts = {}
    for ranks, phases in PHASES.items():
        folder = tmp_path_factory.mktemp(f"{ranks}-ranks")
        words = [
            MPIEXEC,
            "-n",
            str(ranks),
            sys.executable,
            str(PROGRAM),
            json.dumps(phases),
            str(R),
            str(DRAWS),
            str(folder),
        ]
        finished = run_tree(words, 150, folder)
        assert finished.code == 0, finished.out + finished.err
        for phase in range(len(phases)):
            names = [f"phase-{phase}.rank-{rank}" for rank in range(ranks)]
            found[ranks, phase] = [np.load(folder / f"{name}.npy") for name in names]
            places[ranks, phase] = [np.load(folder / f"{name}.places.npy") for name in names]
    return found, places


@pytest.fixture
def seen(counted: tuple[Counts, Counts]) -> Counts:
    return counted[0]


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.timeout(600)
def test_every_sample_is_equally_likely(seen: Counts) -> None:
    """For every number of ranks and every filling; for all ranks' draws together, and for each rank's own."""
    chances = {}
    for (ranks, phase), counts in seen.items():
        assert sum(int(count.sum()) for count in counts) == DRAWS // (R * ranks) * R * ranks
        together = np.sum(counts, axis=0)
        chances[f"{ranks} ranks, phase {phase}"] = uniform_inclusion(together, int(together.sum()) // R)
        for rank, count in enumerate(counts):
            chances[f"{ranks} ranks, phase {phase}, rank {rank}"] = uniform_inclusion(count, int(count.sum()) // R)
    assert not rejected(chances)


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.timeout(600)
def test_every_sample_comes_first_as_often_as_last(counted: tuple[Counts, Counts]) -> None:
    """Whoever takes the representatives apart, or only the first of them, gets a uniform draw: not those of rank 0."""
    chances = {}
    for (ranks, phase), tables in counted[1].items():
        for rank, table in enumerate(tables):
            for place, counts in zip(("first", "middle", "last"), table, strict=True):
                chances[f"{ranks} ranks, phase {phase}, rank {rank}, {place}"] = equal_cells(counts)
    assert not rejected(chances)


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.timeout(600)
def test_as_many_ranks_as_you_like(seen: Counts) -> None:
    """The counts of 1, 2, 3 and 4 ranks do not differ by more than chance."""
    chances = {}
    for phase in range(3):
        table = np.array([np.sum(seen[ranks, phase], axis=0) for ranks in PHASES])
        population = table.shape[1]
        rounds = table.sum(1) / R
        share = R / population
        spread = rounds * share * (1 - share) * population / (population - 1)
        expected = np.outer(table.sum(1), table.sum(0) / table.sum())
        value = (((table - expected) ** 2).sum(1) / spread).sum()
        chances[f"phase {phase}"] = two_sided(float(value), (len(table) - 1) * (population - 1))
    assert not rejected(chances)
