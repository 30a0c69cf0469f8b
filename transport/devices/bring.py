"""Datasets of one step on GPUs: each brought once, and shared by all who ask for it there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from wilkins.transport.devices import paths
from wilkins.transport.devices.driver import NoCuda, driver

if TYPE_CHECKING:
    from wilkins.transport.devices.cuda import CudaBuffer


def choose(device: str) -> paths.Choice:
    """Where arrays are to be that were asked for on a device, in this process (see `paths.choose`)."""
    if device in ("host", "cpu"):
        return paths.choose(device, 0)
    try:
        return paths.choose(device, driver().devices)
    except NoCuda as why:
        return paths.choose(device, 0, str(why))


def pin(array: np.ndarray[Any, Any]) -> bool:
    """Register the arena that an array views with CUDA, once, so that GPUs copy from it at full rate; whether it is."""
    from wilkins.transport.devices.cuda import gpu
    from wilkins.transport.devices.pinned import arena_at

    return gpu(0).registrations.cover(arena_at(array.ctypes.data))


class Brought:
    """What a step has on GPUs."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._buffers: dict[tuple[object, int], CudaBuffer] = {}
        self._shared: dict[str, CudaBuffer] = {}

    def add(self, shared: dict[str, CudaBuffer]) -> None:
        """Whole datasets that came from their producer's GPU."""
        for path, buffer in shared.items():
            self._shared[path] = buffer
            self._buffers[(path, "()"), buffer.device.number] = buffer

    def shared(self, path: str) -> CudaBuffer | None:
        """A dataset that came from its producer's GPU, whole."""
        return self._shared.get(path.strip("/"))

    def bring(self, key: object, number: int, read: Callable[[], np.ndarray[Any, Any]]) -> CudaBuffer:
        """An array on GPU `number`; what `read` returns, unless one of this key is there already."""
        from wilkins.transport.devices.cuda import gpu

        buffer = self._buffers.get((key, number))
        if buffer is None:
            buffer = gpu(number).upload(read())
            self._buffers[key, number] = buffer
        return buffer

    def settle(self) -> None:
        """Return once the step's memory is no longer read; what was handed out stays."""
        for buffer in self._buffers.values():
            buffer.wait()
        self._buffers.clear()
        self._shared.clear()
