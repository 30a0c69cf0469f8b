"""Rows of several columns, some at a time; and a shuffle that draws from those that wait, many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, TypeAlias

import numpy as np
import torch

Rows: TypeAlias = Mapping[str, np.ndarray[Any, Any]]
"""Columns by name, with as many rows each: what a dataset holds, or objects."""

AT_ONCE = 1 << 18
"""Bytes of rows that are drawn at a time: small enough for the caches, large enough to hide what a call costs."""
OBJECT = AT_ONCE // 64
"""Bytes that an object of unknown size counts as."""


def of_objects(objects: Iterable[Any], count: int) -> Rows:
    """Objects as rows."""
    return {"": np.fromiter(objects, dtype=object, count=count)}


def length(rows: Rows) -> int:
    """How many rows there are."""
    return len(next(iter(rows.values()))) if rows else 0


def part(rows: Rows, first: int, end: int) -> Rows:
    """Rows from the `first` up to the `end`, without a copy."""
    return {name: column[first:end] for name, column in rows.items()}


def joined(one: Rows, other: Rows) -> Rows:
    """Rows, and others after them."""
    return {name: np.concatenate([column, other[name]]) for name, column in one.items()}


def own(rows: Rows) -> Rows:
    """A copy that keeps no other rows."""
    return {name: column.copy() for name, column in rows.items()}


def row_bytes(rows: Rows) -> int:
    """How large a row is."""
    return sum(
        OBJECT if column.dtype.hasobject else prod(column.shape[1:]) * column.dtype.itemsize for column in rows.values()
    )


class Shuffle:
    """Lets rows wait, up to `size` with the one that comes, and gives one of them for each that comes, drawn at random.

    The draws are those that would be made for each row by itself: how many rows come at a time makes no difference.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._room = size - 1
        self._draws = torch.Generator().manual_seed(seed)
        self._kept: dict[str, np.ndarray[Any, Any]] = {}
        self._count = 0

    def through(self, rows: Rows) -> Rows:
        """Let rows come. Returns those that were drawn for them, once there are enough."""
        if not self._kept:
            self._kept = {
                name: np.empty((self._room, *column.shape[1:]), column.dtype) for name, column in rows.items()
            }
        stay = min(self._room - self._count, length(rows))
        for name, column in rows.items():
            self._kept[name][self._count : self._count + stay] = column[:stay]
        self._count += stay
        return self._drawn(part(rows, stay, length(rows)))

    def _drawn(self, rows: Rows) -> Rows:
        """For each of the rows, one that waits or itself. Where one was drawn, the row takes its place."""
        if not length(rows):
            return rows
        places = torch.randint(self._room + 1, (length(rows),), generator=self._draws).numpy()
        places = places.astype(np.min_scalar_type(self._room))  # small ones are sorted several times as fast
        # A row goes to who next draws its place; the last to draw a place leaves its row there. The place after all
        # others is that of the row itself.
        order = np.argsort(places, kind="stable")
        sorted_places = places[order]
        is_itself = sorted_places == self._room
        is_same = sorted_places[1:] == sorted_places[:-1]
        came_now = is_itself.copy()
        came_now[1:] |= is_same
        source = order.copy()
        source[1:][is_same] = order[:-1][is_same]
        source[is_itself] = order[is_itself]
        stays = ~is_itself
        stays[:-1] &= ~is_same
        to, of = order[came_now], source[came_now]
        left, last = sorted_places[stays], order[stays]
        drawn: dict[str, np.ndarray[Any, Any]] = {}
        for name, column in rows.items():
            kept = self._kept[name]
            drawn[name] = kept.take(places, 0, mode="clip")
            drawn[name][to] = column[of]
            kept[left] = column[last]
        return drawn

    def rest(self) -> Rows:
        """All rows that wait, in an order that is drawn."""
        order = torch.randperm(self._count, generator=self._draws).numpy()
        rest = {name: column.take(order, 0) for name, column in self._kept.items()}
        self._kept, self._count = {}, 0
        return rest

    def state(self) -> tuple[Rows, torch.Tensor]:
        """The rows that wait, and how far the draws are."""
        return own(part(self._kept, 0, self._count)), self._draws.get_state()

    def go_on(self, state: tuple[Rows, torch.Tensor]) -> None:
        """Go on where a state says."""
        rows, draws = state
        self._kept, self._count = {}, 0
        if rows:
            self.through(rows)
        self._draws.set_state(draws)
