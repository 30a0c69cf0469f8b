"""Buffers as tensors of torch and arrays of CuPy, and the streams on which these libraries work now."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from wilkins.transport.errors import TypeNotSupported

if TYPE_CHECKING:
    from wilkins.transport.devices.cuda import CudaBuffer


class Stream:
    """A stream of somebody else's on which an array is used."""

    def __init__(self, handle: int, owner: object = None) -> None:
        """A stream's handle; `owner` keeps it alive. Without one the stream may be gone when the array is let go of."""
        self.handle = handle
        self.owner = owner

    @property
    def lasts(self) -> bool:
        """Whether the stream is there for as long as this is."""
        return self.owner is not None or self.handle <= 2


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
    """A torch tensor of a buffer's memory, to be used on torch's current stream of its device.

    Raises:
        TypeNotSupported: torch has no such type of elements.
    """
    torch = library("torch", "wilkins[torch]")
    stream = torch.cuda.current_stream(buffer.device.number)
    buffer.use_on(Stream(stream.cuda_stream, stream))
    try:
        return torch.utils.dlpack.from_dlpack(buffer.capsule())
    except (BufferError, RuntimeError) as error:
        raise TypeNotSupported(f"torch has no type for {buffer.dtype}: {error}") from None


def cupy_array(buffer: CudaBuffer) -> Any:
    """A CuPy array of a buffer's memory, to be used on CuPy's current stream of its device."""
    cupy = library("cupy", "wilkins[cupy]")
    number = buffer.device.number
    with cupy.cuda.Device(number):
        stream = cupy.cuda.get_current_stream()
        buffer.use_on(Stream(stream.ptr, stream))
        memory = cupy.cuda.UnownedMemory(buffer.address, max(buffer.nbytes, 1), buffer, number)
        return cupy.ndarray(buffer.shape, buffer.dtype, cupy.cuda.MemoryPointer(memory, 0))
