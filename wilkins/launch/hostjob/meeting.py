"""How the hosts of one MPI job find each other: a file in a shared folder holds the address of rank 0's process.

A file that a killed job has left does no harm: no process answers at its address.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from wilkins import atomic
from wilkins.errors import ResourceError, refused
from wilkins.launch.hostjob.messages import Comes, Hello, Welcome
from wilkins.launch.hosts.control import Control, Message
from wilkins.transport.handshake import AuthenticatedListener, authenticate
from wilkins.transport.listening import address_in, listen
from wilkins.values import dataclass, field

PATIENCE = 120.0
"""Seconds within which all ranks of a job must have connected."""

_ANSWERS_WITHIN = 5.0
_AGAIN = 0.1
_SERVICE = "meeting"


@dataclass(slots=True)
class Link:
    """A connection between the head and a host's keeper."""

    socket: socket.socket
    waits: bool
    """As of `Control`: the keeper's end does, the head's does not."""
    control: Control = field(init=False)

    def __post_init__(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.control = Control(self.socket.fileno(), self.socket.fileno(), waits=self.waits)

    def messages(self, within: float) -> list[Message]:
        """The next messages; none if none come in so many seconds.

        Raises:
            EOFError: the other side has left.
        """
        if not select.select([self.socket], [], [], max(0.0, within))[0]:
            return []
        messages = self.control.received()
        if messages is None:
            raise EOFError
        return messages

    def close(self) -> None:
        """End it."""
        self.socket.close()


@dataclass(slots=True)
class Joined:
    """A host whose keeper has connected."""

    link: Link
    address: str
    """The address by which other hosts reach it."""
    name: str
    ranks: list[int] = field(default_factory=list)
    """The ranks of the job on this host."""


class Meeting:
    """The head's side, to which keepers connect."""

    def __init__(self, path: Path) -> None:
        """`path`: of the file with the address.

        Raises:
            ResourceError: it cannot be written.
        """
        self._path = path
        key = os.urandom(16)
        listener = listen(socket.gethostname())
        self._listener = AuthenticatedListener(listener, _SERVICE, key)
        self.hosts: list[Joined] = []
        host, _, port = address_in(listener).rpartition(":")
        where = {"host": host or socket.gethostname(), "port": int(port), "key": key.hex()}
        try:
            path.parent.mkdir(exist_ok=True)
            atomic.put(path, json.dumps(where), mode=0o600)
        except OSError as error:
            raise refused(path, "let the hosts of this job meet there", error) from error

    def gather(self, size: int) -> None:
        """Wait until all ranks of the job have connected.

        Raises:
            ResourceError: they have not, or one has left again.
        """
        until = time.monotonic() + PATIENCE
        come: set[int] = set()
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while len(come) < size:
                if time.monotonic() > until:
                    raise ResourceError(_missing(size, come, self._path))
                for key, _ in selector.select(1.0):
                    if key.data is None:
                        for taken in self._listener.accept():
                            if joined := self._welcome(taken):
                                selector.register(joined.link.socket, selectors.EVENT_READ, joined)
                    else:
                        come.update(_received_ranks(key.data))

    def _welcome(self, taken: socket.socket) -> Joined | None:
        link = Link(taken, waits=False)
        with contextlib.suppress(OSError, EOFError, ValueError):  # it has left
            address = taken.getpeername()[0]
            for message in link.messages(_ANSWERS_WITHIN):
                if isinstance(message, Hello):
                    link.control.send(Welcome())
                    self.hosts.append(Joined(link, address, message.name))
                    return self.hosts[-1]
        link.close()
        return None

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()
        self._path.unlink(missing_ok=True)


def _received_ranks(joined: Joined) -> Iterator[int]:
    try:
        messages = joined.link.messages(0.0)
    except EOFError:
        raise ResourceError(f"the keeper of {joined.name} ended before the run began") from None
    for message in messages:
        if isinstance(message, Comes):
            joined.ranks.append(message.rank)
            yield message.rank


def _missing(size: int, come: set[int], path: Path) -> str:
    first = next(rank for rank in range(size) if rank not in come)
    return (
        f"{size - len(come)} of the {size} ranks of this job, such as rank {first}, did not come to the others within "
        f"{PATIENCE:g} s; do all hosts see {path.parent}, and can they reach {socket.gethostname()} by that name?"
    )


def join(path: Path, name: str) -> Link:
    """A keeper's connection to the head.

    Args:
        path: as given to `Meeting`.
        name: of this host.

    Raises:
        ResourceError: there is no head.
    """
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(OSError, EOFError, ValueError):
            where = json.loads(path.read_text(encoding="utf-8"))
            wire = socket.create_connection((where["host"], where["port"]), timeout=_ANSWERS_WITHIN)
            with contextlib.ExitStack() as unless_met:
                unless_met.callback(wire.close)
                authenticate(wire, _SERVICE, bytes.fromhex(where["key"]), _ANSWERS_WITHIN)
                link = Link(wire, waits=True)
                link.control.send(Hello(name))
                if link.messages(_ANSWERS_WITHIN):
                    unless_met.pop_all()
                    return link
        time.sleep(_AGAIN)
    raise ResourceError(
        f"{name}: rank 0 of this job was not found within {PATIENCE:g} s; all hosts must see {path.parent}: put the "
        "workflow file on a file system that they share, or name a folder there with --run-dir"
    )
