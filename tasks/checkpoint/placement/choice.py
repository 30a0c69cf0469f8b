"""Chooses, per version, into how many pieces it is cut, how many parity pieces it gets, and where they go. Pure.

The rules `least-storage`, `least-used`, `drex-lb` and `drex-sc` are GreedyMinStorage, GreedyLeastUsed, D-Rex LB and
D-Rex SC of D-Rex (Gonthier et al., arXiv 2506.02026), written anew from its abstract and from what its public
simulator does (github.com/dynostore/D-rex). `least-cost` is Wilkins' own: it counts what the paper leaves out, domains
and repair.
"""

from __future__ import annotations

import bisect
import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.placement.places import Place
from wilkins.tasks.checkpoint.placement.survival import Sets, domain_numbers, loss_probability, risk_of, risks

_ALL = 12
"""Up to so many places, every set of them is looked at."""
_TRIED = 1000
"""Sets of places that are tried for a fixed code."""
_STEEP = 4.0
"""How much dearer a full place is than an empty one: e to this."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a version goes: piece i of `data` + `parity` is on `places[i]`."""

    data: int
    parity: int
    places: tuple[int, ...]
    risk: float
    """The probability that more than `parity` pieces are lost within the years."""
    chunk: float
    """Bytes of a piece."""
    write_seconds: float
    """All places write at once; the slowest of them."""
    read_seconds: float
    """The `data` fastest places are read at once."""
    repair_bytes: float
    """Expected over the years: per place that is lost, `data` pieces are read and one is written."""

    @property
    def stored(self) -> float:
        """Bytes that all pieces take."""
        return self.chunk * len(self.places)


@dataclass(frozen=True, slots=True)
class _Offers:
    """Sets of places that a version may go to, each with its code; arrays, one entry or row per set."""

    members: Any
    data: Any
    parity: Any
    risk: Any
    chunk: Any

    def __len__(self) -> int:
        return len(self.data)

    def of(self, rows: Any) -> _Offers:
        return _Offers(self.members[rows], self.data[rows], self.parity[rows], self.risk[rows], self.chunk[rows])


class Chooser:
    """Chooses among some places, by one rule, at one reliability.

    Args:
        places: with their rates and domains; places without a domain fail alone.
        reliability: the probability that a version survives.
        years: for how long it is to.
        rule: one of `RULES`, or `Fixed`.

    Raises:
        CheckpointError: there is no such rule.
    """

    def __init__(
        self, places: Sequence[Place], reliability: float, years: float = 1.0, rule: str | Fixed = "least-cost"
    ) -> None:
        if not isinstance(rule, Fixed) and rule not in RULES:
            raise CheckpointError(f"storage: rule={rule!r} is none; give one of {', '.join(RULES)}")
        self.places = tuple(places)
        self._rule = rule
        self._most = 1 - reliability
        self._losses = [loss_probability(one.annual_failure, years) for one in places]
        self._domains = domain_numbers([one.domain for one in places])
        self._failures = np.array([one.annual_failure * years for one in places])
        self.write = np.array([one.write for one in places], float)
        self.read = np.array([one.read for one in places], float)
        self._table: Any = None
        """The risks of all sets, by the set as a number; None: there are too many."""
        if len(places) <= _ALL:
            self._every = _every_set(len(places))
            self._table = risks(self._every, self._losses, self._domains)
            self._weights = 1 << np.arange(len(places))

    def choose(self, size: float, free: Sequence[float], space: Sequence[float] | None = None) -> Choice | None:
        """Where a version of `size` bytes goes; None: nowhere with that reliability.

        Args:
            size: bytes of the version.
            free: bytes that each place can take; negative: the place is not there.
            space: bytes that each place has in all; left out: as many as are free.
        """
        room = np.asarray(free, float)
        if isinstance(self._rule, Fixed):
            found = self._rule.choose(self, size, room)
        else:
            found = RULES[self._rule](self, size, room, room if space is None else np.asarray(space, float))
        if found is None:
            return None
        members, data, parity = found
        return self.described(members, data, parity, size)

    def described(self, members: Sequence[int], data: int, parity: int, size: float) -> Choice:
        """What a code on some places means."""
        places = list(members)
        chunk = size / data
        reads = np.sort(self.read[places])[::-1][:data]
        return Choice(
            data,
            parity,
            tuple(places),
            risk_of([self._losses[one] for one in places], [self._domains[one] for one in places], parity),
            chunk,
            chunk / float(self.write[places].min()),
            chunk / float(reads.min()),
            float(self._failures[places].sum()) * chunk * (data + 1),
        )

    def replacements(
        self, kept: Sequence[int], missing: int, parity: int, chunk: float, free: Sequence[float]
    ) -> list[int]:
        """Other places for pieces that are lost, at most `missing`: each next one leaves the least risk.

        Args:
            kept: the places that have pieces.
            missing: how many pieces are lost.
            parity: of the version.
            chunk: bytes of a piece.
            free: as for `choose`.
        """
        chosen = list(kept)
        for _ in range(missing):
            lacking = len(kept) + missing - len(chosen) - 1
            others = [one for one in range(len(self.places)) if one not in chosen and free[one] >= max(chunk, 0)]
            if not others:
                break
            chosen.append(min(others, key=lambda one: (self._risk([*chosen, one], parity - lacking), -free[one])))
        return chosen[len(kept) :]

    def _risk(self, places: Sequence[int], parity: int) -> float:
        if parity < 0:
            return 1.0 + sum(self._losses[one] for one in places)
        return risk_of([self._losses[one] for one in places], [self._domains[one] for one in places], parity)

    def risk_with(self, places: Sequence[int], data: int) -> float:
        """The probability that fewer than `data` of the pieces that are left, one on each of some places, survive."""
        return 1.0 if len(places) < data else self._risk(places, len(places) - data)

    def at(self, reliability: float) -> Chooser:
        """The same at another reliability, without the work of making it."""
        found = copy.copy(self)
        found._most = 1 - reliability
        return found

    def safe(self, places: Sequence[int], parity: int) -> bool:
        """Whether a code on some places is safe enough."""
        if self._table is None:
            return self._risk(places, parity) <= self._most
        return bool(self._table[sum(1 << one for one in places), parity] <= self._most)

    def offers(self, sets: Sets, size: float, free: Any, parity: int | None = None) -> _Offers:
        """Those of some sets that have room, with the least parity that is safe enough, or the one that is given."""
        members = np.asarray(sets, bool)
        risk = self._risks(members)
        count = members.sum(1)
        least = np.argmax(risk <= self._most, axis=1) if parity is None else np.full(len(members), parity)
        least = np.maximum(least, 1)
        data = count - least
        safe = (data >= 1) & (risk[np.arange(len(members)), np.minimum(least, members.shape[1])] <= self._most)
        chunk = size / np.maximum(data, 1)
        fits = np.where(members, free[None, :], np.inf).min(1) >= chunk
        rows = np.flatnonzero(safe & fits & (np.where(members, free[None, :], 0).min(1) >= 0))
        return _Offers(members[rows], data[rows], least[rows], risk[rows, least[rows]], chunk[rows])

    def _risks(self, members: Sets) -> Any:
        if self._table is not None:
            return self._table[members @ self._weights]
        return risks(members, self._losses, self._domains)

    def sets(self, free: Any) -> Sets:
        """The sets that are looked at: all, or of many places those that come first by room, by rate, by failures."""
        if self._table is not None:
            return self._every
        orders = (-free, -free * self.write, self._failures, self._failures / np.maximum(free, 1))
        return np.concatenate([_prefixes(np.argsort(order, kind="stable")) for order in orders])

    def costs(self, offers: _Offers, free: Any, space: Any) -> Any:
        """What sets of places cost: bytes that are stored, and moved by repairs over the years, each at its price.

        Bytes on a place are the dearer the fuller it is, so that all places fill up together.
        """
        fill = 1 - np.clip(free / np.maximum(space, 1), 0, 1)
        price = np.exp(_STEEP * fill)
        stored = offers.chunk * (offers.members @ price)
        repairs = offers.chunk * (offers.data + 1) * (offers.members @ (self._failures * price))
        return stored + repairs


def _every_set(places: int) -> Sets:
    return (np.arange(1 << places)[:, None] >> np.arange(places) & 1).astype(bool)


def _prefixes(order: Any) -> Sets:
    """The first two of an order, the first three, and so on to all."""
    sets = np.zeros((max(len(order) - 1, 0), len(order)), bool)
    for row in range(len(sets)):
        sets[row, order[: row + 2]] = True
    return sets


_Found = tuple[Sequence[int], int, int] | None


def _taken(offers: _Offers, row: int, order: Any) -> _Found:
    members = [int(one) for one in order if offers.members[row, one]]
    return members, int(offers.data[row]), int(offers.parity[row])


def _by_room(free: Any) -> Any:
    return np.argsort(-free, kind="stable")


def _coded(offers: _Offers) -> _Offers:
    """Those that are cut into pieces, as D-Rex does always; if there are none, those that are copied."""
    rows = np.flatnonzero(offers.data >= 2)
    return offers.of(rows) if len(rows) else offers


def _least_used(chooser: Chooser, size: float, free: Any, _: Any) -> _Found:
    """The fewest places, those with most room first."""
    order = _by_room(free)
    offers = _coded(chooser.offers(_prefixes(order), size, free))
    return _taken(offers, 0, order) if len(offers) else None


def _least_storage(chooser: Chooser, size: float, free: Any, _: Any) -> _Found:
    """The number of places, those with most room first, whose pieces take the least bytes; of equals, more places."""
    order = _by_room(free)
    offers = _coded(chooser.offers(_prefixes(order)[::-1], size, free))
    if not len(offers):
        return None
    return _taken(offers, int(np.argmin(offers.chunk * (offers.data + offers.parity))), order)


def _drex_lb(chooser: Chooser, size: float, free: Any, _: Any) -> _Found:
    """The least parity; of its numbers of data pieces, the one after which places differ least from the mean room.

    Copies, of one data piece, only if there is nothing else.
    """
    order = _by_room(free)
    there = free >= 0
    mean = free[there].mean() if there.any() else 0.0
    for least, parity in itertools.product((2, 1), range(1, len(order))):
        offers = chooser.offers(_prefixes(order), size, free, parity)
        offers = offers.of(np.flatnonzero(offers.data >= least))
        if len(offers):
            left = free[None, :] - offers.chunk[:, None] * offers.members
            penalty = np.abs(left - mean)[:, there].sum(1)
            return _taken(offers, int(np.argmin(penalty)), order)
    return None


def _drex_sc(chooser: Chooser, size: float, free: Any, space: Any) -> _Found:
    """Of the sets that no other beats in bytes, fill and time at once, the best by a sum of the three.

    Time weighs less the fuller the places are. Fill and system saturation are exponential, as in the paper.
    """
    offers = _coded(chooser.offers(chooser.sets(free), size, free))
    if not len(offers):
        return None
    small, share = min(size, float(space.max()) / 2), 1 / len(free)

    def saturation(left: Any, whole: float) -> Any:
        return 1 - share ** ((whole - left) / max(whole - small, 1e-300))

    stored = offers.chunk * (offers.data + offers.parity)
    left = free[None, :] - offers.chunk[:, None]
    fill = (saturation(left, float(space.max())) * offers.members).sum(1) / (offers.data + offers.parity)
    time = offers.chunk / np.where(offers.members, chooser.write, np.inf).min(1)
    time = time + offers.chunk / np.where(offers.members, chooser.read, np.inf).min(1)
    front = _front(np.stack([stored, fill, time], axis=1))
    full = float(saturation(np.maximum(free, 0).sum(), float(space.sum())))
    score = (1 - full) * _progress(time[front]) + (_progress(stored[front]) + _progress(fill[front])) / 2
    return _taken(offers, int(front[np.argmax(score)]), _by_room(free))


def _progress(values: Any) -> Any:
    """100 for the least, 0 for the largest."""
    span = values.max() - values.min()
    return 100 - (values - values.min()) * 100 / span if span > 0 else np.zeros(len(values))


def _front(points: Any) -> Any:
    """The rows that no other beats: as small in all three columns, and smaller in one."""
    kept: list[int] = []
    # Of the rows so far, which are no larger in the first column: second columns in order, third ones that fall.
    seconds: list[float] = []
    thirds: list[float] = []
    for row in np.lexsort(points.T[::-1]):
        _, second, third = points[row].tolist()
        at = bisect.bisect_right(seconds, second)
        if at and thirds[at - 1] <= third:
            continue
        kept.append(int(row))
        end = at
        while end < len(thirds) and thirds[end] >= third:
            end += 1
        seconds[at:end], thirds[at:end] = [second], [third]
    return np.array(kept)


def _least_cost(chooser: Chooser, size: float, free: Any, space: Any) -> _Found:
    """The least bytes, stored and moved by repairs, where fuller places are dearer; of equals, the fastest."""
    offers = chooser.offers(chooser.sets(free), size, free)
    if not len(offers):
        return None
    cost = chooser.costs(offers, free, space)
    near = np.flatnonzero(cost <= cost.min() * (1 + 1e-9))
    time = offers.chunk / np.where(offers.members, chooser.write, np.inf).min(1)
    return _taken(offers, int(near[np.argmin(time[near])]), _by_room(free))


RULES: Mapping[str, Callable[[Chooser, float, Any, Any], _Found]] = {
    "least-cost": _least_cost,
    "least-storage": _least_storage,
    "least-used": _least_used,
    "drex-lb": _drex_lb,
    "drex-sc": _drex_sc,
}


@dataclass(frozen=True, slots=True)
class Fixed:
    """A rule whose codes do not depend on the version, on the fastest places: what other storage systems do.

    Attributes:
        codes: data and parity pieces; the first that is safe enough is taken.
    """

    codes: tuple[tuple[int, int], ...]

    def choose(self, chooser: Chooser, size: float, free: Any) -> _Found:
        """The first code, and the fastest places with room, that are safe enough."""
        order = [int(one) for one in np.argsort(-chooser.write, kind="stable")]
        for data, parity in self.codes:
            there = [one for one in order if free[one] >= size / data and free[one] >= 0]
            for places in itertools.islice(itertools.combinations(there, data + parity), _TRIED):
                if chooser.safe(places, parity):
                    return places, data, parity
        return None
