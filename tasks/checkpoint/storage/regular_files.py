"""Files that others may have put in place: only regular ones are read, and never more than is expected of them."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

SHEETS = 64 << 20
"""Bytes that a manifest, or a sheet of partners, has at most: 4 million digests, of 32 TB in blocks of 8 MiB."""
INDICES = 1 << 30
"""Bytes that a rank's index has at most."""
_STEP = 1 << 20
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path) -> int:
    """Open a file for reading; returns its descriptor. It never waits, as for who writes to a named pipe.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind != stat.S_IFREG:
            raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'something else')}, not a file", str(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_small(path: Path, limit: int) -> bytes:
    """All of a file that has at most `limit` bytes.

    Raises:
        OSError: it cannot be read, is no regular file, or is longer.
    """
    descriptor = open_regular(path)
    try:
        size = os.fstat(descriptor).st_size
        found = bytearray()
        while size <= limit and (piece := os.read(descriptor, _STEP)):
            found += piece
            size = max(size, len(found))
        if size > limit:
            raise OSError(errno.EFBIG, f"it is longer than the {limit:,} bytes that may be there", str(path))
        return bytes(found)
    finally:
        os.close(descriptor)
