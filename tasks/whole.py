"""Files that are whole or not there, also after a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def sync(path: Path) -> None:
    """Make the names in a folder, or the bytes of a file, last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that takes its name when it is whole; a kill before leaves the suffix ``.partial`` behind."""
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync(path.parent)
