"""The datasets of a step: finding one by its path, and reading a rank's part of it in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.errors import TaskError

_PIECE = 1 << 22
"""Elements read at once."""


def find(file: h5py.File, path: str, step: str) -> h5py.Dataset:
    """A dataset of numbers.

    Raises:
        TaskError: there is none (the message names those there are), or it does not hold real numbers.
    """
    found = file.get(path)
    if not isinstance(found, h5py.Dataset):
        names = all_names(file)
        listed = ", ".join(names[:20]) + (" and more" if len(names) > 20 else "")
        what = "is a group" if isinstance(found, h5py.Group) else "does not exist"
        raise TaskError(f"{step}: the dataset {path!r} {what}; datasets there are: {listed or 'none'}")
    if found.dtype.kind not in "iufb":
        raise TaskError(
            f"{step}: the dataset {path!r} holds {found.dtype}, and numbers are needed; name another dataset"
        )
    return found


def all_names(file: h5py.File) -> list[str]:
    """The paths of all datasets."""
    names: list[str] = []

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            names.append(f"/{name}")

    file.visititems(visit)
    return names


def pieces(dset: h5py.Dataset, rank: int, size: int) -> Iterator[NDArray[Any]]:
    """This rank's part of a dataset: a range of the first axis, in pieces. A scalar is read by the first rank."""
    for part in parts(dset, rank, size):
        yield read(dset, part)


def parts(dset: h5py.Dataset, rank: int, size: int) -> Iterator[slice | tuple[()]]:
    """Where these pieces are: selections for `read`."""
    if dset.shape is None:
        return
    if not dset.shape:
        if rank == 0:
            yield ()
        return
    first, last = own_rows(dset.shape[0], rank, size)
    at_once = max(1, _PIECE // max(1, int(np.prod(dset.shape[1:]))))
    for start in range(first, last, at_once):
        yield slice(start, min(start + at_once, last))


def own_rows(rows: int, rank: int, size: int) -> tuple[int, int]:
    """The first row of a rank, and the one after its last."""
    return rows * rank // size, rows * (rank + 1) // size


def read(dset: h5py.Dataset, part: slice | tuple[()]) -> NDArray[Any]:
    """A piece as numbers: Booleans are 0 and 1."""
    return _numbers(dset[part])


def _numbers(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    return array.astype(np.uint8) if array.dtype.kind == "b" else array
