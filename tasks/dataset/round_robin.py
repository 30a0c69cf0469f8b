"""Workers of a rank that share a stream: step k for the worker k modulo their number."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from wilkins.tasks.dataset.disk import Source
from wilkins.tasks.dataset.rows import Rows


@dataclass(frozen=True, slots=True)
class Taken:
    """A step's samples, copied from it."""

    number: int
    """Number of the step in the stream."""
    before: int
    """Samples of all ranks in the steps before."""
    count: int
    """Samples of all ranks in this one."""
    rows: Rows
    """The samples of this rank."""
    source: Source | None
    """The file that has them, if it is known to be on the disk."""


class RoundRobin:
    """Lets the workers of a rank share a stream, step k for the worker k modulo their number.

    A worker that needs a step which has not come takes the next one of the stream. If that belongs to another, busy
    worker, it is stored for that one. Workers may be forked or spawned, so that all this is in files of the run's
    folder, which go with it.
    """

    PATIENCE = 0.02
    """Seconds in which a worker may take its step itself."""
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
            shared.samples_before[at] = before

    def next_of(self, own: int, workers: int, take: Callable[[int, int], Taken | None]) -> Taken | None:
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
                before = shared.samples_before.get(number) if shared.before is None else shared.before
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
        """The shared state, which is written back; None: another worker has it."""
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
            written = pickle.dumps((shared.next, shared.before, shared.ended, shared.at, shared.samples_before))
            if written != text:
                os.ftruncate(file, len(written))
                os.pwrite(file, written, 0)
        finally:
            os.close(file)


@dataclass(slots=True)
class _Shared:
    """The shared state of a rank's workers."""

    next: int = 0
    """Number of the next step of the stream."""
    before: int | None = None
    """Samples of all ranks before that; None: no worker knows them yet."""
    ended: bool = False
    at: dict[int, int] = field(default_factory=dict)
    """By worker: the first step that it had not done when it joined."""
    samples_before: dict[int, int] = field(default_factory=dict)
    """By the number of such a step: samples of all ranks before it."""


def _lay(path: str, taken: Taken) -> None:
    """Put a step aside for another worker."""
    part = Path(f"{path}.part")
    torch.save((taken.number, taken.before, taken.count, taken.rows, taken.source), part)
    part.rename(path)


def _fetched(path: str) -> Taken | None:
    """The step that was put aside, which is removed; None: there is none."""
    laid = Path(path)
    if not laid.exists():
        return None
    taken = Taken(*torch.load(laid, weights_only=False))
    laid.unlink()
    return taken
