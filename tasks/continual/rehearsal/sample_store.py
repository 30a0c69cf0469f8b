"""Where a rank's samples are kept: rows of bytes in host memory, or on a torch device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.continual.rehearsal.arrays import Rows, torch
from wilkins.tasks.continual.rehearsal.draws import Ints

HostRows = NDArray[np.uint8]


class Store(Protocol):
    """Room for a fixed number of rows."""

    device: str
    """`host`, or the torch device."""

    def put(self, slots: Ints, rows: Rows) -> None:
        """Write rows, of a host array or a torch tensor, to slots."""

    def host(self, slots: Ints) -> HostRows:
        """A copy of rows, in host memory."""

    def join(self, before: HostRows, slots: Ints, after: HostRows, order: Ints) -> Rows:
        """Rows from elsewhere and own ones, taken together in this order, where the store is."""


class HostStore:
    """Rows in host memory; pages are taken from the system as they are first used."""

    def __init__(self, capacity: int, row_bytes: int) -> None:
        self.device = "host"
        self._rows = np.empty((capacity, row_bytes), np.uint8)

    def put(self, slots: Ints, rows: Rows) -> None:
        self._rows[slots] = rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()

    def host(self, slots: Ints) -> HostRows:
        return self._rows[slots]

    def join(self, before: HostRows, slots: Ints, after: HostRows, order: Ints) -> Rows:
        return np.concatenate([before, self._rows[slots], after])[order]


class DeviceStore:
    """Rows in the memory of a torch device; own representatives never leave it."""

    def __init__(self, capacity: int, row_bytes: int, device: str) -> None:
        self._rows = torch().empty((capacity, row_bytes), dtype=torch().uint8, device=device)
        self.device = str(self._rows.device)

    def _index(self, slots: Ints) -> Any:
        return torch().from_numpy(slots).to(self.device)

    def put(self, slots: Ints, rows: Rows) -> None:
        rows = torch().from_numpy(rows) if isinstance(rows, np.ndarray) else rows
        self._rows.index_copy_(0, self._index(slots), rows.to(self.device))

    def host(self, slots: Ints) -> HostRows:
        rows: HostRows = self._rows.index_select(0, self._index(slots)).cpu().numpy()
        return rows

    def join(self, before: HostRows, slots: Ints, after: HostRows, order: Ints) -> Rows:
        own = self._rows.index_select(0, self._index(slots))
        return torch().cat([self._moved(before), own, self._moved(after)]).index_select(0, self._index(order))

    def _moved(self, rows: HostRows) -> Any:
        return torch().from_numpy(rows).to(self.device)


def make_store(device: str, capacity: int, row_bytes: int) -> Store:
    """A store in host memory (`host`), or on a torch device.

    Raises:
        ImportError: the device needs torch, which is not installed.
        RuntimeError: torch has no such device, or it has not enough memory.
    """
    return HostStore(capacity, row_bytes) if device == "host" else DeviceStore(capacity, row_bytes, device)


class Streams:
    """Orders the background thread's work on a CUDA device after, and before, that of the training loop."""

    def __init__(self) -> None:
        self._sides: dict[str, Any] = {}

    def mark(self, devices: set[str]) -> list[Any]:
        """What the caller's streams have been given so far: events, for `following`."""
        return [torch().cuda.current_stream(device).record_event() for device in sorted(devices)]

    @contextlib.contextmanager
    def following(self, devices: set[str], events: list[Any]) -> Iterator[None]:
        """Work on streams of our own, after these events; at the end all of it is done."""
        if not devices:
            yield
            return
        with contextlib.ExitStack() as stack:
            for device, event in zip(sorted(devices), events, strict=True):
                side = self._sides.setdefault(device, torch().cuda.Stream(device))
                side.wait_event(event)
                stack.enter_context(torch().cuda.stream(side))
            yield
            for device in devices:
                self._sides[device].synchronize()

    @staticmethod
    def hand_over(arrays: list[Any]) -> None:
        """Tell the allocator that the caller's stream uses these tensors, which were made on ours."""
        for array in arrays:
            if type(array).__module__.startswith("torch") and array.is_cuda:
                array.record_stream(torch().cuda.current_stream(array.device))
