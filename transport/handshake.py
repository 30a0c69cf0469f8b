"""How processes on different hosts show each other that they know the run's key.

Whoever connects is sent a challenge of random bytes. It answers with random bytes of its own and their proof, and gets
the other side's proof of both back: HMAC-SHA256 (RFC 2104) under the key, over which side proves it, what for, the
challenge and the answer. So the key never crosses, both sides know each other, and who records a connection cannot use
it again. Who connects may say at once what it has come for, in a greeting of known length that the proofs cover. Bytes
that follow are neither encrypted nor signed, unless the run encrypts: then the layer seals each frame with keys that
both sides make of the same (`frame_keys`).

The layer has the side of those who connect, too (``transport/native/far/handshake.cpp``).
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import resource
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

KEY_FILE = "key"
"""The key, as hexadecimal digits, and a word more if the run encrypts: in the folder of a run's board on each host.
Until all hosts have it, also in a folder that they share, unless the run encrypts: its bytes may cross the network."""

_RANDOM = 32
_PROOF = 32
_FRAME_KEY = 16
_WITHIN = 10.0
"""Seconds within which who connects has to show that it knows the key."""
MOST = 64
"""Connections that have not shown it: so many may always wait, and more while they take no more than a part of the
descriptors that this process may have. For a further one the oldest goes."""
_PART = 4


@dataclass(frozen=True, slots=True)
class RunKey:
    """The key of a run."""

    key: bytes
    encrypts: bool
    """The run encrypts what crosses between hosts."""


def write_key(folder: Path, key: str, *, encrypts: bool = False) -> None:
    """Leave the key in a folder, for processes of this user alone; `key`: hexadecimal digits."""
    descriptor = os.open(folder / KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{key} encrypts" if encrypts else key)


def read_key(folder: Path) -> RunKey:
    """Read it."""
    key, *encrypts = (folder / KEY_FILE).read_text().split()
    return RunKey(bytes.fromhex(key), bool(encrypts))


def remove_key(folder: Path) -> None:
    """Remove it, if it is there."""
    (folder / KEY_FILE).unlink(missing_ok=True)


def authenticate(
    wire: socket.socket, service: str, key: bytes, within: float = _WITHIN, greeting: bytes = b""
) -> bytes:
    """Show the other side of a new connection that this process knows the key, and see that it does, too.

    Args:
        service: what the connection is for.
        within: seconds for each message.
        greeting: what the listener is to hear, as long as it expects.

    Returns:
        What makes the connection's keys (`frame_keys`).

    Raises:
        OSError: it does not, or has left.
    """
    before = wire.gettimeout()
    wire.settimeout(within)
    challenge = _whole(wire, _RANDOM)
    answer = os.urandom(_RANDOM)
    said = challenge + answer + greeting
    wire.sendall(answer + _proof(key, "client", service, said) + greeting)
    if not hmac.compare_digest(_whole(wire, _PROOF), _proof(key, "server", service, said)):
        raise PermissionError(errno.EACCES, "who listens there does not know the key of this run")
    wire.settimeout(before)
    return challenge + answer


def frame_keys(key: bytes, service: str, side: str, seen: bytes) -> bytes:
    """The two keys by which a connection's frames are sealed: of those that a side sends, and of those that it gets.

    Args:
        side: ``client`` for who has connected, else ``server``.
        seen: as `authenticate` returns it, or `AuthenticatedListener.seen`.
    """
    sides = ("client", "server") if side == "client" else ("server", "client")
    return b"".join(_proof(key, f"{one}-frames", service, seen)[:_FRAME_KEY] for one in sides)


@dataclass(slots=True)
class _Pending:
    """A connection that has not shown that it knows the key."""

    wire: socket.socket
    challenge: bytes
    until: float
    said: bytearray = field(default_factory=bytearray)


class AuthenticatedListener:
    """Accepts connections of those who know the key. The others hold nobody up."""

    def __init__(self, listener: socket.socket, service: str, key: bytes, greeting: int = 0) -> None:
        """`listener`: belongs to this object from now on. `service`: what connections are for. `greeting`: bytes of
        what each says."""
        self._listener = listener
        self._service = service
        self._key = key
        self._length = _RANDOM + _PROOF + greeting
        self._pending: dict[int, _Pending] = {}
        """By descriptor, the oldest first."""
        self._accepted = WeakKeyDictionary[socket.socket, tuple[bytes, bytes]]()
        self._selector = selectors.DefaultSelector()
        self._most = max(MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _PART)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def fileno(self) -> int:
        """What can be read when somebody may have come: for selectors that wait for more than this."""
        return self._selector.fileno()

    def accept(self, within: float | None = 0.0) -> list[socket.socket]:
        """Wait so many seconds at most for connections; those that have shown the key by now, which may be none."""
        accepted = []
        for key, _ in self._selector.select(self._soonest(within)):
            pending: _Pending | None = key.data
            if pending is None:
                self._accept_one()
            elif (wire := self._receive(pending)) is not None:
                accepted.append(wire)
        now = time.monotonic()
        for pending in [pending for pending in self._pending.values() if pending.until <= now]:
            self._drop(pending)
        return accepted

    def seen(self, wire: socket.socket) -> bytes:
        """What makes the keys of a connection that was accepted (`frame_keys`)."""
        return self._accepted[wire][0]

    def greeting(self, wire: socket.socket) -> bytes:
        """What a connection that was accepted has said."""
        return self._accepted[wire][1]

    def __iter__(self) -> Iterator[socket.socket]:
        """Connections of those who know the key, as they come."""
        while True:
            yield from self.accept(None)

    def close(self) -> None:
        """Nobody comes any more."""
        for pending in list(self._pending.values()):
            self._drop(pending)
        self._selector.close()
        self._listener.close()

    def _soonest(self, within: float | None) -> float | None:
        if not self._pending:
            return within
        left = max(0.0, next(iter(self._pending.values())).until - time.monotonic())
        return left if within is None else min(left, within)

    def _accept_one(self) -> None:
        try:
            wire, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._make_room()
            return  # else it has left again
        wire.setblocking(False)
        pending = _Pending(wire, os.urandom(_RANDOM), time.monotonic() + _WITHIN)
        if len(self._pending) >= self._most:
            self._make_room()
        self._pending[wire.fileno()] = pending
        self._selector.register(wire, selectors.EVENT_READ, pending)
        try:
            wire.sendall(pending.challenge)
        except OSError:
            self._drop(pending)

    def _make_room(self) -> None:
        if self._pending:
            self._drop(next(iter(self._pending.values())))
        else:
            time.sleep(0.05)  # others of this process may close some

    def _receive(self, pending: _Pending) -> socket.socket | None:
        """The connection, once it has shown that it knows the key."""
        if pending.wire.fileno() not in self._pending:  # it was dropped in this turn
            return None
        try:
            read = pending.wire.recv(self._length - len(pending.said))
        except BlockingIOError:
            return None
        except OSError:
            read = b""
        pending.said += read
        if read and len(pending.said) < self._length:
            return None
        proof, greeting = pending.said[_RANDOM:][:_PROOF], bytes(pending.said[_RANDOM + _PROOF :])
        seen = pending.challenge + bytes(pending.said[:_RANDOM])
        knows = hmac.compare_digest(proof, _proof(self._key, "client", self._service, seen + greeting))
        if not knows:
            self._drop(pending)
            return None
        del self._pending[pending.wire.fileno()]
        self._selector.unregister(pending.wire)
        pending.wire.setblocking(True)
        self._accepted[pending.wire] = seen, greeting
        with contextlib.suppress(OSError):  # whoever uses it will notice
            pending.wire.sendall(_proof(self._key, "server", self._service, seen + greeting))
        return pending.wire

    def _drop(self, pending: _Pending) -> None:
        del self._pending[pending.wire.fileno()]
        self._selector.unregister(pending.wire)
        pending.wire.close()


def _proof(key: bytes, side: str, service: str, seen: bytes) -> bytes:
    return hmac.digest(key, f"{side} {service}\0".encode() + seen, "sha256")


def _whole(wire: socket.socket, length: int) -> bytes:
    read = bytearray()
    while len(read) < length:
        part = wire.recv(length - len(read))
        if not part:
            raise ConnectionResetError(errno.ECONNRESET, "who listens there does not let this process in")
        read += part
    return bytes(read)
