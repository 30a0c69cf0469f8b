"""Arrays in host memory: NumPy's, torch's on the CPU, and whatever has one of the array protocols."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from wilkins.transport.errors import TypeNotSupported

DLPACK_CPU = 1
DLPACK_CUDA_HOST = 3
Array = np.ndarray[Any, Any]


class HostBuffer:
    """Elements in host memory (see `wilkins.transport.devices.Buffer`), made from the NumPy array over the same memory.

    Args:
        array: C-contiguous, or with the strides of a selection.
        writable: the same elements as an array whose flag says that it may be written, for those that know no other.
    """

    def __init__(self, array: Array, writable: Array) -> None:
        self.array = array
        self._writable = writable
        self.shape = array.shape
        self.dtype = array.dtype
        self.address = int(array.__array_interface__["data"][0])
        self.read_only = not array.flags.writeable

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return (DLPACK_CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        given: dict[str, Any] = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return self.array.__dlpack__(**{name: value for name, value in given.items() if value is not None})

    def torch(self) -> Any:
        """A torch tensor over the same memory; torch has none that cannot be written.

        Raises:
            TypeNotSupported: torch has no such type of elements.
        """
        import torch

        try:
            return torch.from_numpy(self._writable)
        except TypeError as error:
            raise TypeNotSupported(f"torch has no type for {self.dtype}: {error}") from None


class HostSource:
    """An array in host memory that is to be published (see `wilkins.transport.devices.Source`)."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def copy_to(self, target: Array) -> None:
        np.copyto(target, self.array, casting="no")


def source(value: object) -> HostSource:
    """What is to be published, as a NumPy array over its memory; numbers and lists as a new array.

    Raises:
        TypeNotSupported: NumPy has no such type of elements, or they are not laid out as an array.
    """
    if isinstance(value, np.ndarray):
        return HostSource(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return HostSource(_from_torch(value))
    kind = getattr(value, "__dlpack_device__", None)
    if kind is not None and kind()[0] in (DLPACK_CPU, DLPACK_CUDA_HOST):
        return HostSource(np.from_dlpack(value))  # type: ignore[arg-type]
    return HostSource(np.asarray(value))


def _from_torch(tensor: Any) -> Array:
    try:
        array: Array = tensor.detach().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeNotSupported(
            f"a torch tensor of {tensor.dtype}, {tensor.layout}, on {tensor.device} cannot be published as it is "
            f"({error}); convert it first, as with .float() or .to_dense()"
        ) from None
    return array
