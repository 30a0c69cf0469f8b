"""What is to be published, wherever it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from wilkins.transport.devices import Source, dlpack, host
from wilkins.transport.errors import TypeNotSupported


def source(value: object) -> Source:
    """An array of a program, as something that can be copied into a step.

    Raises:
        TypeNotSupported: NumPy has no such type of elements, or they are not laid out as an array.
        NoCuda: it is in a GPU's memory, and this process has no CUDA driver.
    """
    return CudaSource(value) if on_gpu(value) else host.source(value)


def on_gpu(value: object) -> bool:
    """Whether an array is in a GPU's memory, as its protocols say."""
    if isinstance(value, np.ndarray):
        return False
    kind = getattr(value, "__dlpack_device__", None)
    if kind is not None:
        return int(kind()[0]) in (dlpack.CUDA, dlpack.CUDA_MANAGED)
    return hasattr(value, "__cuda_array_interface__")


class CudaSource:
    """An array in a GPU's memory that is to be published (see `wilkins.transport.devices.Source`)."""

    def __init__(self, value: Any) -> None:
        """Any with ``__dlpack__`` or ``__cuda_array_interface__``; what its stream does until now is waited for."""
        from wilkins.transport.devices import cuda

        try:
            self.borrowed = cuda.borrow(value)
        except BufferError as error:
            raise TypeNotSupported(
                f"an array of {getattr(value, 'dtype', 'an unknown type')} on a GPU cannot be published as it is "
                f"({error}); convert it first, as with .float() or .contiguous()"
            ) from None
        self.shape = self.borrowed.array.shape
        self.dtype = self.borrowed.array.dtype

    def copy_to(self, target: np.ndarray[Any, Any]) -> None:
        """Copy all elements straight into an arena's memory, registered with CUDA if it can be."""
        array = self.borrowed.array
        if array.dtype.itemsize and 0 not in array.shape:
            self.borrowed.gpu.copy_to_host(target, array.address, array.strides)
