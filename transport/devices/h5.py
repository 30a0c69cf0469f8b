"""GPU arrays for h5py, which takes NumPy arrays only: ``dataset.write_direct(pointer(x))`` and ``read_direct``.

h5py hands an array's address to HDF5 without looking at its elements; on a file of a port, Wilkins' layer sees that the
address is a GPU's. On other files HDF5 cannot read it: the program would end there.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from wilkins.transport.devices import cuda
from wilkins.transport.errors import WrongMemory


class DevicePointer(np.ndarray[Any, np.dtype[Any]]):
    """A GPU array's address, shape and type as h5py wants them; its elements cannot be read by NumPy."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "these elements are in a GPU's memory, which NumPy cannot read: give this to h5py's write_direct or "
            "read_direct, on a file of a port"
        )

    __array_ufunc__ = _refuse
    __array_function__ = _refuse
    __getitem__ = _refuse
    __setitem__ = _refuse
    __iter__ = _refuse
    __array__ = _refuse
    copy = _refuse
    astype = _refuse
    tobytes = _refuse
    tolist = _refuse
    item = _refuse
    fill = _refuse

    def __repr__(self) -> str:
        return f"<{self.dtype} array of shape {self.shape} in a GPU's memory>"

    __str__ = __repr__


class _At:
    def __init__(self, borrowed: cuda.Borrowed) -> None:
        array = borrowed.array
        self.borrowed = borrowed
        self.__array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.address, array.read_only),
            "version": 3,
        }


def pointer(array: Any) -> DevicePointer:
    """A torch, CuPy or other GPU array as h5py takes it, over the same memory, which it keeps alive.

    HDF5's transfer waits for all that the GPU does for this process first.

    Raises:
        WrongMemory: the array is not on a CUDA device, or not contiguous.
    """
    try:
        borrowed = cuda.borrow(array)
    except WrongMemory:
        raise WrongMemory(
            "h5.pointer takes arrays on a CUDA device; this one is in host memory: write it directly"
        ) from None
    if not borrowed.array.contiguous:
        raise WrongMemory("HDF5 transfers contiguous arrays: make this one contiguous first")
    plain: np.ndarray[Any, np.dtype[Any]] = np.asarray(_At(borrowed))
    return plain.view(DevicePointer)
