"""Opens the bytes of an HDF5 file that are in memory with HDF5, which copies those that it looks at."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import h5py

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Range = tuple[int, int]
"""A first byte, and the one after the last."""

_NAME = b"/wilkins/step"
"""By which HDF5 knows the file: no port has such a name."""


class _Bytes(io.RawIOBase):
    """The bytes of a file of which there are some, as HDF5 asks for them."""

    def __init__(self, data: memoryview, here: Sequence[Range]) -> None:
        super().__init__()
        self._data, self._here, self._at = data, here, 0

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """What is next of them.

        Raises:
            OSError: some of that is not there.
        """
        into = memoryview(buffer).cast("B")
        some = self._data[self._at : self._at + len(into)]
        end = self._at + len(some)
        if some and not any(first <= self._at and end <= last for first, last in self._here):
            raise OSError("these bytes are on another host")
        into[: len(some)] = some
        self._at = end
        return len(some)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Goes to a place."""
        self._at = offset + (0, self._at, len(self._data))[whence]
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def opened(data: memoryview, here: Sequence[Range] | None = None) -> h5py.h5f.FileID:
    """The file, to be read.

    Args:
        data: its bytes.
        here: what there is of them; None: all.

    Raises:
        OSError: this is no HDF5 file.
    """
    # Nothing else may refer to `access`: HDF5 would free it after the interpreter has ended, and crash.
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, _Bytes(data, [(0, len(data))] if here is None else here))
    return h5py.h5f.open(_NAME, h5py.h5f.ACC_RDONLY, access)
