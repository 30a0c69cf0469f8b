"""What the head and a keeper tell each other: JSON, a line each, over the keeper's standard input and output."""

from __future__ import annotations

import base64
import json
import os
from typing import Any

BEAT = 1.0
"""Seconds between signs of life, of both sides."""

_CHUNK = 1 << 16


class Control:
    """One side of a connection."""

    def __init__(self, reads: int, writes: int) -> None:
        self.reads = reads
        self._writes = writes
        self._partial = b""
        os.set_blocking(reads, False)

    def send(self, **message: Any) -> None:
        """Tell the other side something.

        Raises:
            OSError: it is not there any more.
        """
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._writes, data) :]

    def received(self) -> list[dict[str, Any]] | None:
        """What has come since the last time; None if the other side has left and all it said was given before."""
        ended = False
        while True:
            try:
                data = os.read(self.reads, _CHUNK)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                ended = True
                break
            self._partial += data
        *lines, self._partial = self._partial.split(b"\n")
        return [json.loads(line) for line in lines] if lines or not ended else None


def packed(data: bytes) -> str:
    """Bytes as a text."""
    return base64.b85encode(data).decode()


def unpacked(text: str) -> bytes:
    """The bytes again."""
    return base64.b85decode(text)
