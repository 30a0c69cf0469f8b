"""Carries the steps of a port to another host: ``relay.py send PATTERN`` here, ``relay.py receive PATTERN`` there.

Each half is a task like any other. The sender reads steps as their bytes; the receiver writes files of the same names,
which are published when they are closed. The receiver asks for a step when it can take one, so a reader that is slow
slows its producer down, as on one host.

Both meet through variables that their keepers set: ``WILKINS_RELAY_KEY``, and ``WILKINS_RELAY_ADDRESS`` (host:port) for
the sender, ``WILKINS_RELAY_LISTENS`` (a descriptor) for the receiver. ``WILKINS_RELAY_ENDS`` names the ends of a pipe
that the receivers of one producer share: they end together, as the producer's ports do. The receiver counts the
messages of both (`relay_messages.py`).
"""

from __future__ import annotations

import errno
import hmac
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from wilkins.transport import relay_messages, steps

ADDRESS, KEY = "WILKINS_RELAY_ADDRESS", "WILKINS_RELAY_KEY"
LISTENS, ENDS = "WILKINS_RELAY_LISTENS", "WILKINS_RELAY_ENDS"
_HEAD = struct.Struct("!IIQ")
"""Of a step: bytes of the folder and of the name in it that its producer gave, and of itself. No name ends all."""
_MORE = b"+"
_BUFFER = 4 << 20


def send(pattern: str) -> None:
    """Send all steps of this task's in-port, each when the other side asks for one."""
    host, _, port = os.environ[ADDRESS].rpartition(":")
    with socket.create_connection((host, int(port))) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.sendall(bytes.fromhex(os.environ[KEY]))
        coming = steps.relayed(pattern)
        while wire.recv(1) == _MORE:
            step = next(coming, None)
            if step is None:
                wire.sendall(_HEAD.pack(0, 0, 0))
                return
            _send_step(wire, *step)
        raise ConnectionError("the receiver has left before the end")


def _send_step(wire: socket.socket, name: str, folder: str) -> None:
    if not folder and not name.startswith("/"):
        raise FileNotFoundError(
            errno.ENOENT, "its producer has turned to another folder meanwhile; let it give absolute names", name
        )
    path = os.path.join(folder, name)  # noqa: PTH118 - names are kept as their producer gave them
    step = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(step).st_size
        named = [os.fsencode(folder), os.fsencode(name)]
        wire.sendall(b"".join([_HEAD.pack(*map(len, named), size), *named]), socket.MSG_MORE if size else 0)
        sent = 0
        while sent < size:
            sent += os.sendfile(wire.fileno(), step, sent, size - sent)
    finally:
        os.close(step)


def receive(pattern: str) -> None:
    """Write the steps that come as files of this task's out-port."""
    del pattern  # names come with the steps
    messages = relay_messages.Messages(int(os.environ[relay_messages.VARIABLE]))
    with _accepted() as wire:
        messages.add(1)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for folder, name, size in _heads(wire, messages):
            if folder and folder != str(Path.cwd()):
                os.chdir(folder)
            _receive_step(wire, name, size)
    ours, theirs = map(int, os.environ[ENDS].split(","))
    os.close(ours)
    os.read(theirs, 1)


def _accepted() -> socket.socket:
    """The connection of the sender, who knows the key."""
    key = bytes.fromhex(os.environ[KEY])
    with socket.socket(fileno=int(os.environ[LISTENS])) as door:
        while True:
            wire, _ = door.accept()
            try:
                if hmac.compare_digest(_exactly(wire, len(key)), key):
                    return wire
            except ConnectionError:
                pass
            wire.close()


def _heads(wire: socket.socket, messages: relay_messages.Messages) -> Iterator[tuple[str, str, int]]:
    while True:
        wire.sendall(_MORE)
        messages.add(1)
        above, length, size = _HEAD.unpack(_exactly(wire, _HEAD.size))
        messages.add(1)
        if not length:
            return
        yield os.fsdecode(_exactly(wire, above)), os.fsdecode(_exactly(wire, length)), size


def _receive_step(wire: socket.socket, name: str, size: int) -> None:
    step = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        left = size
        buffer = memoryview(bytearray(min(size, _BUFFER)))
        while left:
            count = wire.recv_into(buffer[: min(left, _BUFFER)])
            if not count:
                raise ConnectionError(f"the sender has left in the middle of {name!r}")
            written = 0
            while written < count:
                written += os.write(step, buffer[written:count])
            left -= count
    finally:
        os.close(step)


def _exactly(wire: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = wire.recv(count - len(data))
        if not part:
            raise ConnectionError("the sender has left before the end")
        data += part
    return data


if __name__ == "__main__":
    {"send": send, "receive": receive}[sys.argv[1]](sys.argv[2])
