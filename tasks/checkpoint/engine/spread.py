"""Versions that are spread over places, as all ranks meet them: rank 0 has the archive, and brings them back."""

from __future__ import annotations

from pathlib import Path

from wilkins.tasks.checkpoint.archive.archive import Archive, Held
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.storage.files import cannot
from wilkins.tasks.checkpoint.storage.versions import Version
from wilkins.tasks.group import Group


class Spread:
    """A version in an archive, as `restore` meets it.

    Attributes:
        name: the version's.
        serial: its number.
        step: that was saved.
    """

    where = "on its places"

    def __init__(
        self, name: str, serial: int, step: int, archive: Archive | None, held: Held | None, folder: Path, ranks: Group
    ) -> None:
        self.name, self.serial, self.step = name, serial, step
        self._archive, self._held, self._folder, self._ranks = archive, held, folder, ranks

    def fetch(self) -> tuple[Version | None, str]:
        """Make it in the folder; returns it, or why that cannot be. Collective.

        Raises:
            CheckpointError: the folder cannot be written to.
        """
        damage, trouble = "", ""
        if self._archive is not None and self._held is not None:
            try:
                self._archive.fetch(self._held, self._folder)
            except Damaged as error:
                damage = str(error)
            except OSError as error:
                trouble = cannot(error, self._folder)
            except CheckpointError as error:
                trouble = str(error)
        damage, trouble = self._ranks.allgather((damage, trouble))[0]
        if trouble:
            raise CheckpointError(f"{self.name} cannot be brought from its places: {trouble}")
        return (None, damage) if damage else (Version(self._folder / self.name, self.serial, self.step), "")


def spread_versions(archive: Archive | None, folder: Path, ranks: Group) -> list[Spread]:
    """The versions of an archive, oldest first; rank 0 has it. Collective."""
    found = archive.held() if archive is not None else []
    names = ranks.allgather([(one.name, one.serial, one.sheet.manifest.step) for one in found])[0]
    held = [*found, *[None] * (len(names) - len(found))]
    return [Spread(*name, archive, one, folder, ranks) for name, one in zip(names, held, strict=True)]
