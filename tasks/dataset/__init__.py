"""Samples of a stream of steps for PyTorch: an iterable dataset whose workers and ranks share what comes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from wilkins.tasks.dataset.disk import Files
from wilkins.tasks.dataset.epochs import Again, parsed
from wilkins.tasks.dataset.rows import AT_ONCE, Rows, Shuffle, joined, length, of_objects, own, part, row_bytes
from wilkins.tasks.dataset.stream import Paths, Place, Stream
from wilkins.tasks.dataset.threads import group
from wilkins.transport.received import Step

Sample: TypeAlias = Any
"""A tensor, or a tuple or dict of tensors, as `datasets` says, of one row or of a batch; whatever `samples` or
`transform` make."""


TENSORS = 4096
"""Samples of a further epoch that are made at a time."""


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

    With `epochs`, one iteration goes over the samples several times: first as the stream brings them, then each process
    over those that it has read, shuffled if `shuffle` says so. What fits into the `cache` comes from memory;
    the rest from the files on the disk, which a run has with ``mode: both``, ahead of when it is needed.

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
        epochs: how often each sample comes. Batches do not go on from one epoch to the next.
        cache: bytes of samples that each rank keeps in memory for further epochs, those that came first; workers share
            them equally. Such as ``500MB`` or ``2GiB``.
        threads: that read from the disk, in each process; left out: 8.
        threads_per_host: instead, those of all ranks and workers of the task on one host together. Who would have its
            samples late has more of them; each that reads has one at least. Samples and their order are the same.
        transform: what is made of each sample; with `batch`, of each batch.
        rank, world_size: which part of the samples this process has; left out: as the task was started (``RANK`` and
            ``WORLD_SIZE``).

    Raises:
        TypeError: neither `datasets` nor `samples` is given, or both are; `samples` with `batch` or `epochs`; or a
            number is none.
        ValueError: a number is out of range, or `datasets` is empty.
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
        epochs: int = 1,
        cache: int | str = "1GiB",
        threads: int | None = None,
        threads_per_host: int | None = None,
        transform: Callable[[Sample], Sample] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        for name, number in (
            ("shuffle", shuffle),
            ("seed", seed),
            ("batch", batch),
            ("epochs", epochs),
            ("threads", threads),
            ("threads_per_host", threads_per_host),
        ):
            if number is not None and (isinstance(number, bool) or not isinstance(number, Integral)):
                raise TypeError(f"{name} is {number!r}, but must be a whole number")
        if datasets is not None and not datasets:
            raise ValueError("`datasets` names none; give the paths of those that make a sample")
        if (datasets is None) == (samples is None):
            raise TypeError("give the paths of datasets, or `samples`, a function of a step, and not both")
        if samples is not None and batch is not None:
            raise TypeError("`batch` takes rows of datasets; of what `samples` gives, let the DataLoader make batches")
        if samples is not None and epochs > 1:
            raise TypeError("`epochs` takes rows of datasets, which can be found again on the disk, not `samples`")
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
        if threads is not None and threads_per_host is not None:
            raise TypeError("give `threads` of each process, or `threads_per_host`, which they share, and not both")
        for name, number in (("epochs", epochs), ("threads", threads), ("threads_per_host", threads_per_host)):
            if number is not None and number < 1:
                raise ValueError(f"{name} is {number}, but must be 1 or more")
        self._datasets = datasets
        self._samples = samples
        self._shuffle = shuffle
        self._seed = seed
        self._transform = transform
        self._batch = batch
        self._drop_last = drop_last
        self._epochs = epochs
        self._cache = parsed(cache)
        self._threads = threads_per_host or threads or 8
        self._shared_by = group(self.world_size) if threads_per_host else None
        self._named = _named(datasets)
        self._stream = Stream(
            os.fspath(pattern), self._named, samples, self.rank, self.world_size,
            is_uniform=batch is not None or epochs > 1, is_noted=epochs > 1,
        )  # fmt: skip
        self._place = Place()
        self._epoch = 0
        self._at = 0
        """Samples of a further epoch that were handed out or are ready."""
        self._again: Again | None = None
        self._shuffler: Shuffle | None = None
        self._ready: Rows = {}
        """Rows that come next, but for those of them that were handed out."""
        self._given = 0
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
            self._begin(*part)
        self._restored = False
        self._part = part
        self._has_workers.fill_(worker is not None)
        ready = self._all(*part)
        yield from ready if self._transform is None else map(self._transform, ready)

    def _all(self, worker: int, workers: int) -> Iterator[Sample]:
        """The samples of all epochs."""
        if self._epoch == 0:
            yield from self._handed_out(self._shuffled(self._in_order(worker, workers)))
        else:
            for _ in self._stream.steps(self._place, worker, workers):
                pass  # nothing is left, but a stream is read to its end
            yield from self._handed_out(self._once_more(worker))
        while self._epoch + 1 < self._epochs:
            self._epoch, self._at, self._ready, self._given = self._epoch + 1, 0, {}, 0
            yield from self._handed_out(self._once_more(worker))

    def _begin(self, worker: int, workers: int) -> None:
        """As nothing was handed out."""
        self._place, self._ready, self._given, self._epoch, self._at = Place(), {}, 0, 0, 0
        self._shuffler = Shuffle(self._shuffle, self._seed_of(worker)) if self._shuffle > 1 else None
        if self._epochs > 1:
            self._again = Again(
                Files(self._named), self._cache // workers, self.rank, self.world_size, self._threads, self._shared_by
            )

    @property
    def _identity(self) -> dict[str, int]:
        """What decides which samples come, and in which order, beyond what a state holds: a shuffle of one epoch brings
        its draws along."""
        draws = {"shuffle": self._shuffle, "seed": self._seed} if self._epochs > 1 and self._shuffle > 1 else {}
        return {"rank": self.rank, "world_size": self.world_size, **draws}

    def _seed_of(self, worker: int) -> int:
        return self._seed + 1_000_003 * self.rank + 7919 * worker + 15_485_863 * self._epoch

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
        if self._shuffler is not None and self._epoch == 0:
            rest = (self._shuffle, own(part(self._ready, self._given, self._given + left)), self._shuffler.state())
        return {
            "steps": self._place.steps,
            "samples": self._place.samples - (left if rest is None and self._epoch == 0 else 0),
            "before": self._place.before,
            "epoch": self._epoch,
            "at": self._at - left if self._epoch else 0,
            "part": [worker.id, worker.num_workers] if worker else [0, 1],
            "of": self._identity,
            "rest": _packed((rest, self._again.steps if self._again else None)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a state says. In a resumed run the stream begins with the step at which
        the state was saved; else, as with files on disk, with the first one, and those before are passed over.

        Raises:
            RuntimeError: it is the state of a dataset that gives other samples, or in another order.
            ValueError: it is no state of a `StepDataset`.
        """
        if not isinstance(state, Mapping) or not {"part", "steps", "samples", "rest"} <= state.keys():
            raise ValueError("this is no state of a StepDataset: give back what its state_dict() gave")
        self._part = (int(state["part"][0]), int(state["part"][1]))
        self._is_of_worker = self._part[1] > 1 or get_worker_info() is not None
        self._begin(*self._part)
        self._place = Place(state["steps"], state["samples"], state["before"])
        self._epoch, self._at = int(state["epoch"]), int(state["at"])
        rest, seen = _unpacked(state["rest"])
        has_begun = self._epoch or self._place.steps or self._place.samples
        if self._epoch >= self._epochs or (seen is None and has_begun and self._epochs > 1):
            saved = "one epoch" if seen is None else f"epoch {self._epoch + 1}"
            raise RuntimeError(f"the state is that of {saved}, and the dataset has epochs={self._epochs}")
        if has_begun and (others := _differences(state["of"], self._identity)):
            raise RuntimeError(f"the state is one of {others[0]}, and the dataset has {others[1]}")
        if self._epoch == 0:
            self._go_on(rest)
        if self._again is not None:
            self._again.go_on(seen or [])
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
        """Rows of the first epoch in the order in which they are handed out, beginning with those that are ready."""
        shuffler = self._shuffler
        yield self._ready
        if shuffler is None:
            yield from pieces
        else:
            yield from map(shuffler.through, pieces)
            yield shuffler.rest()

    def _once_more(self, worker: int) -> Iterator[Rows]:
        """Rows of a further epoch, in its order, beginning with those that were not handed out."""
        assert self._again is not None
        order = np.arange(self._again.count)
        if self._shuffle > 1:
            draws = torch.Generator().manual_seed(self._seed_of(worker))
            order = torch.randperm(len(order), generator=draws).numpy()
        begins = self._at

        def done() -> int:
            return self._at - (length(self._ready) - self._given) - begins

        for rows in self._again.epoch(order[begins:], self._batch or 1, done):
            at_once = length(rows) if self._batch is not None else TENSORS
            for first in range(0, length(rows), at_once):
                some = part(rows, first, first + at_once)
                self._at += length(some)
                yield self._split(some)

    def _handed_out(self, pieces: Iterator[Rows]) -> Iterator[Sample]:
        """The samples, or batches of them. What `_ready` says is right whenever one is handed out."""
        pieces = filter(length, pieces)
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
        for step in self._stream.steps(place, worker, workers):
            if self._again is not None:
                self._again.add(step)
            place.steps, place.before = step.number, step.before
            rows = self._split(step.rows)
            count = length(rows)
            at_once = count if self._shuffler is None else max(1, AT_ONCE // max(1, row_bytes(rows)))
            while place.samples < count:
                first, place.samples = place.samples, min(place.samples + at_once, count)
                yield part(rows, first, place.samples)
            place.samples, place.steps, place.before = 0, step.number + 1, step.before + step.count

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


def _differences(before: Mapping[str, int], now: Mapping[str, int]) -> tuple[str, str] | None:
    """What of an identity was otherwise, and what it is now; None: nothing."""
    names = [name for name in {**before, **now} if before.get(name, 0) != now.get(name, 0)]
    was, is_now = (", ".join(f"{name}={of.get(name, 0)}" for name in names) for of in (before, now))
    return (was, is_now) if names else None


def _named(datasets: Paths | None) -> dict[str, str]:
    """The datasets, by what they are called in a sample."""
    if isinstance(datasets, Mapping):
        return dict(datasets)
    return {path: path for path in ([datasets] if isinstance(datasets, str) else datasets or ())}


def _split(tensor: torch.Tensor, size: int) -> tuple[torch.Tensor, ...]:
    """Splits rows into views of equal length."""
    return tensor.split(size)  # type: ignore[no-untyped-call,no-any-return]


def _packed(value: Any) -> bytes:
    """The value as bytes, which processes exchange faster than hundreds of tensors."""
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
