"""Writing steps from arrays: in a run straight into the memory that consumers read, otherwise as files."""

from __future__ import annotations

import atexit
import contextlib
import errno
import math
import os
import secrets
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import h5py
import numpy as np

from wilkins.atomic import part_of
from wilkins.transport import memory
from wilkins.transport.devices import Source, paths, sources
from wilkins.transport.errors import NotPublished, StillReferenced, TypeNotSupported
from wilkins.transport.views import Array, Memory

if TYPE_CHECKING:
    from wilkins.transport.devices import ipc

MOST_KEPT = 8
_ALIGNED_FROM, _ALIGNMENT = 4096, 256
"""Bytes from which datasets begin at a multiple of so many, as array libraries like it."""


def publish(
    name: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    dset_attrs: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write and publish one step: an HDF5 file with these datasets, which any program can read.

    In a run, where `name` matches an out-port, elements are copied once, into the step's memory. Otherwise this writes
    the file, which takes its name when it is whole.

    Args:
        name: of the file.
        arrays: by path; NumPy arrays, torch tensors, anything with ``__dlpack__``, ``__array_interface__`` or
            ``__cuda_array_interface__``, also on a GPU, numbers, text, and mappings of these, which become groups.
        attrs: of the root group.
        dset_attrs: by path of the dataset.

    Raises:
        TypeNotSupported: HDF5 has no type for an array's elements.
        NotPublished: the step could not be written; consumers see nothing of it.
    """
    with create(name) as step:
        for path, value in _flat(arrays):
            step[path] = value
        if attrs:
            step.attrs.update(attrs)
        for path, values in (dset_attrs or {}).items():
            if path not in step.file:
                raise NotPublished(f"{name!r}: dset_attrs names {path!r}, which is not in the step")
            step.file[path].attrs.update(values)


@contextlib.contextmanager
def create(name: str | os.PathLike[str]) -> Iterator[NewStep]:
    """A step to be filled in place, published at the end of the block; an exception in the block discards it::

        with wilkins.transport.create("plt7.h5") as step:
            u = step.empty("fields/u", (nx, ny), "f8")
            solve(out=u)
            step.attrs["time"] = t

    Raises:
        NotPublished: the step cannot be written.
        StillReferenced: arrays of `MOST_KEPT` published steps are still referenced, whose memory cannot be used again.
    """
    name = os.fspath(name)
    place: _Place = _InMemory(name) if memory.produces(name) else _OnDisk(name)
    step = NewStep(name, place)
    _unfinished.add(step)
    try:
        yield step
    except BaseException:
        step._end(whole=False)
        raise
    step._end(whole=True)


class _Place(Protocol):
    """Where a step is being written."""

    file: h5py.File

    def array(self, path: str, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A part of the file as an array that can be written."""

    def copy(self, target: Array, source: Source) -> None:
        """Fill such an array."""

    def keeps_on_gpu(self, path: str, source: Source) -> bool:
        """Share a GPU's array with readers; whether that is all, and its values are not to be written."""

    def end(self, *, whole: bool) -> None:
        """Close the file, and publish it if it is whole."""


class NewStep:
    """A step that is being written."""

    def __init__(self, name: str, place: _Place) -> None:
        self.filename = name
        self._process = os.getpid()
        self._place = place
        self._arrays: list[weakref.ref[Array]] = []
        self.file = place.file
        """The step by h5py, for all that arrays are not made for: compression, references, groups."""

    @property
    def attrs(self) -> h5py.AttributeManager:
        """The attributes of the root group."""
        return self.file.attrs

    def empty(self, path: str, shape: int | Sequence[int], dtype: Any = "f8") -> Array:
        """A new dataset as an array over the step's memory, to be filled before the block ends; it holds no values yet.

        The block's end makes the array read-only. Parts of it that were made before (slices, tensors) are not to be
        written to after that, for consumers read them.

        Raises:
            TypeNotSupported: elements of this type do not lie in an HDF5 file as NumPy has them.
            NotPublished: the path is taken, or there is no room.
        """
        kind = np.dtype(dtype)
        extents = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(extent) for extent in shape)
        array = self._new(path, extents, kind)
        self._arrays.append(weakref.ref(array))
        return array

    def __setitem__(self, path: str, value: Any) -> None:
        """A new dataset with the elements of an array (see `publish`)."""
        source = sources.source(value)
        if source.dtype.hasobject or source.dtype.kind == "U" or not source.dtype.itemsize:
            self._write_by_hdf5(path, value)
        else:
            if self._place.keeps_on_gpu(path, source):
                return
            target = self._new(path, source.shape, source.dtype)
            if target.size:
                self._place.copy(target, source)

    def _write_by_hdf5(self, path: str, value: Any) -> None:
        array = np.asarray(value)
        if array.dtype.kind == "U":  # text of any length, as HDF5 has it
            value = array.astype(object) if array.ndim else str(array)
        try:
            self.file[path] = value
        except (TypeError, ValueError) as error:
            raise TypeNotSupported(f"{path!r} in {self.filename!r}: HDF5 has no type for this: {error}") from error

    def _new(self, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        try:
            kind = h5py.h5t.py_create(dtype, logical=True)
        except TypeError as error:
            raise TypeNotSupported(f"{path!r} in {self.filename!r}: HDF5 has no type for {dtype}: {error}") from None
        if dtype.hasobject:
            raise TypeNotSupported(f"{path!r} in {self.filename!r}: {dtype} has no fixed size; assign the values")
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
        folder, _, last = path.strip("/").rpartition("/")
        try:
            parent = self.file.require_group(folder) if folder else self.file
            dataset = h5py.h5d.create(parent.id, last.encode(), kind, space, _in_place())
        except (ValueError, TypeError, OSError) as error:
            raise NotPublished(f"{path!r} cannot be made in {self.filename!r}: {error}") from error
        offset = dataset.get_offset()
        if offset is None:
            return np.empty(shape, dtype)
        return self._place.array(path, offset, shape, dtype)

    def _end(self, *, whole: bool) -> None:
        if self._process != os.getpid():
            return  # a fork leaves the block; the step is its parent's
        if self not in _unfinished:
            return  # the program was ending already
        _unfinished.discard(self)
        for reference in self._arrays:
            array = reference()
            if array is not None:
                array.flags.writeable = False
        self._place.end(whole=whole)


@cache
def _properties(track_order: bool) -> tuple[h5py.h5p.PropFCID, h5py.h5p.PropFAID]:
    """What h5py gives a file, and where datasets begin in it; made once: h5py does so for each file, in 50 us."""
    creation, access = h5py.h5p.create(h5py.h5p.FILE_CREATE), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    creation.set_obj_track_times(False)
    if track_order:
        creation.set_link_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
        creation.set_attr_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    access.set_libver_bounds(h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_LATEST)
    access.set_alignment(_ALIGNED_FROM, _ALIGNMENT)
    return creation, access


def _created(path: str | os.PathLike[str]) -> h5py.File:
    properties = _properties(h5py.get_config().track_order)
    return h5py.File(h5py.h5f.create(os.fsencode(path), h5py.h5f.ACC_TRUNC, *properties))


@cache
def _in_place() -> h5py.h5p.PropDCID:
    """A dataset that has its place in the file before it has values."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    return properties


_unfinished: weakref.WeakSet[NewStep] = weakref.WeakSet()
"""Steps whose block has not ended."""


@atexit.register
def _discard_unfinished() -> None:
    """A program that ends while another thread fills a step: HDF5 would close its file as if it were whole."""
    for step in list(_unfinished):
        step._end(whole=False)


_kept: weakref.WeakSet[memory.StepBeingWritten] = weakref.WeakSet()
"""This process's own steps that arrays are referenced of, or may be made of."""


class _InMemory:
    """A step of this task's out-port."""

    def __init__(self, name: str) -> None:
        kept = [step.name for step in list(_kept)]
        if len(kept) >= MOST_KEPT:
            names = ", ".join(sorted(set(kept)))
            raise StillReferenced(
                f"{name!r} cannot be created: arrays of {len(kept)} steps of this task ({names}) are still "
                "referenced, so their memory cannot be used again; let go of them, or copy what is needed longer"
            )
        self._name = name
        try:
            self.file = _created(name)
        except OSError as error:
            raise NotPublished(error.errno, f"the step cannot be created: {error}", name) from error
        self._step = memory.StepBeingWritten(name)
        self._on_gpu: ipc.StepOnGpu | None = None

    def array(self, path: str, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        size = math.prod(shape) * dtype.itemsize
        base = Memory(self._step, path, self._step.memory(offset, size), size, writable=True)
        _kept.add(self._step)
        return base.array(shape, dtype)

    def copy(self, target: Array, source: Source) -> None:
        self._step.copy(target, source)

    def keeps_on_gpu(self, path: str, source: Source) -> bool:
        if not isinstance(source, sources.CudaSource) or not paths.port_of(self._name).ipc:
            return False
        from wilkins.transport.devices import ipc

        gpu = source.borrowed.gpu
        if self._on_gpu is None:
            self._on_gpu = ipc.exporter(gpu.number, self._name).begin(self._name, *self._step.place())
        return gpu is self._on_gpu.gpu and not self._on_gpu.add(self.file, path, source)

    def end(self, *, whole: bool) -> None:
        try:
            if whole and self._on_gpu is not None:
                self._on_gpu.end(self.file)
        except BaseException:
            whole = False
            raise
        finally:
            self._close(whole=whole)

    def _close(self, *, whole: bool) -> None:
        if not whole:
            self._step.give_up()
        try:
            self.file.close()
        except (OSError, RuntimeError) as error:
            if whole:
                raise _unpublished(error, "the step cannot be published", self._name) from error
        finally:
            del self._step  # lives as long as arrays over it


class _OnDisk:
    """A file, which has a hidden name until it is whole."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._hidden = part_of(Path(name), secrets.token_hex(4))
        try:
            self.file = _created(self._hidden)
        except OSError as error:
            raise NotPublished(error.errno, f"the file cannot be created: {error}", name) from error

    def array(self, path: str, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        size = math.prod(shape) * dtype.itemsize
        try:
            self.file.flush()  # gives the file its length
            with self._hidden.open("r+b") as file:
                os.posix_fallocate(file.fileno(), offset, size)  # on a full disk, writing to a mapping is SIGBUS
                return np.memmap(file, dtype, "r+", offset, shape).view(np.ndarray)
        except (OSError, RuntimeError) as error:
            raise _unpublished(error, f"no room for {size} bytes of {path!r}", self._name) from error

    def copy(self, target: Array, source: Source) -> None:
        source.copy_to(target)

    def keeps_on_gpu(self, path: str, source: Source) -> bool:  # noqa: ARG002 - files are read by anybody
        return False

    def end(self, *, whole: bool) -> None:
        try:
            self.file.close()
            if whole:
                self._hidden.replace(self._name)
        except (OSError, RuntimeError) as error:
            if whole:
                raise _unpublished(error, "the file cannot be stored", self._name) from error
        finally:
            self._hidden.unlink(missing_ok=True)


def _unpublished(error: Exception, what: str, name: str) -> NotPublished:
    """HDF5's error on closing or lengthening a file, which h5py gives as this or that exception."""
    return NotPublished(getattr(error, "errno", None) or errno.EIO, f"{what}: {error}", name)


def _flat(arrays: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in arrays.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value
