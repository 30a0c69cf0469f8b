"""Signals of a launcher: as events that a selector can wait for, and one that comes when a file is created."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

CREATED = signal.SIGURG
"""Comes when a file was created; a signal that nobody handles is ignored."""

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Turns signals into readable events while the block lasts."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.child_ended = True
        self.file_created = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (*_ENDING_SIGNALS, signal.SIGCHLD, CREATED):
            self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGCHLD:
            self.child_ended = True
        elif number == CREATED:
            self.file_created = True
        else:
            self.received.append(number)

    def drain(self) -> None:
        """Forget the wake-ups that led here."""
        try:
            while self.reader.recv(4096):
                pass
        except BlockingIOError:
            pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self.reader.close()
        self._writer.close()


class Creations:
    """Asks for `CREATED` when a file is created in a folder, or touched there, as long as this is open.

    (To close a watch of inotify takes the kernel 10 to 20 ms.)
    """

    def __init__(self, folder: Path) -> None:
        """Raises no error if the folder or the kernel offers no notification."""
        self._folder = -1
        with contextlib.suppress(OSError):
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.fcntl(self._folder, fcntl.F_SETSIG, CREATED)

    def hear(self) -> bool:
        """Ask for one `CREATED`; False: none will come."""
        if self._folder < 0:
            return False
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._folder, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_ATTRIB)
            return True
        return False

    def close(self) -> None:
        """Ask for no more."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
