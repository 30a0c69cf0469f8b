"""The messages between the launchers of a run over several hosts: JSON, a line each, over a socket or two pipes."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import select
import time
from collections.abc import Sequence
from typing import ClassVar

from wilkins.errors import ResourceError
from wilkins.launch.hosts.pulse import Pulse
from wilkins.values import plain, restored

SILENT_FOR = 15.0
"""Seconds without any message after which the other side counts as lost. While it works, or stands still for less than
its patience, a process beside it says that it lives (`pulse`)."""

_CHUNK = 1 << 16


class Message:
    """What one launcher sends to another: a data class, which the other side gets as it was."""

    __slots__ = ()
    kinds: ClassVar[dict[str, type[Message]]] = {}
    """By name: on a line stands the name of the class, and its fields."""

    def __init_subclass__(cls) -> None:
        Message.kinds[cls.__name__] = cls


class Control:
    """One side of a connection."""

    def __init__(self, reads: int, writes: int, *, waits: bool) -> None:
        """`waits`: `send` blocks until the message is written, so that output of programs does not pile up here. Else
        the rest of the message goes with a later one."""
        self.reads = reads
        self._writes = writes
        self._waits = waits
        self._partial = b""
        self._unsent = bytearray()
        self._pulse: Pulse | None = None
        os.set_blocking(reads, False)
        os.set_blocking(writes, False)

    def send(self, message: Message) -> None:
        """Send a message to the other side.

        Raises:
            OSError: it is gone, or has read nothing for too long.
        """
        if self._pulse is not None:
            self._pulse.moved()
            self._pulse.take(self._writes)
        self._unsent += json.dumps({type(message).__name__: message}, default=plain).encode() + b"\n"
        until = time.monotonic() + SILENT_FOR
        while self._unsent:
            if _is_ready(self._writes, select.POLLOUT, 0.1 if self._waits else 0.0):
                with contextlib.suppress(BlockingIOError):  # less room than this
                    del self._unsent[: os.write(self._writes, self._unsent)]
            elif not self._waits:
                return
            elif _is_ready(self.reads, select.POLLIN, 0.0):  # it lives, and may stand still for a while
                if not (data := os.read(self.reads, _CHUNK)):
                    raise BrokenPipeError(errno.EPIPE, "the other side has left")
                self._partial += data
                until = time.monotonic() + SILENT_FOR
            elif time.monotonic() > until:
                raise TimeoutError(f"nothing was heard of the other side for {SILENT_FOR:g} s")
        if self._pulse is not None:
            self._pulse.give_back(self._writes)

    def received(self) -> list[Message] | None:
        """The messages since the last call; None if the other side has left and all were returned before.

        Raises:
            ResourceError: what has come is no message of this version.
        """
        ended = False
        if self._pulse is not None:
            self._pulse.moved()
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
        return [_read(line) for line in lines] if lines or not ended else None

    @staticmethod
    def with_pulse(controls: Sequence[Control], patience: float) -> Pulse:
        """A process that says on connections that this one lives, while it has moved within `patience` seconds."""
        pulse = Pulse([control._writes for control in controls], patience)
        for control in controls:
            control._pulse = pulse
        return pulse


def _read(line: bytes) -> Message:
    try:
        [(name, fields)] = json.loads(line).items()
        return restored(Message.kinds[name], fields)
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        text = line[:80].decode(errors="replace").strip()
        raise ResourceError(
            f"what came from there is no message of this version of Wilkins: {text!r}; is the same version "
            "installed on all hosts, and does a shell there print something when nobody is at it?"
        ) from error


def _is_ready(descriptor: int, kind: int, within: float) -> bool:
    """Wait up to so many seconds until something can be written or read."""
    poll = select.poll()
    poll.register(descriptor, kind)
    return bool(poll.poll(within * 1000))


def packed(data: bytes) -> str:
    """Bytes as a text."""
    return base64.b85encode(data).decode()


def unpacked(text: str) -> bytes:
    """The bytes again."""
    return base64.b85decode(text)
