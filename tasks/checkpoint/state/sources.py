"""Tensors and arrays as bytes: what a state holds, described so that it can be copied, written and made again.

torch is never imported here: a state that holds a tensor has imported it already.
"""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged, Unsupported
from wilkins.tasks.checkpoint.state import own_memory
from wilkins.tasks.checkpoint.state.watch import Watch

Bytes = NDArray[np.uint8]
Placement = Literal["local", "replica", "shard"]

_DESCRIPTION = re.compile(r"[<>|=][a-zA-Z][0-9]*(\[[0-9]*[a-zA-Z]+(/[0-9]+)?\])?")
"""Matches the description of a single NumPy dtype; NumPy reads much else as a dtype."""


@dataclass(frozen=True, slots=True)
class Shard:
    """This rank's box of an array that the ranks hold together.

    `array` is a torch tensor or a NumPy array, `shape` the whole array's, `offsets` where the box begins, per axis.
    Saved by any number of ranks, it is restored by any other. Boxes may overlap where they hold the same values.
    """

    array: Any
    shape: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spec:
    """What an array is, without its values; how it stands in a checkpoint's index."""

    key: str
    """The path in the state, with slashes."""
    library: str
    """`torch` or `numpy`."""
    dtype: str
    """A torch dtype's name, such as `bfloat16`, or a NumPy one's description, such as `<f8`."""
    shape: tuple[int, ...]
    """Shape of this rank's part."""
    placement: Placement
    whole: tuple[int, ...]
    """Shape of the array that the ranks hold together; differs from `shape` for shards."""
    offsets: tuple[int, ...]
    """Where this rank's box begins in it."""
    grad: bool = False
    parameter: bool = False
    order: tuple[int, ...] = ()
    """The axes as they lie in memory, the one with the longest steps first; empty: in their own order."""

    def named(self, key: str) -> Spec:
        """Another array of the same form; `dataclasses.replace` takes five times as long."""
        return Spec(
            key, self.library, self.dtype, self.shape, self.placement, self.whole, self.offsets, self.grad,
            self.parameter, self.order,
        )  # fmt: skip

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _itemsize(self.library, self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of what this rank holds."""
        return self.itemsize * math.prod(self.shape)


@lru_cache
def _itemsize(library: str, dtype: str) -> int:
    return int(torch_dtype(dtype).itemsize) if library == "torch" else numpy_dtype(dtype).itemsize


@dataclass(slots=True)
class Source:
    """A live array that is to be copied: `fill` gives any part of its bytes."""

    spec: Spec
    value: Any
    """Detached tensor or array; its memory is read when it is copied, not before. None beside the address of a copy."""
    version: int | None
    """torch's count of changes in place when the state was handed over."""
    origin: Any = None
    """Of a tensor that is conjugated or negated when it is read: its address and strides, and which of both."""
    _watch: Watch | None = field(default=None, init=False)
    _address: int = field(default=0, init=False)
    """Where it was when it was handed over, if it is not a copy."""
    _torn: bool = field(default=False, init=False)
    _flat: Any = field(default=None, init=False)
    _bytes: Any = field(default=None, init=False)
    _copy: int | None = field(default=None, init=False)
    """Where a copy of it is, in one piece."""

    @property
    def on_device(self) -> bool:
        """Whether its memory is a GPU's."""
        return self._copy is None and self.spec.library == "torch" and self.value.device.type != "cpu"

    def changed(self) -> bool:
        """Whether `fill` met bytes that were written since the state was handed over.

        Of an array that is not watched: whether torch has counted a change, or gave it other memory.
        """
        moved = self._watch is None and self._address and address_of(self.value) != self._address
        return bool(self._torn or moved or (self.version is not None and self.value._version != self.version))

    def fill(self, address: int, start: int, length: int) -> None:
        """Copy `length` bytes from the `start`-th on to `address`, without holding the interpreter's lock.

        They are read where the array was when it was handed over, whatever the program has made of it since.
        """
        copy = self._copy
        if copy is not None:
            ctypes.memmove(address, copy + start, length)
        elif not self._address:
            ctypes.memmove(address, address_of(self._contiguous()) + start, length)
        elif self._watch is not None:
            whole = self._watch.copy(address, self._address, self.spec.nbytes, start, length)
            self._torn = self._torn or not whole
        elif not own_memory.copy(address, self._address + start, length):
            self._torn = True

    def device_bytes(self, start: int, length: int) -> Any:
        """`length` bytes of a tensor from the `start`-th on, as a tensor on its device."""
        if self._bytes is None:
            import torch

            self._bytes = self._contiguous().reshape(-1).view(torch.uint8)
        return self._bytes.narrow(0, start, length)

    def take(self, copy: Any) -> None:
        """Use a copy, the array may change from then on: one that `frozen` made, or the address of its bytes."""
        self.version = None
        if isinstance(copy, int):
            self._copy = copy
        else:
            self.value, self._flat, self._bytes, self._address = copy, None, None, 0

    def stand(self, address: int, watch: Watch | None) -> None:
        """Let `fill` read it there; and find what was written since the watch began, if it is watched."""
        self._address, self._watch = address, watch
        if watch is not None:
            self.version = None

    def _contiguous(self) -> Any:
        if self._flat is None:
            if self.spec.library == "torch":
                self._flat = self.value.contiguous()
            else:
                self._flat = np.ascontiguousarray(self.value)
        return self._flat


def frozen(array: Any) -> Any:
    """A copy of an array, for `Source.take`. On a GPU it is one on its current stream."""
    if type(array) is np.ndarray:
        return array.copy(order="C")
    import torch

    return array.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def differs(array: Any, copy: Any) -> bool:
    """Whether an array in main memory is other than the copy that `frozen` made of it."""
    return not np.array_equal(_raw(frozen(array)), _raw(copy))


def _raw(array: Any) -> Bytes:
    if type(array) is np.ndarray:
        return array.reshape(-1).view(np.uint8)
    import torch

    found: Bytes = array.reshape(-1).view(torch.uint8).numpy()
    return found


def address_of(array: Any) -> int:
    """Where its first element is."""
    return int(array.__array_interface__["data"][0]) if type(array) is np.ndarray else int(array.data_ptr())


def in_one_piece(array: Any) -> bool:
    """Whether an array's memory holds its values one after the other, and nothing else."""
    if type(array) is np.ndarray:
        return bool(array.flags.c_contiguous)
    return array.is_contiguous() and not (array.is_conj() or array.is_neg())


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def source_of(key: str, value: Any, *, replica: bool) -> Source:
    """Describe a tensor, an array or a `Shard`.

    Raises:
        Unsupported: its bytes cannot be kept exactly: objects, sparse, quantised or meta tensors.
    """
    if isinstance(value, Shard):
        inner = source_of(key, value.array, replica=False)
        shape, whole, offsets = inner.spec.shape, tuple(map(int, value.shape)), tuple(map(int, value.offsets))
        fits = len(shape) == len(whole) == len(offsets) and all(
            begin >= 0 and begin + size <= full for begin, size, full in zip(offsets, shape, whole, strict=True)
        )
        if not fits:
            raise Unsupported(
                f"{key}: a box of shape {shape} at {offsets} does not lie in an array of shape {whole}; give the "
                "whole array's shape, and where the box begins on each of its axes"
            )
        return Source(_placed(inner.spec, "shard", whole, offsets), inner.value, inner.version)
    placement: Placement = "replica" if replica else "local"
    if isinstance(value, np.ndarray):
        return _numpy_source(key, value, placement)
    return _torch_source(key, value, placement)


def _placed(spec: Spec, placement: Placement, whole: tuple[int, ...], offsets: tuple[int, ...]) -> Spec:
    return replace(spec, placement=placement, whole=whole, offsets=offsets)


def _numpy_source(key: str, value: NDArray[Any], placement: Placement) -> Source:
    if type(value) is not np.ndarray:
        raise Unsupported(f"{key}: a {type(value).__name__} is not kept; give a plain array (np.asarray)")
    if value.dtype.hasobject or value.dtype.names is not None:
        raise Unsupported(
            f"{key}: an array of dtype {value.dtype} is not kept, only numbers, times and strings of fixed length are; "
            "convert it, or give its parts as arrays of their own"
        )
    spec = Spec(
        key, "numpy", value.dtype.str, value.shape, placement, value.shape, (0,) * value.ndim,
        order=_order(value.shape, value.strides),
    )  # fmt: skip
    return Source(spec, value, None)


def _torch_source(key: str, value: Any, placement: Placement) -> Source:
    import torch

    whole: tuple[int, ...] | None = None
    offsets: tuple[int, ...] = ()
    _check_kind(key, value)
    tensor = value.detach()
    if type(tensor).__name__ == "DTensor":
        tensor, whole, offsets, placement = _local_of(tensor)
    if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
        raise Unsupported(f"{key}: a {type(value).__name__} is not kept; give plain tensors")
    _check_kind(key, tensor)
    if tensor._is_zerotensor():
        raise Unsupported(f"{key}: a tensor without memory is not kept; give its clone()")
    if tensor.nbytes and tensor.untyped_storage().nbytes() < _reach(tensor):
        raise Unsupported(f"{key}: a tensor whose storage was taken away is not kept; give it when it is whole")
    origin = None
    if tensor.is_conj() or tensor.is_neg():
        origin = tensor.data_ptr(), tensor.stride(), tensor.is_conj(), tensor.is_neg()
        tensor = tensor.resolve_conj().resolve_neg()
    shape = tuple(tensor.shape)
    parameter = isinstance(value, torch.nn.Parameter)
    dtype = _dtype_name(tensor.dtype)
    spec = Spec(
        key, "torch", dtype, shape, placement, whole or shape, offsets or (0,) * len(shape),
        bool(value.requires_grad) and value.is_leaf, parameter, _order(shape, tensor.stride()),
    )  # fmt: skip
    return Source(spec, tensor, tensor._version, origin)


def _reach(tensor: Any) -> int:
    """Bytes of its storage up to its last element, if it has one."""
    if tensor.is_contiguous():
        return int((tensor.storage_offset() + tensor.numel()) * tensor.element_size())
    last = tensor.storage_offset() + sum(
        (size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return int((last + 1) * tensor.element_size())


def _check_kind(key: str, tensor: Any) -> None:
    """Refuse what has no values of its own at one address, before anything is asked that such tensors do not know.

    Raises:
        Unsupported: it is of such a kind.
    """
    import torch

    layout, found = tensor.layout, ("", "")
    if torch.nn.parameter.is_lazy(tensor):
        found = "parameter that is not initialised", "give the model its first batch, or its shapes, before"
    elif tensor.is_nested:
        found = "nested tensor", "give its parts (unbind()), or to_padded_tensor()"
    elif tensor.is_quantized:
        found = "quantised tensor", "give its dequantize(), or its int_repr(), scale and zero point"
    elif tensor.device.type == "meta":
        found = "meta tensor", "it has no values: give it some on a device (to_empty)"
    elif layout is not torch.strided:
        parts = {
            torch.sparse_coo: "indices(), values() and shape",
            torch.sparse_csr: "crow_indices(), col_indices(), values() and shape",
            torch.sparse_csc: "ccol_indices(), row_indices(), values() and shape",
            torch.sparse_bsr: "crow_indices(), col_indices(), values() and shape",
            torch.sparse_bsc: "ccol_indices(), row_indices(), values() and shape",
        }.get(layout)
        found = f"{layout} tensor", f"give its to_dense(){f', or its {parts}' if parts else ''}"
    if found[0]:
        raise Unsupported(f"{key}: a {found[0]} is not kept; {found[1]}")


def _order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """How axes lie in memory, as torch's `preserve_format` and NumPy's order `K` see it; empty for their own order.

    Of steps of the same length, that over an axis of one element is the inner one, as in torch's `channels_last`.
    """
    if any((step == 0 and size > 1) or not size for size, step in zip(shape, strides, strict=True)):
        return ()
    axes = sorted(range(len(shape)), key=lambda axis: (-abs(strides[axis]), shape[axis] == 1))
    return tuple(axes) if axes != sorted(axes) else ()


def _local_of(tensor: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...], Placement]:
    """This rank's box of a DTensor, as torch.distributed.checkpoint computes it."""
    import torch.distributed as dist
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    local = tensor.to_local().detach()
    mesh, placements = tensor.device_mesh, tensor.placements
    everywhere = all(isinstance(one, Replicate) for one in placements) and mesh.size() == dist.get_world_size()
    _, offsets = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
    offsets = tuple(offsets) if local.numel() else (0,) * local.dim()
    return local, tuple(tensor.shape), offsets, "replica" if everywhere else "shard"


@lru_cache
def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@lru_cache
def torch_dtype(name: str) -> Any:
    """The torch dtype of that name.

    Raises:
        Damaged: this torch has none.
    """
    import torch

    found = getattr(torch, name, None) if name.isidentifier() else None
    if not isinstance(found, torch.dtype):
        raise Damaged(f"torch {torch.__version__} has no dtype {name!r}; read it with the torch that wrote it")
    return found


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype described so.

    Raises:
        Damaged: there is none, or it holds objects.
    """
    try:
        if not isinstance(name, str) or not _DESCRIPTION.fullmatch(name):
            raise ValueError
        found = np.dtype(name)
    except (TypeError, ValueError, OverflowError) as error:
        raise Damaged(f"NumPy knows no dtype {name!r}") from error
    if found.hasobject:
        raise Damaged(f"a checkpoint holds no objects, and this one names the dtype {name!r}")
    return found


def empty(spec: Spec, shape: Sequence[int]) -> tuple[Any, Bytes]:
    """A new tensor or array of `shape`, in main memory, and its bytes.

    Raises:
        Damaged: there is none of this type and shape.
        CheckpointError: there is no memory for it.
    """
    array: Any
    try:
        if spec.library == "torch":
            import torch

            array = torch.empty(tuple(shape), dtype=torch_dtype(spec.dtype))
        else:
            array = np.empty(tuple(shape), numpy_dtype(spec.dtype))
    except MemoryError as error:
        raise CheckpointError(f"{spec.key}: there is no memory for {spec.dtype} of shape {tuple(shape)}") from error
    except (RuntimeError, ValueError, OverflowError) as error:
        if isinstance(error, Damaged):
            raise
        text = str(error).partition("\n")[0]
        raise Damaged(f"{spec.key}: no array can be made of {spec.dtype} and shape {tuple(shape)}: {text}") from error
    return array, bytes_of(array)


def bytes_of(array: Any) -> Bytes:
    """The memory of a contiguous array or tensor in main memory, as bytes that can be written."""
    if is_tensor(array):
        nbytes = array.numel() * array.element_size()
        if not nbytes:
            return np.empty(0, np.uint8)
        memory = (ctypes.c_ubyte * nbytes).from_address(array.data_ptr())
        found: Bytes = np.frombuffer(memory, np.uint8)
        return found
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def fits_plainly(spec: Spec, value: Any) -> bool:
    """Whether a value is a plain tensor in main memory that takes an array's bytes as they were saved.

    What is not may still do so; `source_of` says what it is, in twenty times as long.
    """
    if spec.library != "torch" or spec.placement == "shard" or not is_tensor(value):
        return False
    import torch

    return bool(
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.layout is torch.strided
        and value.is_cpu
        and not (value.is_nested or value.is_quantized)
        and _dtype_name(value.dtype) == spec.dtype
        and value.shape == spec.shape
        and value.is_contiguous()
        and not (value.is_conj() or value.is_neg() or value._is_zerotensor())
        and value.untyped_storage().nbytes() >= _reach(value)
    )


def finished(spec: Spec, value: Any) -> Any:
    """A restored array as it was: its axes in the order they had in memory; a parameter, or one that needs a gradient.

    Raises:
        Damaged: no such tensor can be a parameter.
    """
    back = tuple(sorted(range(len(spec.order)), key=spec.order.__getitem__))
    if spec.library != "torch":
        return np.ascontiguousarray(value.transpose(spec.order)).transpose(back) if back else value
    import torch

    if back:
        value = value.permute(spec.order).clone(memory_format=torch.contiguous_format).permute(back)

    try:
        if spec.parameter:
            return torch.nn.Parameter(value, requires_grad=spec.grad)
        return value.requires_grad_() if spec.grad else value
    except RuntimeError as error:
        raise Damaged(f"{spec.key} needs a gradient, which {spec.dtype} cannot have") from error
