"""The places of an archive as they are found: which are there, locked and marked, and how much room they have."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from wilkins.tasks.checkpoint.archive.sheets import MARK, Mark, new_mark, read_mark
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.placement.places import Place, Storage
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.locks import Lock

_LOG = logging.getLogger("wilkins.checkpoint")


class Attached:
    """The places of an archive, locked by this process.

    Args:
        storage: as the user gave it.
        home: the folder whose versions are spread; None: it is gone, or not asked for.
        locked: whether nobody else may have them; else they are only looked at, and nothing is written.

    Raises:
        CheckpointError: another process has a place, or none is there.
    """

    def __init__(self, storage: Storage, home: Path | None, *, locked: bool = True) -> None:
        self.storage = _with_paths(storage)
        self.paths = [Path(one.path) for one in self.storage.places]
        self.absent: dict[int, str] = {}
        """Places that cannot be used, and why."""
        self._home = home
        self._locks: list[Lock] = []
        try:
            self._attach(_marks_of(home, self.paths), locked=locked)
            if len(self.absent) == len(self.paths):
                raise CheckpointError(f"storage: none of the places is there: {self._absences()}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other processes have them."""
        for one in self._locks:
            one.close()
        self._locks.clear()

    def places(self) -> list[Place]:
        """What `Chooser` wants: those without a domain are in that of their file system."""
        return [
            replace(place, domain=place.domain or _device(path))
            for place, path in zip(self.storage.places, self.paths, strict=True)
        ]

    def present(self) -> list[int]:
        """Places that are there; one that has gone meanwhile is left out from now on."""
        for number, path in enumerate(self.paths):
            if number not in self.absent and not os.path.lexists(path / MARK):
                self.absent[number] = "it is gone"
                _LOG.warning("storage: %s is left out: it is gone", path)
        return [number for number in range(len(self.paths)) if number not in self.absent]

    def _attach(self, known: dict[str, str], *, locked: bool) -> None:
        """Lock the places that are there, and mark those that are new."""
        marks: dict[int, str] = {}
        for number, path in enumerate(self.paths):
            with self._absent_if_it_fails(number):
                if not locked:
                    _look_at(path, known.get(str(path)))
                    continue
                marks[number] = _marked(path, known.get(str(path)))
                self._locks.append(Lock(path))
                # All have their own mark before any tells of the others': a kill in between must not disown them.
                if read_mark(path) is None:
                    Mark(self.storage, {}, marks[number]).write(path)
        if not locked:
            return
        every = known | {str(self.paths[number]): mark for number, mark in marks.items()}
        every = {path: mark for path, mark in every.items() if path in {str(one) for one in self.paths}}
        for number, mark in marks.items():
            if number not in self.absent:
                with self._absent_if_it_fails(number):
                    _remembered(self.paths[number], Mark(self.storage, every, mark))
        if self._home is not None:
            _remembered(self._home, Mark(self.storage, every))

    @contextlib.contextmanager
    def _absent_if_it_fails(self, number: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.absent[number] = error.strerror or str(error)
        except Damaged as error:
            self.absent[number] = str(error)

    def room(self, beside: int = 0) -> list[float]:
        """Bytes that each place can take, less what a piece takes beside itself; -1: the place is not there."""
        found = []
        for number, place in enumerate(self.storage.places):
            try:
                free = -1.0 if number in self.absent else _free(self.paths[number], place.space) - beside
            except OSError:
                free = -1.0
            found.append(max(free, -1.0))
        return found

    def spaces(self, free: Sequence[float]) -> list[float]:
        """Bytes that each place has in all, for pieces."""
        found = []
        for place, path, room in zip(self.storage.places, self.paths, free, strict=True):
            whole = place.space
            if whole is None and room >= 0:
                with contextlib.suppress(OSError):
                    told = os.statvfs(path)
                    whole = told.f_blocks * told.f_frsize
            found.append(max(float(whole or 0), room, 1.0))
        return found

    def _absences(self) -> str:
        return "; ".join(f"{self.paths[number]}: {why}" for number, why in self.absent.items())


def _with_paths(storage: Storage) -> Storage:
    """The same with absolute paths."""
    values = storage.values()
    places = [{**one, "path": str(Path(one["path"]).absolute())} for one in values.pop("places")]
    return Storage(places, **values)


def _marks_of(home: Path | None, paths: Sequence[Path]) -> dict[str, str]:
    """Per path, the mark that it had: as the folder of the versions says, or else the places."""
    found: dict[str, str] = {}
    for folder in [*paths, *([home] if home is not None else [])]:
        with contextlib.suppress(OSError, Damaged):
            if (mark := read_mark(folder)) is not None:
                found |= mark.marks
    return found


def _marked(path: Path, known: str | None) -> str:
    """The mark of a place, which is made if the place is new.

    Raises:
        Damaged: it is not the place that it was.
    """
    if known is None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = _look_at(path, known)
    return found.mark if found is not None and found.mark else new_mark()


def _look_at(path: Path, known: str | None) -> Mark | None:
    """The mark of a place.

    Raises:
        Damaged: it is not the place that it was.
    """
    found = read_mark(path)
    if known is not None and (found is None or found.mark != known):
        raise Damaged(
            "it has not the mark that it had: it is not mounted, or it is another disk; "
            f"`wilkins ckpt repair DIR --new {path}` takes it as a new one"
        )
    return found


def _remembered(folder: Path, mark: Mark) -> None:
    """Write a mark if it is not there yet.

    Raises:
        OSError: it cannot be written.
    """
    with contextlib.suppress(Damaged):
        if read_mark(folder) == mark:
            return
    mark.write(folder)


def _device(path: Path) -> str:
    try:
        return f"device {path.stat().st_dev}"
    except OSError:
        return str(path)


def _free(path: Path, space: float | None) -> float:
    """Bytes that a place can take.

    Raises:
        OSError: it cannot be asked.
    """
    told = os.statvfs(path)
    free = float(told.f_bavail * told.f_frsize)
    if space is not None:
        used = sum(
            file.stat().st_size
            for version in versions.versions(path)
            for file in version.path.iterdir()
            if file.is_file()
        )
        free = min(free, space - used)
    return free
