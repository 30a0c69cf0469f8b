"""Files, folders and links that are whole or not there: written beside their name, which they take by one rename.

Whoever looks at the name finds the old file or the new one, at every moment. A write that fails (a full disk, an
exception) removes its part and leaves the old file. A kill leaves a part under a hidden name (`part_of`), which the
next write of that name replaces. A name has one writer at a time, or each of several gives a name of its own as
`writer`. What is `durable` is on the disk when the call returns, and stays whole through a power cut.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def sync(path: Path) -> None:
    """Make the names in a folder, or the bytes of a file, last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def part_of(path: Path, writer: str = "") -> Path:
    """The hidden name of what is being written, beside the name that it will have."""
    return path.with_name(f".{path.name}.{writer}.part" if writer else f".{path.name}.part")


@contextmanager
def replacing(path: Path, *, durable: bool = False, writer: str = "", mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Write a file, which takes its name when the block ends without an exception. `mode`: its rights.

    Raises:
        OSError: it cannot be written.
    """
    part = part_of(path, writer)
    try:
        with os.fdopen(os.open(part, _NEW, mode), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def put(
    path: Path, data: bytes | memoryview | str, *, durable: bool = False, writer: str = "", mode: int = 0o666
) -> None:
    """Put a file in place; text is UTF-8."""
    with replacing(path, durable=durable, writer=writer, mode=mode) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def point(link: Path, target: str, *, durable: bool = False, writer: str = "") -> None:
    """Let a link lead to `target`, whatever it led to before."""
    with pointing(link, target, durable=durable, writer=writer):
        pass


@contextmanager
def pointing(link: Path, target: str, *, durable: bool = False, writer: str = "") -> Iterator[None]:
    """Let a link lead to `target` when the block ends without an exception; what that takes of a disk is taken before.

    Raises:
        OSError: no link can be made there; the block was not begun.
    """
    part = part_of(link, writer)
    part.unlink(missing_ok=True)
    part.symlink_to(target)
    try:
        yield
        part.replace(link)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync(link.parent)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Fill a folder under the name `PATH.new`, for this user alone; it takes its name when the block ends.

    A kill leaves `PATH.new`, which keeps others from making the folder until it is removed.
    """
    new = path.with_name(f"{path.name}.new")
    new.mkdir(mode=0o700)
    try:
        yield new
        new.rename(path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def commit(folder: Path, path: Path) -> None:
    """Give a folder, in which everything was synced, its name for good."""
    folder.rename(path)
    sync(path.parent)
