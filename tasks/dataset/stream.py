"""The steps of an in-port that a process has, as rows: those of its rank, taken by turns with other workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import wilkins.transport
from wilkins.tasks.dataset.disk import source_of
from wilkins.tasks.dataset.round_robin import RoundRobin, Taken
from wilkins.tasks.dataset.rows import Rows, of_objects
from wilkins.transport import points, steps
from wilkins.transport.channel import Channel
from wilkins.transport.received import Step

Paths = str | Sequence[str] | Mapping[str, str]


class Place:
    """How far an iteration is: steps that are done, samples of the next one, samples of all ranks before that."""

    def __init__(self, steps: int = 0, samples: int = 0, before: int = 0) -> None:
        self.steps = steps
        self.samples = samples
        self.before = before


class Stream:
    """An in-port, for one rank of several.

    Args:
        datasets: paths in the steps, by what they are called; or none,
        samples: and a function that gives a step's samples.
        is_uniform: rows must have one shape and type in all steps.
        is_noted: note where the steps are on the disk.
    """

    def __init__(
        self,
        pattern: str,
        datasets: Mapping[str, str],
        samples: Callable[[Step], Sequence[Any]] | None,
        rank: int,
        world_size: int,
        *,
        is_uniform: bool,
        is_noted: bool,
    ) -> None:
        self._pattern = pattern
        self._datasets = datasets
        self._samples = samples
        self._rank = rank
        self._world_size = world_size
        self._is_uniform = is_uniform
        self._is_noted = is_noted
        self._in_memory = False
        self._kinds: dict[str, tuple[Any, ...]] = {}
        self._turns = RoundRobin()

    def steps(self, place: Place, worker: int, workers: int) -> Iterator[Taken]:
        """The steps of this process from a place on, which is moved over those of other workers."""
        with wilkins.transport.open(self._pattern) as channel:
            self._in_memory = steps.port(self._pattern) is not None
            if workers > 1 and self._in_memory:
                steps.by_turns(self._pattern)
                yield from self._by_turns(channel, place, worker, workers)
                return
            first, before = place.steps, place.before
            number = _begins(self._pattern)
            for step in channel:
                if number >= first:
                    if number % workers == worker:
                        taken = self._taken(step, number, before)
                        before += taken.count
                        yield taken
                    else:  # each worker meets all files
                        before += self._count(step)
                        place.steps, place.before = number + 1, before
                number += 1

    def _by_turns(self, channel: Channel, place: Place, worker: int, workers: int) -> Iterator[Taken]:
        """The steps of a worker, of a stream that all workers of a rank share."""
        turns = self._turns
        turns.join(worker, _begins(self._pattern), place.steps, place.before)

        def take(number: int, before: int) -> Taken | None:
            step = next(channel, None)
            return None if step is None else self._taken(step, number, before)

        own = place.steps + (worker - place.steps) % workers
        while (taken := turns.next_of(own, workers, take)) is not None:
            yield taken
            own += workers

    def _taken(self, step: Step, number: int, before: int) -> Taken:
        """This rank's samples of a step, copied."""
        count = self._count(step)
        source = source_of(step, in_memory=self._in_memory) if self._is_noted else None
        return Taken(number, before, count, self._rows(step, (self._rank - before) % self._world_size), source)

    def _count(self, step: Step) -> int:
        """How many samples a step has."""
        if self._samples is not None:
            return len(self._samples(step))
        counts = {path: len(step[path]) for path in self._datasets.values()}
        if len(set(counts.values())) > 1:
            rows = ", ".join(f"{path!r} has {count}" for path, count in counts.items())
            raise ValueError(f"{step.filename}: the datasets have different numbers of rows: {rows}")
        return next(iter(counts.values()))

    def _rows(self, step: Step, first: int) -> Rows:
        """This rank's samples of a step, beginning with the `first`."""
        if self._samples is not None:
            samples = self._samples(step)[first :: self._world_size]
            return of_objects(samples, len(samples))
        rows = {name: step[path][first :: self._world_size].copy() for name, path in self._datasets.items()}
        for name, column in rows.items() if self._is_uniform else ():
            kind = (column.shape[1:], column.dtype)
            if kind != self._kinds.setdefault(name, kind):
                shape, dtype = self._kinds[name]
                raise ValueError(
                    f"{step.filename}: rows of {name!r} are {kind[1]} of the shape {kind[0]}, those before {dtype} of "
                    f"the shape {shape}; batches and epochs take rows of one kind"
                )
        return rows


def _begins(pattern: str) -> int:
    """With which of its steps the stream of an in-port begins: in a resumed run, that after its point, which another
    rank of the task may have needed. Files on disk, and a stream that is not gone on with, begin anew."""
    point = points.chosen()
    if point is None:
        return 0
    counts = {**point.consumed, **point.opened}
    return counts[pattern] if pattern in counts else next(iter(counts.values()), 0)
