"""Channels: the steps of a task's own in-port as objects, for programs that know of Wilkins and work without it too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol

from wilkins.transport import files, memory, steps
from wilkins.transport.errors import WrongProcess
from wilkins.transport.received import Step, Stored

MOST_AHEAD = 8


def open(pattern: str | os.PathLike[str] = "", *, prefetch: int = 0) -> Channel:
    """The steps of an in-port of this task, as they come; outside of a run, the files on disk that match::

        for step in wilkins.transport.open("plt*.h5"):
            x = step["particles/position"]

    In a run, waits for each step (asleep; Ctrl-C works) and ends at the end of the stream; the port's policy says which
    steps are kept. All ranks of a task get the same steps in the same order. Outside of a run, and for files that no
    task of the run writes, these are the files that match now, ``x2`` before ``x10``.

    Args:
        pattern: the in-port's ``filename``; may be left out in a task with one in-port.
        prefetch: so many more steps, up to 8, may wait to be read while the program works on one, so that producer and
            consumer wait less for each other. A policy that drops steps keeps as few as it says, so that its steps
            are as new. Files on disk are read ahead by the system.

    Raises:
        FileNotFoundError: this is no in-port of the task, and no file matches.
        PermissionError: the port's ``nreaders`` leaves this rank out.
        ValueError: `prefetch` is out of range.
    """
    if not 0 <= prefetch <= MOST_AHEAD:
        raise ValueError(
            f"prefetch is {prefetch}, but can be 0 to {MOST_AHEAD}; more room is given by the port's 'flow: queue'"
        )
    pattern = os.fspath(pattern)
    port = steps.port(pattern)
    return Channel(_Files(steps.on_disk(pattern), prefetch) if port is None else _Port(port, prefetch))


class _Source(Protocol):
    """Where a channel's steps come from."""

    def take(self, *, wait: bool) -> Stored | None:
        """The next step; None: none is there now. EOFError: none will come."""

    def leave(self) -> None:
        """No more are asked for."""


class _Port:
    """An in-port in memory."""

    def __init__(self, port: int, prefetch: int) -> None:
        self._port = port
        memory.queue_ahead(port, prefetch)

    def take(self, *, wait: bool) -> Stored | None:
        return memory.take(self._port, wait=wait)

    def leave(self) -> None:
        steps.leave(self._port)


class _Files:
    """Files on disk."""

    def __init__(self, names: list[str], prefetch: int) -> None:
        self._names = names
        self._next = 0
        self._prefetch = prefetch

    def take(self, *, wait: bool) -> Stored | None:  # noqa: ARG002 - all that there are are there
        if self._next == len(self._names):
            raise EOFError
        stored = files.StepOnDisk(self._names[self._next])
        self._next += 1
        for name in self._names[self._next : self._next + self._prefetch]:
            files.read_ahead(name)
        return stored

    def leave(self) -> None:
        self._next = len(self._names)


class Channel:
    """The steps of an in-port, one after the other: an iterator, and a context manager that ends it."""

    def __init__(self, source: _Source) -> None:
        self._source: _Source | None = source
        self._process = os.getpid()
        self._taken = 0
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether no step will come any more, as the last `next` or `poll` has found."""
        return self._ended

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        """Wait for the next step.

        Raises:
            InterruptedError: the run is being stopped.
            TooManySteps: this rank holds too many.
        """
        step = self._take(wait=True)
        if step is None:
            raise StopIteration
        return step

    def poll(self) -> Step | None:
        """The next step if there is one now; None if there is none, or no more (`ended`).

        On several ranks the n-th `poll` has the same answer on all of them, which is found when the first of them asks.
        So ranks that poll equally often do the same, however far they are apart.
        """
        return self._take(wait=False)

    def close(self) -> None:
        """Ask for no more steps; those that are held stay so."""
        source, self._source = self._source, None
        if source is not None and self._process == os.getpid():
            source.leave()
        self._ended = True

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_source", None) is not None:
            self.close()

    def _take(self, *, wait: bool) -> Step | None:
        if self._process != os.getpid():
            raise WrongProcess("a channel is read by the process that opened it, not by a fork of it; open one there")
        if self._source is None or self._ended:
            return None
        try:
            stored = self._source.take(wait=wait)
        except EOFError:
            self._ended = True
            return None
        if stored is None:
            return None
        self._taken += 1
        return Step(stored, self._taken - 1)
