"""Samples of a stream of steps for PyTorch: an iterable dataset whose workers and ranks share what comes."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.utils.data import IterableDataset, get_worker_info

import wilkins.transport
from wilkins.transport import points, steps
from wilkins.transport.channel import Channel
from wilkins.transport.received import Step

Sample: TypeAlias = Any
"""A tensor, or a tuple or dict of tensors, as `datasets` says; whatever `samples` or `transform` make."""

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

    Args:
        pattern: the in-port's ``filename``; may be left out in a task with one in-port.
        datasets: paths in the steps: of one, whose rows are the samples; of several, whose rows make tuples; or by
            name, for dicts. Rows are copied, in the type that they have in the file.
        samples: instead: called with a step (`wilkins.transport.Step`), gives a sequence of samples. They must not
            refer to memory of the step: copy what is kept.
        shuffle: samples that wait to be drawn from at random, in each process; 0 or 1: samples come in order.
        seed: of these draws. They are the same in each iteration, and other ones in each worker and rank.
        transform: what is made of each sample.
        rank, world_size: which part of the samples this process has; left out: as the task was started (``RANK`` and
            ``WORLD_SIZE``).

    Raises:
        TypeError: neither `datasets` nor `samples` is given, or both are.
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
        transform: Callable[[Sample], Sample] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if (datasets is None) == (samples is None):
            raise TypeError("give the paths of datasets, or `samples`, a function of a step, and not both")
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.world_size = int(os.environ.get("WORLD_SIZE", "1")) if world_size is None else world_size
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank {self.rank} is none of {self.world_size} ranks; they are counted from 0")
        if shuffle < 0:
            raise ValueError(f"shuffle is {shuffle}, but must be a number of samples, or 0")
        self._pattern = os.fspath(pattern)
        self._datasets = datasets
        self._samples = samples
        self._shuffle = shuffle
        self._seed = seed
        self._transform = transform
        self._turns = _Turns()
        self._place = _Place()
        self._draws: torch.Generator | None = None
        self._waiting: list[Sample] = []
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
            self._place, self._waiting = _Place(), []
            self._draws = self._generator(part[0])
        self._restored = False
        self._part = part
        self._has_workers.fill_(worker is not None)
        drawn = self._shuffled(self._in_order(*part))
        yield from drawn if self._transform is None else map(self._transform, drawn)

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
        return {
            "steps": self._place.steps,
            "samples": self._place.samples,
            "before": self._place.before,
            "part": [worker.id, worker.num_workers] if worker else [0, 1],
            "rest": _packed((self._waiting, None if self._draws is None else self._draws.get_state())),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a state says. In a resumed run the stream begins with the step at which
        the state was saved; else, as with files on disk, with the first one, and those before are passed over."""
        self._place = _Place(state["steps"], state["samples"], state["before"])
        self._part = (int(state["part"][0]), int(state["part"][1]))
        self._is_of_worker = self._part[1] > 1 or get_worker_info() is not None
        self._waiting, draws = _unpacked(state["rest"])
        self._draws = self._generator(self._part[0])
        if draws is not None:
            self._draws.set_state(draws)
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

    def _generator(self, worker: int) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed + 1_000_003 * self.rank + 7919 * worker)

    def _shuffled(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        if self._shuffle < 2:
            yield from samples
            return
        assert self._draws is not None
        for sample in samples:
            self._waiting.append(sample)
            if len(self._waiting) >= self._shuffle:
                yield self._drawn()
        while self._waiting:
            yield self._drawn()

    def _drawn(self) -> Sample:
        place = int(torch.randint(len(self._waiting), (1,), generator=self._draws))
        self._waiting[place], self._waiting[-1] = self._waiting[-1], self._waiting[place]
        return self._waiting.pop()

    def _in_order(self, worker: int, workers: int) -> Iterator[Sample]:
        """The samples of this process, step by step."""
        place = self._place
        for step in self._own_steps(worker, workers):
            place.steps, place.before = step.number, step.before
            rows = self._split(step.block)
            for sample in range(place.samples, len(rows)):
                place.samples = sample + 1
                yield rows[sample]
            place.samples, place.steps, place.before = 0, step.number + 1, step.before + step.count

    def _own_steps(self, worker: int, workers: int) -> Iterator[_Taken]:
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

    def _by_turns(self, channel: Channel, worker: int, workers: int) -> Iterator[_Taken]:
        """The steps of a worker, of a stream that all workers of a rank share."""
        place, turns = self._place, self._turns
        turns.join(worker, _begins(self._pattern), place.steps, place.before)

        def take(number: int, before: int) -> _Taken | None:
            step = next(channel, None)
            return None if step is None else self._taken(step, number, before)

        own = place.steps + (worker - place.steps) % workers
        while (taken := turns.next_of(own, workers, take)) is not None:
            yield taken
            own += workers

    def _taken(self, step: Step, number: int, before: int) -> _Taken:
        """This rank's samples of a step, copied."""
        count = self._count(step)
        return _Taken(number, before, count, self._block(step, (self.rank - before) % self.world_size))

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

    def _block(self, step: Step, first: int) -> Any:
        """This rank's samples of a step, beginning with the `first`, as they are kept together."""
        if self._samples is not None:
            return self._samples(step)[first :: self.world_size]
        return {
            name: torch.from_numpy(step[path][first :: self.world_size].copy()) for name, path in self._named().items()
        }

    def _split(self, block: Any) -> Sequence[Sample]:
        """The samples of a block."""
        if self._samples is not None:
            samples: Sequence[Sample] = block
            return samples
        if isinstance(self._datasets, str):
            return list(block[self._datasets])
        mine = range(len(next(iter(block.values()))))
        if isinstance(self._datasets, Mapping):
            return [{name: tensor[number] for name, tensor in block.items()} for number in mine]
        return [tuple(tensor[number] for tensor in block.values()) for number in mine]


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


@dataclass(frozen=True, slots=True)
class _Taken:
    """A step's samples, copied from it."""

    number: int
    """Of the step in the stream."""
    before: int
    """Samples of all ranks in the steps before."""
    count: int
    """Samples of all ranks in this one."""
    block: Any


class _Place:
    """How far an iteration is: steps that are done, samples of the next one, samples of all ranks before that."""

    def __init__(self, steps: int = 0, samples: int = 0, before: int = 0) -> None:
        self.steps = steps
        self.samples = samples
        self.before = before


class _Turns:
    """Lets the workers of a rank share a stream, step k for the worker k modulo their number.

    Whoever needs a step that has not come takes the next one, in its order. If that is another worker's, who has enough
    for now, it is laid aside for it. Workers may be forked or spawned, so that all this is in files of the run's
    folder, which go with it.
    """

    PATIENCE = 0.02
    """Seconds in which a worker may come for its step itself."""
    PAUSE = 0.001

    def __init__(self) -> None:
        self._path = ""
        if run := os.environ.get("WILKINS_RUN"):
            descriptor, self._path = tempfile.mkstemp(prefix="turns-", dir=run)
            os.close(descriptor)

    def join(self, worker: int, first: int, at: int, before: int) -> None:
        """Take part.

        Args:
            first: number of the step with which the stream begins.
            at: the first step that this worker has not done, be it its own or not.
            before: samples of all ranks before that.
        """
        with self._locked() as shared:
            assert shared is not None
            if worker in shared.at:  # an iteration that begins anew finds the stream where the one before has left it
                return
            if not shared.at:
                shared.next = first
            shared.at[worker] = at
            shared.told[at] = before

    def next_of(self, own: int, workers: int, take: Callable[[int, int], _Taken | None]) -> _Taken | None:
        """The step of a number; None: the stream has ended before. `take` gives the next one of the stream."""
        laid, since = f"{self._path}-{own}", time.monotonic()
        while True:
            if (taken := _fetched(laid)) is not None:
                return taken
            with self._locked(wait=False) as shared:
                if shared is not None and (taken := _fetched(laid)) is not None:
                    return taken
                if shared is not None and shared.ended:
                    return None
                if shared is None:
                    time.sleep(self.PAUSE)
                    continue
                number, owner = shared.next, shared.next % workers
                before = shared.told.get(number) if shared.before is None else shared.before
                is_passed = len(shared.at) == workers and number < min(shared.at.values())  # needed by other ranks
                is_late = time.monotonic() > since + self.PATIENCE
                if is_passed or (before is not None and owner in shared.at and (number == own or is_late)):
                    taken = take(number, before or 0)
                    if taken is None:
                        shared.ended = True
                        return None
                    shared.next = number + 1
                    shared.before = None if before is None else before + taken.count
                    if number == own:
                        return taken
                    if number >= shared.at[owner]:
                        _lay(f"{self._path}-{number}", taken)
                    continue
            time.sleep(self.PAUSE)

    @contextlib.contextmanager
    def _locked(self, *, wait: bool = True) -> Iterator[_Shared | None]:
        """What the workers share, which is written back; None: another one has it."""
        file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield None
                return
            text = os.pread(file, os.fstat(file).st_size, 0)
            shared = _Shared(*pickle.loads(text)) if text else _Shared()
            yield shared
            written = pickle.dumps((shared.next, shared.before, shared.ended, shared.at, shared.told))
            if written != text:
                os.ftruncate(file, len(written))
                os.pwrite(file, written, 0)
        finally:
            os.close(file)


@dataclass(slots=True)
class _Shared:
    """What the workers of a rank know together."""

    next: int = 0
    """Number of the next step of the stream."""
    before: int | None = None
    """Samples of all ranks before that; None: no worker knows them yet."""
    ended: bool = False
    at: dict[int, int] = field(default_factory=dict)
    """Of each worker, the first step that it had not done when it joined,"""
    told: dict[int, int] = field(default_factory=dict)
    """and samples of all ranks before that, by its number."""


def _lay(path: str, taken: _Taken) -> None:
    """Lay a step aside for another worker."""
    part = Path(f"{path}.part")
    torch.save((taken.number, taken.before, taken.count, taken.block), part)
    part.rename(path)


def _fetched(path: str) -> _Taken | None:
    """What was laid aside, which is taken away; None: there is nothing."""
    laid = Path(path)
    if not laid.exists():
        return None
    taken = _Taken(*torch.load(laid, weights_only=False))
    laid.unlink()
    return taken
