"""Hears of files that are created in a folder, without looking there again and again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from pathlib import Path

CREATED = signal.SIGURG
"""Comes when a file was created; a signal that nobody handles is ignored."""


class Creations:
    """Asks for `CREATED` when a file is created in a folder, or touched there, as long as this is open.

    (To close a watch of inotify takes the kernel 10 to 20 ms.)
    """

    def __init__(self, folder: Path) -> None:
        """A folder, or a kernel, of which nothing can be heard is none that raises an error."""
        self._folder = -1
        with contextlib.suppress(OSError):
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.fcntl(self._folder, fcntl.F_SETSIG, CREATED)

    def hear(self) -> bool:
        """Ask for one `CREATED`, from now on; False: none will come."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._folder, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_ATTRIB)
            return True
        return False

    def close(self) -> None:
        """Hear no more."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
