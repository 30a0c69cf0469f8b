"""Steps between two processes on one GPU: device memory that accompanies an arena, shared by CUDA IPC.

The producer copies each device array into memory that belongs to the step's arena, and puts the handles of that memory
and of an event into the step's file. A consumer copies it, device to device, into memory of its own as soon as it takes
the step: what it hands out is its own, and the step can be let go of like any other. Nothing passes through the host.

Until every reading rank has shown that it can open the producer's memory, and from the moment on that one cannot, the
values are in the file, too. When they are not, the file's dataset has their shape and type, and whoever reads it by
HDF5 gets an error. A producer that ends waits until its readers have copied what is on the GPU only.

Where there is no GPU, tests use a stand-in for the driver (see docs/guides/gpus.md).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from wilkins import atomic
from wilkins.transport.board import native_library
from wilkins.transport.devices import bring, dlpack, paths
from wilkins.transport.devices.cuda import CudaBuffer, Gpu, gpu
from wilkins.transport.devices.driver import (
    EVENT_DISABLE_TIMING,
    EVENT_INTERPROCESS,
    IPC_LAZY_PEER_ACCESS,
    CudaError,
    Handle,
    NoCuda,
)
from wilkins.transport.devices.sources import CudaSource
from wilkins.transport.errors import Unreadable

ATTRIBUTE = "wilkins_device"
"""Of a step's root group: what is on the producer's GPU, as JSON."""

_ALIGNMENT = 2 << 20
_FILTER = 511
_FILTER_NAME = b"wilkins: the values are on a GPU only"
_LARGEST_CHUNK = 1 << 31


# Which values go where: decisions.


def needs_host(path: str, readers: int, answers: dict[str, str]) -> str:
    """Why the values must be in the file too; empty if they need not.

    Args:
        path: the out-port's (see `ports.PortDevice`): ``ipc`` if all its channels are.
        readers: ranks that read the port; 0 if device memory cannot accompany its steps.
        answers: by reader: empty, or why it cannot open this process's memory.
    """
    if path != "ipc":
        return "a reader of the port is not on this path"
    if not readers:
        return "steps of the port are published by another rule than their close"
    if refused := sorted(why for why in answers.values() if why):
        return refused[0]
    if len(answers) < readers:
        return f"{readers - len(answers)} of {readers} readers have not opened the memory yet"
    return ""


def chunk_of(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """The largest chunks that HDF5 can have, of which a dataset with elements somewhere else has few."""
    chunk = list(shape)
    for axis in range(len(chunk)):
        while int(np.prod(chunk, dtype=np.int64)) * item > _LARGEST_CHUNK and chunk[axis] > 1:
            chunk[axis] = (chunk[axis] + 1) // 2
    return tuple(chunk)


# The producer's side.


@dataclass(slots=True)
class _Memory:
    address: int
    size: int
    handle: str


@dataclass(slots=True)
class _Accompanying:
    """What belongs to one arena."""

    event: int
    handle: str
    memories: list[_Memory] = field(default_factory=list)


@dataclass(slots=True)
class _OnlyThere:
    """A published step whose values are on the GPU only."""

    stamp: int
    number: int
    key: str


class Exporter:
    """A producer's steps of one out-port on one GPU."""

    def __init__(self, device: Gpu, outport: int) -> None:
        """On a GPU; of the out-port of this number. Each has answers of its own: its readers are others."""
        self.gpu = device
        self._process = os.getpid()
        self._arenas: dict[int, _Accompanying] = {}
        self._only_there: dict[int, _OnlyThere] = {}
        self._number = 0
        # The process is part of it: one that is started again does not find the answers to the one before.
        process = _layer().wilkins_device_process()
        self.key = f"ipc-{outport}-{_layer().wilkins_device_rank()}-{process}-{device.uuid}"
        self.refused = ""
        """why memory of this process cannot be shared"""
        atexit.register(self.wait_for_readers)

    def begin(self, name: str, slot: int, stamp: int) -> StepOnGpu:
        """A step of an out-port that takes device memory along."""
        readers = _layer().wilkins_device_readers(os.fsencode(name))
        why = self.refused or needs_host(paths.port_of(name).path, readers, _answers(self.key))
        self._number += 1
        return StepOnGpu(
            self, slot, stamp, self._number, with_host=bool(why), shares=bool(readers) and not self.refused
        )

    def share(self, slot: int, place: int, source: CudaSource) -> dict[str, Any]:
        """Begin to copy an array into the arena's `place`-th memory; what tells a reader of it.

        Raises:
            CudaError: memory cannot be had, or cannot be shared.
        """
        array, device = source.borrowed.array, self.gpu
        with device.current():
            arena = self._arenas.get(slot)
            if arena is None:
                event = device.driver.address("cuEventCreate", EVENT_DISABLE_TIMING | EVENT_INTERPROCESS)
                arena = _Accompanying(event, device.driver.handle("cuIpcGetEventHandle", event).hex())
                self._arenas[slot] = arena
            # Readers may have it open for as long as they live, so it is never freed; a larger one takes its place.
            if place == len(arena.memories) or arena.memories[place].size < array.nbytes:
                memory = self._allocate(array.nbytes)
                arena.memories[place : place + 1] = [memory]
            memory = arena.memories[place]
            device.copy_within(memory.address, array)
            device.driver("cuEventRecord", arena.event, device.stream)
        return {"memory": memory.handle, "shape": array.shape, "dtype": array.dtype.str, "event": arena.handle}

    def published(self, slot: int, only_there: _OnlyThere | None) -> None:
        """A step of the arena is published."""
        if only_there:
            self._only_there[slot] = only_there
        else:
            self._only_there.pop(slot, None)

    def wait_for_readers(self) -> None:
        """Return when no reader needs this process's memory any more: with the process it goes."""
        if self._process != os.getpid():
            return  # a fork, which has none
        with contextlib.suppress(CudaError):
            self.gpu.settle()
        for slot, step in self._only_there.items():
            while not is_copied(_holders(slot, step.stamp), step.number, _copied(step.key)):
                time.sleep(0.02)

    def _allocate(self, size: int) -> _Memory:
        room = (size + size // 4 + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        address = self.gpu.allocate(room)
        return _Memory(address, room, self.gpu.driver.handle("cuIpcGetMemHandle", address).hex())


def is_copied(holders: list[str] | None, number: int, copied: dict[str, int]) -> bool:
    """Whether a step's readers have copied it: nobody has yet to take it, and all who hold it have said so.

    Args:
        holders: the readers that hold it; None: one has yet to take it.
        number: the step's.
        copied: by reader, the number of the last step that it has copied.
    """
    return holders is not None and all(copied.get(reader, 0) >= number for reader in holders)


def _holders(slot: int, stamp: int) -> list[str] | None:
    """The readers that hold a step, as they sign their answers; None: one has yet to take it."""
    room = 16
    while True:
        found = (ctypes.c_int32 * (2 * room))()
        count = _layer().wilkins_device_held(slot, stamp, found, room)
        if count < 0:
            return None
        if count <= room:
            return [f"{found[2 * k]}.{found[2 * k + 1]}" for k in range(count)]
        room = count


class StepOnGpu:
    """One step that takes device memory along, while it is written."""

    def __init__(
        self, exporter: Exporter, slot: int, stamp: int, number: int, *, with_host: bool, shares: bool
    ) -> None:
        """Made by `Exporter.begin`."""
        self._exporter = exporter
        self.gpu = exporter.gpu
        self._slot = slot
        self._stamp = stamp
        self._number = number
        self._shares = shares
        self._datasets: dict[str, dict[str, Any]] = {}
        self._only_there = False
        self.with_host = with_host

    def add(self, file: h5py.File, path: str, source: CudaSource) -> bool:
        """Share an array; whether its values must be written into the file by the caller, too."""
        if not self._shares or not source.shape or 0 in source.shape:
            return True
        try:
            found = self._exporter.share(self._slot, len(self._datasets), source)
        except CudaError as error:
            if not self.with_host and self._datasets:
                raise  # a part of the step is there only
            self._exporter.refused = str(error)
            self._shares = False
            return True
        self._datasets[path.strip("/")] = found
        if not self.with_host:
            make_unreadable(file, path, source.shape, source.dtype)
            self._only_there = True
        return self.with_host

    def end(self, file: h5py.File) -> None:
        """All arrays are there: tell readers of them, and wait for the copies, since owners may change their arrays."""
        if self._datasets:
            shared = {"key": self._exporter.key, "number": self._number, "datasets": self._datasets}
            file.attrs[ATTRIBUTE] = json.dumps(shared)
        self.gpu.settle()
        only = _OnlyThere(self._stamp, self._number, self._exporter.key) if self._only_there else None
        self._exporter.published(self._slot, only)


def make_unreadable(file: h5py.File, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """A dataset of this shape and type without values: reading it fails, in every version of HDF5.

    Its chunks name a filter that HDF5 must have to read them, and that nobody has.
    """
    _register_filter()
    chunk = chunk_of(shape, dtype.itemsize)
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(chunk)
    properties.set_filter(_FILTER, h5py.h5z.FLAG_MANDATORY, ())
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    space = h5py.h5s.create_simple(shape)
    kind = h5py.h5t.py_create(dtype, logical=True)
    dataset = h5py.h5d.create(file.id, path.encode(), kind, space, properties, links)
    for index in np.ndindex(*(-(-extent // step) for extent, step in zip(shape, chunk, strict=True))):
        dataset.write_direct_chunk(tuple(k * step for k, step in zip(index, chunk, strict=True)), b"\0")
    h5py.Dataset(dataset).attrs[ATTRIBUTE] = (
        "the values are in the memory of a GPU only, because the workflow's readers of this port share it; "
        "write 'device: host' for the port to have them here"
    )


class _FilterClass(ctypes.Structure):
    """H5Z_class2_t."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("id", ctypes.c_int),
        ("encodes", ctypes.c_uint),
        ("decodes", ctypes.c_uint),
        ("name", ctypes.c_char_p),
        ("can_apply", ctypes.c_void_p),
        ("set_local", ctypes.c_void_p),
        ("filter", ctypes.c_void_p),
    )


_FilterFunction = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p
)


@cache
def _register_filter() -> tuple[object, object]:
    """Let this process's HDF5 know the filter, which it asks for where a dataset with it is made; it always fails."""
    never = _FilterFunction(lambda *_: 0)
    known = _FilterClass(1, _FILTER, 1, 1, _FILTER_NAME, None, None, ctypes.cast(never, ctypes.c_void_p))
    h5py.h5z.register_filter(ctypes.addressof(known))
    return never, known


def exporter(number: int, name: str) -> Exporter:
    """This process's steps on GPU `number`, of the out-port that a file belongs to."""
    return _exporter(number, _layer().wilkins_device_outport(os.fsencode(name)))


@cache
def _exporter(number: int, outport: int) -> Exporter:
    return Exporter(gpu(number), outport)


# The consumer's side.


class Importer:
    """What one reading process opens of producers' memory, each handle once."""

    def __init__(self, device: Gpu) -> None:
        """For copies to a GPU."""
        self._gpu = device
        self._memories: dict[str, int] = {}
        self._events: dict[str, int] = {}

    def copy(self, shared: dict[str, Any]) -> dict[str, CudaBuffer]:
        """Datasets of a step, copied on the device; they are this process's own when this returns.

        Raises:
            CudaError: the memory cannot be opened.
        """
        calls, found = self._gpu.driver, {}
        for path, entry in shared["datasets"].items():
            with self._gpu.current():
                memory, event = entry["memory"], entry["event"]
                if event not in self._events:
                    self._events[event] = calls.address("cuIpcOpenEventHandle", _handle(event))
                if memory not in self._memories:
                    self._memories[memory] = calls.address(
                        "cuIpcOpenMemHandle_v2", _handle(memory), IPC_LAZY_PEER_ACCESS
                    )
            self._gpu.after(self._events[event])
            shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
            device = dlpack.Device(dlpack.CUDA, self._gpu.number)
            array = dlpack.Array(
                self._memories[memory], shape, dlpack.contiguous_strides(shape), dtype, device, read_only=True
            )
            found[path] = self._gpu.copy_of(array)
        for buffer in found.values():
            buffer.wait()
        return found


@cache
def _importer(number: int) -> Importer:
    return Importer(gpu(number))


def take(file: h5py.File, name: str) -> dict[str, CudaBuffer]:
    """The datasets of a step that its producer has on this process's GPU; empty if it has none there.

    Raises:
        Unreadable: they are nowhere else, and cannot be opened here.
    """
    port = paths.port_of(name)
    text = file.attrs.get(ATTRIBUTE) if port.ipc else None
    if text is None:
        return {}
    shared = json.loads(text)
    answers = _Answer.of(shared["key"])
    if not answers.refusal:
        try:
            number = bring.choose(port.device).cuda or 0
            if not shared["key"].endswith(gpu(number).uuid):
                raise LookupError(f"GPU {number} of this process is not its producer's")
            found = _importer(number).copy(shared)
        except (CudaError, NoCuda, LookupError) as error:
            answers.refuse(str(error))
        else:
            answers.copied(shared["number"])
            return found
    only_there = [path for path in shared["datasets"] if ATTRIBUTE in file[path].attrs]
    if only_there:
        raise Unreadable(
            f"{', '.join(map(repr, only_there))} of {name!r} are in the memory of their producer's GPU only, which "
            f"this process could share before and cannot now ({answers.refusal}); write 'device: host' for the port"
        )
    return {}


@dataclass(slots=True)
class _Answer:
    """What this reader tells a producer: in a file of the run's folder, a line that says how far it is, or why not."""

    path: Path
    refusal: str = ""

    @staticmethod
    @cache
    def of(key: str) -> _Answer:
        reader = f"{os.environ.get('WILKINS_TASK', '0')}.{_layer().wilkins_device_rank()}"
        return _Answer(Path(os.environ["WILKINS_RUN"]) / f"{key}.{reader}")

    def refuse(self, why: str) -> None:
        self.refusal = why
        self._write(f"no {why}")

    def copied(self, number: int) -> None:
        self._write(f"ok {number}")

    def _write(self, text: str) -> None:
        atomic.put(self.path, text)


def _read_answers(key: str) -> dict[str, str]:
    """What readers (``task.rank``) have written."""
    found = {}
    for path in Path(os.environ["WILKINS_RUN"]).glob(f"{key}.*"):
        with contextlib.suppress(OSError):
            found[path.name.removeprefix(f"{key}.")] = path.read_text()
    return found


def _answers(key: str) -> dict[str, str]:
    return {reader: text[3:] if text.startswith("no ") else "" for reader, text in _read_answers(key).items()}


def _copied(key: str) -> dict[str, int]:
    return {reader: int(text[3:]) for reader, text in _read_answers(key).items() if text.startswith("ok ")}


def _handle(text: str) -> Handle:
    return Handle.from_buffer_copy(bytes.fromhex(text))


@cache
def _layer() -> ctypes.CDLL:
    layer = ctypes.CDLL(str(native_library()))
    layer.wilkins_device_readers.argtypes = [ctypes.c_char_p]
    layer.wilkins_device_process.restype = ctypes.c_uint
    layer.wilkins_device_outport.argtypes = [ctypes.c_char_p]
    layer.wilkins_device_held.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(ctypes.c_int32), ctypes.c_int]
    return layer
