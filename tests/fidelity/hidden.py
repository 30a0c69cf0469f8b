"""Runs cases of C that are in a shared object with an HDF5 of its own inside: ``python -m fidelity.hidden OBJECT ...``.

The process has a shared HDF5 besides, that of h5py, which takes no part.
"""

from __future__ import annotations

import ctypes
import sys

import h5py


def main(*arguments: str) -> int:
    """Call what was the program's ``main``."""
    assert h5py.version.hdf5_version
    words = [word.encode() for word in arguments]
    return int(ctypes.CDLL(arguments[0]).run_cases(len(words), (ctypes.c_char_p * len(words))(*words)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
