"""Buffers as tensors of torch and arrays of CuPy, and the streams on which these libraries work now."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, Protocol

from wilkins.transport.devices.dlpack import Device
from wilkins.transport.errors import TypeNotSupported

_LEGACY, _PER_THREAD = 1, 2
"""The default streams by the numbers that the driver knows them by: of a context (0 is the same), and of each thread,
where it means another stream in the thread that lets go of the array."""


class Stream:
    """A stream of somebody else's on which an array is used."""

    def __init__(self, handle: int, owner: object = None) -> None:
        """A stream's handle; `owner` keeps it alive. Without one the stream may be gone when the array is let go of."""
        self.handle = handle
        self.owner = owner

    @property
    def lasts(self) -> bool:
        """Whether the stream is there for as long as this is."""
        return self.handle != _PER_THREAD and (self.owner is not None or self.handle <= _LEGACY)


class Buffer(Protocol):
    """What is asked of a buffer on a device (`wilkins.transport.devices.cuda.CudaBuffer`)."""

    @property
    def device(self) -> Device:
        """Where it is."""

    @property
    def address(self) -> int:
        """Of its memory."""

    @property
    def nbytes(self) -> int:
        """Of its memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""

    @property
    def dtype(self) -> Any:
        """Of the array's elements."""

    def use_on(self, stream: Stream) -> Any:
        """Called before it is used on a stream."""

    def capsule(self) -> object:
        """A DLPack capsule."""


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


def exportable(array: Any) -> Any:
    """An array of another library in a form that DLPack exports; of a torch tensor, the elements that it means.

    torch exports neither tensors that a gradient is asked of, nor those that are conjugated when they are read; of
    those that are negated when they are read it exports what is there. Elements that lie scattered on a GPU are brought
    together there, by a kernel of torch or CuPy on its current stream: copied one by one, a transposed matrix takes as
    many copies as it has elements.
    """
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(array, torch.Tensor):
        plain = array.detach().resolve_conj().resolve_neg()
        return plain.contiguous() if plain.is_cuda else plain
    if cupy is not None and isinstance(array, cupy.ndarray):
        with array.device:
            return cupy.ascontiguousarray(array)
    return array


def device_of(array: Any) -> contextlib.AbstractContextManager[Any]:
    """For the time of a block: torch exports tensors of its current device only."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor) or not array.is_cuda:
        return contextlib.nullcontext()
    return torch.cuda.device(array.device)  # type: ignore[no-any-return]


def torch_tensor(buffer: Buffer) -> Any:
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


def cupy_array(buffer: Buffer) -> Any:
    """A CuPy array of a buffer's memory, to be used on CuPy's current stream of its device."""
    cupy = library("cupy", "wilkins[cupy]")
    number = buffer.device.number
    with cupy.cuda.Device(number):
        stream = cupy.cuda.get_current_stream()
        buffer.use_on(Stream(stream.ptr, stream))
        memory = cupy.cuda.UnownedMemory(buffer.address, max(buffer.nbytes, 1), buffer, number)
        return cupy.ndarray(buffer.shape, buffer.dtype, cupy.cuda.MemoryPointer(memory, 0))
