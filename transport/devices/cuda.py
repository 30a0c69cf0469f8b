"""Arrays of steps on a GPU: one asynchronous copy from an arena, and back, ordered by streams and events.

A `Gpu` shares the device's primary context, and so its memory, with torch and CuPy. It copies on a stream of its own.
Who takes an array names the stream it will be used on: that stream waits for the copy, and when the memory is used
again, the copy into it waits for what was put on that stream by then.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import sys
import threading
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from wilkins.transport.devices import dlpack, frameworks
from wilkins.transport.devices.driver import (
    EVENT_BLOCKING_SYNC,
    EVENT_DISABLE_TIMING,
    STREAM_NON_BLOCKING,
    CudaError,
    Driver,
    driver,
)
from wilkins.transport.devices.frameworks import Stream
from wilkins.transport.devices.paths import copy_runs
from wilkins.transport.devices.pinned import Registrations, arena_at, undo_at_exit
from wilkins.transport.errors import TypeNotSupported, WrongMemory

_LEGACY = 1
"""The default stream of a context, by the number that DLPack, ``__cuda_array_interface__`` and the driver know it."""
_KEPT = 8
"""Free allocations that are kept to be used again."""
_MOST_RUNS = 1 << 16
"""Pieces in which an array that is not contiguous is copied at most."""


class Memory:
    """An allocation, and what must be done before it is written again."""

    def __init__(self, gpu: Gpu, address: int, size: int) -> None:
        """An allocation of `gpu`."""
        self.gpu = gpu
        self.address = address
        self.size = size
        self.users: dict[int, Stream] = {}
        self.after: list[int] = []
        """events"""
        self.after_all = False
        """everything in the context: it was used on a stream that may be gone"""


class Use(Protocol):
    """The use of device memory by one array and all that is made of it; at its end the memory is free."""

    def on(self, stream: Stream) -> None:
        """The memory is used on one more stream."""

    def anywhere(self) -> None:
        """It is used on one more stream, of which nothing is known."""


class Ready:
    """The event after which an array's values are there, and the host memory that is read until then."""

    def __init__(self, gpu: Gpu, event: int, source: object = None) -> None:
        """An event of `gpu`, which it gets back when nobody needs this any more."""
        self.event = event
        self._gpu = gpu
        self._source = source

    def wait(self) -> None:
        """Return once the event has come, and let go of the source."""
        with self._gpu.current():
            self._gpu.driver("cuEventSynchronize", self.event)
        self._source = None

    def __del__(self) -> None:
        if not sys.is_finalizing():  # see `_Lease`
            self._gpu.free_event(self.event)


class _Lease:
    """The use of an allocation that goes back to its device."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def on(self, stream: Stream) -> None:
        """One more stream."""
        if stream.lasts:
            self._memory.users[stream.handle] = stream
        else:
            self.anywhere()

    def anywhere(self) -> None:
        """One more, of which nothing is known."""
        self._memory.after_all = True

    def __del__(self) -> None:
        # While Python ends, a thread may have been ended with the device's lock; all goes with the process.
        if not sys.is_finalizing():
            self._memory.gpu.give_back(self._memory)


class CudaBuffer:
    """A contiguous array on a GPU, ready when its stream's event is; it speaks DLPack and ``__cuda_array_interface__``.

    Its memory stays as it is for as long as this, or anything made of it, lives.
    """

    def __init__(
        self, gpu: Gpu, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], ready: Ready, use: Use
    ) -> None:
        """An array at a device address; made by `Gpu.upload` and by the reading side of an ``ipc`` path."""
        self._gpu = gpu
        self._ready = ready
        self._use = use
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.read_only = False

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def device(self) -> dlpack.Device:
        """The GPU, by its number in this process."""
        return dlpack.Device(dlpack.CUDA, self._gpu.number)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Numba's protocol, version 3. The values are there: some who take it (torch) do not wait for a stream."""
        self._use.anywhere()
        self.wait()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            "stream": None,
        }

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """A copy in host memory."""
        array = np.empty(self.shape, self.dtype)
        self._gpu.after(self._ready.event)
        self._gpu.copy_to_host(array, self.address, dlpack.contiguous_strides(self.shape))
        return array

    def wait(self) -> None:
        """Return once the values are there and the memory they came from is no longer read."""
        self._ready.wait()

    def use_on(self, stream: Stream) -> None:
        """Let a stream wait for the values, and the next writer of the memory for what that stream does until then."""
        self._use.on(stream)
        with self._gpu.current():
            self._gpu.driver("cuStreamWaitEvent", stream.handle, self._ready.event, 0)

    def torch(self) -> Any:
        """A torch tensor of the same memory, ready on torch's current stream of the device.

        Raises:
            TypeNotSupported: torch has no such type of elements.
        """
        return frameworks.torch_tensor(self)

    def cupy(self) -> Any:
        """A CuPy array of the same memory, ready on CuPy's current stream of the device."""
        return frameworks.cupy_array(self)

    def capsule(self, *, versioned: bool = False) -> object:
        """A DLPack capsule for one who has called `use_on`."""
        keeps: list[object] = [self._use, self._ready]
        described = dlpack.Array(
            self.address, self.shape, dlpack.contiguous_strides(self.shape), self.dtype, self.device, read_only=False
        )
        return dlpack.capsule(described, keeps.clear, versioned=versioned)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule of the same memory, ready on `stream`.

        That is a handle; 1 or None: the default stream; 2: the thread's; -1: any stream, after a wait here.

        Raises:
            BufferError: another device or a copy was asked for.
            ValueError: stream 0, which means several things.
        """
        if dl_device is not None and tuple(dl_device) != tuple(self.device):
            raise BufferError(f"this array is on {tuple(self.device)}, not on {tuple(dl_device)}")
        if copy:
            raise BufferError("a copy is yours to make: take the array without one")
        if stream == 0:
            raise ValueError("stream 0 means several things: give 1 (the default stream) or 2 (the thread's)")
        if stream == -1:
            self._use.anywhere()
            self.wait()
        else:
            self.use_on(Stream(_LEGACY if stream is None else stream))
        return self.capsule(versioned=max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The GPU, as DLPack's pair."""
        return self.device.kind, self.device.number


_mutex = threading.Lock()
_gpus: list[Gpu] = []
_shared: list[Registrations] = []
"""The process's registered memory, once there is a GPU."""


def _settle_all() -> None:
    for each in _gpus:
        each.settle()


class Gpu:
    """A CUDA device as this process uses it. Get one by `gpu(number)`."""

    def __init__(self, calls: Driver, number: int) -> None:
        """Retain the primary context of device `number`, for as long as the process lives."""
        self.driver = calls
        self.number = number
        device = calls.number("cuDeviceGet", number)
        self.name = calls.name_of(device)
        self.uuid = calls.uuid_of(device)
        self.context = calls.address("cuDevicePrimaryCtxRetain", device)
        with self.current():
            self.stream = calls.address("cuStreamCreate", STREAM_NON_BLOCKING)
        with _mutex:
            _gpus.append(self)
            if not _shared:  # what is registered is so for all devices
                _shared.append(Registrations(calls, self.context, device, _settle_all))
                atexit.register(undo_at_exit(_shared[0]))
        self.registrations = _shared[0]
        self._mutex = threading.RLock()
        self._free: list[Memory] = []
        self._events: list[int] = []
        self._under_way: queue.SimpleQueue[Ready | None] = queue.SimpleQueue()
        self.host_bytes = 0
        """copied between host and device so far"""
        thread = threading.Thread(target=self._let_go_of_sources, name=f"wilkins-cuda-{number}", daemon=True)
        thread.start()

        def end() -> None:
            # Python ends daemon threads wherever they are, also with a lock that is then waited for for ever.
            self._under_way.put(None)
            thread.join()

        atexit.register(end)

    def current(self) -> contextlib.AbstractContextManager[None]:
        """The device's context is the thread's while the block lasts."""
        return self.driver.current(self.context)

    def settle(self) -> None:
        """Return once all copies of this process are done."""
        with self.current():
            self.driver("cuStreamSynchronize", self.stream)

    def upload(self, source: np.ndarray[Any, np.dtype[Any]]) -> CudaBuffer:
        """Begin to copy an array to the device; an arena's memory is registered first, once.

        `source` is kept until it was read, and must stay as it is until then (`CudaBuffer.wait`). An array that is not
        contiguous is made so first.

        Raises:
            CudaError: there is no memory on the device, or the copy cannot be made.
            TypeNotSupported: the elements are no numbers but Python's objects (text of variable length, references).
        """
        if source.dtype.hasobject:
            raise TypeNotSupported(f"elements of {source.dtype} are Python's objects, which a GPU has no use for")
        array = np.ascontiguousarray(source, source.dtype.newbyteorder("=")).reshape(source.shape)
        if array.nbytes:  # before the lock, which is taken wherever an array goes: also while memory is registered
            self.registrations.cover(arena_at(array.ctypes.data))
        with self._mutex, self.current():
            memory = self._take(max(array.nbytes, 1))
            lease = _Lease(memory)
            if array.nbytes:
                self.driver("cuMemcpyHtoDAsync_v2", memory.address, array.ctypes.data, array.nbytes, self.stream)
                self.host_bytes += array.nbytes
            ready = Ready(self, self.record(self.stream), (source, array))
        self._under_way.put(ready)
        return CudaBuffer(self, memory.address, array.shape, array.dtype, ready, lease)

    def copy_to_host(self, target: np.ndarray[Any, np.dtype[Any]], address: int, strides: tuple[int, ...]) -> None:
        """Copy a device array to a contiguous host array, after what is on this device's stream; return when done.

        Raises:
            BufferError: the device array is scattered over more than 65,536 pieces.
            CudaError: the copy cannot be made.
        """
        item = target.dtype.itemsize
        length, offsets = copy_runs(target.shape, strides)
        if len(offsets) > _MOST_RUNS:
            raise BufferError(f"a device array in {len(offsets)} pieces: make it contiguous first")
        with self.current():
            if target.nbytes:
                self.registrations.cover(arena_at(target.ctypes.data))
            to = target.ctypes.data
            for offset in offsets:
                self.driver("cuMemcpyDtoHAsync_v2", to, address + offset * item, length * item, self.stream)
                to += length * item
            self.host_bytes += target.nbytes
            self.driver("cuStreamSynchronize", self.stream)

    def copy_of(self, array: dlpack.Array) -> CudaBuffer:
        """Begin to copy an array of this device, after what is on this device's stream, into memory of this process.

        Raises:
            CudaError: there is no memory on the device, or the copy cannot be made.
        """
        with self._mutex, self.current():
            memory = self._take(max(array.nbytes, 1))
            lease = _Lease(memory)
            self.copy_within(memory.address, array)
            ready = Ready(self, self.record(self.stream), array.alive)
        self._under_way.put(ready)
        return CudaBuffer(self, memory.address, array.shape, array.dtype, ready, lease)

    def copy_within(self, to: int, array: dlpack.Array) -> None:
        """Begin to copy a device array to a contiguous place on the same device."""
        item = array.dtype.itemsize
        length, offsets = copy_runs(array.shape, array.strides)
        if len(offsets) > _MOST_RUNS:
            raise BufferError(f"a device array in {len(offsets)} pieces: make it contiguous first")
        with self.current():
            for offset in offsets:
                self.driver("cuMemcpyDtoDAsync_v2", to, array.address + offset * item, length * item, self.stream)
                to += length * item

    def after(self, event: int) -> None:
        """Let what comes next on this device's stream wait for an event."""
        with self.current():
            self.driver("cuStreamWaitEvent", self.stream, event, 0)

    def after_stream(self, handle: int) -> None:
        """Let what comes next on this device's stream wait for what is on another one now."""
        with self.current():
            event = self.record(handle)
            self.driver("cuStreamWaitEvent", self.stream, event, 0)
            self.free_event(event)

    def before_stream(self, handle: int) -> None:
        """Let what comes next on another stream wait for what is on this device's now."""
        with self.current():
            event = self.record(self.stream)
            self.driver("cuStreamWaitEvent", handle, event, 0)
            self.free_event(event)

    def record(self, stream: int) -> int:
        """An event that stands for all that is on a stream now. The context must be current."""
        with self._mutex:
            event = self._events.pop() if self._events else 0
        event = event or self.driver.address("cuEventCreate", EVENT_DISABLE_TIMING | EVENT_BLOCKING_SYNC)
        self.driver("cuEventRecord", event, stream)
        return event

    def free_event(self, event: int) -> None:
        """An event may be recorded anew: who waits for it has what it was."""
        with self._mutex:
            self._events.append(event)

    def allocate(self, size: int) -> int:
        """Memory of its own, to be freed by nobody but the process's end."""
        with self.current():
            return self.driver.address("cuMemAlloc_v2", size)

    def give_back(self, memory: Memory) -> None:
        """Nobody has the memory any more; what its users put on their streams may still use it."""
        with contextlib.suppress(CudaError), self._mutex, self.current():
            for user in memory.users.values():
                memory.after.append(self.record(user.handle))
            memory.users.clear()
            self._free.append(memory)
            while len(self._free) > _KEPT:
                oldest = self._free.pop(0)
                self._make_free(oldest)
                self.driver("cuMemFree_v2", oldest.address)

    def _take(self, size: int) -> Memory:
        """An allocation that the stream may write next."""
        fitting = [memory for memory in self._free if size <= memory.size <= 2 * size]
        if fitting:
            memory = min(fitting, key=lambda kept: kept.size)
            self._free.remove(memory)
            self._make_free(memory)
            return memory
        try:
            return Memory(self, self.driver.address("cuMemAlloc_v2", size), size)
        except CudaError:
            free, self._free = self._free, []
            for memory in free:
                self._make_free(memory)
                self.driver("cuMemFree_v2", memory.address)
            return Memory(self, self.driver.address("cuMemAlloc_v2", size), size)

    def _let_go_of_sources(self) -> None:
        """Steps are held until they were copied, and no longer, whatever the program does meanwhile."""
        while (ready := self._under_way.get()) is not None:
            with contextlib.suppress(CudaError):
                ready.wait()
            del ready

    def _make_free(self, memory: Memory) -> None:
        if memory.after_all:
            self.driver("cuCtxSynchronize")
        for event in memory.after:
            self.driver("cuStreamWaitEvent", self.stream, event, 0)
            self.free_event(event)
        memory.after.clear()
        memory.after_all = False


@cache
def _gpu(number: int) -> Gpu:
    return Gpu(driver(), number)


def gpu(number: int) -> Gpu:
    """The CUDA device of this number, as this process sees it.

    Raises:
        NoCuda: this process can use no CUDA device.
        CudaError: it cannot use this one.
    """
    return _gpu(number)


class Borrowed(NamedTuple):
    """Somebody else's device array, to be read on our stream, which waits for what made it."""

    gpu: Gpu
    array: dlpack.Array


def borrow(value: Any) -> Borrowed:
    """A device array of torch, CuPy or another library.

    Whoever reads it waits for that on the host before its owner may change it: its owner's stream knows nothing of it.

    Raises:
        BufferError: the array is not on a CUDA device, or of a type without a name.
        NoCuda: this process can use no CUDA device.
    """
    if hasattr(value, "__dlpack__"):
        kind, number = value.__dlpack_device__()
        if int(kind) not in (dlpack.CUDA, dlpack.CUDA_MANAGED):
            raise WrongMemory(f"an array on DLPack device {(int(kind), number)}, not on a CUDA device")
        device = gpu(int(number))
        with frameworks.device_of(value):
            return Borrowed(device, dlpack.read(frameworks.exportable(value).__dlpack__(stream=device.stream)))
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        raise WrongMemory("an array that is not on a CUDA device")
    address = int(interface["data"][0])
    found = driver().device_of(address) if address else 0
    if found is None:
        raise WrongMemory("the array's memory is not a CUDA device's")
    device = gpu(found)
    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    # Without a stream, the protocol's older versions leave it to the producer to be done.
    if (stream := interface.get("stream")) is not None:
        device.after_stream(stream)
    return Borrowed(
        device,
        dlpack.Array(
            address,
            shape,
            tuple(stride // dtype.itemsize for stride in strides) if strides else dlpack.contiguous_strides(shape),
            dtype,
            dlpack.Device(dlpack.CUDA, found),
            read_only=bool(interface["data"][1]),
            alive=value,
        ),
    )
