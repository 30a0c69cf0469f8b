"""Files that streams are written to: past the page cache where that can be, no faster than allowed."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from pathlib import Path

from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.layout import PAGE, Place, up

_LOG = logging.getLogger("wilkins.checkpoint")


class Pace:
    """A limit of bytes per second over all threads of a rank."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._free = 0.0
        self._lifted = threading.Event()

    def wait(self, size: int) -> None:
        """Until `size` more bytes may be written."""
        if self._rate is None:
            return
        with self._lock:
            begin = max(self._free, time.monotonic())
            self._free = begin + size / self._rate
        self._lifted.wait(max(0.0, begin - time.monotonic()))

    def lift(self) -> None:
        """From now on as fast as can be."""
        self._lifted.set()


class File:
    """A file of streams, written at any offset: past the page cache where the file system lets us."""

    def __init__(self, path: Path, place: Place, length: int) -> None:
        self._base = place.offset
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._direct = -1
        try:
            if length:
                reserve(self._descriptor, place.offset, up(length, PAGE))
            with contextlib.suppress(OSError, AttributeError):
                self._direct = os.open(path, os.O_WRONLY | os.O_DIRECT)
        except BaseException:
            self.close()
            raise
        self._past_cache = self._direct >= 0

    def write(self, data: memoryview, offset: int) -> None:
        """Write from memory that begins at a page, best whole pages. Several threads may, at different offsets."""
        offset += self._base
        while data:
            direct = self._past_cache
            try:
                written = os.pwrite(self._direct if direct else self._descriptor, data, offset)
            except OSError as error:
                if error.errno != errno.EINVAL or not direct:
                    raise
                self._past_cache = False
                continue
            if written % PAGE:  # the disk is full, or a limit reached: let it say so
                self._past_cache = False
            data, offset = data[written:], offset + written

    def cut(self, size: int) -> None:
        """Truncate the file to its length, since whole pages were reserved."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """Make the bytes last."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close it."""
        for descriptor in (self._direct, self._descriptor):
            if descriptor >= 0:
                os.close(descriptor)
        self._direct = self._descriptor = -1


def reserve(descriptor: int, offset: int, length: int) -> None:
    """Let a full disk show before anything is written, and the file system lay the file out in one piece."""
    try:
        os.posix_fallocate(descriptor, offset, length)
    except OSError as error:
        # EBADF: the C library writes to each page where the file system has nothing for this, and would read first if
        # another rank has made the file longer, which is open for writing alone.
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF):
            raise


def tidied(folder: Path, keep: int) -> None:
    """Remove the oldest versions. A failure is logged at once; the new version stays."""
    try:
        versions.prune(folder, keep)
    except OSError as error:
        _LOG.warning("older checkpoints cannot be removed: %s: %s", error.filename or folder, error.strerror)


def cannot(error: Exception, path: Path) -> str:
    """The message for an error that kept a rank from writing. The others must get it, or they would wait for ever."""
    if isinstance(error, CheckpointError):
        return str(error)
    if not isinstance(error, OSError):
        return f"writing {path} failed: {type(error).__name__}: {error}"
    cure = {
        errno.ENOSPC: "; free space there, keep fewer versions, or give another folder",
        errno.EDQUOT: "; the quota is used up: free space, keep fewer versions, or give another folder",
        errno.EFBIG: "; files may not be so large here (ulimit -f): raise the limit, or write more files",
        errno.EACCES: "; give a folder that may be written to",
    }.get(error.errno or 0, "")
    return f"cannot write {error.filename or path}: {error.strerror or error}{cure}"
