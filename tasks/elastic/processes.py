"""The ranks on this host, for their parent: processes, and a connection to each.

A rank's death is the end of its connection, which the kernel closes, or of its process, whichever is seen first.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from wilkins.tasks.elastic.wire import Lines, Message, accept, listen, packed
from wilkins.tasks.started_by import ADDRESS, INTERFACE, RANK, SIZE
from wilkins.values import dataclass

Start = Callable[[int, Mapping[str, str]], int]
"""Starts a rank with these variables in its environment; returns its process, which is a child of this one."""

LOOK = 0.1
"""Seconds between two looks at processes that have never connected."""
_TRIES, _A_MOMENT = 20, 1e-3
"""How often, after how many seconds each, a process is looked at whose connection has ended."""


@dataclass(frozen=True, slots=True)
class Said:
    """A rank has sent a message."""

    rank: int
    message: Message


@dataclass(frozen=True, slots=True)
class HungUp:
    """The connection of a rank has ended, and its process has not, yet."""

    rank: int


@dataclass(frozen=True, slots=True)
class Died:
    """The process of a rank has ended."""

    rank: int
    code: int
    """Its exit code; negative: the signal that has killed it."""
    cause: str = ""
    """Why, if neither of them says so."""


Event = Said | HungUp | Died


class Place(Protocol):
    """Where some of the ranks are."""

    size: int
    """How many ranks there are at the beginning."""

    def open(self, selector: selectors.BaseSelector) -> None:
        """Register all that is to be heard of; its data in the selector is this object."""

    def begin(self, rank: int, size: int) -> None:
        """Start a rank, of so many."""

    def tell(self, rank: int, message: Message) -> None:
        """Send a message to a rank; lost if it has died."""

    def send(self, ranks: Iterable[int], number: int) -> None:
        """Send a signal to ranks."""

    def hear(self, line: int | socket.socket) -> list[Event]:
        """What has come over one of the registered connections."""

    def look(self) -> list[Event]:
        """What is not seen by a connection."""

    def leave(self) -> None:
        """All ranks here are dead, and others train on."""

    def close(self) -> None:
        """Kill what is left, and close all."""


class _Process:
    """A rank's process and connection."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.socket: socket.socket | None = None
        self.code: int | None = None
        self.is_reported = False

    def has_ended(self) -> bool:
        """Whether the process has ended; it is reaped then, and its exit code known."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None


class Processes:
    """The ranks that are children of this process.

    Args:
        start: starts a rank.
        size: how many ranks there are at the beginning.
        interface: the address by which ranks on other hosts reach these; empty: there are none.
    """

    def __init__(self, start: Start, size: int, interface: str = "") -> None:
        self.size = size
        self.interface = interface
        self._start = start
        self._ranks: dict[int, _Process] = {}
        self._strangers: dict[socket.socket, Lines] = {}
        self._lines: dict[socket.socket, tuple[int, Lines]] = {}
        self._door: socket.socket | None = None
        self._address = ""

    def open(self, selector: selectors.BaseSelector) -> None:
        """Open the door at which ranks knock."""
        self._selector = selector
        self._door, self._address = listen()
        self._door.setblocking(False)
        selector.register(self._door, selectors.EVENT_READ, self)

    def living(self) -> list[int]:
        """Processes of ranks that have not ended."""
        return [one.pid for one in self._ranks.values() if one.code is None]

    def begin(self, rank: int, size: int) -> None:
        """Start a rank."""
        variables = {ADDRESS: self._address, RANK: str(rank), SIZE: str(size)}
        if self.interface:
            variables[INTERFACE] = self.interface
        self._ranks[rank] = _Process(self._start(rank, variables))

    def tell(self, rank: int, message: Message) -> None:
        """Send a message to a rank."""
        line = self._ranks[rank].socket
        if line is not None:
            with contextlib.suppress(OSError):  # its end will be heard
                line.sendall(packed(message))

    def send(self, ranks: Iterable[int], number: int) -> None:
        """Send a signal to ranks."""
        for one in map(self._ranks.__getitem__, ranks):
            if one.code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, number)

    def hear(self, line: int | socket.socket) -> list[Event]:
        """What has come over a connection; its end is the end of its rank."""
        assert isinstance(line, socket.socket)
        if line is self._door:
            self._welcome(line)
            return []
        if line not in self._strangers and line not in self._lines:
            return []  # closed a moment ago
        events: list[Event] = []
        try:
            more = line.recv(1 << 16)
            known = self._lines.get(line)
            messages = (known[1] if known else self._strangers[line]).add(more) if more else None
            for message in messages or ():
                events += self._take(line, message)
        except BlockingIOError:
            return events
        except (OSError, ValueError, KeyError, TypeError):
            messages = None
        if messages is None:
            events += self._hang_up(line)
        return events

    def look(self) -> list[Event]:
        """See which processes have ended."""
        events: list[Event] = []
        for rank, one in list(self._ranks.items()):
            if one.is_reported or not one.has_ended():
                continue
            if one.socket is not None:
                events += self._hear_out(one.socket)
            if one.socket is not None:
                events += self._hang_up(one.socket)
            events += self._report(rank, one)
        return events

    def leave(self) -> None:
        """Nothing is to be done."""

    def close(self) -> None:
        """Kill ranks that live, and close all connections."""
        self.send(self._ranks, signal.SIGKILL)
        for one in (*([self._door] if self._door else []), *self._strangers, *self._lines):
            one.close()

    def _welcome(self, door: socket.socket) -> None:
        line = accept(door)
        if line is None:
            return
        line.setblocking(False)
        self._strangers[line] = Lines()
        self._selector.register(line, selectors.EVENT_READ, self)

    def _take(self, line: socket.socket, message: Message) -> list[Event]:
        events: list[Event] = []
        if line in self._strangers:
            rank = int(message["rank"])
            one = self._ranks[rank]
            if one.socket is not None:  # of a process that has died a moment ago
                events = self._hang_up(one.socket)
            self._lines[line] = (rank, self._strangers.pop(line))
            one.socket = line
        return [*events, Said(self._lines[line][0], message)]

    def _hang_up(self, line: socket.socket) -> list[Event]:
        """A connection has ended; in most cases so has its process, a moment later."""
        self._selector.unregister(line)
        line.close()
        self._strangers.pop(line, None)
        rank, _ = self._lines.pop(line, (None, None))
        if rank is None:
            return []
        one = self._ranks[rank]
        one.socket = None
        for _ in range(_TRIES):
            if one.has_ended():
                return self._report(rank, one)
            time.sleep(_A_MOMENT)
        return [HungUp(rank)]

    def _hear_out(self, line: socket.socket) -> list[Event]:
        """Take what a rank has said before it ended."""
        events: list[Event] = []
        while line in self._lines:
            try:
                if not line.recv(1, socket.MSG_PEEK):
                    return events
            except OSError:
                return events
            events += self.hear(line)
        return events

    def _report(self, rank: int, one: _Process) -> list[Event]:
        """The end of a process, once."""
        if one.is_reported:
            return []
        one.is_reported = True
        return [Died(rank, one.code or 0)]
