"""What keeps two jobs from writing in one folder, and a version from being pruned while somebody reads it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from wilkins.atomic import sync
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged

_LOG = logging.getLogger("wilkins.checkpoint")
_LOCKED: dict[tuple[int, int], IO[str]] = {}
"""By device and inode of the folder, whatever its path."""
_RENAMED_WITHIN, _LOOK_EVERY = 20.0, 0.001
"""Seconds: how long a reader waits for who is about to remove a version, which is one rename; between two looks."""


class Lock:
    """A lock that lets one job at a time write to a folder. Held by a process: when that dies, the lock is free.

    It belongs to the open file, so that a program that copies the folder does not give it up, as it would a process's
    own; processes that this one forks do not keep it.

    Raises:
        CheckpointError: another process, or another part of this one, writes there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # the folder above may be one that cannot be read
            sync(folder.parent)
        told = folder.stat()
        self._key = told.st_dev, told.st_ino
        if self._key in _LOCKED:
            raise CheckpointError(f"checkpoints in {folder} are written by this process already; close() that first")
        self._file: IO[str] = os.fdopen(
            _opened_lock(folder.absolute() / ".lock"), "r+", encoding="utf-8", errors="replace"
        )
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                _LOG.warning(
                    "%s cannot be locked (%s), so nothing keeps a second job from writing there: start only one",
                    folder,
                    error.strerror,
                )
            else:
                who = self._file.read(200).strip() or "another process"
                self._file.close()
                raise CheckpointError(
                    f"checkpoints in {folder} are being written by {who}; wait for it to end, or give another folder"
                ) from error
        self._file.truncate(0)
        self._file.seek(0)
        self._file.write(f"process {os.getpid()} on {os.uname().nodename}\n")
        self._file.flush()
        _LOCKED[self._key] = self._file

    def close(self) -> None:
        """Let others write."""
        _LOCKED.pop(self._key, None)
        self._file.close()


def _not_locked_here() -> None:
    """In a process that was forked: the lock is its parent's."""
    for file in _LOCKED.values():
        file.close()
    _LOCKED.clear()


os.register_at_fork(after_in_child=_not_locked_here)


def _opened_lock(path: Path) -> int:
    """Open the file that is locked, which is made if it is missing; what a link leads to is not written over."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
    descriptor = -1
    try:
        descriptor = os.open(path, flags, 0o666)
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        regular = False
    if not regular:
        if descriptor >= 0:
            os.close(descriptor)
        raise CheckpointError(f"{path} is to be the file that a job locks, and is none; remove it")
    return descriptor


@contextlib.contextmanager
def reading(manifest: Path) -> Iterator[None]:
    """Keep a version from being pruned, by any process, while the block lasts.

    Raises:
        Damaged: it has been removed.
    """
    with _opened(manifest) as descriptor:
        if descriptor >= 0 and not _shared(descriptor, manifest):
            raise Damaged(f"{manifest.parent} has been removed meanwhile")
        yield


@contextlib.contextmanager
def unless_read(manifest: Path) -> Iterator[bool]:
    """Keep readers from opening a version inside the block; gives whether it has none."""
    with _opened(manifest) as descriptor:
        free = True
        if descriptor >= 0:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                free = error.errno != errno.EWOULDBLOCK
        yield free


def _shared(descriptor: int, manifest: Path) -> bool:
    """Lock it with other readers; returns whether it is there still. Some file systems have no such locks."""
    given_up = time.monotonic() + _RENAMED_WITHIN
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return os.path.samestat(os.fstat(descriptor), manifest.stat())
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                return error.errno != errno.ENOENT
            if time.monotonic() > given_up:
                return False
        time.sleep(_LOOK_EVERY)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[int]:
    """A descriptor of a file; -1 if it cannot be opened, which its reader will report."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        descriptor = -1
    try:
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)
