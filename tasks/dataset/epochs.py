"""Samples that come again: the first of them from memory, the others from the disk, in an order that is known before.

Where each sample comes once an epoch, in an order that is drawn anew, no cache does better than one that keeps what
came first: whatever goes to make room for another sample is as likely to be the next one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from wilkins.tasks.dataset.disk import Files, Source
from wilkins.tasks.dataset.lack import Ahead
from wilkins.tasks.dataset.round_robin import Taken
from wilkins.tasks.dataset.rows import Rows, length, row_bytes
from wilkins.tasks.dataset.threads import Threads

WINDOW = 16 << 20
"""Bytes of samples that are asked for at once: the more, the closer together lie rows of one file."""
AHEAD = 2
"""Windows that are read while one is handed out."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]


def parsed(size: int | str) -> int:
    """A number of bytes.

    Raises:
        ValueError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([kKMGT]?)(i?)B?", str(size).strip())
    if not match:
        raise ValueError(f"cache is {size!r}, but must be a number of bytes, such as 500MB or 2GiB")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2].upper() or " "))


class Cache:
    """Keeps the samples that come first, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: dict[str, np.ndarray[Any, Any]] = {}
        self._count = 0
        self._places = np.empty(0, np.int64)
        """Where each sample is, by its number; -1: nowhere."""

    def add(self, numbers: Numbers, rows: Rows) -> int:
        """Keep as many of some samples as there is room for, the first of them. Returns how many."""
        room = self._limit // max(1, row_bytes(rows))
        stay = min(room - self._count, len(numbers))
        if stay <= 0:
            return 0
        end = self._count + stay
        for name, column in rows.items():
            if name not in self._kept:  # at once: memory is taken as it is filled
                self._kept[name] = np.empty((room, *column.shape[1:]), column.dtype)
            self._kept[name][self._count : end] = column[:stay]
        last = int(numbers[:stay].max()) + 1
        if last > len(self._places):
            more = np.full(max(last, 2 * len(self._places)) - len(self._places), -1)
            self._places = np.concatenate([self._places, more])
        self._places[numbers[:stay]] = np.arange(self._count, end)
        self._count = end
        return stay

    def places(self, numbers: Numbers) -> Numbers:
        """Where samples are kept; -1: nowhere."""
        if not len(self._places):
            return np.full(len(numbers), -1)
        return np.where(numbers < len(self._places), self._places.take(numbers, mode="clip"), -1)

    def take(self, places: Numbers, kind: Rows) -> dict[str, np.ndarray[Any, Any]]:
        """Samples that are kept, and any others where a place is -1, in columns of a kind."""
        if not self._count:
            return {name: np.empty((len(places), *column.shape[1:]), column.dtype) for name, column in kind.items()}
        return {name: column[: self._count].take(places, 0, mode="clip") for name, column in self._kept.items()}


@dataclass(frozen=True, slots=True)
class Had:
    """A step that came in the first epoch."""

    number: int
    """In the stream."""
    source: Source | None
    first: int
    """This process's first row in the step."""
    start: int
    """The number of that row's sample, counted over all steps of this process."""
    count: int


class Again:
    """The samples that a process has read in the first epoch.

    Args:
        limit: bytes to keep in memory.
        rank: of `ranks`; each reads every n-th row, n being their number.
        threads: that read from the disk.
        shared_by: processes that have these threads together (`threads.group`); None: this one alone.
    """

    def __init__(
        self, files: Files, limit: int, rank: int, ranks: int, threads: int, shared_by: str | None = None
    ) -> None:
        self._files = files
        self._cache = Cache(limit)
        self._limit = limit
        self._rank = rank
        self._ranks = ranks
        self._threads = threads
        self._shared_by = shared_by
        self._ahead = Ahead()
        self._empty: Rows = {}
        """Columns without rows."""
        self.steps: list[Had] = []

    @property
    def count(self) -> int:
        """How many there are."""
        return self.steps[-1].start + self.steps[-1].count if self.steps else 0

    def go_on(self, steps: Iterable[Had]) -> None:
        """Go on with the steps that a state says.

        Raises:
            RuntimeError: samples cannot come again.
        """
        self.steps = [replace(step, source=None if step.source is None else step.source.later()) for step in steps]
        if any(step.source is None for step in self.steps):
            raise RuntimeError(
                "a state of several epochs was loaded, but no file on the disk holds the samples that came before: "
                "give their out-port `mode: both` in a run that is to be resumed"
            )

    def add(self, taken: Taken) -> None:
        """Samples of the first epoch.

        Raises:
            RuntimeError: they could not come again.
        """
        rows, count = taken.rows, length(taken.rows)
        if not self.steps or self.steps[-1].number < taken.number:
            first = (self._rank - taken.before) % self._ranks
            self.steps.append(Had(taken.number, taken.source, first, self.count, count))
        elif taken.source is not None:  # it comes again, after a state was loaded
            self.steps[-1] = replace(self.steps[-1], source=taken.source)
        start = self.steps[-1].start
        self._empty = {name: column[:0].copy() for name, column in rows.items()}
        if self._cache.add(np.arange(start, start + count), rows) < count and taken.source is None:
            raise RuntimeError(
                f"samples of step {taken.number} do not fit into the cache of {self._limit} bytes, and no file on the "
                "disk holds the step, so that they cannot come again in further epochs: give its out-port "
                "`mode: both`, and each step a name of its own, or the dataset a larger `cache`"
            )

    def epoch(self, order: Numbers, multiple: int, done: Callable[[], int]) -> Iterator[Rows]:
        """The samples of some numbers, in this order, some at a time.

        Args:
            multiple: of how many, but for the last ones.
            done: gives how many of them were handed out.

        Raises:
            RuntimeError: a file cannot be read, or is not as it was.
        """
        if not len(order):
            return
        size = max(1, row_bytes(self._kind()))
        at_once = max(1, WINDOW // (size * multiple)) * multiple
        asked: deque[_Window] = deque()
        threads = Threads(self._threads, self._shared_by, self._ahead, done)
        try:
            for first in range(0, len(order), at_once):
                asked.append(self._ask(threads, first, order[first : first + at_once]))
                if len(asked) > AHEAD:
                    yield self._come(threads, asked.popleft())
            while asked:
                yield self._come(threads, asked.popleft())
        finally:
            threads.close()

    def _kind(self) -> Rows:
        """Columns without rows, as the samples are."""
        if not self._empty:  # all that came was before a state was saved
            source = next((step.source for step in self.steps if step.source is not None), None)
            assert source is not None
            self._empty = self._files.kind(source)
        return self._empty

    def _ask(self, threads: Threads, first: int, numbers: Numbers) -> _Window:
        """Have samples read that are not kept; the `first` ones of the epoch come before."""
        places = self._cache.places(numbers)
        missing = np.flatnonzero(places < 0)
        rows = {
            name: np.empty((len(missing), *column.shape[1:]), column.dtype) for name, column in self._kind().items()
        }
        wanted = numbers[missing]
        by_file = np.argsort(wanted)
        steps = np.searchsorted([step.start for step in self.steps], wanted[by_file], side="right") - 1
        edges = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(steps)] if len(steps) else []
        reads = []
        for begin, end in pairwise(edges):
            step, to = self.steps[int(steps[begin])], by_file[begin:end]
            assert step.source is not None  # or it would be kept
            of = step.first + self._ranks * (wanted[to] - step.start)
            reads.append((len(to), partial(self._files.read, step.source, of, rows, to)))
        return _Window(numbers, places, missing, rows, threads.ask(first + len(numbers), reads))

    def _come(self, threads: Threads, window: _Window) -> Rows:
        """What was asked for."""
        for one in window.reading:
            one.result()
        threads.come()
        rows = self._cache.take(window.places, window.rows)
        for name, column in window.rows.items():
            rows[name][window.missing] = column
        if len(window.missing):
            self._cache.add(window.numbers[window.missing], window.rows)
        return rows


class _Window(NamedTuple):
    """Samples that were asked for."""

    numbers: Numbers
    places: Numbers
    """Places of the samples in the cache; negative: not kept."""
    missing: Numbers
    """Which of them are not,"""
    rows: Rows
    """where they come to,"""
    reading: list[Future[None]]
    """and who reads them."""
