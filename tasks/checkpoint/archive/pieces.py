"""Making pieces of a version, and a version, or lost pieces, of any `data` pieces: span by span, in little memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from wilkins.tasks.checkpoint.archive.sheets import Sheet, piece_name, row_of
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.state.sources import Bytes
from wilkins.tasks.checkpoint.storage.checksum import crc32
from wilkins.tasks.checkpoint.storage.erasure import Coder, chunk_bytes, spans
from wilkins.tasks.checkpoint.storage.files import Pace
from wilkins.tasks.checkpoint.storage.owners import owners
from wilkins.tasks.checkpoint.storage.rows import Files, Row
from wilkins.tasks.checkpoint.storage.versions import Manifest

SPAN = 1 << 20
"""Bytes of a piece that have a digest, and are in memory at once."""


class PlaceFailed(CheckpointError):
    """A place cannot be written to: which one of those that are written, and why. The version goes elsewhere."""

    def __init__(self, at: int, error: OSError) -> None:
        super().__init__(f"a piece cannot be written to {error.filename}: {error.strerror}; give other places")
        self.at, self.why = at, error.strerror or str(error)


class _Codec:
    """Parity and data of spans; copies if there is one data piece, which needs no library."""

    def __init__(self, data: int, parity: int) -> None:
        self._data = data
        self._coder = Coder(data, parity) if data > 1 else None

    def parity(self, pieces: Sequence[Bytes], made: Sequence[Bytes]) -> None:
        """Fill the parity pieces."""
        if self._coder is None:
            for one in made:
                one[:] = pieces[0]
        else:
            self._coder.parity([one.data for one in pieces], [one.data for one in made])

    def data(self, fragments: Mapping[int, Bytes]) -> list[Bytes]:
        """The data pieces, of any `data` fragments by their numbers."""
        if all(number in fragments for number in range(self._data)):
            return [fragments[number] for number in range(self._data)]
        if self._coder is None:
            return [next(iter(fragments.values()))]
        made = self._coder.data({number: one.data for number, one in fragments.items()})
        return [np.frombuffer(one, np.uint8) for one in made]


class _Outputs:
    """Piece files that are written all at once, each by a thread: a slow place does not add to another's time."""

    def __init__(self, folders: Sequence[Path], numbers: Sequence[int], chunk: int) -> None:
        self._files = [Files(folder, os.O_WRONLY | os.O_CREAT) for folder in folders]
        self._names, self._chunk = [piece_name(number) for number in numbers], chunk
        self._pool = ThreadPoolExecutor(max(1, len(folders)), thread_name_prefix="checkpoint-piece")

    def reserve(self) -> None:
        """Let a full place show at once."""
        self._each(lambda at: self._files[at].reserve(self._names[at], self._chunk) if self._chunk else self._empty(at))

    def write(self, offset: int, pieces: Sequence[Bytes]) -> None:
        """A span of each."""
        self._each(lambda at: self._files[at].write_at(self._names[at], offset, pieces[at].data))

    def sync(self) -> None:
        """Make the bytes last."""
        self._each(lambda at: self._files[at].sync())

    def close(self) -> None:
        """Close them."""
        self._pool.shutdown()
        for one in self._files:
            one.close()

    def _empty(self, at: int) -> None:
        self._files[at].extend(self._names[at], 0)

    def _each(self, act: Callable[[int], None]) -> None:
        running: list[Future[None]] = [self._pool.submit(act, at) for at in range(len(self._files))]
        troubles = [one.exception() for one in running]
        for at, trouble in enumerate(troubles):
            if isinstance(trouble, OSError):
                raise PlaceFailed(at, trouble) from trouble
            if trouble is not None:
                raise trouble


def cut(version: Path, manifest: Manifest, data: int, parity: int, folders: Sequence[Path], pace: Pace) -> Sheet:
    """Write the pieces of a version, one to each folder, and sync them; the sheet's places are empty.

    Raises:
        Damaged: the version cannot be read.
        PlaceFailed: a piece cannot be written.
        CheckpointError: there is no pyeclib.
    """
    codec, row, count = _Codec(data, parity), row_of(manifest), data + parity
    chunk = chunk_bytes([row.length], data)
    pieces = [np.zeros(min(SPAN, chunk), np.uint8) for _ in range(count)]
    digests: list[list[int]] = [[] for _ in range(count)]
    reading, outputs = Files(version), _Outputs(folders, range(count), chunk)
    try:
        outputs.reserve()
        for begin, end in spans(chunk, SPAN):
            now = [one[: end - begin] for one in pieces]
            for number in range(data):
                _read(reading, version, row, number * chunk + begin, now[number])
            codec.parity(now[:data], now[data:])
            for found, one in zip(digests, now, strict=True):
                found.append(crc32(one.data))
            pace.wait(count * (end - begin))
            outputs.write(begin, now)
        outputs.sync()
    finally:
        reading.close()
        outputs.close()
    return Sheet(manifest, data, chunk, SPAN, tuple(map(tuple, digests)), ("",) * count)


def _read(files: Files, version: Path, row: Row, begin: int, into: Bytes) -> None:
    try:
        if begin >= row.length:
            into[:] = 0
        else:
            files.read(row, begin, into)
    except OSError as error:
        raise Damaged(f"{error.filename or version} cannot be read: {error.strerror}") from error


class Pieces:
    """The pieces of a version that are at hand; spans that do not match their digest count as lost.

    Args:
        sheet: the version's.
        folders: per number of a piece, the folder on a place that has it.
        read: rates of the places, to read the fastest first.
    """

    def __init__(self, sheet: Sheet, folders: Mapping[int, Path], read: Mapping[int, float]) -> None:
        self.sheet = sheet
        self._files = {number: Files(folder) for number, folder in folders.items()}
        self._order = sorted(folders, key=lambda number: (-read[number], number))
        self._codec: _Codec | None = None
        self.bad: set[int] = set()
        """Pieces of which something was lost, as far as they were read,"""
        self.lost: dict[int, list[tuple[int, int]]] = {}
        """and what of these."""

    def close(self) -> None:
        """Close them."""
        for one in self._files.values():
            one.close()

    def verify(self) -> set[int]:
        """Read all of every piece; returns the numbers of those that are damaged."""
        for index, (begin, end) in enumerate(spans(self.sheet.chunk, self.sheet.span)):
            for number in self._order:
                self._fragment(number, index, begin, end)
        if not self.sheet.chunk:
            self.bad |= {number for number in self._order if not self._is_there(number)}
        return self.bad

    def owners(self) -> str:
        """Whose the bytes are that were lost, in words: those of arrays, of an index, or of parity."""
        data = self.sheet.data
        held = [
            ((number if data > 1 else 0) * self.sheet.chunk, some)
            for number, some in sorted(self.lost.items())
            if number < data or data == 1
        ]
        row = row_of(self.sheet.manifest)
        ranges = [(at + begin, at + end) for at, some in held for begin, end in some]
        told = owners(
            self.sheet.manifest, row, ranges, lambda rank: self._bytes(*row.index(rank)), Path(self.sheet.name)
        )
        parity = any(number >= data > 1 for number in self.lost)
        return " and ".join(one for one in (told, "parity" if parity else "") if one)

    def _bytes(self, begin: int, end: int) -> bytes:
        """Some of the row.

        Raises:
            Damaged: too many pieces are lost.
        """
        made = bytearray()
        chunk, span = self.sheet.chunk, self.sheet.span
        while (at := begin + len(made)) < end:
            number, within = divmod(at, chunk)
            index = within // span
            first, last = index * span, min(chunk, (index + 1) * span)
            one = self._data(index, first, last)[number]
            made += one[within - first : within - first + end - at].tobytes()
        return bytes(made)

    def _is_there(self, number: int) -> bool:
        try:
            self._files[number].read_at(piece_name(number), 0, np.zeros(0, np.uint8))
        except OSError:
            return False
        return True

    def join(self, folder: Path) -> None:
        """Write the version to a folder, but for its manifest, and sync it.

        Raises:
            Damaged: too many pieces are lost.
            OSError: it cannot be written.
        """
        manifest, row = self.sheet.manifest, row_of(self.sheet.manifest)
        writing = Files(folder, os.O_WRONLY | os.O_CREAT)
        try:
            for file, size in manifest.files.items():
                writing.extend(file, size)
            for stream in manifest.streams:
                writing.extend(stream.index, stream.index_bytes)
            for index, (begin, end) in enumerate(spans(self.sheet.chunk, self.sheet.span)):
                for number, one in enumerate(self._data(index, begin, end)):
                    at = number * self.sheet.chunk + begin
                    if at < row.length:
                        writing.write(row, at, one.data)
            writing.sync()
        finally:
            writing.close()

    def remake(self, numbers: Sequence[int], folders: Sequence[Path], pace: Pace) -> None:
        """Make pieces again, one in each folder, and sync them.

        Raises:
            Damaged: too many pieces are lost.
            PlaceFailed: a piece cannot be written.
        """
        sheet, outputs = self.sheet, _Outputs(folders, numbers, self.sheet.chunk)
        try:
            outputs.reserve()
            for index, (begin, end) in enumerate(spans(sheet.chunk, sheet.span)):
                data = self._data(index, begin, end)
                made = [np.empty(end - begin, np.uint8) for _ in range(sheet.parity)]
                self._coder().parity(data, made)
                every = [*data, *made]
                for number in numbers:
                    if crc32(every[number].data) != sheet.crc32[number][index]:
                        raise Damaged(f"piece {number} of {sheet.name} cannot be made again as it was")
                pace.wait(len(numbers) * (end - begin))
                outputs.write(begin, [every[number] for number in numbers])
            outputs.sync()
        finally:
            outputs.close()

    def _coder(self) -> _Codec:
        if self._codec is None:
            self._codec = _Codec(self.sheet.data, self.sheet.parity)
        return self._codec

    def _data(self, index: int, begin: int, end: int) -> list[Bytes]:
        fragments: dict[int, Bytes] = {}
        for number in sorted(self._order, key=self.bad.__contains__):
            if len(fragments) == self.sheet.data:
                break
            if (one := self._fragment(number, index, begin, end)) is not None:
                fragments[number] = one
        if len(fragments) < self.sheet.data:
            raise Damaged(too_few(self.sheet, [one for one in self._files if one not in self.bad]))
        return self._coder().data(fragments)

    def _fragment(self, number: int, index: int, begin: int, end: int) -> Bytes | None:
        """A span of a piece; None if it is lost."""
        into = np.empty(end - begin, np.uint8)
        try:
            self._files[number].read_at(piece_name(number), begin, into)
            if crc32(into.data) == self.sheet.crc32[number][index]:
                return into
        except OSError:
            pass
        self.bad.add(number)
        lost = self.lost.setdefault(number, [])
        if (begin, end) not in lost:
            lost.append((begin, end))
        return None


def too_few(sheet: Sheet, there: Sequence[int]) -> str:
    """What is lost of a version that cannot be read."""
    gone = [place for number, place in enumerate(sheet.places) if number not in there]
    return (
        f"{len(there)} of its {sheet.pieces} pieces are left, and {sheet.data} are needed; those on "
        f"{', '.join(gone)} are gone or damaged"
    )
