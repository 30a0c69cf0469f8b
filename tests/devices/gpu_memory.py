"""Arrays in device memory for test programs, made without torch or CuPy, on the stand-in or on a GPU."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from wilkins.transport.devices.cuda import Gpu, gpu

_library = ctypes.CDLL("libcuda.so.1")
STAND_IN = hasattr(_library, "stand_in_poke")


class DeviceArray:
    """An array in a GPU's memory that knows only ``__cuda_array_interface__``."""

    def __init__(self, values: Any, number: int = 0, stream: int | None = None) -> None:
        """Copy values to a device; whoever takes them is to wait for `stream`."""
        values = np.asarray(values)
        self.gpu: Gpu = gpu(number)
        self.shape = values.shape
        self.strides: tuple[int, ...] | None = None
        self.dtype = values.dtype
        self.nbytes = values.nbytes
        self.stream = stream
        self.address = self.gpu.allocate(max(values.nbytes, 1))
        self.set(values)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The protocol's version 3."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
            "version": 3,
            "stream": self.stream,
        }

    def set(self, values: Any) -> None:
        """Overwrite the whole, at once."""
        values = np.ascontiguousarray(values, self.dtype)
        if values.nbytes:
            poke(self.gpu, self.address, values)

    def get(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The values of the contiguous array, now."""
        return peek(self.gpu, self.address, self.shape, self.dtype)


def poke(gpu: Gpu, address: int, values: np.ndarray[Any, np.dtype[Any]]) -> None:
    """Write device memory at once, whatever is under way on streams."""
    if STAND_IN:
        assert _library.stand_in_poke(ctypes.c_uint64(address), ctypes.c_void_p(values.ctypes.data), values.nbytes)
        return
    with gpu.current():
        copy = _library.cuMemcpyHtoD_v2
        assert not copy(ctypes.c_uint64(address), ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes))
        # The call returns once the values are on their way.
        assert not _library.cuCtxSynchronize()


def peek(gpu: Gpu, address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """Read device memory at once."""
    values = np.empty(shape, dtype)
    if STAND_IN:
        assert _library.stand_in_peek(ctypes.c_void_p(values.ctypes.data), ctypes.c_uint64(address), values.nbytes)
        return values
    with gpu.current():
        copy = _library.cuMemcpyDtoH_v2
        assert not copy(ctypes.c_void_p(values.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(values.nbytes))
    return values


def count(what: str) -> int:
    """What the stand-in has counted so far."""
    function = _library.stand_in_count
    function.restype = ctypes.c_uint64
    return int(function(what.encode()))
