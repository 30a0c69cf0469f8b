"""The names of steps that tasks did not read, from the trace of the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from wilkins.schema.patterns import intersect
from wilkins.values import dataclass, field

_LAST_PART = 16 << 20
"""Bytes of a trace that are looked at: what was not read stands near its end."""

_EVENTS = {b"publish", b"open", b"skip", b"drop"}

Channel = tuple[str, str, str, str]
"""Task and pattern of an out-port, then of an in-port."""

Port = tuple[str, str]
"""Task and pattern."""

Event = tuple[str, Port, tuple[str, int]]
"""What happened, of which port, and the step's name and number."""


class Ends(NamedTuple):
    """The first and the last of some names."""

    first: str
    last: str


@dataclass(slots=True)
class Named:
    """Steps, in the order of their events."""

    steps: dict[tuple[str, int], None] = field(default_factory=dict)

    @property
    def all(self) -> list[str]:
        """Their names."""
        return [name for name, _ in self.steps]

    @property
    def ends(self) -> Ends | None:
        """Their first name and their last; None if there are none."""
        names = self.all
        return Ends(names[0], names[-1]) if names else None


@dataclass(slots=True)
class Traced:
    """The names of the steps of one channel in the trace."""

    unread: Named = field(default_factory=Named)
    dropped: Named = field(default_factory=Named)
    written: Named = field(default_factory=Named)
    """All that its producer published, whether it matches or not."""
    read: set[str] = field(default_factory=set)
    _gone: set[tuple[str, int]] = field(default_factory=set)
    """Left out before they were published."""

    def publish(self, step: tuple[str, int], *, matches: bool) -> None:
        """The step is published."""
        self.written.steps[step] = None
        if step in self._gone:
            self._gone.discard(step)
        elif matches:
            self.unread.steps[step] = None

    def take_away(self, step: tuple[str, int], event: str) -> None:
        """A rank has opened the step (``open``), or none will (``skip``, ``drop``)."""
        there = self.unread.steps.pop(step, self) is None
        if event == "open":
            self.read.add(step[0])
        elif not there:
            self._gone.add(step)
        if event == "drop":
            self.dropped.steps[step] = None


def _none(_port: Port) -> None:
    """Nothing there takes steps for readers on another host."""


class Trace(NamedTuple):
    """The trace of a run, or of one of its hosts."""

    path: Path
    readers: Callable[[Port], Sequence[Port] | None] = _none
    """Of what takes steps there for readers on another host: those readers, and their patterns; None: it does not."""


def names_of(traces: Sequence[Trace], channels: Iterable[Channel]) -> dict[Channel, Traced]:
    """The names of the steps of some channels, as far as the ends of the traces hold them; a missing trace adds
    nothing."""
    found = {channel: Traced() for channel in channels}
    if not found:
        return found
    from_out: dict[tuple[str, str], list[Channel]] = {}
    into: dict[tuple[str, str], list[Channel]] = {}
    for channel in found:
        from_out.setdefault(channel[:2], []).append(channel)
        into.setdefault(channel[2:], []).append(channel)
    for event, port, step in _events_of_all(traces):
        if event == "publish":
            for channel in from_out.get(port, ()):
                found[channel].publish(step, matches=intersect(channel[3], step[0]))
        else:
            for channel in into.get(port, ()):
                found[channel].take_away(step, event)
    return found


def _events_of_all(traces: Sequence[Trace]) -> Iterable[Event]:
    """Of several hosts, first what was published."""
    if len(traces) == 1:
        return _events(traces[0].path)
    return sorted((event for trace in traces for event in _of_host(trace)), key=lambda event: event[0] != "publish")


def _of_host(trace: Trace) -> Iterator[Event]:
    """Steps have a number of their own on each host, but the files of one name come in the same order."""
    numbers: dict[tuple[Port, str], dict[int, int]] = {}
    for event, port, (name, sequence) in _events(trace.path):
        known = numbers.setdefault((port, name), {})
        step = name, known.setdefault(sequence, len(known))
        if (readers := trace.readers(port)) is None:
            yield event, port, step
        elif event != "open":
            for reader in readers:
                yield event, reader, step


def _events(trace: Path) -> Iterator[Event]:
    """What happened to steps."""
    try:
        with trace.open("rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - _LAST_PART)
            file.seek(start)
            lines = file.read(_LAST_PART).split(b"\n")
    except OSError:
        return
    for line in lines[1 if start else 0 :]:
        words = line.split(b"\t")
        if len(words) == 8 and words[1] in _EVENTS and words[6].lstrip(b"-").isdigit():
            _, event, task, _, pattern, name, sequence, _ = map(os.fsdecode, words)
            yield event, (task, pattern), (name, int(sequence))
