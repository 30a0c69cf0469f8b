"""How a program accesses each file, from the record of its calls. Pure code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

from wilkins.record.events import Event


@dataclass(slots=True)
class FileAccess:
    """The accesses of a program to one file."""

    name: str
    closes: list[Close] = field(default_factory=list)
    """Each time its last writer closed it, and something had been written."""
    opens: dict[int, list[bool]] = field(default_factory=dict)
    """By process: its openings for reading, each with whether it read a dataset."""
    first_read: int = -1
    """Number of the event of its first opening for reading; -1: never."""
    looks: int = 0
    """How often its name was looked up while the process did not have it open."""
    looked_back: bool = False
    """It was looked up again after it had been read."""
    written: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    """Datasets by path: how often."""

    @property
    def is_written(self) -> bool:
        """Whether the program makes it."""
        return bool(self.closes)

    @property
    def times_read(self) -> int:
        """The most openings by one process."""
        return max((len(each) for each in self.opens.values()), default=0)

    @property
    def flushes(self) -> int:
        """All flushes."""
        return sum(close.flushes for close in self.closes)


@dataclass(frozen=True, slots=True)
class Close:
    """A close that makes the file complete for now."""

    at: int
    """When: number of the event."""
    anew: bool
    """The file was created or truncated, and not appended to."""
    flushes: int


@dataclass(slots=True)
class _Writing:
    """A file while some process has it open for writing."""

    writers: int = 0
    anew: bool = False
    dirty: bool = False
    flushes: int = 0


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of a program to all its files."""

    files: dict[str, FileAccess]
    """In the order in which they were first touched."""
    listings: dict[str, list[int]]
    """Folders: when each was listed, as numbers of events."""

    def listed(self, folder: str) -> int:
        """How often a folder was listed."""
        return len(self.listings.get(folder, ()))


class _Watch:
    """Follows events one by one."""

    def __init__(self) -> None:
        self.files: dict[str, FileAccess] = {}
        self.listings: dict[str, list[int]] = {}
        self._open: dict[tuple[int, int], tuple[str, bool]] = {}
        self._writing: dict[str, _Writing] = {}
        self._made: set[str] = set()
        self._moving: dict[int, str] = {}

    def of(self, name: str) -> FileAccess:
        return self.files.setdefault(name, FileAccess(name))

    def take(self, at: int, event: Event) -> None:
        kind, name = event.event, event.name
        if kind in ("read", "update", "create"):
            self._opened(at, event)
        elif kind == "close":
            self._closed(at, event)
        elif kind == "empty":
            self._emptied(event)
        elif kind in ("look", "missing"):
            self._looked(event)
        elif kind == "list":
            self.listings.setdefault(name, []).append(at)
        elif kind == "flush":
            if name in self._writing:
                self._writing[name].flushes += 1
        elif kind == "dwrite":
            self.of(name).written[event.path] += 1
        elif kind == "dread":
            self._read(event)
        elif kind == "move":
            self._moving[event.pid] = name
        elif kind == "moved" and (before := self._moving.pop(event.pid, None)) in self.files:
            self.files[name] = self.files.pop(before)
            self.files[name].name = name

    def _opened(self, at: int, event: Event) -> None:
        key = event.pid, event.fd
        if key in self._open:  # an exec has closed it
            self._closed(at, event)
        writes = event.event != "read"
        self._open[key] = event.name, writes
        if writes:
            writing = self._writing.setdefault(event.name, _Writing())
            writing.writers += 1
            writing.anew |= event.event == "create" or event.name in self._made
            self._made.discard(event.name)
            return
        access = self.of(event.name)
        access.opens.setdefault(event.pid, []).append(False)
        if access.first_read < 0:
            access.first_read = at

    def _closed(self, at: int, event: Event) -> None:
        name, writes = self._open.pop((event.pid, event.fd), ("", False))
        if not writes:
            return
        writing = self._writing[name]
        writing.writers -= 1
        writing.dirty |= event.bytes > 0
        if writing.writers == 0:
            self._complete(at, name)

    def _emptied(self, event: Event) -> None:
        name, writes = self._open.get((event.pid, event.fd), ("", False))
        if writes:
            self._writing[name].anew = True

    def _complete(self, at: int, name: str) -> None:
        writing = self._writing.pop(name)
        if not writing.dirty and writing.anew:
            self._made.add(name)  # MPI-IO makes a file before its ranks open it
        elif writing.dirty:
            self.of(name).closes.append(Close(at, writing.anew, writing.flushes))

    def _looked(self, event: Event) -> None:
        if any(name == event.name and pid == event.pid for (pid, _), (name, _) in self._open.items()):
            return  # HDF5 itself looks at what it has just opened
        access = self.of(event.name)
        access.looks += 1
        access.looked_back |= event.pid in access.opens

    def _read(self, event: Event) -> None:
        access = self.of(event.name)
        access.read[event.path] += 1
        if opens := access.opens.get(event.pid):
            opens[-1] = True

    def end(self, at: int) -> None:
        """The program is over: what it left open is complete."""
        for name, writing in list(self._writing.items()):
            writing.dirty |= writing.anew
            self._complete(at, name)


def accesses_of(events: Iterable[Event]) -> Accesses:
    """The accesses of a program to all files that it opened."""
    watch = _Watch()
    at = -1
    for at, event in enumerate(events):
        watch.take(at, event)
    watch.end(at + 1)
    return Accesses({name: one for name, one in watch.files.items() if one.closes or one.opens}, watch.listings)


def folder_of(name: str) -> str:
    """The folder that a file is in."""
    return str(PurePath(name).parent)
