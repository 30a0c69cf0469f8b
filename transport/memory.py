"""Steps in the memory of a run, taken, held and written through the native layer (native/python/channels.cpp)."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from functools import cache
from typing import Any

import h5py
import numpy as np

from wilkins.transport.board import native_library
from wilkins.transport.devices import Source
from wilkins.transport.errors import ChannelError, NotPublished, TooManySteps


class StepInMemory:
    """A published step that this process holds: its bytes stay as they are until `close`."""

    def __init__(self, port: int, handle: int) -> None:
        layer = _layer()
        self._port = port
        self._handle: int | None = handle
        self._release = layer.wilkins_channels_release
        self.name = os.fsdecode(layer.wilkins_channels_name(handle))
        self.sequence = int(layer.wilkins_channels_sequence(handle))
        size = ctypes.c_uint64()
        self.address: int = layer.wilkins_channels_bytes(handle, ctypes.byref(size))
        self.size = size.value

    def open(self) -> h5py.File:
        """The step as an HDF5 file, whatever its name means by now."""
        lead = _layer().wilkins_channels_lead
        lead(self._handle)
        try:
            # As h5py.File(name) does it, in half the time: the same properties, which need no list of their own.
            return h5py.File(h5py.h5f.open(os.fsencode(self.name), h5py.h5f.ACC_RDONLY))
        finally:
            lead(None)

    def close(self) -> None:
        """Let go of the step."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._release(self._port, handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


def take(port: int, *, wait: bool) -> StepInMemory | None:
    """The in-port's next step; None if there is none now (without `wait`).

    Raises:
        EOFError: no step will come any more.
        TooManySteps: this rank holds too many.
        InterruptedError: the run is being stopped.
    """
    handle = ctypes.c_void_p()
    code = _layer().wilkins_channels_take(port, int(wait), ctypes.byref(handle))
    if code == 0 and handle.value is not None:
        return StepInMemory(port, handle.value)
    if code == errno.EAGAIN:
        return None
    if code == errno.ENOENT:
        raise EOFError
    if code == errno.EMFILE:
        raise TooManySteps(
            code, "this rank holds as many steps as it can; release steps, and let go of arrays that are no longer used"
        )
    if code == errno.EINTR:
        raise InterruptedError(code, "the run is being stopped")
    raise ChannelError(f"the next step cannot be opened: {os.strerror(code)}")


def queue_ahead(port: int, steps: int) -> None:
    """Let producers be so many steps further ahead of this in-port than its policy says."""
    _layer().wilkins_channels_ahead(port, steps)


def produces(name: str) -> bool:
    """Whether files of this name go to another task of the run in memory."""
    return "WILKINS_RUN" in os.environ and bool(_layer().wilkins_channels_produces(os.fsencode(name)))


def bytes_moved() -> int:
    """Bytes that this rank's copies between programs and arenas have moved so far (copies of 64 KiB and more)."""
    return int(_layer().wilkins_channels_moved(0, 0)) if "WILKINS_RUN" in os.environ else 0


class StepBeingWritten:
    """Memory of a step that this process has open for writing as an HDF5 file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._handle: int | None = _layer().wilkins_channels_written(os.fsencode(name))
        if self._handle is None:
            raise NotPublished(errno.ENOENT, "the step is not being written by this process", name)

    def memory(self, offset: int, size: int) -> int:
        """The address of `size` bytes of the file, which the caller writes all of."""
        error = ctypes.c_int()
        address = _layer().wilkins_channels_prepare(self._handle, offset, size, ctypes.byref(error))
        if error.value:
            raise NotPublished(error.value, f"no room for {size} bytes: {os.strerror(error.value)}", self.name)
        return int(address)

    def place(self) -> tuple[int, int]:
        """The number of the step's arena, and what identifies the step."""
        stamp = ctypes.c_uint64()
        slot = int(_layer().wilkins_device_slot(self._handle, ctypes.byref(stamp)))
        return slot, stamp.value

    def copy(self, target: np.ndarray[Any, Any], source: Source) -> None:
        """The one copy from a program's array to the arena, counted for the run's summary."""
        began = time.monotonic_ns()
        source.copy_to(target)
        _layer().wilkins_channels_moved(time.monotonic_ns() - began, target.nbytes)

    def give_up(self) -> None:
        """The step will not be published when its file is closed."""
        _layer().wilkins_channels_give_up(self._handle)

    def close(self) -> None:
        """Let go of the memory."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _layer().wilkins_channels_close(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


@cache
def _layer() -> ctypes.PyDLL:
    """The layer in this process. It is called with Python's lock, and releases it while it waits, to see to signals."""
    layer = ctypes.PyDLL(str(native_library()))
    number, pointer, size, text = ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "take": (number, [number, number, ctypes.POINTER(pointer)]),
        "name": (text, [pointer]),
        "sequence": (size, [pointer]),
        "bytes": (pointer, [pointer, ctypes.POINTER(size)]),
        "release": (None, [number, pointer]),
        "lead": (None, [pointer]),
        "ahead": (None, [number, ctypes.c_uint]),
        "produces": (number, [text]),
        "written": (pointer, [text]),
        "prepare": (pointer, [pointer, size, size, ctypes.POINTER(number)]),
        "close": (None, [pointer]),
        "give_up": (None, [pointer]),
        "moved": (size, [size, size]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(layer, f"wilkins_channels_{name}")
        function.restype = result
        function.argtypes = arguments
    layer.wilkins_device_slot.argtypes = [pointer, ctypes.POINTER(size)]
    return layer
