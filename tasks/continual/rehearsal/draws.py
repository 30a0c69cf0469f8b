"""Which samples are drawn: pure functions on counts and random generators.

Representatives are drawn uniformly without replacement over the samples of all ranks. Every rank knows how many samples
of each class each rank holds; written one after the other, these counts number all samples 0 .. N-1. A sequence of r of
these numbers is drawn exactly (every set, in every order, is equally likely), and a search in the cumulative counts
tells which sample a number means. Nothing is approximated, so empty ranks, new classes and unequal ranks need no
special case. Samples are fetched in ascending order, rank by rank, and given back in the order they were drawn in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Located(NamedTuple):
    """Where samples are: three arrays of one length, in the order of their numbers."""

    rank: Ints
    entry: Ints
    """Position of the class in the rank's table of counts."""
    position: Ints
    """Position of the sample within the class."""


def generators(seed: int, rank: int, ranks: int) -> tuple[np.random.Generator, ...]:
    """Three independent generators of a rank: for candidates, for draws, and for evictions."""
    children = np.random.SeedSequence([seed, ranks, rank]).spawn(3)
    return tuple(np.random.Generator(np.random.PCG64(child)) for child in children)


def draw_candidates(rng: np.random.Generator, samples: int, batch: int, candidates: int, *, each: bool) -> Ints:
    """Which of a batch's samples are offered to the buffer, in ascending order.

    Every sample is chosen with probability candidates/batch, also where the batch is shorter or longer than usual. With
    `each`, samples are chosen independently of each other (as in Bouvier et al., algorithm 1); without, a full batch
    gives exactly `candidates`.
    """
    if each:
        return np.flatnonzero(rng.integers(batch, size=samples) < candidates).astype(np.int64)
    whole, rest = divmod(samples * candidates, batch)
    count = whole + int(rest > 0 and rng.integers(batch) < rest)
    return np.sort(rng.choice(samples, size=count, replace=False)).astype(np.int64)


def draw_numbers(rng: np.random.Generator, population: int, representatives: int) -> Ints:
    """Distinct numbers below `population`, every set and every order of it equally likely; all if there are no more."""
    count = min(population, representatives)
    if count == 0:
        return np.empty(0, np.int64)
    return rng.choice(population, size=count, replace=False).astype(np.int64)


def places(numbers: Ints) -> Ints:
    """Where each of distinct numbers stands when they are in ascending order."""
    found = np.empty(len(numbers), np.int64)
    found[np.argsort(numbers)] = np.arange(len(numbers))
    return found


def locate(numbers: Ints, counts: Sequence[Ints]) -> Located:
    """Where numbered samples are, given for each rank the number of samples of each of its classes."""
    flat = np.concatenate([np.asarray(table, np.int64) for table in counts])
    ranks = np.repeat(np.arange(len(counts)), [len(table) for table in counts])
    first = np.concatenate([np.arange(len(table)) for table in counts])
    ends = np.cumsum(flat)
    place = np.searchsorted(ends, numbers, side="right")
    return Located(ranks[place], first[place], numbers - (ends[place] - flat[place]))
