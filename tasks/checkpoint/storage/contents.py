"""Reading a version: every byte that is used has been compared with its digest."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from wilkins.tasks.checkpoint.errors import Damaged
from wilkins.tasks.checkpoint.state import checked_json
from wilkins.tasks.checkpoint.state.garbage import uncollected
from wilkins.tasks.checkpoint.state.sources import Bytes, Spec
from wilkins.tasks.checkpoint.state.tree import array_paths, check_tree
from wilkins.tasks.checkpoint.storage.checksum import crc32_of
from wilkins.tasks.checkpoint.storage.locks import reading
from wilkins.tasks.checkpoint.storage.regular_files import open_regular, read_small
from wilkins.tasks.checkpoint.storage.versions import MANIFEST, Manifest, Stream, read_manifest

_SHAPE = checked_json.items(checked_json.whole())
READERS = 4
"""Threads that read blocks: storage answers several at once, and cores compare them with their digests."""
_AT_ONCE_FROM = 1 << 20
"""Bytes of a block that threads are worth."""
_CACHED = 1 << 19
"""Bytes that are read at once: a core compares them with their digest while its cache has them."""
_DIRECT, _GAP = 100, 4096
"""The most pieces of a block that one read fills, and the most bytes between two of them."""
_NAMED = 4
"""Arrays that are named of those that damaged bytes belong to."""
_WIDEST = 16
"""Bytes of an element of torch's, at most."""
_FORM: dict[str, checked_json.Check] = {
    "library": checked_json.one_of("torch", "numpy"),
    "dtype": checked_json.text,
    "shape": _SHAPE,
    "placement": checked_json.one_of("local", "replica", "shard"),
    "whole": _SHAPE,
    "offsets": _SHAPE,
    "grad": checked_json.truth,
    "parameter": checked_json.truth,
    "order": _SHAPE,
}
"""What is said of an array beside its name and where its bytes are: of thousands, most have one of a few forms."""
_ARRAY = checked_json.record(
    {
        "key": checked_json.text,
        **_FORM,
        "parts": checked_json.items(checked_json.items(checked_json.whole())),
    },
    optional=("order",),
)
_INDEX = checked_json.record(
    {
        "tree": lambda value, _: value,  # `check_tree` looks at it
        "arrays": checked_json.listed,  # and `_entries` at these
    }
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An array as a rank saved it."""

    spec: Spec
    parts: tuple[tuple[int, int, int, int], ...]
    """Where its bytes stand: rank whose stream it is, offset there, first byte of the array, bytes."""

    @property
    def stored(self) -> int:
        """Bytes that were written of it."""
        return self.parts[0][3] if len(self.parts) == 1 else sum(part[3] for part in self.parts)


@dataclass(frozen=True, slots=True)
class Index:
    """What a rank saved."""

    tree: Any
    entries: tuple[Entry, ...]
    paths: dict[str, int]
    """Number of the entry of each array's path; tied arrays have several paths."""


class _Piece(NamedTuple):
    """Some bytes of a block that are wanted."""

    within: int
    """Where they begin in it."""
    to: memoryview


def _laid_out(pieces: list[_Piece], size: int) -> list[Any]:
    """Memory that a whole block of `size` bytes can be read to: its pieces, in order, and what takes the gaps between
    them. Empty if it is better read to a buffer, and copied."""
    if not pieces or len(pieces) > _DIRECT:
        return []
    found: list[Any] = []
    end = 0
    for within, to in [*pieces, _Piece(size, memoryview(b""))]:
        if not end <= within <= end + _GAP:
            return []
        if within > end:
            found.append(bytearray(within - end))
        if len(to):
            found.append(to)
        end = within + len(to)
    return found


def _parts(views: list[Any]) -> Iterator[list[Any]]:
    """Memory that a block is read to, in order, by as much as a core's cache holds."""
    part: list[Any] = []
    size = 0
    for piece in views:
        view = memoryview(piece)
        while len(view):
            part.append(view[: _CACHED - size])
            size, view = size + len(part[-1]), view[len(part[-1]) :]
            if size == _CACHED:
                yield part
                part, size = [], 0
    if part:
        yield part


class _Held(threading.local):
    """The block that a thread has read last, of which more may be wanted."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.held: tuple[int, int] | None = None

    def memory(self, size: int) -> memoryview:
        """Memory that a block, or what is only looked at, is read to; what it held is gone."""
        self.held = None
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        return memoryview(self._buffer)[:size]

    def block(self) -> memoryview:
        """The bytes of the block that it holds."""
        return memoryview(self._buffer)


class Contents:
    """A version, open for reading: nobody prunes it meanwhile. What a link led to is read, though the link moves on.

    If what the link led to was pruned before it was open, what it leads to by then is read.

    Raises:
        Damaged: here and in all methods: something is missing or not what was written.
    """

    def __init__(self, path: Path) -> None:
        self._reading = contextlib.ExitStack()
        while True:
            self.path = path.resolve() if path.is_symlink() else path
            try:
                self._reading.enter_context(reading(self.path / MANIFEST))
                self.manifest: Manifest = read_manifest(self.path)
                break
            except BaseException as error:
                self._reading.close()
                moved_on = path.is_symlink() and path.resolve() != self.path
                if not (isinstance(error, Damaged) and moved_on and not self.path.exists()):
                    raise
        self._files: dict[str, int] = {}
        self._indices: dict[int, Index] = {}
        self._mine = _Held()
        self._whole: set[tuple[int, int]] = set()
        """Blocks that matched their digests when they were read."""

    def __enter__(self) -> Contents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its files."""
        self._reading.close()
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
            stream = self.manifest.streams[rank]
            self._indices[rank] = _parse(_index_bytes(self.path, stream), self.path / stream.index, self.manifest)
        return self._indices[rank]

    def verify(self, ranks: Sequence[int] | None = None) -> int:
        """Compare the streams and indices of some ranks, or of all, with their digests; returns their bytes.

        What was read before is not read again.
        """
        total = 0
        wanted: dict[tuple[int, int], list[_Piece]] = {}
        for rank in range(self.ranks) if ranks is None else ranks:
            stream = self.manifest.streams[rank]
            if rank not in self._indices:
                _index_bytes(self.path, stream)
            total += stream.index_bytes + stream.bytes
            self._open(stream.file)
            blocks = [(rank, block) for block in range(len(stream.crc32))]
            wanted |= {where: [] for where in blocks if where not in self._whole}
        self._read_blocks(wanted)
        return total

    def read(self, entry: Entry, into: Bytes | None = None) -> Bytes:
        """The bytes of an array, in the order of its elements; written to `into` if that is given."""
        data = np.empty(entry.spec.nbytes, np.uint8) if into is None else into
        self.read_all([(entry, data)])
        return data

    def read_all(self, arrays: Sequence[tuple[Entry, Bytes]]) -> None:
        """Write the bytes of arrays to memory, in the order of their elements; each block is read once."""
        self._read_blocks(self._pieces(arrays))

    @uncollected()
    def _pieces(self, arrays: Sequence[tuple[Entry, Bytes]]) -> Mapping[tuple[int, int], list[_Piece]]:
        """Which pieces of blocks, by rank and number, are wanted where."""
        wanted: dict[tuple[int, int], list[_Piece]] = defaultdict(list)
        each = self.manifest.block
        for entry, data in arrays:
            if len(data) != entry.stored:
                raise Damaged(f"{self.path}: {entry.spec.key} has {len(data)} bytes, and {entry.stored} were written")
            memory = data.data
            for rank, offset, start, length in entry.parts:
                first, before = divmod(offset, each)
                if before + length <= each:  # of very many small arrays, nearly all
                    cuts: Iterable[tuple[int, int, int]] = ((first, before, length),) if length else ()
                else:
                    cuts = self._cuts(offset, length)
                for block, within, size in cuts:
                    wanted[rank, block].append(_Piece(within, memory[start : start + size]))
                    start += size
        return wanted

    def _read_blocks(self, wanted: Mapping[tuple[int, int], list[_Piece]]) -> None:
        """Read blocks, by rank and number, and write pieces of them to memory; several at once."""
        for rank in {rank for rank, _ in wanted}:
            self._open(self.manifest.streams[rank].file)
        if len(wanted) <= 1 or self.manifest.block < _AT_ONCE_FROM:
            for (rank, block), pieces in wanted.items():
                self._read_block(rank, block, pieces)
            return
        with ThreadPoolExecutor(READERS, "checkpoint-read") as threads:
            # The first error is raised, and the blocks that nobody has begun are left out.
            reading = [threads.submit(self._read_block, *where, pieces) for where, pieces in wanted.items()]
            try:
                for one in reading:
                    one.result()
            finally:
                threads.shutdown(cancel_futures=True)

    def _cuts(self, offset: int, length: int) -> Iterator[tuple[int, int, int]]:
        """A range of a stream, cut at its blocks: block, offset within, bytes."""
        while length:
            block, within = divmod(offset, self.manifest.block)
            size = min(length, self.manifest.block - within)
            yield block, within, size
            offset, length = offset + size, length - size

    def _read_block(self, rank: int, block: int, pieces: list[_Piece]) -> None:
        """Read a block of a stream and compare it with its digest. Pieces of it go to memory: large ones at once."""
        stream = self.manifest.streams[rank]
        begin = block * self.manifest.block
        size = min(self.manifest.block, stream.bytes - begin)
        pieces = sorted(pieces, key=lambda piece: piece.within)
        if direct := _laid_out(pieces, size):
            self._fill(rank, block, direct, begin, size)
            self._whole.add((rank, block))
            return
        mine = self._mine
        if not pieces:
            places = [mine.memory(_CACHED)] * (size // _CACHED)
            self._fill(rank, block, [*places, mine.memory(size % _CACHED)], begin, size)
            self._whole.add((rank, block))
            return
        if mine.held != (rank, block):
            self._fill(rank, block, [mine.memory(size)], begin, size)
            mine.held = rank, block
            self._whole.add((rank, block))
        whole = mine.block()
        for within, to in pieces:
            to[:] = whole[within : within + len(to)]

    def _fill(self, rank: int, block: int, views: list[Any], begin: int, size: int) -> None:
        """Read a block to memory, and compare it with its digest."""
        stream, read, digest = self.manifest.streams[rank], 0, 0
        try:
            for part in _parts(views):
                read += os.preadv(self._files[stream.file], part, stream.offset + begin + read)
                digest = crc32_of(part, digest)
        except OSError as error:
            raise Damaged(f"{self.path / stream.file} cannot be read: {error.strerror}") from error
        if read != size or digest != stream.crc32[block]:
            raise Damaged(
                f"{self.path / stream.file} is not what was written: bytes {stream.offset + begin} to "
                f"{stream.offset + begin + size} do not match their digest"
                f"{whose(self.path, self.manifest, rank, begin, begin + size)}"
            )

    def _open(self, name: str) -> int:
        """A file of streams, of as many bytes as were written."""
        if name not in self._files:
            path, written = self.path / name, self.manifest.files[name]
            try:
                descriptor = self._files[name] = open_regular(path)
            except OSError as error:
                raise Damaged(f"{path} cannot be read: {error.strerror}") from error
            if (size := os.fstat(descriptor).st_size) != written:
                raise Damaged(f"{path} has {size} bytes, and {written} were written")
        return self._files[name]


def whose(folder: Path, manifest: Manifest, rank: int, begin: int, end: int) -> str:
    """The arrays of which a rank's stream has bytes in a range, to follow what is wrong with these; or nothing."""
    try:
        raw = _index_bytes(folder, manifest.streams[rank])
        keys = keys_in(raw, folder, manifest, rank, [(begin, end)])
    except Damaged:
        return ""
    return f"; they are of {listed(keys)}" if keys else ""


def keys_in(raw: bytes, folder: Path, manifest: Manifest, rank: int, ranges: Sequence[tuple[int, int]]) -> list[str]:
    """The arrays of which a rank's stream has bytes in some ranges.

    Args:
        raw: the rank's index, as it lies in the folder of a version.

    Raises:
        Damaged: it is not what was written.
    """
    index = _parse(_checked(raw, manifest.streams[rank], folder), folder / manifest.streams[rank].index, manifest)
    return [
        entry.spec.key
        for entry in index.entries
        if any(
            of == rank and at < end and begin < at + length
            for of, at, _, length in entry.parts
            for begin, end in ranges
        )
    ]


def listed(keys: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return f"{', '.join(keys[:_NAMED])}{more}"


def _index_bytes(folder: Path, stream: Stream) -> bytes:
    file = folder / stream.index
    try:
        raw = read_small(file, stream.index_bytes)
    except OSError as error:
        raise Damaged(f"{file} cannot be read: {error.strerror}") from error
    return _checked(raw, stream, folder)


def _checked(raw: bytes, stream: Stream, folder: Path) -> bytes:
    if len(raw) != stream.index_bytes or hashlib.sha256(raw).hexdigest() != stream.index_sha256:
        raise Damaged(f"{folder / stream.index} is not what was written: its digest does not match")
    return raw


@uncollected()
def _parse(raw: bytes, path: Path, manifest: Manifest) -> Index:
    """What stands in an index; where it says that bytes are, the manifest's streams have some."""
    try:
        values = _INDEX(checked_json.parse(raw), "")
        entries = _entries(values["arrays"], manifest)
        check_tree(values["tree"], len(entries))
        return Index(values["tree"], tuple(entries), array_paths(values["tree"]))
    except (checked_json.Wrong, Damaged) as error:
        raise Damaged(f"{path} holds an index that this Wilkins cannot read: {error}") from error


def _entries(arrays: list[Any], manifest: Manifest) -> list[Entry]:
    """What an index says of its arrays, checked. Of those that are alike but for name and place, one is checked whole.

    Raises:
        Wrong: an array is not described as Wilkins describes any.
    """
    found: list[Entry] = []
    alike: dict[str, Entry] = {}
    for number, one in enumerate(arrays):
        form = repr((len(one), *map(one.get, _FORM))) if type(one) is dict else ""  # tells 1, 1.0 and true apart
        entry = _as_before(alike.get(form), one, manifest)
        if entry is None:
            values = _ARRAY(one, f"arrays[{number}]")
            parts = values.pop("parts")
            entry = Entry(Spec(**values), parts)
            _check_entry(entry, f"arrays[{number}]", manifest)
            alike[form] = entry
        found.append(entry)
    return found


def _as_before(checked: Entry | None, one: Any, manifest: Manifest) -> Entry | None:
    """An array that has the form of one that was checked, if it is whole in one place and of as many bytes."""
    if checked is None:
        return None
    key, parts = one.get("key"), one.get("parts")
    if type(key) is not str or type(parts) is not list or len(parts) != 1 or type(parts[0]) is not list:
        return None
    part = tuple(parts[0])
    if len(part) != 4 or not type(part[0]) is type(part[1]) is type(part[2]) is type(part[3]) is int:
        return None
    rank, offset, start, length = part
    there = 0 <= rank < len(manifest.streams) and 0 <= offset <= manifest.streams[rank].bytes - length
    if not there or start or length != checked.stored:
        return None
    return Entry(checked.spec.named(key), (part,))


def _check_entry(entry: Entry, where: str, manifest: Manifest) -> None:
    """Compare what is said of an array: its shape, its bytes, and those of the streams.

    Raises:
        Wrong: no array is written like this. What is none would take memory for bytes that are nowhere.
    """
    spec, end = entry.spec, 0
    for part in entry.parts:
        if len(part) != 4 or part[0] >= len(manifest.streams) or part[1] + part[3] > manifest.streams[part[0]].bytes:
            raise checked_json.Wrong(f"{where}.parts lead to bytes that are not there")
    for _, _, start, length in sorted(entry.parts, key=lambda part: part[2]):
        if start != end:
            raise checked_json.Wrong(f"{where}.parts do not hold each byte of it once")
        end += length
    count = math.prod(spec.shape)
    if spec.library == "numpy":
        fits = spec.nbytes == entry.stored
    else:  # how many bytes an element has is known to torch alone, which need not be there
        fits = count <= entry.stored <= _WIDEST * count and (not count or entry.stored % count == 0)
    if not fits:
        raise checked_json.Wrong(
            f"{where}.shape has {count} elements of {spec.dtype}, and {entry.stored} bytes were written"
        )
    alike = len(spec.shape) == len(spec.whole) == len(spec.offsets)
    if spec.order and not (alike and sorted(spec.order) == list(range(len(spec.shape)))):
        raise checked_json.Wrong(f"{where}.order is {spec.order}, and the array has {len(spec.shape)} axes")
    inside = alike and all(map(lambda at, size, full: at + size <= full, spec.offsets, spec.shape, spec.whole))
    if not (inside or not count) or (spec.placement != "shard" and spec.whole != spec.shape):
        raise checked_json.Wrong(f"{where} does not lie in an array of shape {spec.whole}")
