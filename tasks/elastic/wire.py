"""Messages between the parent and its ranks: a line of JSON each, over a socket of the parent's folder."""

from __future__ import annotations

import json
import socket
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


def listen(path: str) -> socket.socket:
    """The parent's door; whoever may enter the folder may connect."""
    door = socket.socket(socket.AF_UNIX)
    door.bind(path)
    door.listen(128)
    return door


def connect(path: str) -> socket.socket:
    """A rank's connection to its parent."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    return line
