"""Buffers as tensors of torch and arrays of CuPy, and the streams on which these libraries work now."""

from __future__ import annotations

import importlib
from typing import Any

from wilkins.transport.devices.cuda import CudaBuffer, Stream


def library(name: str, extra: str) -> Any:
    """An optional library.

    Raises:
        ModuleNotFoundError: it is not installed; the message says what to install.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(f"{name} is not installed: pip install '{extra}'", name=name) from None


def torch_tensor(buffer: CudaBuffer) -> Any:
    """A torch tensor of a buffer's memory, to be used on torch's current stream of its device."""
    torch = library("torch", "wilkins[torch]")
    stream = torch.cuda.current_stream(buffer.device.number)
    buffer.use_on(Stream(stream.cuda_stream, stream))
    return torch.utils.dlpack.from_dlpack(buffer.capsule())


def cupy_array(buffer: CudaBuffer) -> Any:
    """A CuPy array of a buffer's memory, to be used on CuPy's current stream of its device."""
    cupy = library("cupy", "wilkins[cupy]")
    number = buffer.device.number
    with cupy.cuda.Device(number):
        stream = cupy.cuda.get_current_stream()
        buffer.use_on(Stream(stream.ptr, stream))
        memory = cupy.cuda.UnownedMemory(buffer.address, max(buffer.nbytes, 1), buffer, number)
        return cupy.ndarray(buffer.shape, buffer.dtype, cupy.cuda.MemoryPointer(memory, 0))
