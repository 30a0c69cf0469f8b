"""Looks at a file or folder, whatever it is: what it holds, or which format it looks to be."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

from wilkins.contents.formats import FIRST_USERBLOCK, format_of, format_of_folder, has_userblock
from wilkins.contents.summary import Contents
from wilkins.contents.words import first_line

_READ = ("HDF5", "netCDF", "NumPy", "npz")


def look(path: Path) -> Contents:
    """What a file holds, or a folder that is one step. It raises nothing: the summary says what could not be read.

    HDF5, netCDF, NumPy and Zarr are read; of others there are the format, by the first bytes, and the size. Little is
    read of large files, links to other files are not followed, and nothing is unpickled.
    """
    known = Contents(str(path), "an unknown format", 0)
    try:
        state = path.stat()
        if stat.S_ISDIR(state.st_mode):
            return _folder(path)
        known = Contents(str(path), "an unknown format", state.st_size)
        if not stat.S_ISREG(state.st_mode):
            return Contents(str(path), "not a file", 0)
        with path.open("rb") as file:
            kind = format_of(file.read(FIRST_USERBLOCK), path.name)
            if kind not in ("HDF5", "netCDF") and has_userblock(file.fileno()):
                kind = "HDF5"
        known = Contents(str(path), kind, state.st_size)
        return _read(path, known)
    except Exception as error:  # libraries raise errors of any kind for damaged files
        return Contents(str(path), known.format, known.size, problem=_why(error), is_read=known.format in _READ)


def _folder(path: Path) -> Contents:
    from wilkins.contents.zarr_folders import look_zarr, size_of

    kind = format_of_folder(path)
    return look_zarr(path) if kind.startswith("Zarr") else Contents(str(path), kind, size_of(path))


def _read(path: Path, known: Contents) -> Contents:
    """A file of a known format: each has a module, imported where there is such a file."""
    if known.format == "HDF5":
        from wilkins.contents.hdf5 import look_hdf5

        return look_hdf5(path, known.size)
    if known.format == "netCDF":
        from wilkins.contents.netcdf3 import look_netcdf3

        return look_netcdf3(path, known.size)
    if known.format == "NumPy":
        from wilkins.contents.numpy_files import look_npy

        return look_npy(path, known.size)
    if known.format == "npz":
        from wilkins.contents.numpy_files import look_npz

        return look_npz(path, known.size)
    return known


def _why(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "you may not read it"
    if isinstance(error, FileNotFoundError):
        return "it is not there any more"
    if isinstance(error, zipfile.BadZipFile):
        return f"it is damaged: {first_line(error)}"
    return f"it cannot be read: {first_line(error)}"
