"""Bytes by their content: a blob is a file whose name is the SHA-256 of its bytes; it is whole or not there.

FOLDER/3f/3f8a...    a blob
FOLDER/3f/.3f8a....part    one that is being written, or was when its writer was killed
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from wilkins.atomic import replacing, sync
from wilkins.tasks.checkpoint.storage.regular_files import open_regular
from wilkins.tasks.models.errors import DamagedModel

_NAME = re.compile(r"[0-9a-f]{64}")
_SHELF = re.compile(r"[0-9a-f]{2}")
_PIECE = 1 << 20


class Blobs:
    """The blobs in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        """Where a blob is, or would be."""
        return self.folder / digest[:2] / digest

    def put(self, data: memoryview) -> tuple[str, bool]:
        """Let bytes be there; returns their digest, and whether they were not there, whole, before.

        They outlast a failure of the machine only after `settle`.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        if _holds(path, data):
            return digest, False
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, writer=secrets.token_hex(4)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return digest, True

    def settle(self, digests: set[str]) -> None:
        """Make the names of blobs last, also of those that another writer has put a moment ago."""
        if digests:
            for shelf in sorted({digest[:2] for digest in digests}):
                sync(self.folder / shelf)
            sync(self.folder)

    def read(self, digest: str, size: int) -> bytearray:
        """The bytes of a blob, which have been compared with their digest.

        Raises:
            DamagedModel: it is missing or holds something else.
        """
        path = self.path(digest)
        try:
            descriptor = open_regular(path)
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                data = bytearray(size)
                view, got = memoryview(data), 0
                while got < size and (count := file.readinto(view[got:])):
                    got += count
                longer = file.read(1)
        except OSError as error:
            raise DamagedModel(f"{path} cannot be read: {error.strerror}") from error
        if got != size or longer or hashlib.sha256(data).hexdigest() != digest:
            raise DamagedModel(f"{path} is not what was written: its digest does not match")
        return data

    def damage(self, digest: str, size: int) -> str:
        """What is wrong with a blob, after reading all of it; nothing if it is as it was written."""
        try:
            self.read(digest, size)
        except DamagedModel as error:
            return str(error)
        return ""

    def files(self) -> Iterator[tuple[str, Path]]:
        """All blobs by their digests, and what killed writers have left, by an empty one."""
        try:
            shelves = [one for one in self.folder.iterdir() if _SHELF.fullmatch(one.name)]
        except FileNotFoundError:
            return
        for shelf in shelves:
            for path in shelf.iterdir():
                if _NAME.fullmatch(path.name):
                    yield path.name, path
                elif path.name.startswith(".") and path.name.endswith(".part"):
                    yield "", path


def _holds(path: Path, data: memoryview) -> bool:
    """Whether a file has these bytes; false if it cannot be read, as on a bad disk: then it is written anew."""
    try:
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size != data.nbytes:
                return False
            at = 0
            while at < data.nbytes and (piece := file.read(_PIECE)):
                if piece != bytes(data[at : at + len(piece)]):  # which compares faster than a view
                    return False
                at += len(piece)
            return at == data.nbytes
    except OSError:
        return False
