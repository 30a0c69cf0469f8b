"""Where the elements of an array are: one interface, and a module for each kind of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np


class Buffer(Protocol):
    """A dataset's elements in memory of one device: C-contiguous, and kept for as long as the buffer is referenced."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    address: int
    """Of the first element, in the device's address space."""
    read_only: bool

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind of device and its number, as DLPack counts them."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule, as the array API standard says.

        Raises:
            BufferError: the type has no DLPack name, or its consumer cannot know that it is read-only.
        """

    def torch(self) -> Any:
        """A torch tensor over the same memory."""


class Source(Protocol):
    """An array of a program, on whatever device, that is to be written into a step."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def copy_to(self, target: np.ndarray[Any, Any]) -> None:
        """Copy all elements into host memory of the same shape and type."""
