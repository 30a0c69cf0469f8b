"""Which files hold data, by how they begin or by a name that the user gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wilkins.contents.formats import DATA, FIRST_USERBLOCK, HDF5, has_userblock
from wilkins.record.access import FileAccess
from wilkins.schema.patterns import intersect

_ARCHIVES = {".npz": b"PK\x03\x04"}
"""What begins as other files do, and is data under these names alone."""

_HDF5_NAMES = (".h5", ".hdf5", ".hdf", ".he5", ".h5md")
KNOWN = "HDF5, " + ", ".join(DATA)
"""The kinds, in words."""


def is_data(seen: FileAccess, named: Sequence[str]) -> bool:
    """Whether ports are for a file.

    One that the program has made and removed is its own affair; one that it has read, and that has gone, is known by
    its name.

    Args:
        named: absolute patterns of files that are data whatever they hold.
    """
    if any(intersect(pattern, seen.name) for pattern in named):
        return True
    try:
        with Path(seen.name).open("rb") as file:
            begins = file.read(FIRST_USERBLOCK)
            return _is_known(begins, seen.name) or has_userblock(file.fileno())
    except FileNotFoundError:
        return not seen.is_written and seen.name.endswith(_data_names())
    except OSError:  # a folder, or one that may not be read
        return False


def _is_known(begins: bytes, name: str) -> bool:
    if begins.startswith((HDF5, *(word for words, _ in DATA.values() for word in words))):
        return True
    word = _ARCHIVES.get(Path(name).suffix)
    # XML may declare itself first.
    return (word is not None and begins.startswith(word)) or (begins.startswith(b"<?xml") and b"<VTKFile" in begins)


def _data_names() -> tuple[str, ...]:
    return (*_HDF5_NAMES, *_ARCHIVES, *(suffix for _, suffixes in DATA.values() for suffix in suffixes))
