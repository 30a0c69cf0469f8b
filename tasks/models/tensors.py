"""Tensors of torch and arrays of NumPy as bytes, little-endian and in the order of their elements, and back.

torch is imported only to make a tensor: a state that holds one has imported it already.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from wilkins.tasks.checkpoint.state import checked_json
from wilkins.tasks.checkpoint.state.safetensors import TYPES
from wilkins.tasks.models.errors import ModelError

Library = Literal["torch", "numpy"]
SPEC = checked_json.record(
    {
        "dtype": checked_json.one_of(*TYPES),
        "shape": checked_json.items(checked_json.whole()),
        "blob": checked_json.text,
    }
)
"""What is written of a tensor."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of a stored model, without its bytes."""

    dtype: str
    """As torch and NumPy call it, such as `float32`."""
    shape: tuple[int, ...]
    blob: str
    """The digest of its bytes."""

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return TYPES[self.dtype][1] * math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Raw:
    """A tensor whose bytes are somewhere else, and are read when it is put."""

    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], bytearray]


def bytes_of(value: Any, name: str) -> tuple[str, tuple[int, ...], memoryview]:
    """Type, shape and bytes of a tensor or an array.

    Args:
        value: the tensor, on any device, the array, or a `Raw`.
        name: what it is called, in messages.

    Raises:
        ModelError: it is something else, or of a type that is not kept.
    """
    if isinstance(value, Raw):
        return value.dtype, value.shape, memoryview(value.read())
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        if value.is_meta or torch.nn.parameter.is_lazy(value):
            raise ModelError(f"{name!r} is a tensor without values; give the state of a model that has been filled")
        if value.layout != torch.strided or value.is_nested or dtype not in TYPES:
            layout = "nested" if value.is_nested else str(value.layout)
            raise _not_kept(name, f"a tensor of {dtype}, {layout}".removesuffix(", torch.strided"))
        host = value.detach().resolve_conj().resolve_neg().cpu()
        flat = host.reshape(-1)  # still with steps, if it is part of another tensor
        flat = flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)
        return dtype, tuple(value.shape), flat.view(torch.uint8).numpy().data
    if isinstance(value, Mapping):
        raise ModelError(
            f"{name!r} holds other values, and is no tensor; give the state of one model, which may be an entry of a "
            "checkpoint, or leave this out"
        )
    import numpy as np

    if not isinstance(value, np.ndarray | np.generic):
        raise _not_kept(name, f"a {type(value).__name__}")
    array = np.asarray(value)
    dtype = array.dtype.name
    if dtype not in TYPES:
        raise _not_kept(name, f"an array of {dtype}")
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return dtype, array.shape, little.reshape(-1).view(np.uint8).data


def _not_kept(name: str, what: str) -> ModelError:
    return ModelError(
        f"{name!r} is {what}, and a model store keeps tensors of whole and floating-point numbers; convert it, or "
        "leave it out"
    )


def made(stored: Stored, data: bytearray, name: str, library: Library) -> Any:
    """A tensor or an array over bytes that `bytes_of` gave.

    Raises:
        ModelError: the library has no such type.
    """
    if library not in get_args(Library):
        raise ModelError(f"no tensors of {library!r} can be made; give one of {', '.join(get_args(Library))}")
    if library == "torch":
        import torch

        dtype = getattr(torch, stored.dtype)
        if not data:
            return torch.empty(stored.shape, dtype=dtype)
        return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(stored.shape)
    import numpy as np

    try:
        kind = np.dtype(stored.dtype).newbyteorder("<")
    except TypeError:
        raise ModelError(f"{name!r} is a tensor of {stored.dtype}, which NumPy has not; get it as torch's") from None
    return np.frombuffer(data, kind).reshape(stored.shape)
