"""Repairs of an archive: what is lost or damaged is made again, elsewhere, or the version is cut anew."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from wilkins import atomic
from wilkins.tasks.checkpoint.archive.archive import BESIDE, ROUNDED, Archive, Held, at_place, seal
from wilkins.tasks.checkpoint.archive.pieces import Pieces, PlaceFailed, too_few
from wilkins.tasks.checkpoint.archive.sheets import SHEET, row_of
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.clearing import damage
from wilkins.tasks.checkpoint.storage.versions import Version, read_manifest


@dataclass(slots=True)
class Repair:
    """What a repair did to a version."""

    name: str
    trouble: str = ""
    """Why it is not as safe as it is to be; empty if it is."""
    damaged: list[str] = field(default_factory=list)
    """Places whose piece was not what was written."""
    owners: str = ""
    """Whose the bytes are of which such a piece holds others, in words."""
    made: list[str] = field(default_factory=list)
    """Places that have got a piece."""
    read: int = 0
    written: int = 0
    risk: float = 0.0
    """The probability that it is lost within the years, as it stands now."""


def repair(archive: Archive) -> list[Repair]:
    """Read all pieces, and make those that are lost or damaged again, on other places where theirs is gone.

    What the folder of the versions has, too, is cut anew if its code is not safe enough any more, or if it is on no
    places.
    """
    return _Repairs(archive).all()


class _Repairs:
    def __init__(self, archive: Archive) -> None:
        self._archive, self._places = archive, archive.places

    def all(self) -> list[Repair]:
        found = self._archive.held()
        done = []
        for one in found:
            made = self._repaired(one)
            whole = self._whole(one) if made.trouble else None
            done.append(made if whole is None else self._cut_anew(one, whole, made))
        known = {one.name for one in found}
        here = versions.versions(self._archive.home) if self._archive.home is not None else []
        lacking = [one for one in here if one.name not in known and not damage(one)]
        return [*done, *(self._added(one, Repair(one.name)) for one in lacking)]

    def _whole(self, one: Held) -> Version | None:
        """The version in its folder, if every byte there is as it was written."""
        if self._archive.home is None:
            return None
        version = Version(self._archive.home / one.name, one.serial, one.sheet.manifest.step)
        try:
            if read_manifest(version.path).seal != one.sheet.manifest.seal:
                return None
        except Damaged:
            return None
        return None if damage(version) else version

    def _cut_anew(self, one: Held, whole: Version, done: Repair) -> Repair:
        """Another code, if there is one that is safe enough. Meanwhile the version is in its folder only."""
        free = self._places.room(2 * len(one.sheet.manifest.text()) + BESIDE)
        for place in self._places_of(one):
            free[place] += one.sheet.chunk
        size = row_of(one.sheet.manifest).length + ROUNDED
        if self._archive.chooser.choose(size, free, self._places.spaces(free)) is None:
            return done
        going = [
            versions.hide(Version(self._places.paths[place] / one.name, one.serial, whole.step))
            for place in self._places_of(one)
        ]
        for path in going:
            versions.remove(path)
        return self._added(whole, done)

    def _places_of(self, one: Held) -> list[int]:
        """The places that have anything of a version."""
        return [place for place in self._places.present() if (self._places.paths[place] / one.name).exists()]

    def _added(self, version: Version, done: Repair) -> Repair:
        try:
            self._archive.add(version)
        except CheckpointError as error:
            done.trouble = str(error)
            return done
        held = next(one for one in self._archive.held() if one.name == version.name)
        done.made = [str(self._places.paths[place]) for place in held.where.values()]
        done.read += row_of(held.sheet.manifest).length
        done.written += held.sheet.pieces * held.sheet.chunk
        done.trouble, done.risk = "", self._archive.risk(held)
        return done

    def _repaired(self, one: Held) -> Repair:
        done, sheet = Repair(one.name), one.sheet
        with contextlib.closing(self._archive.pieces(one)) as pieces:
            bad = pieces.verify()
            done.owners = pieces.owners()
            good = {piece: place for piece, place in one.where.items() if piece not in bad}
            done.damaged = [str(self._places.paths[one.where[piece]]) for piece in sorted(bad)]
            lost = [piece for piece in range(sheet.pieces) if piece not in good]
            if len(good) < sheet.data:
                done.trouble, done.risk = too_few(sheet, list(good)), 1.0
                return done
            failed: dict[int, str] = {}
            while lost:
                free = [-1.0 if place in failed else room for place, room in enumerate(self._places.room(BESIDE))]
                # A damaged piece stays where it was, or there would be two of it.
                new = {piece: place for piece in bad if free[place := one.where[piece]] >= sheet.chunk}
                rest = [piece for piece in lost if piece not in new]
                taken = [*good.values(), *new.values()]
                places = self._archive.chooser.replacements(taken, len(rest), sheet.parity, sheet.chunk, free)
                new |= dict(zip(rest, places, strict=False))
                if not new:
                    break
                try:
                    self._remake(pieces, one, good, new)
                except PlaceFailed as error:
                    failed[[*new.values()][error.at]] = error.why
                    continue
                for piece in bad.intersection(new):
                    if new[piece] != one.where[piece]:
                        versions.drop(self._places.paths[one.where[piece]] / one.name)
                done.made = [str(self._places.paths[place]) for place in new.values()]
                done.read, done.written = sheet.data * sheet.chunk, len(new) * sheet.chunk
                good |= new
                break
        done.risk = self._archive.chooser.risk_with(list(good.values()), sheet.data)
        if done.risk > 1 - self._places.storage.reliability:
            missing = sheet.pieces - len(good)
            what = f"{missing} of its {sheet.pieces} pieces have no place" if missing else "its places fail too often"
            done.trouble = f"{what}; add places, or free space on those that there are"
        return done

    def _remake(self, pieces: Pieces, one: Held, good: dict[int, int], lost: dict[int, int]) -> None:
        new: list[Path] = []
        try:
            for at, place in enumerate(lost.values()):
                with at_place(at):
                    new.append(versions.hidden(self._places.paths[place], one.name))
            pieces.remake(list(lost), new, self._archive.pace)
            now = list(one.sheet.places)
            for piece, where in (good | lost).items():
                now[piece] = str(self._places.paths[where])
            sheet = one.sheet.moved(now)
            for at, folder in enumerate(new):
                with at_place(at):
                    seal(folder, sheet)
            for at, (folder, place) in enumerate(zip(new, lost.values(), strict=True)):
                with at_place(at):
                    _replace(folder, self._places.paths[place] / one.name)
        except BaseException:
            for path in new:
                versions.drop(path)
            raise
        for place in good.values():  # for messages only: where pieces are is found out by looking
            with contextlib.suppress(OSError):
                atomic.put(self._places.paths[place] / one.name / SHEET, sheet.text(), durable=True, mode=0o600)


def _replace(folder: Path, final: Path) -> None:
    """Let a piece that was made again take its name, in place of one that is damaged.

    That goes under the name of a piece that is being written: after a kill it comes back, and is found damaged again.
    """
    old = None
    if final.exists():
        old = versions.hidden(final.parent, final.name)
        final.rename(old)
    atomic.commit(folder, final)
    if old is not None:
        versions.remove(old)
