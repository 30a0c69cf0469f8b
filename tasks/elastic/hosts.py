"""Ranks on other hosts: a process there starts and watches them, and the parent speaks with it over a pipe.

So nobody listens for it on the network, and whoever may start programs on a host (ssh, srun) carries the pipe. The
pipe's end is the end of all: of the ranks for their parent, and of the parent for the ranks.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from wilkins.tasks.elastic.processes import LOOK, Died, Event, HungUp, Processes, Said, Start
from wilkins.tasks.elastic.wire import Lines, Message, packed
from wilkins.transport.listening import INTERFACE, address_of
from wilkins.values import asdict

_ENDS_WITHIN = 3.0
"""Seconds in which the process on another host ends, when all is over."""
_EVENTS = {"said": Said, "hung": HungUp, "died": Died}


class Host:
    """The ranks on one host of several, for their parent.

    Args:
        name: of the host.
        words: the command that starts `serve` on it.
        size: how many ranks are there at the beginning.
        towards: the address of another of the hosts.
    """

    def __init__(self, name: str, words: Sequence[str], size: int, towards: str) -> None:
        self.name = name
        self.size = size
        self._words = words
        self._towards = towards
        self._living: set[int] = set()
        self._lines = Lines()

    def open(self, selector: selectors.BaseSelector) -> None:
        """Start the process on the host."""
        self._selector = selector
        orders, self._writes = os.pipe()
        self._reads, events = os.pipe()
        self._launch(orders, events)
        os.close(orders)
        os.close(events)
        os.set_blocking(self._reads, False)
        selector.register(self._reads, selectors.EVENT_READ, self)
        self._order({"towards": self._towards})

    def begin(self, rank: int, size: int) -> None:
        """Start a rank."""
        self._living.add(rank)
        self._order({"begin": rank, "size": size})

    def tell(self, rank: int, message: Message) -> None:
        """Send a message to a rank."""
        if rank in self._living:
            self._order({"tell": rank, "message": message})

    def send(self, ranks: Iterable[int], number: int) -> None:
        """Send a signal to ranks."""
        self._order({"signal": number, "ranks": sorted(self._living.intersection(ranks))})

    def hear(self, line: int | socket.socket) -> list[Event]:
        """What has happened on the host; the end of the pipe is the end of its ranks."""
        assert isinstance(line, int)
        try:
            more = os.read(line, 1 << 16)
            messages = self._lines.add(more) if more else None
            events = None if messages is None else [_event(message) for message in messages]
        except BlockingIOError:
            return []
        except (OSError, ValueError, KeyError, TypeError):
            events = None
        if events is None:
            self._selector.unregister(line)
            cause = f"is lost with the connection to {self.name}"
            events = [Died(rank, -signal.SIGKILL, cause) for rank in sorted(self._living)]
        self._living.difference_update(event.rank for event in events if isinstance(event, Died))
        return events

    def look(self) -> list[Event]:
        """All is heard of."""
        return []

    def leave(self) -> None:
        """Let the process on the host say there that its ranks are dead, and end."""
        self._order({"leave": True})

    def close(self) -> None:
        """End the process on the host, and with it what is left of the ranks."""
        for pipe in (self._writes, self._reads):
            os.close(pipe)
        self._end()

    def _launch(self, orders: int, events: int) -> None:
        """Start the process, with pipes from and to this one."""
        self._server = subprocess.Popen(self._words, stdin=orders, stdout=events)

    def _end(self) -> None:
        """Wait for the process, whose pipes are closed."""
        try:
            self._server.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def _order(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # its end will be heard
            rest = packed(message)
            while rest:
                rest = rest[os.write(self._writes, rest) :]


def _event(message: Message) -> Event:
    ((kind, values),) = message.items()
    event: Event = _EVENTS[kind](**values)
    return event


def _told(event: Event) -> bytes:
    kind = next(name for name, one in _EVENTS.items() if isinstance(event, one))
    return packed({kind: asdict(event)})


class _Served:
    """The ranks on this host, as their parent on another one orders."""

    def __init__(self, start: Start, reads: int, writes: int, left: Path | None) -> None:
        self._reads = reads
        self._writes = writes
        self._left = left
        self._lines = Lines()
        self._processes = Processes(start, 0)

    def run(self) -> None:
        """Until the parent has ended, or needs none of these ranks any more."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._reads, selectors.EVENT_READ, None)
            self._processes.open(selector)
            try:
                while True:
                    events: list[Event] = []
                    for key, _ in selector.select(LOOK):
                        if key.data is None and not self._obey(os.read(self._reads, 1 << 16)):
                            return
                        if key.data is not None:
                            events += self._processes.hear(key.fileobj)  # type: ignore[arg-type]
                    for event in (*events, *self._processes.look()):
                        os.write(self._writes, _told(event))
            except OSError:
                return  # the parent is gone
            finally:
                self._processes.close()

    def _obey(self, more: bytes) -> bool:
        """Follow orders; False: there will be no more."""
        for order in self._lines.add(more):
            if "begin" in order:
                self._processes.begin(order["begin"], order["size"])
            elif "tell" in order:
                self._processes.tell(order["tell"], order["message"])
            elif "signal" in order:
                self._processes.send(order["ranks"], order["signal"])
            elif "towards" in order:
                self._processes.interface = _interface(order["towards"])
            elif "leave" in order:
                if self._left is not None:
                    self._left.touch()
                return False
        return bool(more)


def _interface(towards: str) -> str:
    """The address of this host by which another one reaches it."""
    if wanted := os.environ.get(INTERFACE, ""):
        return address_of(wanted)
    family, kind, protocol, _, where = socket.getaddrinfo(towards, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(where)  # of a datagram socket: nothing is sent
        return str(probe.getsockname()[0])


def serve(start: Start, left: Path | None) -> int:
    """Start and watch ranks for a parent that orders over standard input; returns the exit code.

    What ranks print goes to standard error, so that standard output is the parent's.

    Args:
        start: starts a rank.
        left: a file that is made when all ranks here are dead, and others train on.
    """
    reads, writes = os.dup(0), os.dup(1)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        # The parent gets them, too, and says what is to be done. Ranks must not ignore them, as children would that
        # inherit SIG_IGN.
        signal.signal(number, lambda *_: None)
    _Served(start, reads, writes, left).run()
    return 0
