"""Datasets as arrays over the memory that holds their file: which can be, and what keeps that memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import h5py
import numpy as np

Array = np.ndarray[Any, Any]


class Elements(NamedTuple):
    """Where a dataset's elements lie in its file, one after the other and as NumPy has them."""

    offset: int
    """Of the first one, in bytes."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    size: int
    """Of all, in bytes."""


def file_number(item: h5py.h5d.DatasetID | h5py.h5f.FileID) -> int:
    """What tells an object's file from other open ones."""
    number: int = h5py.h5o.get_info(item).fileno
    return number


def elements_in_file(dataset: h5py.h5d.DatasetID, number: int) -> Elements | None:
    """Where a dataset's elements lie in the file of this `file_number`; None if they do not lie there as NumPy has
    them."""
    shape: tuple[int, ...] | None = dataset.shape
    if shape is None or 0 in shape:
        return None
    kind = dataset.get_type()
    dtype: np.dtype[Any] = kind.dtype
    if dtype.hasobject:
        return None
    properties = dataset.get_create_plist()
    if properties.get_layout() != h5py.h5d.CONTIGUOUS or properties.get_external_count() > 0:
        return None
    offset: int | None = dataset.get_offset()  # of the file, a user block included; None: nothing was written
    if offset is None:
        return None
    try:
        in_memory = h5py.h5t.py_create(dtype, logical=True)
    except TypeError:
        return None
    if not kind.equal(in_memory):
        return None
    if file_number(dataset) != number:  # by an external link
        return None
    return Elements(offset, shape, dtype, math.prod(shape) * dtype.itemsize)


class Memory:
    """What arrays over a step's memory are based on: keeps the step as long as one of them is referenced."""

    __slots__ = ("__array_interface__", "__weakref__", "_step", "path")

    def __init__(self, step: object, path: str, address: int, size: int, *, writable: bool) -> None:
        self._step = step
        self.path = path
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, not writable),
            "version": 3,
        }

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """All of it as an array of these elements."""
        array: Array = np.ndarray(shape, dtype, buffer=np.asarray(self))
        return array
