"""The formats of files, by how they begin."""

from __future__ import annotations

import os
from pathlib import Path

HDF5 = b"\x89HDF\r\n\x1a\n"
FIRST_USERBLOCK = 512
"""Bytes. HDF5 begins at 0, or behind a userblock: at 512, 1024, 2048 and so on (HDF5 file format, superblock)."""

DATA = {
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
"""Formats of data: how their files begin, and the ends of their names."""

_OTHERS = {
    "JPEG": (b"\xff\xd8\xff",),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "GIF": (b"GIF87a", b"GIF89a"),
    "PDF": (b"%PDF-",),
    "SQLite": (b"SQLite format 3\x00",),
    "a ZIP archive": (b"PK\x03\x04", b"PK\x05\x06"),
    "gzip": (b"\x1f\x8b",),
    "bzip2": (b"BZh",),
    "xz": (b"\xfd7zXZ\x00",),
    "Zstandard": (b"\x28\xb5\x2f\xfd",),
    "a Python pickle": (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
}
ZARR_METADATA = ("zarr.json", ".zgroup", ".zarray")
"""Files of a folder that is a group or an array of Zarr; the first is of version 3."""
_BP_FOLDER = ("md.idx", "data.0")
"""Files of each folder that ADIOS2's engines BP4 and BP5 write."""


def format_of(begins: bytes, name: str) -> str:
    """The format of a file by its first 512 bytes; its name tells only where these do not."""
    if begins.startswith(HDF5):
        return "HDF5"
    for known, (words, _) in DATA.items():
        if begins.startswith(words):
            return known
    if begins.startswith(b"<?xml") and b"<VTKFile" in begins:
        return "VTK"
    for known, words in _OTHERS.items():
        if begins.startswith(words):
            return "npz" if known == "a ZIP archive" and name.endswith(".npz") else known
    if not begins:
        return "an empty file"
    if name.endswith(".bp"):
        return "ADIOS2 BP"
    return "text" if _is_text(begins) else "an unknown format"


def format_of_folder(path: Path) -> str:
    """The format of a folder that is one step.

    Raises:
        OSError: it cannot be looked at.
    """
    newest, *older = ZARR_METADATA
    if (path / newest).is_file():
        return "Zarr 3"
    if any((path / name).is_file() for name in older):
        return "Zarr 2"
    if all((path / name).is_file() for name in _BP_FOLDER):
        return "ADIOS2 BP"
    return "a folder"


def has_userblock(descriptor: int) -> bool:
    """Whether an open file is HDF5 that begins behind a userblock."""
    size, at = os.fstat(descriptor).st_size, FIRST_USERBLOCK
    while at < size:
        if os.pread(descriptor, len(HDF5), at) == HDF5:
            return True
        at *= 2
    return False


def _is_text(begins: bytes) -> bool:
    if any(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in begins):
        return False
    try:
        begins.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(begins) - 3 and error.reason == "unexpected end of data"
    return True
