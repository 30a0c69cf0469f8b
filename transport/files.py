"""Steps that are real files, for programs that run without Wilkins: read by mapping, written by one rename."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
from functools import cache
from pathlib import Path

import h5py
import numpy as np


class StepOnDisk:
    """A file that is mapped to be read.

    As long as it is held, HDF5 lets no program open it to add to it (by a file lock). A program that empties it first,
    by mode ``w``, is not kept from it: HDF5 asks for the lock after that.
    """

    sequence: int | None = None
    """Nobody has numbered it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self.size = os.fstat(self._fd).st_size
        self._map = mmap.mmap(self._fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) if self.size else None
        self.address = np.frombuffer(self._map, np.uint8).ctypes.data if self._map is not None else 0

    def open(self) -> h5py.File:
        """The file that is mapped, by HDF5, whatever its name means by now."""
        while self._has_its_name():
            file = h5py.File(self.name, "r")
            if self._has_its_name():
                return file
            file.close()
        return h5py.File(Path(f"/proc/self/fd/{self._fd}").open("rb"), "r")  # replaced since, and without a name now

    def _has_its_name(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.name), os.fstat(self._fd))  # noqa: PTH116 - the name as it was given
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Let go of the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._map = None
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


def open_on_disk(name: str) -> int:
    """A descriptor of the disk's file of a name, to be read, also where the name means a step in memory.

    Raises:
        OSError: the disk has no such file.
    """
    fd: int = _libc().open(os.fsencode(name), os.O_RDONLY | os.O_CLOEXEC)
    if fd < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), name)
    return fd


@cache
def _libc() -> ctypes.CDLL:
    """The C library itself: what is looked up in it is not the preloaded layer's."""
    library = ctypes.CDLL("libc.so.6", use_errno=True)
    library.open.argtypes = [ctypes.c_char_p, ctypes.c_int]
    return library


def read_ahead(name: str) -> None:
    """Ask the system to read a file into its memory, and do not wait for it."""
    with contextlib.suppress(OSError):
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(fd)
