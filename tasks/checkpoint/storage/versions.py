"""Versions on storage: a folder each, which is whole or does not exist; how it comes to be, is found, and goes.

    DIR/000012-step-4000/manifest.json    which files there are, their blocks' digests; sealed by its own digest
                         index-0.json     per rank: its state as JSON, its arrays, where their bytes stand
                         data-0.bin       streams of one or several ranks
    DIR/latest                            link to the newest version
    DIR/.000013-step-5000.1f09a3b7.new    a version being written; .000002-step-500.old: one being removed

The number in front counts commits: it orders versions, whatever the clock says and wherever training was resumed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wilkins import atomic
from wilkins.atomic import sync
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.state import checked_json
from wilkins.tasks.checkpoint.storage.locks import unless_read
from wilkins.tasks.checkpoint.storage.regular_files import INDICES, SHEETS, read_small

_LOG = logging.getLogger("wilkins.checkpoint")
FORMAT = "wilkins-checkpoint"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
LATEST = "latest"
LARGEST_BLOCK = 1 << 30
"""Bytes of a block. A reader of a version holds one block in memory."""
NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
"""What the system says where one may only read."""
_NAME = re.compile(r"(?P<serial>[0-9]{6,18})-step-(?P<step>[0-9]+)")
_UNFINISHED = re.compile(r"\.[0-9]{6,18}-step-[0-9]+\.([0-9a-f]+\.new|old)|\.latest\.part|\.\.memory\.part")
_HIDDEN = re.compile(r"\.(?P<name>[0-9]{6,18}-step-[0-9]+)\.[0-9a-f]+\.new")
SHA256 = checked_json.like(re.compile("[0-9a-f]{64}"), "a SHA-256 digest")
CRC32 = checked_json.whole(0, 2**32 - 1)
_MANIFEST = checked_json.record(
    {
        "format": checked_json.text,
        "version": checked_json.whole(),
        "serial": checked_json.whole(),
        "step": checked_json.whole(0, None),
        "time": checked_json.real,
        "block": checked_json.whole(1, LARGEST_BLOCK),
        "files": checked_json.table(checked_json.file_name, checked_json.whole()),
        "streams": checked_json.items(
            checked_json.record(
                {
                    "file": checked_json.file_name,
                    "offset": checked_json.whole(),
                    "bytes": checked_json.whole(),
                    "crc32": checked_json.items(CRC32),
                    "index": checked_json.like(re.compile("index-[0-9]+[.]json"), "the name of an index"),
                    "index_bytes": checked_json.whole(0, INDICES),
                    "index_sha256": SHA256,
                }
            ),
            least=1,
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Stream:
    """What a rank wrote: bytes of a file, and its index."""

    file: str
    offset: int
    bytes: int
    crc32: tuple[int, ...]
    """The CRC-32 of each block."""
    index: str
    index_bytes: int
    index_sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a version consists of."""

    serial: int
    step: int
    time: float
    """Seconds since 1970 by the clock of the machine that wrote it: for people; nothing depends on it."""
    block: int
    files: Mapping[str, int]
    """Sizes in bytes."""
    streams: tuple[Stream, ...]
    """One per rank."""

    def text(self) -> str:
        """As it is written."""
        return json.dumps({"sha256": self.seal, **self._body()}, indent=1) + "\n"

    @property
    def seal(self) -> str:
        """The digest of the manifest, different for each version."""
        return seal_of(self._body())

    def _body(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "serial": self.serial,
            "step": self.step,
            "time": self.time,
            "block": self.block,
            "files": dict(self.files),
            "streams": [{name: getattr(one, name) for name in Stream.__slots__} for one in self.streams],
        }


@dataclass(frozen=True, slots=True)
class Version:
    """A version's folder, by its name."""

    path: Path
    serial: int
    step: int

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name


def seal_of(body: Mapping[str, Any]) -> str:
    """The digest of what a file says, without how it is written."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def name_of(serial: int, step: int) -> str:
    """What a version's folder is called."""
    return f"{serial:06d}-step-{step}"


def versions(folder: Path) -> list[Version]:
    """All versions in a folder, oldest first; whether they verify is another matter."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return []
    found = [
        Version(folder / name, int(match["serial"]), int(match["step"]))
        for name in names
        if (match := _NAME.fullmatch(name))
    ]
    return sorted(found, key=lambda one: one.serial)


def read_manifest(path: Path) -> Manifest:
    """The manifest of a version.

    Raises:
        Damaged: it is missing, or is not what was written.
    """
    file = path / MANIFEST
    try:
        return parsed(read_small(file, SHEETS), file)
    except OSError as error:
        raise Damaged(f"{file} cannot be read: {error.strerror}") from error


def unsealed(text: str | bytes, kind: str, version: int) -> dict[str, Any]:
    """What is written in a file with its own digest, its kind of file and the version of that; for `parsed`.

    Raises:
        Wrong: it is not what was written, or of another kind or version.
    """
    values = checked_json.parse(text)
    if not isinstance(values, dict):
        raise checked_json.wrong("", values, "an object")
    seal = values.pop("sha256", None)
    try:
        written = seal_of(values)
    except RecursionError:
        raise checked_json.Wrong("it is nested more deeply than Wilkins writes anything") from None
    if values.get("format") != kind or written != seal:
        raise checked_json.Wrong("its digest does not match")
    if values.get("version") != version:
        raise checked_json.Wrong(f"it has version {values.get('version')} of the format; this Wilkins reads {version}")
    return values


def parsed(text: str | bytes, file: Path) -> Manifest:
    """A manifest from the text of a file, or from the text that another rank sent.

    Raises:
        Damaged: it is not what was written.
    """
    try:
        values = _MANIFEST(unsealed(text, FORMAT, FORMAT_VERSION), "")
        files, block = values["files"], values["block"]
        streams = tuple(Stream(**one) for one in values["streams"])
        for number, one in enumerate(streams):
            if one.offset + one.bytes > files.get(one.file, -1):
                raise checked_json.Wrong(f"streams[{number}] is no part of any of the files")
            if len(one.crc32) != -(-one.bytes // block):
                raise checked_json.Wrong(f"streams[{number}].crc32 has {len(one.crc32)} digests for {one.bytes} bytes")
        return Manifest(values["serial"], values["step"], values["time"], block, files, streams)
    except checked_json.Wrong as error:
        raise Damaged(f"{file} is not what was written: {error}") from error


def write_synced(path: Path, text: str) -> None:
    """Write a small file of a version that is not committed yet, and make its bytes last."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a version's manifest.

    Raises:
        CheckpointError: it is longer than anyone would read.
    """
    text = manifest.text()
    if len(text) > SHEETS:
        blocks = sum(len(one.crc32) for one in manifest.streams)
        raise CheckpointError(
            f"the manifest of step {manifest.step} takes {len(text):,} bytes for {blocks:,} blocks of "
            f"{manifest.block:,}, and may take {SHEETS:,}; give larger ones (block=)"
        )
    write_synced(path / MANIFEST, text)


def is_unfinished(name: str) -> bool:
    """Whether it is what a killed job left: a version being written or removed, a link about to move."""
    return _UNFINISHED.fullmatch(name) is not None


def name_of_hidden(name: str) -> str:
    """What a version that is being written is to be called; nothing for other names."""
    match = _HIDDEN.fullmatch(name)
    return match["name"] if match else ""


def remove(path: Path) -> None:
    """Remove a folder and all in it, a file or a link.

    Raises:
        OSError: it cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def newest(folder: Path) -> int:
    """The number of the newest version in a folder; 0 if there is none."""
    found = versions(folder)
    return found[-1].serial if found else 0


def begin(folder: Path, step: int, after: int = 0) -> tuple[int, Path]:
    """Make the folder that the next version is written to under a temporary name; returns also its number.

    It is higher than that of any version there, and than `after`: that of the newest in the folders of other levels.
    """
    serial = 1 + max(newest(folder), after)
    return serial, hidden(folder, name_of(serial, step))


def hidden(folder: Path, name: str) -> Path:
    """Make the folder that a version is written to until it is committed.

    Its name is unique: ranks of a job that is being killed never write to the next job's folder.
    """
    path = folder / f".{name}.{secrets.token_hex(4)}.new"
    path.mkdir(mode=0o700)
    return path


def drop(path: Path) -> None:
    """Remove a version that was not finished."""
    with contextlib.suppress(OSError):
        remove(path)


def commit(path: Path, manifest: Manifest) -> Version:
    """Make what was written and synced under a temporary name a version, and let `latest` lead to it.

    Raises:
        OSError: that failed, and there is no such version.
    """
    folder = path.parent
    write_manifest(path, manifest)
    sync(path)
    version = Version(folder / name_of(manifest.serial, manifest.step), manifest.serial, manifest.step)
    try:
        with atomic.pointing(folder / LATEST, version.name, durable=True):
            atomic.commit(path, version.path)
    except OSError:
        if version.path.exists():
            drop(hide(version))
        raise
    return version


def point(folder: Path, name: str) -> None:
    """Let `latest` lead to a version: at every moment it leads to the old one or the new one."""
    atomic.point(folder / LATEST, name, durable=True)


def prune(folder: Path, keep: int, spared: Sequence[str] = ()) -> list[str]:
    """Remove all but the newest `keep` versions, those named and those being read; returns the names of the removed."""
    gone = []
    found = versions(folder)
    for version in found[: max(0, len(found) - max(keep, 1))]:
        if version.name in spared:
            continue
        with unless_read(version.path / MANIFEST) as free:
            if not free:
                continue
            old = hide(version)
        remove(old)
        gone.append(version.name)
    return gone


def hide(version: Version) -> Path:
    """Let a version be none any more, in one step, before it is removed file by file; returns what to remove."""
    old = version.path.with_name(f".{version.name}.old")
    version.path.rename(old)
    return old


def now() -> float:
    """The clock, for people."""
    return time.time()
