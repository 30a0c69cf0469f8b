"""What killed jobs and damage leave in a folder of versions: cleared away; `latest` leads to what verifies, or is gone.

Only who holds the folder's lock may do that.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from wilkins.atomic import sync
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.contents import Contents
from wilkins.tasks.checkpoint.storage.files import tidied
from wilkins.tasks.checkpoint.storage.node_parts import SHEET, read_part
from wilkins.tasks.checkpoint.storage.versions import LATEST, Version

_LOG = logging.getLogger("wilkins.checkpoint")
_BESIDE = 1 << 20
"""Bytes that a version takes beside its arrays, or a little more."""


def recover(folder: Path) -> None:
    """Remove what was left unfinished, and move `latest` on if a job was killed between a version and its link.

    Raises:
        CheckpointError: `latest` is not a link, so that no version could be committed.
    """
    latest = folder / LATEST
    if latest.exists() and not latest.is_symlink():
        raise CheckpointError(
            f"{latest} is to be a link to the newest version, and is none: the folder was probably copied by something "
            f"that follows links; remove {latest}, the versions stand beside it"
        )
    for entry in folder.iterdir():
        if versions.is_unfinished(entry.name):
            try:
                versions.remove(entry)
            except OSError as error:  # another rank of a job that is being killed may be writing there still
                _LOG.warning("what a killed job left cannot be removed yet: %s: %s", entry, error.strerror)
    found = versions.versions(folder)
    if latest.is_symlink() or found:
        newest = found[-1].name if found else ""
        if not newest or not latest.exists() or latest.readlink().name != newest:
            mend(folder)


def make_room(folder: Path, keep: int, size: float, names: int) -> None:
    """Remove versions beyond `keep` now, rather than when one more is there, if there is no room for that.

    As many as `keep` that verify stay, and all that are newer than these; they are read to find out.

    Args:
        folder: the versions'.
        keep: how many versions are promised.
        size: bytes of the next one; infinity: what the file system says of its room is not to be trusted.
        names: how many files and folders it has.

    Raises:
        OSError: the folder cannot be read.
    """
    found = versions.versions(folder)
    if len(found) <= keep or has_room(folder, size, names):
        return
    whole = 0
    for place in reversed(range(len(found))):
        whole += not damage(found[place])
        if whole == keep:
            if place:
                _LOG.warning("no room for a version more in %s: those beyond the %d to keep go now", folder, keep)
                tidied(folder, len(found) - place)
            return


def has_room(folder: Path, size: float, names: int) -> bool:
    """Whether the file system has space for a version, by its bytes and names.

    Raises:
        OSError: it says nothing.
    """
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    return free >= size + size / 64 + _BESIDE and (not room.f_files or room.f_favail >= names)


def mend(folder: Path) -> Version | None:
    """Let `latest` lead to the newest version that verifies, which is read to find out; remove it if there is none.

    Returns that version.
    """
    latest = folder / LATEST
    newest = next((one for one in reversed(versions.versions(folder)) if not damage(one)), None)
    target = latest.readlink().name if latest.is_symlink() else ""
    if newest is None:
        if target:
            latest.unlink()
            sync(folder)
    elif target != newest.name:
        versions.point(folder, newest.name)
    return newest


def damage(version: Version) -> str:
    """What is wrong with a version, after reading every byte of it; nothing if all is as it was written.

    Of one that has parts on several nodes, the part in this folder is read.
    """
    try:
        if os.path.lexists(version.path / SHEET):
            return read_part(version.path).damage()
        with Contents(version.path) as contents:
            contents.verify()
            misnamed(version, contents)
            for rank in range(contents.ranks):
                contents.index(rank)
    except Damaged as error:
        return str(error)
    return ""


def misnamed(version: Version, contents: Contents) -> None:
    """Compare a version's name with what it says of itself.

    Raises:
        Damaged: it is another one.
    """
    name = versions.name_of(contents.manifest.serial, contents.manifest.step)
    if name != version.name:
        raise Damaged(f"{version.path} was written as {name}, and has been renamed; give it its name back")
