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


def elements_in_file(dataset: h5py.Dataset, file: h5py.File) -> Elements | None:
    """Where a dataset's elements lie in its file; None if they do not lie there as NumPy has them."""
    shape: tuple[int, ...] | None = dataset.shape
    dtype: np.dtype[Any] = dataset.dtype  # h5py makes it anew each time
    if shape is None or 0 in shape or dtype.hasobject:
        return None
    properties = dataset.id.get_create_plist()
    if properties.get_layout() != h5py.h5d.CONTIGUOUS or properties.get_external_count() > 0:
        return None
    offset: int | None = dataset.id.get_offset()  # of the file, a user block included; None: nothing was written
    if offset is None:
        return None
    try:
        in_memory = h5py.h5t.py_create(dtype, logical=True)
    except TypeError:
        return None
    if not dataset.id.get_type().equal(in_memory):
        return None
    if h5py.h5o.get_info(dataset.id).fileno != h5py.h5o.get_info(file.id).fileno:  # by an external link
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
