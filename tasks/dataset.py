"""Samples of a stream of steps for PyTorch: an iterable dataset whose workers and ranks share what comes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.utils.data import IterableDataset, get_worker_info

import wilkins.transport
from wilkins.transport import points, steps
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
    but for one; the workers of a rank take its steps by turns. The iteration ends with the stream. Outside of a run,
    the steps are the files that match.

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

    def __iter__(self) -> Iterator[Sample]:
        """The samples of this process.

        Raises:
            RuntimeError: a state was loaded, and workers are to go on from it.
        """
        worker = get_worker_info()
        if self._restored and worker is not None:
            raise RuntimeError("a state of a StepDataset is that of one process: go on with num_workers=0")
        if not self._restored:
            self._place, self._waiting = _Place(), []
            self._draws = self._generator(worker.id if worker else 0)
        self._restored = False
        drawn = self._shuffled(self._in_order(worker.id if worker else 0, worker.num_workers if worker else 1))
        yield from drawn if self._transform is None else map(self._transform, drawn)

    def state_dict(self) -> dict[str, Any]:
        """How far the iteration is in this process, with the samples that wait to be drawn: a plain value that
        `torch.save` takes. ``steps`` of it are the steps of which all samples have been handed out or wait in it: what
        `wilkins.transport.points.tell` wants as `consumed`, or as `opened` where several producers write.

        Raises:
            RuntimeError: in a worker of a DataLoader, whose part alone tells nothing of the others.
        """
        if get_worker_info() is not None:
            raise RuntimeError("only the state of an iteration without workers (num_workers=0) can be saved")
        return {
            "steps": self._place.steps,
            "samples": self._place.samples,
            "before": self._place.before,
            "waiting": list(self._waiting),
            "draws": None if self._draws is None else self._draws.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a state says. In a resumed run the stream begins with the step at which
        the state was saved; else, as with files on disk, with the first one, and those before are passed over."""
        self._place = _Place(state["steps"], state["samples"], state["before"])
        self._waiting = list(state["waiting"])
        self._draws = self._generator(0)
        if state["draws"] is not None:
            self._draws.set_state(state["draws"])
        self._restored = True

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
        place, skip = self._place, self._place.samples
        passed = place.steps if points.chosen() is None else 0
        in_turns = workers > 1 and steps.port(self._pattern) is not None
        if in_turns:
            steps.by_turns(self._pattern)
        number = -1
        with wilkins.transport.open(self._pattern) as channel:
            while True:
                with self._turns.of(place) if in_turns else contextlib.nullcontext():
                    step = next(channel, None)
                    if step is None:
                        return
                    number += 1
                    if number < passed:
                        continue
                    before, count = place.before, self._count(step)
                    if in_turns:
                        place.before += count
                if in_turns or number % workers == worker:  # of files on disk, each worker meets all
                    rows = self._rows(step, (self.rank - before) % self.world_size)
                    del step
                    for sample in range(skip, len(rows)):
                        place.samples = sample + 1
                        yield rows[sample]
                skip = place.samples = 0
                place.steps += 1
                if not in_turns:
                    place.before = before + count

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

    def _rows(self, step: Step, first: int) -> Sequence[Sample]:
        """This rank's samples of a step, beginning with the `first`."""
        if self._samples is not None:
            return self._samples(step)[first :: self.world_size]
        rows = {
            name: torch.from_numpy(step[path][first :: self.world_size].copy()) for name, path in self._named().items()
        }
        if isinstance(self._datasets, str):
            return list(rows[self._datasets])
        mine = range(len(next(iter(rows.values()))))
        if isinstance(self._datasets, Mapping):
            return [{name: tensor[number] for name, tensor in rows.items()} for number in mine]
        return [tuple(tensor[number] for tensor in rows.values()) for number in mine]


class _Place:
    """How far an iteration is: steps that are done, samples of the next one, samples of all ranks before that."""

    def __init__(self, steps: int = 0, samples: int = 0, before: int = 0) -> None:
        self.steps = steps
        self.samples = samples
        self.before = before


class _Turns:
    """Lets the processes of a rank take steps one at a time, and tells each how many samples came before its step.

    By a file in the run's folder, which goes with it, since workers may be forked or spawned.
    """

    def __init__(self) -> None:
        self._path = ""
        if run := os.environ.get("WILKINS_RUN"):
            descriptor, self._path = tempfile.mkstemp(prefix="turns-", dir=run)
            os.close(descriptor)

    @contextlib.contextmanager
    def of(self, place: _Place) -> Iterator[None]:
        """A turn: in it, the samples before the next step are those that all processes know of."""
        file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            place.before = int(os.pread(file, 32, 0) or 0)
            yield
            os.pwrite(file, f"{place.before:032}".encode(), 0)
        finally:
            os.close(file)
