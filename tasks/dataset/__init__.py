"""Samples of a stream of steps for PyTorch: an iterable dataset whose workers and ranks share what comes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.utils.data import IterableDataset, get_worker_info

import wilkins.transport
from wilkins.tasks.dataset.rows import AT_ONCE, Rows, Shuffle, joined, length, of_objects, own, part, row_bytes
from wilkins.tasks.dataset.turns import Taken, Turns
from wilkins.transport import points, steps
from wilkins.transport.channel import Channel
from wilkins.transport.received import Step

Sample: TypeAlias = Any
"""A tensor, or a tuple or dict of tensors, as `datasets` says, of one row or of a batch; whatever `samples` or
`transform` make."""

Paths = str | Sequence[str] | Mapping[str, str]


class StepDataset(IterableDataset[Sample]):
    """The samples of an in-port's steps, as they come::

        loader = DataLoader(StepDataset("plt*.h5", {"x": "u", "y": "label"}, shuffle=1000), batch_size=32)
        for batch in loader:
            ...

    A step has as many samples as its datasets have rows; a sample is a row of each. Every sample of every step comes
    once, to one worker of one rank: rank r of n has the samples r, r + n, ... of the stream, so that ranks have as many
    but for one; the workers of a rank take its steps by turns, step k the worker k modulo their number. So samples come
    in the same order each time, workers or not. The iteration ends with the stream. Outside of a run, the steps are
    the files that match.

    With `batch`, it hands out batches instead, several times as fast: `DataLoader(dataset, batch_size=None)`. They are
    those that ``batch_size`` would make of the same dataset without `batch`, in the same order.

    Args:
        pattern: the in-port's ``filename``; may be left out in a task with one in-port.
        datasets: paths in the steps: of one, whose rows are the samples; of several, whose rows make tuples; or by
            name, for dicts. Rows are copied, in the type that they have in the file.
        samples: instead: called with a step (`wilkins.transport.Step`), gives a sequence of samples. They must not
            refer to memory of the step: copy what is kept.
        shuffle: samples that wait to be drawn from at random, in each process; 0 or 1: samples come in order.
        seed: of these draws. They are the same in each iteration, and other ones in each worker and rank.
        batch: samples of a batch. Batches go on over the ends of steps, and only the last one of each process may be
            smaller. Their tensors are parts of larger ones: copy one that is kept for long.
        drop_last: leave out a last batch that is smaller.
        transform: what is made of each sample; with `batch`, of each batch.
        rank, world_size: which part of the samples this process has; left out: as the task was started (``RANK`` and
            ``WORLD_SIZE``).

    Raises:
        TypeError: neither `datasets` nor `samples` is given, or both are; or `samples` with `batch`.
        ValueError: a number is out of range.
    """

    def __init__(
        self,
        pattern: str | os.PathLike[str] = "",
        datasets: Paths | None = None,
        *,
        samples: Callable[[Step], Sequence[Sample]] | None = None,
        shuffle: int = 0,
        seed: int = 0,
        batch: int | None = None,
        drop_last: bool = False,
        transform: Callable[[Sample], Sample] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if (datasets is None) == (samples is None):
            raise TypeError("give the paths of datasets, or `samples`, a function of a step, and not both")
        if samples is not None and batch is not None:
            raise TypeError("`batch` takes rows of datasets; of what `samples` gives, let the DataLoader make batches")
        if drop_last and batch is None:
            raise TypeError("`drop_last` is of `batch`; without it, give `drop_last` to the DataLoader")
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.world_size = int(os.environ.get("WORLD_SIZE", "1")) if world_size is None else world_size
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank {self.rank} is none of {self.world_size} ranks; they are counted from 0")
        if shuffle < 0:
            raise ValueError(f"shuffle is {shuffle}, but must be a number of samples, or 0")
        if batch is not None and batch < 1:
            raise ValueError(f"batch is {batch}, but must be a number of samples, 1 or more")
        self._pattern = os.fspath(pattern)
        self._datasets = datasets
        self._samples = samples
        self._shuffle = shuffle
        self._seed = seed
        self._transform = transform
        self._batch = batch
        self._drop_last = drop_last
        self._turns = Turns()
        self._place = _Place()
        self._shuffler: Shuffle | None = None
        self._ready: Rows = {}
        """Rows that come next, but for those of them that were handed out."""
        self._given = 0
        self._kinds: dict[str, tuple[Any, ...]] = {}
        self._restored = False
        self._part = (0, 1)
        self._is_of_worker = False
        self._has_workers = torch.zeros((), dtype=torch.bool).share_memory_()  # type: ignore[no-untyped-call]
        """Set by them, for the process that started them."""

    def __iter__(self) -> Iterator[Sample]:
        """The samples of this process.

        Raises:
            RuntimeError: a state was loaded that is that of another worker, or of none.
        """
        worker = get_worker_info()
        part = (worker.id, worker.num_workers) if worker else (0, 1)
        if self._restored and self._part != part:
            raise RuntimeError(
                f"a StepDataset was given the state of worker {self._part[0]} of {self._part[1]}, and is worker "
                f"{part[0]} of {part[1]}: go on with num_workers={self._part[1] if self._is_of_worker else 0}, and let "
                "torchdata's StatefulDataLoader load the states of workers"
            )
        if not self._restored:
            self._begin(part[0])
        self._restored = False
        self._part = part
        self._has_workers.fill_(worker is not None)
        ready = self._handed_out(filter(length, self._shuffled(self._in_order(*part))))
        yield from ready if self._transform is None else map(self._transform, ready)

    def _begin(self, worker: int) -> None:
        """As nothing was handed out."""
        self._place, self._ready, self._given, self._kinds = _Place(), {}, 0, {}
        seed = self._seed + 1_000_003 * self.rank + 7919 * worker
        self._shuffler = Shuffle(self._shuffle, seed) if self._shuffle > 1 else None

    def state_dict(self) -> dict[str, Any]:
        """How far the iteration is in this process, with the samples that wait to be drawn: a plain value that
        `torch.save` takes. ``steps`` of it are the steps of which all samples have been handed out or wait in it: what
        `wilkins.transport.points.tell` wants as `consumed`, or as `opened` where several producers write; of states of
        several workers, `steps_of` tells that.

        In a worker, it is the state of this worker alone. torchdata's ``StatefulDataLoader`` asks each for it, at the
        moment of the batch that was handed out last, and gives it back.

        Raises:
            RuntimeError: the iteration is that of workers, and this is not one of them.
        """
        worker = get_worker_info()
        if worker is None and self._has_workers.item():
            raise RuntimeError(
                "the samples are taken by the workers of a DataLoader, of which this process knows nothing: use "
                "torchdata's StatefulDataLoader, and save its state_dict()"
            )
        rest: Any = None
        left = length(self._ready) - self._given
        if self._shuffler is not None:
            rest = (self._shuffle, own(part(self._ready, self._given, self._given + left)), self._shuffler.state())
        return {
            "steps": self._place.steps,
            "samples": self._place.samples - (left if rest is None else 0),
            "before": self._place.before,
            "part": [worker.id, worker.num_workers] if worker else [0, 1],
            "rest": _packed(rest),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a state says. In a resumed run the stream begins with the step at which
        the state was saved; else, as with files on disk, with the first one, and those before are passed over."""
        self._part = (int(state["part"][0]), int(state["part"][1]))
        self._is_of_worker = self._part[1] > 1 or get_worker_info() is not None
        self._begin(self._part[0])
        self._place = _Place(state["steps"], state["samples"], state["before"])
        self._go_on(_unpacked(state["rest"]))
        self._restored = True

    @staticmethod
    def steps_of(state: object) -> int:
        """How many steps a state contains, from the first one on: one of a `StepDataset`, or whatever holds those of
        its workers, such as the state of a ``StatefulDataLoader``. For `wilkins.transport.points.tell`.

        Raises:
            ValueError: there is no state of a `StepDataset` in it.
        """
        found = list(_steps_in(state))
        if not found:
            raise ValueError("there is no state of a StepDataset in this")
        return min(found)

    def _go_on(self, rest: Any) -> None:
        """Go on with the samples that wait in a state."""
        size, ready, waiting = (0, {}, ({}, None)) if rest is None else rest
        if self._place.steps == self._place.samples == size == 0:
            return
        if size != (self._shuffle if self._shuffler else 0):
            raise RuntimeError(f"the state is one of shuffle={size}, and the dataset has shuffle={self._shuffle}")
        if (kept := ready or waiting[0]) and ("" in kept) != (self._batch is None):
            raise RuntimeError(f"the state is one {'without' if '' in kept else 'with'} `batch`, unlike the dataset")
        self._ready = ready
        if self._shuffler is not None:
            self._shuffler.go_on(waiting)

    def _shuffled(self, pieces: Iterator[Rows]) -> Iterator[Rows]:
        """Rows in the order in which they are handed out, beginning with those that are ready."""
        shuffler = self._shuffler
        yield self._ready
        if shuffler is None:
            yield from pieces
        else:
            yield from map(shuffler.through, pieces)
            yield shuffler.rest()

    def _handed_out(self, pieces: Iterator[Rows]) -> Iterator[Sample]:
        """The samples, or batches of them. What `_ready` says is right whenever one is handed out."""
        if self._batch is not None:
            yield from self._batches(pieces, self._batch)
            return
        for rows in pieces:
            self._ready, self._given = rows, 0
            for sample in rows.get("", ()):
                self._given += 1
                yield sample

    def _batches(self, pieces: Iterator[Rows], size: int) -> Iterator[Sample]:
        begun: Rows = {}
        for rows in pieces:
            first = 0
            if length(begun):
                first = min(size - length(begun), length(rows))
                begun = joined(begun, part(rows, 0, first))
                if length(begun) < size:
                    continue
                self._ready, self._given = rows, first
                yield self._batched([torch.from_numpy(column) for column in begun.values()])
            end = length(rows) - (length(rows) - first) % size
            self._ready = rows
            if end > first:
                columns = [_split(torch.from_numpy(column[first:end]), size) for column in rows.values()]
                for number, batch in enumerate(zip(*columns, strict=True), start=1):
                    self._given = first + number * size
                    yield self._batched(batch)
            begun = part(rows, end, length(rows))
        self._ready, self._given = {}, 0
        if length(begun) and not self._drop_last:
            yield self._batched([torch.from_numpy(column) for column in begun.values()])

    def _in_order(self, worker: int, workers: int) -> Iterator[Rows]:
        """The rows of this process, step by step."""
        place = self._place
        for step in self._own_steps(worker, workers):
            place.steps, place.before = step.number, step.before
            rows = self._split(step.rows)
            count = length(rows)
            at_once = count if self._shuffler is None else max(1, AT_ONCE // max(1, row_bytes(rows)))
            while place.samples < count:
                first, place.samples = place.samples, min(place.samples + at_once, count)
                yield part(rows, first, place.samples)
            place.samples, place.steps, place.before = 0, step.number + 1, step.before + step.count

    def _own_steps(self, worker: int, workers: int) -> Iterator[Taken]:
        """The steps of this process."""
        with wilkins.transport.open(self._pattern) as channel:
            if workers > 1 and steps.port(self._pattern) is not None:
                steps.by_turns(self._pattern)
                yield from self._by_turns(channel, worker, workers)
                return
            place = self._place
            first, before = place.steps, place.before
            number = _begins(self._pattern)
            for step in channel:
                if number >= first:
                    taken = self._taken(step, number, before)
                    before += taken.count
                    if number % workers == worker:  # each worker meets all files
                        yield taken
                    else:
                        place.steps, place.before = number + 1, before
                number += 1

    def _by_turns(self, channel: Channel, worker: int, workers: int) -> Iterator[Taken]:
        """The steps of a worker, of a stream that all workers of a rank share."""
        place, turns = self._place, self._turns
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
        return Taken(number, before, count, self._rows(step, (self.rank - before) % self.world_size))

    def _named(self) -> dict[str, str]:
        """The datasets, by what they are called in a sample."""
        paths = self._datasets
        if isinstance(paths, Mapping):
            return dict(paths)
        return {path: path for path in ([paths] if isinstance(paths, str) else paths or ())}

    def _count(self, step: Step) -> int:
        """How many samples a step has."""
        if self._samples is not None:
            return len(self._samples(step))
        counts = {path: len(step[path]) for path in self._named().values()}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{path!r} has {count}" for path, count in counts.items())
            raise ValueError(f"{step.filename}: the datasets have different numbers of rows: {told}")
        return next(iter(counts.values()))

    def _rows(self, step: Step, first: int) -> Rows:
        """This rank's samples of a step, beginning with the `first`."""
        if self._samples is not None:
            samples = self._samples(step)[first :: self.world_size]
            return of_objects(samples, len(samples))
        rows = {name: step[path][first :: self.world_size].copy() for name, path in self._named().items()}
        for name, column in rows.items() if self._batch is not None else ():
            kind = (column.shape[1:], column.dtype)
            if kind != self._kinds.setdefault(name, kind):
                shape, dtype = self._kinds[name]
                raise ValueError(
                    f"{step.filename}: rows of {name!r} are {kind[1]} of the shape {kind[0]}, those before {dtype} of "
                    f"the shape {shape}, and cannot be in one batch"
                )
        return rows

    def _split(self, rows: Rows) -> Rows:
        """As they are shuffled: whole rows for batches, else the samples that are made of them."""
        if self._batch is not None or self._samples is not None:
            return rows
        tensors = [torch.from_numpy(column) for column in rows.values()]
        return of_objects(map(self._batched, zip(*tensors, strict=True)), length(rows))

    def _batched(self, tensors: Sequence[torch.Tensor]) -> Sample:
        """A sample, or a batch, of one tensor for each dataset."""
        if isinstance(self._datasets, str):
            return tensors[0]
        if isinstance(self._datasets, Mapping):
            return dict(zip(self._datasets, tensors, strict=True))
        return tuple(tensors)


def _split(tensor: torch.Tensor, size: int) -> tuple[torch.Tensor, ...]:
    """Views of so many rows each."""
    return tensor.split(size)  # type: ignore[no-untyped-call,no-any-return]


def _packed(value: Any) -> bytes:
    """As bytes, with which processes deal better than with hundreds of tensors."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def _unpacked(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=False)  # this process's own, or what its user has loaded


def _steps_in(state: object) -> Iterator[int]:
    if isinstance(state, Mapping):
        if state.keys() >= {"steps", "samples", "before", "part", "rest"}:
            yield int(state["steps"])
        else:
            for inner in state.values():
                yield from _steps_in(inner)
    elif isinstance(state, (list, tuple)):
        for inner in state:
            yield from _steps_in(inner)


def _begins(pattern: str) -> int:
    """With which of its steps the stream of an in-port begins: in a resumed run, that after its point, which another
    rank of the task may have needed. Files on disk, and a stream that is not gone on with, begin anew."""
    point = points.chosen()
    if point is None:
        return 0
    counts = {**point.consumed, **point.opened}
    return counts[pattern] if pattern in counts else next(iter(counts.values()), 0)


class _Place:
    """How far an iteration is: steps that are done, samples of the next one, samples of all ranks before that."""

    def __init__(self, steps: int = 0, samples: int = 0, before: int = 0) -> None:
        self.steps = steps
        self.samples = samples
        self.before = before
