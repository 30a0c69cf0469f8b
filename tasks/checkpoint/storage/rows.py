"""What the ranks of a node wrote, as one row of bytes that is cut where chunks end, whatever file they are in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from wilkins.tasks.checkpoint.state.sources import Bytes
from wilkins.tasks.checkpoint.storage.files import reserve
from wilkins.tasks.checkpoint.storage.regular_files import open_regular
from wilkins.tasks.checkpoint.storage.versions import Manifest


class _Segment(NamedTuple):
    """A file's bytes in the row of a node's."""

    file: str
    offset: int
    """In the file."""
    begin: int
    """In the row."""
    length: int
    rank: int
    is_index: bool
    """Whether this is the rank's index, and not its stream."""


class Share(NamedTuple):
    """Bytes of a rank's stream, or of its index."""

    rank: int
    is_index: bool
    begin: int
    end: int


class Row:
    """What the ranks of a node wrote, streams and indices, as one row of bytes in the files of a folder."""

    def __init__(self, manifest: Manifest, ranks: Sequence[int]) -> None:
        self._segments: list[_Segment] = []
        self.length = 0
        for rank in ranks:
            stream = manifest.streams[rank]
            for file, offset, length, is_index in (
                (stream.file, stream.offset, stream.bytes, False),
                (stream.index, 0, stream.index_bytes, True),
            ):
                self._segments.append(_Segment(file, offset, self.length, length, rank, is_index))
                self.length += length

    def cuts(self, begin: int, end: int) -> Iterator[tuple[str, int, int, int]]:
        """Where the bytes from `begin` to `end` stand: file, offset there, offset from `begin`, bytes."""
        for file, offset, first, length, _, _ in self._segments:
            low, high = max(begin, first), min(end, first + length)
            if low < high:
                yield file, offset + low - first, low - begin, high - low

    def shares(self, begin: int, end: int) -> Iterator[Share]:
        """Whose the bytes from `begin` to `end` are."""
        for one in self._segments:
            low, high = max(begin, one.begin), min(end, one.begin + one.length)
            if low < high:
                yield Share(one.rank, one.is_index, low - one.begin, high - one.begin)

    def index(self, rank: int) -> tuple[int, int]:
        """Where the index of a rank stands in the row."""
        one = next(one for one in self._segments if one.is_index and one.rank == rank)
        return one.begin, one.begin + one.length


class Files:
    """The files of a folder, opened when they are met.

    Raises:
        OSError: in `read`, if there are fewer bytes than are asked for; in `write`.
    """

    def __init__(self, folder: Path, flags: int = os.O_RDONLY) -> None:
        self._folder, self._flags = folder, flags
        self._open: dict[str, int] = {}

    def read(self, row: Row, begin: int, into: Bytes) -> None:
        """Fill `into` with the bytes of a row, and zeros behind its end."""
        end = min(begin + len(into), row.length)
        into[max(0, end - begin) :] = 0
        for file, offset, to, length in row.cuts(begin, end):
            if os.preadv(self._descriptor(file), [into[to : to + length].data], offset) != length:
                raise OSError(0, "it is shorter than it was", str(self._folder / file))

    def read_at(self, file: str, offset: int, into: Bytes) -> None:
        """Fill `into` from a file."""
        if os.preadv(self._descriptor(file), [into.data], offset) != len(into):
            raise OSError(0, "it is shorter than it was", str(self._folder / file))

    def write(self, row: Row, begin: int, data: memoryview) -> None:
        """Write bytes of a row; what is behind its end is left out."""
        for file, offset, at, length in row.cuts(begin, begin + len(data)):
            self.write_at(file, offset, data[at : at + length])

    def write_at(self, file: str, offset: int, data: memoryview) -> None:
        """Write to a file."""
        while data:
            written = os.pwrite(self._descriptor(file), data, offset)
            data, offset = data[written:], offset + written

    def reserve(self, file: str, length: int) -> None:
        """Let full memory show before anything is written."""
        try:
            reserve(self._descriptor(file), 0, length)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._folder / file)) from error

    def extend(self, file: str, length: int) -> None:
        """Give a file its final length; other ranks write the rest."""
        os.ftruncate(self._descriptor(file), length)

    def sync(self) -> None:
        """Make the bytes last."""
        for descriptor in self._open.values():
            os.fsync(descriptor)

    def close(self) -> None:
        """Close them."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _descriptor(self, file: str) -> int:
        if file not in self._open:
            path = self._folder / file
            self._open[file] = os.open(path, self._flags, 0o600) if self._flags else open_regular(path)
        return self._open[file]
