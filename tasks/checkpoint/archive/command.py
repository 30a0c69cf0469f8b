"""What `wilkins ckpt` does with versions that are spread over places: list, verify, repair, and bring back."""

from __future__ import annotations

import os
from pathlib import Path

from wilkins.tasks.checkpoint.archive.archive import Archive, Held, opened
from wilkins.tasks.checkpoint.archive.repairing import repair
from wilkins.tasks.checkpoint.archive.sheets import MARK, read_mark
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged, NotThere
from wilkins.tasks.checkpoint.storage.versions import Version


def has_places(folder: Path) -> bool:
    """Whether the versions of a folder are spread over places, or it is such a place."""
    return os.path.lexists(folder / MARK)


def is_place(folder: Path) -> bool:
    """Whether a folder is a place, and holds pieces rather than versions."""
    try:
        mark = read_mark(folder)
    except (OSError, Damaged):
        return False
    return mark is not None and bool(mark.mark)


def listed(folder: Path) -> str:
    """A line per version that is spread, oldest first."""
    with opened(folder, locked=False) as archive:
        lines = [f"{'in pieces':<28} {'step':>10} {'code':>6} {'pieces':>8} {'bytes':>15}  risk of loss"]
        for one in archive.held():
            sheet = one.sheet
            code, there = f"{sheet.data}+{sheet.parity}", f"{len(one.where)} of {sheet.pieces}"
            lost = "cannot be read" if not one.readable else f"{archive.risk(one):.1e}"
            lines.append(
                f"{one.name:<28} {sheet.manifest.step:>10} {code:>6} {there:>8} {len(one.where) * sheet.chunk:>15,}  "
                f"{lost}"
            )
        lines += [f"left out: {place}: {why}" for place, why in archive.absent.items()]
    return "\n".join(lines)


def verified(folder: Path) -> tuple[str, bool]:
    """Read all pieces; returns also whether all are what was written, and there."""
    lines, good = [], True
    with opened(folder, locked=False) as archive:
        for one in archive.held():
            (bad, owners), missing = archive.examined(one), one.sheet.pieces - len(one.where)
            good = good and not bad and not missing
            what = [f"{len(bad)} damaged{f', in bytes of {owners},' if owners else ''}"] if bad else []
            what += [f"{missing} missing"] if missing else []
            told = (
                "all right" if not what else f"{' and '.join(what).rstrip(',')}; `wilkins ckpt repair` makes them again"
            )
            if one.sheet.pieces - missing - len(bad) < one.sheet.data:
                told = f"{' and '.join(what).rstrip(',')}: it cannot be read whole"
            lines.append(f"{one.name}: {one.sheet.pieces} pieces: {told}")
    return "\n".join(lines), good


def repaired(folder: Path, new: str | None = None) -> tuple[str, bool]:
    """Make lost and damaged pieces again; returns also whether all versions are as safe as they are to be."""
    lines, good = [], True
    with opened(folder, new) as archive:
        lines += [f"left out: {place}: {why}" for place, why in archive.absent.items()]
        for one in repair(archive):
            found = f"damaged in bytes of {one.owners}; " if one.owners else ""
            made = f"{found}made again on {', '.join(one.made)}: read {one.read:,} bytes, wrote {one.written:,}"
            trouble = f"; {one.trouble}" if one.trouble else ""
            lines.append(f"{one.name}: {made if one.made else 'nothing to do'}; risk of loss {one.risk:.1e}{trouble}")
            good = good and not one.trouble
    return "\n".join(lines), good


def fetched(folder: Path, target: Path, name: str | None = None) -> str:
    """Make a version, by default the newest one that can be read, of its pieces in another folder.

    Raises:
        CheckpointError: there is none, or too many of its pieces are lost.
    """
    with opened(folder, locked=False) as archive:
        one = _chosen(archive, folder, name)
        target.mkdir(parents=True, exist_ok=True)
        try:
            version: Version = archive.fetch(one, target)
        except Damaged as error:
            raise CheckpointError(
                f"{one.name} cannot be made of its pieces: {error}; bring a place back, or name another version"
            ) from error
    return f"brought {version.name} to {version.path}"


def _chosen(archive: Archive, folder: Path, name: str | None) -> Held:
    found = archive.held()
    if name is None:
        found = [one for one in found if one.readable]
        if not found:
            raise NotThere(f"no version of {folder} can be read from its places; bring back places that are gone")
        return found[-1]
    for one in found:
        if name in (one.name, str(one.sheet.manifest.step)):
            return one
    raise NotThere(f"the places hold no version {name!r}; they hold {', '.join(one.name for one in found)}")
