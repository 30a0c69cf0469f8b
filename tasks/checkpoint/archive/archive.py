"""The archive: versions spread over places as pieces. It decides by `placement`, and here only does what that says.

A version is written in two phases, as in the memory of partner nodes: when all its places have synced their piece and
sheet under a hidden name, these are renamed on all. After a kill between two renames, the next job renames the rest: a
place that has renamed shows that all were ready.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wilkins import atomic
from wilkins.atomic import sync
from wilkins.tasks.checkpoint.archive.attached import Attached
from wilkins.tasks.checkpoint.archive.pieces import Pieces, PlaceFailed, cut
from wilkins.tasks.checkpoint.archive.sheets import (
    MARK,
    SHEET,
    Mark,
    Sheet,
    piece_in,
    read_mark,
    read_sheet,
    row_of,
)
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged, NotThere
from wilkins.tasks.checkpoint.placement.choice import Chooser
from wilkins.tasks.checkpoint.placement.places import Storage
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.contents import Contents
from wilkins.tasks.checkpoint.storage.files import Pace
from wilkins.tasks.checkpoint.storage.locks import reading
from wilkins.tasks.checkpoint.storage.versions import MANIFEST, Version, read_manifest

_LOG = logging.getLogger("wilkins.checkpoint")
BESIDE = 1 << 16
"""Bytes that a piece takes on a place beside itself and its sheet, or a little more."""
ROUNDED = 1 << 12
"""Bytes by which rounding makes all pieces longer, at most."""


@dataclass(frozen=True, slots=True)
class Held:
    """A version of which pieces are there."""

    sheet: Sheet
    where: dict[int, int]
    """Per number of a piece, that of its place."""

    @property
    def name(self) -> str:
        """The version's."""
        return self.sheet.name

    @property
    def serial(self) -> int:
        """Its number."""
        return self.sheet.manifest.serial

    @property
    def readable(self) -> bool:
        """Whether enough pieces are there, as far as their names say."""
        return len(self.where) >= self.sheet.data


class Archive:
    """Versions of one program over some places. One process at a time has it open.

    Args:
        storage: the places, and how safe versions are to be.
        home: the folder whose versions are spread; None: it is gone, or not asked for.
        keep: how many versions stay, the newest that can be read.
        pace: how fast pieces are written.
        locked: whether nobody else may have it open; else it is only read.

    Raises:
        CheckpointError: another process has a place open, or no place is there.
    """

    def __init__(
        self, storage: Storage, home: Path | None, keep: int, pace: Pace | None = None, *, locked: bool = True
    ) -> None:
        self.home, self._keep, self.pace = home, storage.keep or keep, pace or Pace(None)
        self.places = Attached(storage, home, locked=locked)
        try:
            self.chooser = Chooser(self.places.places(), storage.reliability, storage.years, storage.rule)
            if locked:
                self._recover()
        except BaseException:
            self.close()
            raise

    def tell(self) -> None:
        """Say what is not as it is to be: places that are left out, versions that lack pieces."""
        for place, why in self.absent.items():
            _LOG.warning("storage: %s is left out: %s", place, why)
        if lacking := len(self.lacking()):
            _LOG.warning(
                "storage: %d of the versions there lack pieces; `wilkins ckpt repair` makes them again", lacking
            )

    @property
    def absent(self) -> dict[str, str]:
        """Places that cannot be used, and why."""
        return {str(self.places.paths[number]): why for number, why in self.places.absent.items()}

    def close(self) -> None:
        """Let other processes have it."""
        self.places.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def newest(self) -> int:
        """The number of the newest version of which anything is there."""
        return max((versions.newest(self.places.paths[one]) for one in self.places.present()), default=0)

    def held(self) -> list[Held]:
        """The versions of which there are pieces, oldest first."""
        found: dict[tuple[str, str], Held] = {}
        for number in self.places.present():
            for version in versions.versions(self.places.paths[number]):
                try:
                    sheet = read_sheet(version.path)
                    piece = piece_in(version.path, sheet)
                except Damaged as error:
                    _LOG.warning("%s is left out: %s", version.path, error)
                    continue
                if sheet.name == version.name:
                    one = found.setdefault((version.name, sheet.seal), Held(sheet, {}))
                    one.where.setdefault(piece, number)
        return sorted(found.values(), key=lambda one: one.serial)

    def add(self, version: Version) -> None:
        """Spread a version, and remove the oldest.

        Raises:
            CheckpointError: there is nowhere to put it with that reliability, or it cannot be read.
        """
        with reading(version.path / MANIFEST):
            manifest = read_manifest(version.path)
            size, beside = row_of(manifest).length + ROUNDED, 2 * len(manifest.text()) + BESIDE
            failed: dict[int, str] = {}
            pruned = False
            while True:
                free = [-1.0 if one in failed else room for one, room in enumerate(self.places.room(beside))]
                choice = self.chooser.choose(size, free, self.places.spaces(free))
                if choice is None and not pruned:
                    self.prune()
                    pruned = True
                    continue
                if choice is None:
                    raise CheckpointError(self._nowhere(size, free, failed))
                try:
                    self._put(version, manifest, choice.data, choice.parity, choice.places)
                    break
                except PlaceFailed as error:
                    number = choice.places[error.at]
                    failed[number] = error.why
                    _LOG.warning("storage: %s is passed over: %s", self.places.paths[number], failed[number])
        try:
            self.prune()
        except OSError as error:
            _LOG.warning("older pieces cannot be removed: %s: %s", error.filename, error.strerror)

    def _put(
        self, version: Version, manifest: versions.Manifest, data: int, parity: int, places: Sequence[int]
    ) -> None:
        paths = [self.places.paths[one] for one in places]
        new: list[Path] = []
        renamed: list[Path] = []
        try:
            for at, path in enumerate(paths):
                with at_place(at):
                    new.append(versions.hidden(path, version.name))
            sheet = cut(version.path, manifest, data, parity, new, self.pace).moved([str(one) for one in paths])
            for at, folder in enumerate(new):
                with at_place(at):
                    seal(folder, sheet)
            for at, folder in enumerate(new):
                with at_place(at):
                    atomic.commit(folder, paths[at] / version.name)
                renamed.append(paths[at] / version.name)
        except BaseException:
            for path in renamed:
                with contextlib.suppress(OSError):
                    versions.remove(versions.hide(Version(path, version.serial, version.step)))
            for path in new:
                versions.drop(path)
            raise

    def prune(self) -> list[str]:
        """Remove all that is older than the newest versions that can be read; returns the names of what is gone."""
        found = self.held()
        readable = [one for one in found if one.readable]
        if len(readable) < self._keep:
            return []
        oldest = readable[-self._keep].serial
        going: list[Path] = []
        for number in self.places.present():
            going += [versions.hide(one) for one in versions.versions(self.places.paths[number]) if one.serial < oldest]
        for path in going:
            versions.remove(path)
        return sorted({path.name[1:].rpartition(".")[0] for path in going})

    def fetch(self, one: Held, folder: Path) -> Version:
        """Make a version of its pieces in a folder. `latest` leads to it if none there is newer.

        Raises:
            Damaged: too many pieces are lost.
            OSError: the folder cannot be written to.
        """
        final = Version(folder / one.name, one.serial, one.sheet.manifest.step)
        new = versions.hidden(folder, one.name)
        try:
            with contextlib.closing(self.pieces(one)) as pieces:
                pieces.join(new)
            versions.write_manifest(new, one.sheet.manifest)
            sync(new)
            with Contents(new) as contents:
                contents.verify()
            if final.path.exists():
                versions.remove(versions.hide(final))
            atomic.commit(new, final.path)
        except BaseException:
            versions.drop(new)
            raise
        if versions.newest(folder) == one.serial:
            versions.point(folder, one.name)
        return final

    def summary(self) -> str:
        """Where the newest version is, in a few words."""
        found = self.held()
        if not found:
            return "no place"
        one = found[-1]
        return f"{len(one.where)} pieces on as many places, of which {one.sheet.parity} may be lost"

    def damaged(self, one: Held) -> set[int]:
        """Read all pieces of a version; returns the numbers of those that are not what was written."""
        return self.examined(one)[0]

    def examined(self, one: Held) -> tuple[set[int], str]:
        """The same, and whose the bytes are that are damaged, in words."""
        with contextlib.closing(self.pieces(one)) as pieces:
            return set(pieces.verify()), pieces.owners()

    def risk(self, one: Held) -> float:
        """The probability that a version is lost within the years, with the pieces that it has now."""
        return self.chooser.risk_with(list(one.where.values()), one.sheet.data)

    def lacking(self) -> list[Held]:
        """Versions of which pieces are missing."""
        return [one for one in self.held() if len(one.where) < one.sheet.pieces]

    def pieces(self, one: Held) -> Pieces:
        """The pieces of a version, opened; to be closed."""
        folders = {piece: self.places.paths[place] / one.name for piece, place in one.where.items()}
        return Pieces(
            one.sheet, folders, {piece: self.places.storage.places[place].read for piece, place in one.where.items()}
        )

    def _recover(self) -> None:
        """Finish what a killed job left: renames of a version that some place has renamed, removals of one."""
        ready: list[tuple[str, str, Path]] = []
        committed: set[tuple[str, str]] = set()
        going: set[tuple[str, str]] = set()
        for number in self.places.present():
            for entry in list(self.places.paths[number].iterdir()):
                with contextlib.suppress(Damaged):
                    if name := versions.name_of_hidden(entry.name):
                        sheet = read_sheet(entry)
                        piece_in(entry, sheet)
                        ready.append((name, sheet.seal, entry))
                    elif versions.is_unfinished(entry.name) and entry.name.endswith(".old"):
                        sheet = read_sheet(entry)
                        going.add((sheet.name, sheet.seal))
                    elif not entry.name.startswith("."):
                        sheet = read_sheet(entry)
                        committed.add((sheet.name, sheet.seal))
        for name, seal, entry in ready:
            if (name, seal) in committed - going and not (entry.parent / name).exists():
                atomic.commit(entry, entry.parent / name)
        for number in self.places.present():
            for version in versions.versions(self.places.paths[number]):
                with contextlib.suppress(Damaged):
                    if (version.name, read_sheet(version.path).seal) in going:
                        versions.hide(version)
            for entry in list(self.places.paths[number].iterdir()):
                if versions.is_unfinished(entry.name) or entry.name == f".{MARK}.part":
                    versions.remove(entry)

    def _nowhere(self, size: float, free: Sequence[float], failed: dict[int, str]) -> str:
        told = []
        for number, path in enumerate(self.places.paths):
            why = self.places.absent.get(number) or failed.get(number) or f"{max(free[number], 0):,.0f} bytes free"
            told.append(f"{path}: {why}")
        domains = {one.domain for one in self.chooser.places}
        alike = (
            "all of them are on one file system, and count as lost together; give each a 'domain' if they are not; "
            if len(domains) == 1
            else ""
        )
        return (
            f"no places for {size:,.0f} bytes that survive {self.places.storage.years:g} years with a probability of "
            f"{self.places.storage.reliability:g} ({'; '.join(told)}); {alike}add places, free space, or ask for less "
            "reliability"
        )


def opened(folder: Path, new: str | None = None, *, locked: bool = True) -> Archive:
    """The archive of a folder of versions, or of one of its places.

    Args:
        folder: which has the mark.
        new: a place that is to be taken as a new, empty one, whatever it was.
        locked: see `Archive`.

    Raises:
        NotThere: the folder has no mark.
    """
    mark = read_mark(folder)
    if mark is None:
        raise NotThere(f"{folder} has no versions that are spread over places; give the folder of a job with storage=")
    home = None if mark.mark else folder
    if new is not None:
        path = str(Path(new).absolute())
        if path not in [one.path for one in mark.storage.places]:
            raise NotThere(
                f"{path} is none of the places ({', '.join(one.path for one in mark.storage.places)}); "
                "add it to the storage= of the job"
            )
        marks = {known: one for known, one in mark.marks.items() if known != path}
        for one in [folder, *(Path(place.path) for place in mark.storage.places)]:
            with contextlib.suppress(OSError, Damaged):
                if (found := read_mark(one)) is not None and str(one) != path:
                    Mark(found.storage, marks, found.mark).write(one)
    return Archive(mark.storage, home, keep=1_000_000, locked=locked)


def seal(folder: Path, sheet: Sheet) -> None:
    """Write the sheet beside a piece, as the last thing."""
    versions.write_synced(folder / SHEET, sheet.text())
    sync(folder)


@contextlib.contextmanager
def at_place(at: int) -> Iterator[None]:
    """Do something at a place, by its number among those that are written."""
    try:
        yield
    except OSError as error:
        raise PlaceFailed(at, error) from error
