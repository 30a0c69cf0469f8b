"""How likely it is that too many pieces are lost: Poisson-binomial, with places that fail together. Pure.

D-Rex (Gonthier et al., arXiv 2506.02026, section 3) takes the loss of n pieces on n hosts as n independent trials of
different probability; the number that is lost has a Poisson-binomial distribution, which is computed here exactly, by
one convolution per place (Hong, Computational Statistics & Data Analysis 59, 2013, section 2.5). The paper has no
failures that several hosts share. Here places of one domain count as lost together as soon as one of them is. Whatever
part of a domain's failures is common to its places, no more pieces are lost than that: the probability of a loss is
never understated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Sets = Any
"""Sets of places, one a row: whether each place is in it; an array of bools, (sets, places)."""


def loss_probability(annual_failure: float, years: float) -> float:
    """How likely a place is lost within some years, at a constant rate of failures per year."""
    return -math.expm1(-annual_failure * years)


def domain_numbers(domains: Sequence[str]) -> list[int]:
    """The number of each place's domain; an empty name is a domain of its own."""
    names: list[object] = [name or ("alone", place) for place, name in enumerate(domains)]
    return [names.index(name) for name in names]


def risks(sets: Sets, losses: Sequence[float], domains: Sequence[int]) -> Any:
    """The probability that more than j of a set's pieces are lost, each place of it having one: (sets, places + 1).

    Args:
        sets: see `Sets`.
        losses: how likely each place is lost.
        domains: the number of each place's domain.
    """
    members = np.asarray(sets, bool)
    count, places = members.shape
    lost = np.zeros((count, places + 1))
    lost[:, 0] = 1.0
    survives = np.log1p(-np.minimum(np.asarray(losses, float), 1 - 1e-16))
    for domain in dict.fromkeys(domains):
        inside = members & (np.asarray(domains) == domain)
        pieces = inside.sum(1)
        falls = -np.expm1(inside @ survives)[:, None]
        after = lost * (1 - falls)
        for size in np.unique(pieces):
            rows = pieces == size
            after[rows, size:] += lost[rows, : places + 1 - size] * falls[rows]
        lost = np.where(pieces[:, None] > 0, after, lost)
    # Summed from the rare end: the probabilities that matter are far below that of no loss.
    more = np.cumsum(lost[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([more[:, 1:], np.zeros((count, 1))], axis=1)


def risk_of(losses: Sequence[float], domains: Sequence[int], parity: int) -> float:
    """The probability that more than `parity` pieces are lost, one on each place."""
    return float(risks(np.ones((1, len(losses)), bool), losses, domains)[0, parity]) if losses else 0.0
