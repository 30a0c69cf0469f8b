"""The levels of checkpoints: this node's memory, which survives its processes, and storage, which survives the node.

A version is committed in memory first, at the speed of memory; from there it is copied to storage, by all ranks, under
the same number and in the same two phases. Without a level in memory, storage is the first and only one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import mmap
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from wilkins import atomic
from wilkins.atomic import sync
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.state import checked_json
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.checksum import crc32
from wilkins.tasks.checkpoint.storage.clearing import make_room
from wilkins.tasks.checkpoint.storage.contents import whose
from wilkins.tasks.checkpoint.storage.files import File, Pace, cannot, tidied
from wilkins.tasks.checkpoint.storage.layout import PAGE, Place, led_by, names_of, places, up
from wilkins.tasks.checkpoint.storage.regular_files import open_regular, read_small
from wilkins.tasks.checkpoint.storage.versions import Manifest, read_manifest
from wilkins.tasks.group import Group, first_trouble

MEMORY = Path("/dev/shm")
_WHERE = ".memory"
_LONGEST = 1 << 24
_REMEMBERED = checked_json.record({"memory": checked_json.text, "nodes": checked_json.items(checked_json.text)})


def memory_of(folder: Path) -> Path:
    """Where versions of a storage folder are kept in this node's memory: found again by the next job of this user."""
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return MEMORY / f"wilkins-checkpoints-{os.getuid()}-{digest}"


def open_memory(path: Path) -> None:
    """Make the folder in memory, for this user alone.

    Raises:
        CheckpointError: it belongs to somebody else.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise CheckpointError(f"{path}, where checkpoints are kept in memory, is somebody else's; give memory=FOLDER")
    path.chmod(0o700)


def remember(storage: Path, memory: Path, nodes: Sequence[str]) -> None:
    """Write down in a storage folder where versions are that it does not have yet."""
    text = json.dumps({"memory": str(memory), "nodes": list(nodes)})
    atomic.put(storage / _WHERE, text, durable=True, mode=0o600)


def forgotten(storage: Path) -> None:
    """There is nothing in memory any more."""
    with contextlib.suppress(OSError):
        (storage / _WHERE).unlink(missing_ok=True)


def in_memory(storage: Path) -> str:
    """A note for readers of a storage folder alone: newer versions are, or may be, in memory. Empty if not."""
    try:
        values = _REMEMBERED(checked_json.parse(read_small(storage / _WHERE, _LONGEST)), "")
        memory, nodes = Path(values["memory"]), list(values["nodes"])
        newest = versions.newest(memory)
    except (OSError, ValueError):
        return ""
    cure = "; a job with memory= sees them"
    if newest > versions.newest(storage):
        return f"newer versions, up to number {newest}, are in memory, in {memory}{cure}"
    if nodes in ([], [os.uname().nodename]):
        return ""
    return f"newer versions may be in memory, in {memory} and the like on {', '.join(nodes)}{cure}"


def has_all_of(storage: Path, memory: Path) -> bool:
    """Whether the newest version is on storage: a job that saved nothing may have found a newer one in memory."""
    return versions.newest(storage) >= versions.newest(memory)


def forget(path: Path) -> None:
    """Free the memory of a level. A kill meanwhile leaves no partial version."""
    with contextlib.suppress(OSError):
        (path / versions.LATEST).unlink(missing_ok=True)
        for version in versions.versions(path):
            versions.hide(version)
    shutil.rmtree(path, ignore_errors=True)


def relaid(manifest: Manifest, files: int) -> Manifest:
    """The manifest of the same version in another number of files."""
    where, sizes = places([one.bytes for one in manifest.streams], files)
    streams = tuple(
        replace(one, file=f"data-{place.file}.bin", offset=place.offset)
        for one, place in zip(manifest.streams, where, strict=True)
    )
    return replace(manifest, files={f"data-{file}.bin": size for file, size in enumerate(sizes)}, streams=streams)


def copy(
    name: str,
    memory: Path,
    storage: Path,
    ranks: Group,
    pace: Pace,
    keep: int,
    *,
    files: int,
    leaders: bool = False,
    failed: bool = False,
) -> str:
    """Copy a version from memory to storage, and remove old ones there; returns why that failed, or nothing.

    `failed` tells that the one before could not be written.

    Collective. Each rank copies its own stream, or with `leaders` one rank all streams of a file; every block is
    compared with its digest on the way.
    """
    trouble, new = "", Path()
    if ranks.rank == 0:
        try:
            if (storage / name).exists():
                new = storage / name
            else:
                size = math.inf if failed else sum(one.bytes for one in read_manifest(memory / name).streams)
                make_room(storage, keep, size, names_of(ranks.size))
                new = versions.hidden(storage, name)
        except Damaged as error:
            trouble = f"the version in memory has changed: {error}"
        except Exception as error:
            trouble = cannot(error, storage)
    made, trouble = ranks.allgather((new.name, trouble))[0]
    if trouble or made == name:  # a restore in between has brought it there
        return trouble
    new = storage / made
    manifest: Manifest | None = None
    try:
        held = read_manifest(memory / name)
        manifest = relaid(held, files)
        for stream in led_by(ranks.rank, [one.file for one in manifest.streams]) if leaders else [ranks.rank]:
            copy_stream(memory / name, new, held, manifest, stream, pace)
    except Damaged as error:
        trouble = f"the version in memory has changed: {error}"
    except Exception as error:
        trouble = cannot(error, new)
    trouble = first_trouble(ranks.allgather(trouble))
    if ranks.rank == 0:
        if not trouble and manifest is not None:
            try:
                versions.commit(new, manifest)
            except Exception as error:
                trouble = cannot(error, storage)
            else:
                tidied(storage, keep)
        if trouble:
            versions.drop(new)
    return ranks.allgather(trouble)[0]


def copy_stream(source: Path, target: Path, held: Manifest, manifest: Manifest, rank: int, pace: Pace) -> None:
    """Copy a rank's stream and index from one version's folder to where another's manifest has them.

    Raises:
        Damaged: bytes do not match their digest.
        OSError: they cannot be written.
    """
    block, stream, new = held.block, held.streams[rank], manifest.streams[rank]
    file = File(target / new.file, Place(0, new.offset), new.bytes)
    try:
        if stream.bytes:
            with _opened(source / stream.file) as opened:
                if os.fstat(opened.fileno()).st_size != held.files[stream.file]:
                    raise Damaged(f"{source / stream.file} has not the {held.files[stream.file]} bytes it had")
                whole = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            with whole, memoryview(whole) as view:
                for number, written in enumerate(stream.crc32):
                    begin = number * block
                    size = min(block, stream.bytes - begin)
                    at = stream.offset + begin
                    with view[at : at + size] as data:
                        if crc32(data) != written:
                            raise Damaged(
                                f"bytes {at} to {at + size} of {source / stream.file} do not match their digest"
                                f"{whose(source, held, rank, begin, begin + size)}"
                            )
                    pace.wait(size)
                    with view[at : at + up(size, PAGE)] as data:
                        file.write(data, begin)
        file.sync()
    finally:
        file.close()
    try:
        text = read_small(source / stream.index, stream.index_bytes)
    except OSError as error:
        raise Damaged(f"{source / stream.index} cannot be read: {error.strerror}") from error
    if hashlib.sha256(text).hexdigest() != stream.index_sha256:
        raise Damaged(f"{source / stream.index} does not match its digest")
    versions.write_synced(target / new.index, text.decode())
    sync(target)


def _opened(path: Path) -> IO[bytes]:
    try:
        return os.fdopen(open_regular(path), "rb")
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}") from error
