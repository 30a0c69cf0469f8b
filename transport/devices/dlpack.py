"""DLPack capsules made and read by ctypes: arrays change hands between libraries without a copy.

Layouts and rules: the DLPack specification 1.0, ``dlpack.h``, and the array API standard's ``__dlpack__``. Capsules
without a version are made for those who do not ask for one; both kinds are read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

CPU = 1
CUDA = 2
CUDA_MANAGED = 13

_FLAG_READ_ONLY = 1
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NAMES = {code: kind for kind, code in _KINDS.items()}


class Device(NamedTuple):
    """Where an array's memory is, as ``__dlpack_device__`` says it."""

    kind: int
    number: int


class _Device(ctypes.Structure):
    _fields_ = (("kind", c_int32), ("number", c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", _Device),
        ("ndim", c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("manager", c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager", c_void_p),
        ("deleter", _Deleter),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True, slots=True)
class Array:
    """An array as a capsule describes it. `strides` count elements; `alive` keeps the memory."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    device: Device
    read_only: bool
    alive: object = None

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie one after the other, the last axis varying fastest."""
        return self.strides == contiguous_strides(self.shape) or 0 in self.shape


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous array."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def capsule(array: Array, release: Callable[[], None], *, versioned: bool = False) -> object:
    """A DLPack capsule of an array; `release` is called once, when whoever took it (or nobody) is done with it.

    Raises:
        BufferError: the type has no DLPack code, or the consumer of a read-only array cannot know that.
    """
    if array.dtype.kind not in _KINDS or array.dtype.byteorder == ">" or array.dtype.hasobject:
        raise BufferError(f"DLPack has no type for {array.dtype}")
    if array.read_only and not versioned:
        raise BufferError("a read-only array needs a DLPack 1.0 capsule (max_version), which can say so")
    ndim = len(array.shape)
    shape, strides = (c_int64 * ndim)(*array.shape), (c_int64 * ndim)(*array.strides)
    tensor = _Tensor(
        array.address or None,
        _Device(*array.device),
        ndim,
        _DataType(_KINDS[array.dtype.kind], 8 * array.dtype.itemsize, 1),
        shape,
        strides,
        0,
    )
    if versioned:
        flags = _FLAG_READ_ONLY if array.read_only else 0
        managed: _Managed | _Versioned = _Versioned(1, 0, None, _deleter, flags, tensor)
    else:
        managed = _Managed(tensor, None, _deleter)
    address = ctypes.addressof(managed)
    _out[address] = (managed, shape, strides, release)
    return _new(address, _VERSIONED if versioned else _PLAIN, _unused)


def read(source: object) -> Array:
    """What a capsule, not yet taken, describes; taking it. The array's memory lives as long as the result.

    Raises:
        BufferError: it is no unused DLPack capsule, or of a type that NumPy has no name for.
    """
    versioned = bool(_is_valid(source, _VERSIONED))
    if not versioned and not _is_valid(source, _PLAIN):
        raise BufferError("not a DLPack capsule, or one that was taken already")
    address = _pointer(source, _VERSIONED if versioned else _PLAIN)
    managed = ctypes.cast(address, ctypes.POINTER(_Versioned if versioned else _Managed)).contents
    if versioned and managed.major != 1:
        raise BufferError(f"a DLPack capsule of version {managed.major}; this reads version 1")
    tensor = managed.tensor
    kind = _NAMES.get(tensor.dtype.code)
    if tensor.dtype.lanes != 1 or kind is None:
        raise BufferError(
            f"elements of a type without a NumPy name (DLPack code {tensor.dtype.code}, {tensor.dtype.bits} bits)"
        )
    dtype = np.dtype(f"{kind}{tensor.dtype.bits // 8}")
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = contiguous_strides(shape)
    if tensor.strides:
        strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim))
    _rename(source, b"used_dltensor_versioned" if versioned else b"used_dltensor")
    return Array(
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        strides,
        dtype,
        Device(tensor.device.kind, tensor.device.number),
        versioned and bool(managed.flags & _FLAG_READ_ONLY),
        _Taken(address, managed.deleter),
    )


class _Taken:
    """A capsule's memory in our hands: its deleter is called when this goes."""

    def __init__(self, address: int, deleter: Any) -> None:
        self._address = address
        self._deleter = deleter

    def __del__(self) -> None:
        if self._deleter:
            self._deleter(self._address)


_out: dict[int, tuple[object, object, object, Callable[[], None]]] = {}
"""Capsules of ours that are in use, by the address of what they hold."""


def _delete(address: int, out: dict[int, Any] = _out) -> None:
    kept = out.pop(address, None)
    if kept is not None:
        kept[3]()


_deleter = _Deleter(_delete)


_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, c_char_p]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, c_char_p]


# A capsule's destructor gets the dying object: it must be taken as an address, or its count of references would change.
_valid_address = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_pointer_address = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))


def _destroy(dying: int) -> None:
    """A capsule that nobody took goes: let its memory go too."""
    for name in (_PLAIN, _VERSIONED):
        if _valid_address(dying, name):
            _delete(_pointer_address(dying, name))


_destructor = ctypes.PYFUNCTYPE(None, c_void_p)(_destroy)
_unused = ctypes.cast(_destructor, c_void_p)

# Other libraries hold the addresses of these two, and may call them as late as the interpreter's end.
for _function in (_deleter, _destructor):
    _api.Py_IncRef(ctypes.py_object(_function))
