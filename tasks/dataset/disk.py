"""Rows of steps that are files on the disk, read where they lie."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from wilkins.tasks.dataset.rows import Rows
from wilkins.transport.files import open_on_disk
from wilkins.transport.received import Step
from wilkins.transport.views import Elements, elements_in_file, file_number

GAP = 32 << 10
"""Bytes between two rows that are read rather than passed over: what a disk gives while it answers, about."""
COMPARED = 1 << 20

_hdf5 = threading.Lock()


@dataclass(frozen=True, slots=True)
class Source:
    """A file on the disk, as it was when its step came."""

    path: str
    size: int
    changed: int
    """When, in nanoseconds; 0: not known."""

    def later(self) -> Source:
        """The same for a run that goes on, in which a producer may write its last files again."""
        return Source(self.path, self.size, 0)


def source_of(step: Step, *, in_memory: bool) -> Source | None:
    """The file on the disk that holds a step; None: the disk has none, or another one.

    Args:
        in_memory: the step is one of a run: a file of its name may be older, or of another step.
    """
    path = os.path.abspath(step.filename)  # noqa: PTH100 - without following links
    try:
        fd = open_on_disk(path)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if in_memory and not _is_equal(fd, found.st_size, step):
            return None
        return Source(path, found.st_size, found.st_mtime_ns)
    finally:
        os.close(fd)


def _is_equal(fd: int, size: int, step: Step) -> bool:
    wanted = np.frombuffer(step.file_bytes(), np.uint8)
    if size != len(wanted):
        return False
    buffer = np.empty(COMPARED, np.uint8)
    for offset in range(0, size, COMPARED):
        count = min(COMPARED, size - offset)
        read_at(fd, buffer.data[:count], offset)
        if not np.array_equal(buffer[:count], wanted[offset : offset + count]):
            return False
    return True


def read_at(fd: int, buffer: memoryview, offset: int) -> None:
    """Fill a buffer from a place of a file.

    Raises:
        EOFError: the file ends before.
    """
    while buffer:
        count = os.preadv(fd, [buffer], offset)
        if not count:
            raise EOFError(f"the file ends at {offset}")
        buffer, offset = buffer[count:], offset + count


class _File(io.RawIOBase):
    """A descriptor as HDF5 reads it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._at = 0
        self._size = os.fstat(fd).st_size

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (self._at if whence == os.SEEK_CUR else self._size if whence == os.SEEK_END else 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._size - self._at))
        read_at(self._fd, view[:count], self._at)
        self._at += count
        return count


class Files:
    """Reads rows of some datasets, by several threads at once."""

    def __init__(self, datasets: Mapping[str, str]) -> None:
        self._datasets = datasets
        self._lie: dict[Source, dict[str, Elements | None]] = {}

    def kind(self, source: Source) -> Rows:
        """Columns without rows, as those of a file."""
        with _opened(source) as fd, _hdf5, h5py.File(_File(fd), "r") as file:
            found = {name: file[path] for name, path in self._datasets.items()}
            return {name: np.empty((0, *one.shape[1:]), one.dtype) for name, one in found.items()}

    def read(self, source: Source, rows: np.ndarray[Any, Any], into: Rows, places: np.ndarray[Any, Any]) -> None:
        """Read rows of a file to their places in columns.

        Args:
            rows: their numbers, increasing.

        Raises:
            RuntimeError: the file is not as it was.
        """
        with _opened(source) as fd:
            if source not in self._lie:
                with _hdf5, h5py.File(_File(fd), "r") as file:
                    number = file_number(file.id)
                    found = {name: elements_in_file(file[path].id, number) for name, path in self._datasets.items()}
                self._lie[source] = found
            for name, elements in self._lie[source].items():
                if elements is None:
                    with _hdf5, h5py.File(_File(fd), "r") as file:
                        dataset = file[self._datasets[name]]
                        for first, end in _runs(rows, into[name][:1].nbytes):
                            run = dataset[rows[first] : rows[end - 1] + 1]
                            into[name][places[first:end]] = run[rows[first:end] - rows[first]]
                    continue
                size = elements.size // elements.shape[0]
                for first, end in _runs(rows, size):
                    run = np.empty((rows[end - 1] + 1 - rows[first], *elements.shape[1:]), elements.dtype)
                    read_at(fd, run.reshape(-1).view(np.uint8).data, elements.offset + int(rows[first]) * size)
                    into[name][places[first:end]] = run[rows[first:end] - rows[first]]


def _runs(rows: np.ndarray[Any, Any], size: int) -> Iterator[tuple[int, int]]:
    """The ranges of rows to read at once, each from its first row to its end."""
    breaks = np.flatnonzero((np.diff(rows) - 1) * size > GAP) + 1
    edges = [0, *breaks.tolist(), len(rows)]
    return pairwise(edges)


@contextmanager
def _opened(source: Source) -> Iterator[int]:
    try:
        fd = open_on_disk(source.path)
    except OSError as error:
        raise RuntimeError(f"{source.path} cannot be read again: {error.strerror}") from error
    try:
        found = os.fstat(fd)
        if found.st_size != source.size or source.changed not in (0, found.st_mtime_ns):
            raise RuntimeError(f"{Path(source.path)} was written again since its samples came")
        yield fd
    finally:
        os.close(fd)
