"""Reading a version: every byte that is used has been compared with its digest."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint.errors import Damaged
from wilkins.tasks.checkpoint.sources import Bytes, Spec
from wilkins.tasks.checkpoint.tree import array_paths
from wilkins.tasks.checkpoint.versions import Manifest, Stream, read_manifest


@dataclass(frozen=True, slots=True)
class Entry:
    """An array as a rank saved it."""

    spec: Spec
    parts: tuple[tuple[int, int, int, int], ...]
    """Where its bytes stand: rank whose stream it is, offset there, first byte of the array, bytes."""


@dataclass(frozen=True, slots=True)
class Index:
    """What a rank saved."""

    tree: Any
    entries: tuple[Entry, ...]
    paths: dict[str, int]
    """Number of the entry of each array's path; tied arrays have several paths."""


class Contents:
    """A version, open for reading.

    Raises:
        Damaged: here and in all methods: something is missing or not what was written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: Manifest = read_manifest(path)
        self._files: dict[str, int] = {}
        self._indices: dict[int, Index] = {}
        self._buffer = bytearray(self.manifest.block)
        self._held: tuple[int, int] | None = None

    def __enter__(self) -> Contents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    @property
    def ranks(self) -> int:
        """How many ranks wrote it."""
        return len(self.manifest.streams)

    def index(self, rank: int) -> Index:
        """What a rank saved."""
        if rank not in self._indices:
            self._indices[rank] = _parse(self._index_bytes(self.manifest.streams[rank]), self.path)
        return self._indices[rank]

    def _index_bytes(self, stream: Stream) -> bytes:
        file = self.path / stream.index
        try:
            raw = file.read_bytes()
        except OSError as error:
            raise Damaged(f"{file} cannot be read: {error.strerror}") from error
        if len(raw) != stream.index_bytes or hashlib.sha256(raw).hexdigest() != stream.index_sha256:
            raise Damaged(f"{file} is not what was written: its digest does not match")
        return raw

    def verify(self, ranks: Sequence[int] | None = None) -> int:
        """Compare the streams and indices of some ranks, or of all, with their digests; returns the bytes read."""
        total = 0
        for rank in range(self.ranks) if ranks is None else ranks:
            stream = self.manifest.streams[rank]
            total += len(self._index_bytes(stream))
            size = self._size(stream.file)
            if size != self.manifest.files[stream.file]:
                raise Damaged(
                    f"{self.path / stream.file} has {size} bytes, and {self.manifest.files[stream.file]} were written"
                )
            for block in range(len(stream.crc32)):
                total += len(self._block(rank, block))
        return total

    def read(self, entry: Entry, into: Bytes | None = None) -> Bytes:
        """The bytes of an array, in the order of its elements; written to `into` if that is given."""
        data = np.empty(entry.spec.nbytes, np.uint8) if into is None else into
        done = 0
        for rank, offset, start, length in entry.parts:
            if not (0 <= rank < self.ranks and start >= 0 and start + length <= len(data)):
                raise Damaged(f"{self.path}: the index of {entry.spec.key} leads to bytes that are not there")
            done += length
            for block, within, size in self._cuts(offset, length):
                held = self._block(rank, block)
                if within + size > len(held):
                    raise Damaged(f"{self.path}: the index of {entry.spec.key} leads to bytes that are not there")
                data[start : start + size] = np.frombuffer(held, np.uint8, size, within)
                start += size
        if done != len(data):
            raise Damaged(f"{self.path}: {entry.spec.key} has {len(data)} bytes, and {done} were written")
        return data

    def _cuts(self, offset: int, length: int) -> Iterator[tuple[int, int, int]]:
        """A range of a stream, cut at its blocks: block, offset within, bytes."""
        while length:
            block, within = divmod(offset, self.manifest.block)
            size = min(length, self.manifest.block - within)
            yield block, within, size
            offset, length = offset + size, length - size

    def _block(self, rank: int, block: int) -> memoryview:
        """A block of a stream, compared with its digest. It is overwritten by the next one."""
        stream = self.manifest.streams[rank]
        if not 0 <= block < len(stream.crc32):
            raise Damaged(f"{self.path}: an index leads past the end of rank {rank}'s data")
        begin = block * self.manifest.block
        view = memoryview(self._buffer)[: min(self.manifest.block, stream.bytes - begin)]
        if self._held == (rank, block):
            return view
        self._held = None
        try:
            read = os.preadv(self._open(stream.file), [view], stream.offset + begin)
            if read != len(view) or zlib.crc32(view) != stream.crc32[block]:
                raise Damaged(
                    f"{self.path / stream.file} is not what was written: bytes {stream.offset + begin} to "
                    f"{stream.offset + begin + len(view)} do not match their digest"
                )
        except OSError as error:
            raise Damaged(f"{self.path / stream.file} cannot be read: {error.strerror}") from error
        self._held = (rank, block)
        return view

    def _open(self, name: str) -> int:
        if name not in self._files:
            try:
                self._files[name] = os.open(self.path / name, os.O_RDONLY)
            except OSError as error:
                raise Damaged(f"{self.path / name} cannot be read: {error.strerror}") from error
        return self._files[name]

    def _size(self, name: str) -> int:
        return os.fstat(self._open(name)).st_size


def _parse(raw: bytes, path: Path) -> Index:
    try:
        values = json.loads(raw)
        entries = []
        for one in values["arrays"]:
            parts = tuple(tuple(map(int, part)) for part in one.pop("parts"))
            for name in ("shape", "whole", "offsets"):
                one[name] = tuple(map(int, one[name]))
            entries.append(Entry(Spec(**one), parts))  # type: ignore[arg-type]
        return Index(values["tree"], tuple(entries), array_paths(values["tree"]))
    except (ValueError, LookupError, TypeError) as error:
        raise Damaged(f"{path} holds an index that this Wilkins cannot read ({error})") from error
