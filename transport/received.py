"""A step that a task reads: its datasets as arrays, without a copy where they lie in the file as they are."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from types import EllipsisType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import h5py
import numpy as np

from wilkins.transport.devices import Buffer, bring, host, paths
from wilkins.transport.errors import (
    BadSelection,
    NoSuchAttribute,
    NoSuchDataset,
    NoSuchDevice,
    Released,
    StillReferenced,
    TypeNotSupported,
    Unreadable,
    suggestion,
)
from wilkins.transport.views import Array, Elements, Memory, elements_in_file, file_number

if TYPE_CHECKING:
    import cupy
    import torch

    from wilkins.transport.devices.cuda import CudaBuffer


class _Attributes(dict[str, Any]):
    """Attributes; the error of a missing one proposes what may be meant."""

    def __init__(self, step: str, found: Mapping[str, Any]) -> None:
        super().__init__(found)
        self._step = step

    def __missing__(self, name: object) -> Any:
        hint = suggestion(str(name), list(self), "it has no attributes")
        raise NoSuchAttribute(f"{self._step} has no attribute {name!r}{hint}")


class Stored(Protocol):
    """A step's file in memory that this process can read, until it is closed."""

    name: str
    address: int
    size: int

    @property
    def sequence(self) -> int | None:
        """The number that its producer has given it; None if nobody has."""

    def open(self) -> h5py.File:
        """The file, by HDF5."""

    def close(self) -> None:
        """Let go of it."""


class Step:
    """One step of a channel: an HDF5 file that stays as it is while this object, or an array of it, is referenced."""

    def __init__(self, stored: Stored, index: int) -> None:
        self.filename = stored.name
        """The name that the producer gave it."""
        self.index = index
        """0, 1, ... as this channel gave them."""
        self.sequence = index if stored.sequence is None else stored.sequence
        """The step's number within what its producer (of several ranks, its rank) publishes on its port: it is the same
        in a run that goes on with another one. Of files on disk, the same as `index`."""
        self._stored: Stored | None = stored
        self._file: h5py.File | None = None
        self._attrs: Mapping[str, Any] | None = None
        self._number: int | None = None
        self._places: dict[str, Elements | None] = {}
        self._alive: weakref.WeakSet[Memory] = weakref.WeakSet()
        self._brought = bring.Brought()
        if paths.port_of(self.filename).ipc:
            from wilkins.transport.devices import ipc

            self._brought.add(ipc.take(self.file, self.filename))

    def __repr__(self) -> str:
        return f"<step {self.index}, {self.filename!r}{', released' if self._stored is None else ''}>"

    @property
    def file(self) -> h5py.File:
        """The step by h5py, for all that arrays are not made for: groups, text, references, attributes of datasets."""
        stored = self._held()
        if not self._file:  # not opened yet, or closed by the program
            try:
                self._file = stored.open()
            except OSError as error:
                raise Unreadable(error.errno, f"step {self.index} cannot be opened: {error}", self.filename) from error
        return self._file

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of the root group; a missing one is a `NoSuchAttribute`, a KeyError."""
        if self._attrs is None:
            found = _Attributes(f"step {self.index} ({self.filename})", self.file.attrs)
            self._attrs = MappingProxyType(found)
        return self._attrs

    def file_bytes(self) -> memoryview:
        """The whole file, byte for byte as it was written: cannot be written to, and keeps the step."""
        stored = self._held()
        memory = Memory(stored, "", stored.address, stored.size, writable=False)
        self._alive.add(memory)
        self._held()  # another thread may have let go of the step before it could see this array
        return memory.array((stored.size,), np.dtype(np.uint8)).data

    def names(self) -> list[str]:
        """The paths of all datasets, such as ``particles/position``."""
        found: list[str] = []
        self.file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        return found

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and isinstance(self.file.get(path), h5py.Dataset)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __getitem__(self, key: str | tuple[Any, ...]) -> Array:
        """A dataset, or a part of it: ``step["u"]``, ``step["u", 10:20]``, ``step["u", 0, ..., ::2]``.

        A selection is as for h5py: integers, slices, ``...``, one list of increasing integers, or a mask. Where
        elements lie in the file as NumPy has them (contiguous layout, no conversion), the result of integers and slices
        is a view of the step's memory, which cannot be written to and keeps the step; otherwise HDF5 reads what is
        selected, and nothing else, into a new array.

        Raises:
            NoSuchDataset: with what there is.
            BadSelection: it does not fit the dataset's shape.
            Unreadable: HDF5 cannot read it (a filter that is not there, a broken file).
            Released: the step was released.
        """
        path, selection = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        elements = self._elements(path, selection)
        if elements is None:
            return self._read(path, selection)
        return self._view(elements, path, selection, writable=False)

    def buffer(self, path: str, selection: Any = (), *, device: str | None = None) -> Buffer:
        """The same as an object with the protocols by which array libraries share memory (`devices.Buffer`).

        On a GPU that is a copy, of which there is one per dataset, selection and GPU: all who ask for it share it.

        Args:
            path: of the dataset.
            selection: as for `step[path, ...]`.
            device: ``host``; ``pinned``, host memory that GPUs copy from at full rate; ``cuda``, ``cuda:<number>`` or
                ``auto`` (a GPU if there is one); None: what the workflow file says of the port, else the host.

        Raises:
            NoSuchDevice: the GPU asked for is not there.
            CudaError: the GPU has no room for it.
        """
        choice = bring.choose(device or paths.port_of(self.filename).device)
        if choice.cuda is not None:
            return self._on_gpu(path, selection, choice.cuda)
        buffer = self._on_host(path, selection)
        if choice.pinned:
            bring.pin(buffer.array)
        return buffer

    def _on_gpu(self, path: str, selection: Any, number: int) -> CudaBuffer:
        parts = selection if isinstance(selection, tuple) else (selection,)
        key = (path.strip("/"), repr(parts)) if _is_plain(parts) else object()
        asked = (path, *parts)
        try:
            return self._brought.bring(key, number, lambda: self[asked])
        except TypeNotSupported as error:
            raise TypeNotSupported(f"{self._says(path)}: {error}") from None

    def _on_host(self, path: str, selection: Any) -> host.HostBuffer:
        selection = selection if isinstance(selection, tuple) else (selection,)
        elements = self._elements(path, selection)
        if elements is None:
            array = self._read(path, selection)
            return host.HostBuffer(array, array)
        view = self._view(elements, path, selection, writable=False)
        return host.HostBuffer(view, self._view(elements, path, selection, writable=True))

    def torch(self, path: str, selection: Any = (), *, device: str | None = None, copy: bool = False) -> torch.Tensor:
        """A dataset as a torch tensor: over the step's memory where `step[path]` is a view of native byte order.

        On a GPU (see `buffer`) it is the step's one copy there, ready on torch's current stream, and may be written to;
        it may outlive the step.

        torch has no tensors that cannot be written to: writing to this one in place ends the process with a
        segmentation fault. With ``copy=True`` it is a tensor of its own, which keeps nothing and may be written.

        Raises:
            TypeNotSupported: torch has no such type (strings, compound types).
        """
        choice = bring.choose(device or paths.port_of(self.filename).device)
        number = choice.cuda
        if number is not None:
            shared = self._brought.shared(path)
            if shared is not None and shared.device.number != number:
                shared = None
            found = self._on_gpu(path, selection, number) if shared is None else shared
            try:
                tensor = found.torch()
            except (TypeNotSupported, BufferError) as error:
                raise TypeNotSupported(f"{self._says(path)}: {error}") from None
            return tensor if shared is None else tensor[selection]  # type: ignore[no-any-return]
        buffer = self._on_host(path, selection)
        if choice.pinned:
            bring.pin(buffer.array)
        array = buffer.array
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if not array.flags.aligned or (copy and array is buffer.array and buffer.read_only):
            array = array.copy()
        if array is not buffer.array:
            buffer = host.HostBuffer(array, array)
        try:
            return buffer.torch()  # type: ignore[no-any-return]
        except TypeNotSupported as error:
            raise TypeNotSupported(f"{self._says(path)}: {error}") from None

    def cupy(self, path: str, selection: Any = (), *, device: str = "cuda") -> cupy.ndarray:
        """A dataset as a CuPy array on a GPU (see `buffer`), ready on CuPy's current stream; it may outlive the step.

        Raises:
            NoSuchDevice: the GPU is not there.
        """
        try:
            choice = bring.choose(device)
            why = choice.why
        except NoSuchDevice as error:
            choice, why = bring.choose("host"), error.args[0]
        if choice.cuda is None:
            raise NoSuchDevice(
                f"{self._says(path)} cannot be a CuPy array: {why}", f"use step[{path!r}], a NumPy array"
            )
        return self._on_gpu(path, selection, choice.cuda).cupy()

    def release(self) -> None:
        """Let go of the step now: its producer may use the memory again. A step that was released already stays so.

        Waits for copies to GPUs that are under way.

        Raises:
            StillReferenced: arrays of it are referenced, whose values would change.
        """
        self._brought.settle()
        if alive := sorted({memory.path for memory in self._alive}):
            raise StillReferenced(
                f"step {self.index} ({self.filename}) cannot be released: arrays of {', '.join(map(repr, alive))} are "
                "still referenced; delete them first, or copy what is needed longer"
            )
        self._let_go()

    def __enter__(self) -> Step:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the step; arrays of it that are still referenced keep it for as long as they are."""
        self._let_go()

    def _let_go(self) -> None:
        stored, self._stored = self._stored, None
        file, self._file = self._file, None
        if file:
            file.close()
        if stored is not None and not self._alive:
            stored.close()

    def _held(self) -> Stored:
        if self._stored is None:
            raise Released(f"step {self.index} ({self.filename}) was released; read what you need of it before")
        return self._stored

    def _says(self, path: str) -> str:
        return f"dataset {path!r} of step {self.index} ({self.filename})"

    def _dataset(self, path: str) -> h5py.Dataset:
        if not isinstance(path, str):
            raise TypeError(f"step {self.index} ({self.filename}): a dataset's path is text, not {path!r}")
        file = self.file
        try:
            found = file[path]
        except KeyError as error:
            hint = suggestion(path.strip("/"), self.names())
            raise NoSuchDataset(f"step {self.index} ({self.filename}) has no {path!r}{hint}") from error
        if not isinstance(found, h5py.Dataset):
            kind = "group" if isinstance(found, h5py.Group) else "named datatype"
            hint = suggestion(path, self.names())
            raise NoSuchDataset(f"{path!r} in step {self.index} ({self.filename}) is a {kind}, no dataset{hint}")
        return found

    def _elements(self, path: str, selection: tuple[Any, ...]) -> Elements | None:
        """Where elements lie that a selection can be a view of; None where it cannot be one."""
        stored = self._held()
        if not _is_plain(selection) or not isinstance(path, str):
            return None
        if path not in self._places:
            elements = elements_in_file(self._identifier(path), self._file_number())
            fits = elements is not None and elements.offset + elements.size <= stored.size
            self._places[path] = elements if fits else None
        return self._places[path]

    def _identifier(self, path: str) -> h5py.h5d.DatasetID:
        """HDF5's own handle of a dataset: a tenth of the time of `_dataset`."""
        try:
            found = h5py.h5o.open(self.file.id, path.encode(errors="surrogateescape"))
        except (AttributeError, KeyError, ValueError):
            found = None
        return found if isinstance(found, h5py.h5d.DatasetID) else self._dataset(path).id

    def _file_number(self) -> int:
        if self._number is None:
            self._number = file_number(self.file.id)
        return self._number

    def _view(self, elements: Elements, path: str, selection: tuple[Any, ...], *, writable: bool) -> Array:
        """A view of the step's memory."""
        stored = self._held()
        memory = Memory(stored, path, stored.address + elements.offset, elements.size, writable=writable)
        self._alive.add(memory)
        self._held()  # another thread may have let go of the step before it could see this array
        whole = memory.array(elements.shape, elements.dtype)
        if not selection:
            return whole
        if ... not in selection:
            selection = (*selection, ...)  # so that the result is an array, also of one element
        try:
            part: Array = whole[selection]
        except IndexError as error:
            raise self._misfit(elements.shape, path, error) from None
        return part

    def _read(self, path: str, selection: tuple[Any, ...]) -> Array:
        dataset = self._dataset(path)
        if dataset.shape is None:
            return np.empty(0, dataset.dtype)
        if (shared := self._brought.shared(path)) is not None and shared.shape == dataset.shape:
            return np.asarray(shared.numpy()[selection])
        try:
            value = dataset[selection]
        except (IndexError, ValueError, TypeError) as error:
            raise self._misfit(dataset.shape, path, error) from None
        except OSError as error:
            raise Unreadable(error.errno, f"{self._says(path)} cannot be read: {error}", self.filename) from error
        if isinstance(value, np.ndarray) and not (dataset.dtype.hasobject and value.dtype != dataset.dtype):
            return value
        scalar = np.empty(1, dataset.dtype)
        scalar[0] = value
        return scalar.reshape(())

    def _misfit(self, shape: tuple[int, ...], path: str, error: Exception) -> BadSelection:
        return BadSelection(f"{self._says(path)} has the shape {shape}, which the selection does not fit: {error}")


def _is_plain(selection: tuple[Any, ...]) -> bool:
    """Whether NumPy and h5py understand the selection alike, and it needs no copy."""
    for part in selection:
        if isinstance(part, slice):
            if part.step is not None and (not isinstance(part.step, (int, np.integer)) or part.step < 1):
                return False
        elif isinstance(part, bool) or not isinstance(part, (int, np.integer, EllipsisType)):
            return False
    return True
