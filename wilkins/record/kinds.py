"""Which files hold data, by how they begin or by a name that the user gives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from wilkins.record.access import FileAccess
from wilkins.schema.patterns import intersect

_HDF5 = b"\x89HDF\r\n\x1a\n"
_FIRST_USERBLOCK = 512
"""Bytes. HDF5 begins at 0, or behind a userblock: at 512, 1024, 2048 and so on (HDF5 file format, superblock)."""

_BEGINNINGS = {
    "netCDF": ((b"CDF\x01", b"CDF\x02", b"CDF\x05"), (".nc", ".nc4", ".cdf")),
    "NumPy": ((b"\x93NUMPY",), (".npy",)),
    "Parquet": ((b"PAR1",), (".parquet",)),
    "Arrow": ((b"ARROW1", b"FEA1"), (".arrow", ".feather")),
    "FITS": ((b"SIMPLE  =",), (".fits", ".fit")),
    "ROOT": ((b"root",), (".root",)),
    "GRIB": ((b"GRIB",), (".grib", ".grib2", ".grb")),
    "MATLAB": ((b"MATLAB 5.0 MAT-file",), (".mat",)),
    "TIFF": ((b"II*\x00", b"MM\x00*"), (".tif", ".tiff")),
    "VTK": ((b"# vtk DataFile", b"<VTKFile"), (".vtk", ".vtu", ".vti")),
}
_ARCHIVES = {".npz": b"PK\x03\x04"}
"""What begins as other files do, and is data under these names alone."""

_HDF5_NAMES = (".h5", ".hdf5", ".hdf", ".he5", ".h5md")
KNOWN = "HDF5, " + ", ".join(_BEGINNINGS)
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
            begins = file.read(_FIRST_USERBLOCK)
            return _is_known(begins, seen.name) or _has_userblock(file.fileno())
    except FileNotFoundError:
        return not seen.is_written and seen.name.endswith(_data_names())
    except OSError:  # a folder, or one that may not be read
        return False


def _is_known(begins: bytes, name: str) -> bool:
    if begins.startswith((_HDF5, *(word for words, _ in _BEGINNINGS.values() for word in words))):
        return True
    word = _ARCHIVES.get(Path(name).suffix)
    # XML may declare itself first.
    return (word is not None and begins.startswith(word)) or (begins.startswith(b"<?xml") and b"<VTKFile" in begins)


def _has_userblock(descriptor: int) -> bool:
    size, at = os.fstat(descriptor).st_size, _FIRST_USERBLOCK
    while at < size:
        if os.pread(descriptor, len(_HDF5), at) == _HDF5:
            return True
        at *= 2
    return False


def _data_names() -> tuple[str, ...]:
    return (*_HDF5_NAMES, *_ARCHIVES, *(suffix for _, suffixes in _BEGINNINGS.values() for suffix in suffixes))
