"""Messages between the parent and its ranks: a line of JSON each, over a socket that has a name and no file."""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

Message = dict[str, Any]

LONGEST = 1 << 20
"""Bytes of a message."""


def packed(message: Message) -> bytes:
    """A message as it goes over the socket."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Takes bytes as they come, gives the messages that are complete."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, more: bytes) -> list[Message]:
        """The messages that these bytes complete.

        Raises:
            ValueError: they are no messages.
        """
        *whole, self._rest = (self._rest + more).split(b"\n")
        if len(self._rest) > LONGEST:
            raise ValueError(f"a message is longer than {LONGEST} bytes")
        found = [json.loads(one) for one in whole]
        if not all(isinstance(one, dict) for one in found):
            raise ValueError("a message is no JSON object")
        return found


def listen() -> tuple[socket.socket, str]:
    """The parent's door, and its address. Its name is gone with the parent, however that ends."""
    address = f"@wilkins-elastic-{os.getpid()}-{os.urandom(8).hex()}"
    door = socket.socket(socket.AF_UNIX)
    door.bind(_name(address))
    door.listen(128)
    return door, address


def accept(door: socket.socket) -> socket.socket | None:
    """A connection of this user's; None: it is another user's, or has ended already."""
    try:
        line, _ = door.accept()
    except OSError:
        return None
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if user != os.getuid():
        line.close()
        return None
    return line


def connect(address: str) -> socket.socket:
    """A rank's connection to its parent."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(_name(address))
    return line


def _name(address: str) -> str:
    """As the kernel knows an address without a file."""
    return f"\0{address.removeprefix('@')}"
