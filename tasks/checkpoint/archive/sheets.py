"""What lies on a place: the mark that says it is the same place as before, and per version a piece and its sheet.

    PLACE/.storage                          the mark, and all places of the archive
          000012-step-4000/sheet.json       the code, digests of all pieces, where each was put, the version's manifest
                           piece-3.bin      bytes of one piece
          .000012-step-4000.1f09a3b7.new    a piece being written; .000002-step-500.old: one being removed

Every place has the whole sheet of a version: any `data` pieces suffice to read it, whatever else is lost.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wilkins import atomic
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.placement.places import MOST, Storage
from wilkins.tasks.checkpoint.state import checked_json
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.regular_files import SHEETS, read_small
from wilkins.tasks.checkpoint.storage.rows import Row
from wilkins.tasks.checkpoint.storage.versions import Manifest, seal_of

SHEET, MARK = "sheet.json", ".storage"
_FORMAT, _MARK_FORMAT, _VERSION = "wilkins-pieces", "wilkins-storage", 1
_LONGEST_MARK = 1 << 20
_SHEET = checked_json.record(
    {
        "format": checked_json.text,
        "version": checked_json.whole(),
        "manifest": checked_json.text,
        "data": checked_json.whole(1, MOST),
        "chunk": checked_json.whole(),
        "span": checked_json.whole(1, versions.LARGEST_BLOCK),
        "crc32": checked_json.items(checked_json.items(versions.CRC32), least=2),
        "places": checked_json.items(checked_json.text, least=2),
    }
)
_NUMBER = checked_json.real
_MARK = checked_json.record(
    {
        "format": checked_json.text,
        "version": checked_json.whole(),
        "mark": checked_json.text,
        "marks": checked_json.table(checked_json.text, checked_json.text),
        "storage": checked_json.record(
            {
                "places": checked_json.items(
                    checked_json.record(
                        {
                            "path": checked_json.text,
                            "space": checked_json.nothing_or(checked_json.whole()),
                            "write": _NUMBER,
                            "read": _NUMBER,
                            "annual_failure": _NUMBER,
                            "domain": checked_json.text,
                        }
                    )
                ),
                "reliability": _NUMBER,
                "years": _NUMBER,
                "rule": checked_json.text,
                "keep": checked_json.nothing_or(checked_json.whole(1)),
            }
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """How a version was cut into pieces."""

    manifest: Manifest
    data: int
    chunk: int
    """Bytes of a piece."""
    span: int
    """Bytes of a piece that have a digest."""
    crc32: tuple[tuple[int, ...], ...]
    """Per piece, data before parity."""
    places: tuple[str, ...]
    """Where each piece was put: for messages. Where pieces are is found out by looking."""

    @property
    def name(self) -> str:
        """The version's."""
        return versions.name_of(self.manifest.serial, self.manifest.step)

    @property
    def pieces(self) -> int:
        """How many there are, with parity."""
        return len(self.crc32)

    @property
    def parity(self) -> int:
        """How many may be lost."""
        return self.pieces - self.data

    @property
    def seal(self) -> str:
        """The digest of all that never changes: the same for all pieces of a version."""
        body = self._body()
        del body["places"]
        return seal_of(body)

    def moved(self, places: Sequence[str]) -> Sheet:
        """The same version with pieces elsewhere."""
        return replace(self, places=tuple(places))

    def text(self) -> str:
        """As it is written."""
        body = self._body()
        return json.dumps({"sha256": seal_of(body), **body}, indent=1) + "\n"

    def _body(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "manifest": self.manifest.text(),
            "data": self.data,
            "chunk": self.chunk,
            "span": self.span,
            "crc32": [list(one) for one in self.crc32],
            "places": list(self.places),
        }


def piece_name(number: int) -> str:
    """The file of a piece."""
    return f"piece-{number}.bin"


def row_of(manifest: Manifest) -> Row:
    """A version's streams and indices as one row of bytes, which is cut into pieces."""
    return Row(manifest, range(len(manifest.streams)))


def read_sheet(folder: Path) -> Sheet:
    """The sheet beside a piece.

    Raises:
        Damaged: it is missing, or is not what was written.
    """
    file = folder / SHEET
    try:
        values = _SHEET(versions.unsealed(read_small(file, 2 * SHEETS), _FORMAT, _VERSION), "")
    except OSError as error:
        raise Damaged(f"{file} cannot be read: {error.strerror}") from error
    except checked_json.Wrong as error:
        raise Damaged(f"{file} is not what was written: {error}") from error
    manifest = versions.parsed(values["manifest"], file)
    crc32, spans = tuple(map(tuple, values["crc32"])), -(-values["chunk"] // values["span"])
    if not values["data"] < len(crc32) == len(values["places"]) <= MOST or any(len(one) != spans for one in crc32):
        raise Damaged(f"{file} is not what was written: it has {len(crc32)} pieces for {values['data']} of data")
    if values["data"] * values["chunk"] < row_of(manifest).length:
        raise Damaged(f"{file} is not what was written: its pieces are too short")
    return Sheet(manifest, values["data"], values["chunk"], values["span"], crc32, tuple(values["places"]))


def piece_in(folder: Path, sheet: Sheet) -> int:
    """Which piece a folder holds.

    Raises:
        Damaged: none.
    """
    for number in range(sheet.pieces):
        if os.path.lexists(folder / piece_name(number)):
            return number
    raise Damaged(f"{folder} has lost its piece")


@dataclass(frozen=True, slots=True)
class Mark:
    """The file `.storage` of a place, or of the folder whose versions are spread."""

    storage: Storage
    marks: dict[str, str]
    """Per path, what its own mark says: an empty mount point, or another disk, has none or another."""
    mark: str = ""
    """This place's; empty in the folder of the versions."""

    def write(self, folder: Path) -> None:
        """Put it in a folder.

        Raises:
            OSError: it cannot be written.
        """
        body = {
            "format": _MARK_FORMAT,
            "version": _VERSION,
            "mark": self.mark,
            "marks": self.marks,
            "storage": self.storage.values(),
        }
        text = json.dumps({"sha256": seal_of(body), **body}, indent=1) + "\n"
        atomic.put(folder / MARK, text, durable=True, mode=0o600)


def new_mark() -> str:
    """What tells a new place from all others."""
    return secrets.token_hex(8)


def read_mark(folder: Path) -> Mark | None:
    """The mark of a folder; None if it has none.

    Raises:
        Damaged: it is not what was written.
        OSError: it cannot be read.
    """
    file = folder / MARK
    try:
        values = _MARK(versions.unsealed(read_small(file, _LONGEST_MARK), _MARK_FORMAT, _VERSION), "")
        given = values["storage"]
        storage = Storage(given.pop("places"), **given)
    except FileNotFoundError:
        return None
    except (checked_json.Wrong, CheckpointError) as error:
        raise Damaged(f"{file} is not what was written: {error}; remove it") from error
    return Mark(storage, values["marks"], values["mark"])
