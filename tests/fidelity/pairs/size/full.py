"""Files of full size: a dataset of 3 GiB, a group of 100,000 objects (``test_full_size.py``)."""

from __future__ import annotations

import hashlib
from typing import Any

import h5py
import numpy as np
from fidelity.cases import case
from h5py import h5d, h5p, h5s, h5t

ROWS, COLUMNS = 3 << 10, 1 << 20
PIECE = 64
OBJECTS = 100_000


def digest(name: str) -> list[Any]:
    """What is in the dataset, read in pieces of another size than it was written in."""
    with h5py.File(name, "r") as f:
        x, found = f["x"], hashlib.sha256()
        for row in range(0, ROWS, 100):
            found.update(np.ascontiguousarray(x[row : row + 100]).data)
        return [x.shape, x.id.get_offset(), f.id.get_filesize(), found.hexdigest(), x[::500, -1].tolist()]


@case("large datasets", consume=digest)
def three_gib(name: str) -> None:
    with h5py.File(name, "w") as f:
        x = f.create_dataset("x", (ROWS, COLUMNS), "u1")
        piece = np.empty((PIECE, COLUMNS), "u1")
        for row in range(0, ROWS, PIECE):
            piece[:] = (np.arange(COLUMNS) * 7 + row) % 251
            x[row : row + PIECE] = piece


def everything(name: str) -> list[Any]:
    """All objects, by an iteration and one by one, backwards."""
    with h5py.File(name, "r") as f:
        names: list[bytes] = []
        f.id.links.iterate(names.append)
        value, total = np.zeros((), "i4"), 0
        for each in reversed(names):
            h5d.open(f.id, each).read(h5s.ALL, h5s.ALL, value)
            total = (total * 31 + int(value)) % 1_000_000_007
        return [len(f), len(names), total, f.id.get_filesize()]


@case("many objects", consume=everything)
def hundred_thousand_objects(name: str) -> None:
    untimed, scalar = h5p.create(h5p.DATASET_CREATE), h5s.create(h5s.SCALAR)
    untimed.set_obj_track_times(False)
    with h5py.File(name, "w") as f:
        for number in range(OBJECTS):
            made = h5d.create(f.id, b"d%06d" % number, h5t.NATIVE_INT32, scalar, untimed)
            made.write(h5s.ALL, h5s.ALL, np.array(number, "i4"))
