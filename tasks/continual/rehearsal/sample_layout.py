"""What a sample is made of, and how it lies in memory: one row of bytes, all tensors one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from wilkins.tasks.continual.errors import BadSample

ALIGNMENT = 16
"""Every tensor begins at a multiple of this many bytes, enough for any element type."""


def dtype_name(dtype: np.dtype[Any]) -> str:
    """A name that gives the dtype back: `float32`, or NumPy's description of a less common one.

    Raises:
        BadSample: elements are references to objects, which cannot be moved as bytes.
    """
    if dtype.hasobject or dtype.kind in "OT":
        raise BadSample(f"elements of type {dtype} are objects; samples must be plain numbers or bytes: convert them")
    try:
        if np.dtype(dtype.name) == dtype:
            return str(dtype.name)
    except TypeError:
        pass
    return json.dumps(np.lib.format.dtype_to_descr(dtype))


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The dtype of a name.

    Raises:
        TypeError: NumPy has no such dtype (torch's `bfloat16`).
    """
    if name[0] not in '["':
        return np.dtype(name)
    return np.lib.format.descr_to_dtype(_tuples(json.loads(name)))


def _tuples(description: Any) -> Any:
    """JSON has no tuples, which the description of a structured dtype has: fields and shapes."""
    if isinstance(description, str):
        return description
    fields = []
    for field in description:
        name, kind, *shape = field
        fields.append((name, _tuples(kind), *(tuple(sizes) for sizes in shape)))
    return fields


@dataclass(frozen=True)
class TensorLayout:
    """One tensor of a sample."""

    name: str
    dtype: str
    itemsize: int
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of this tensor in one sample."""
        return self.itemsize * prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


@dataclass(frozen=True)
class SampleLayout:
    """All tensors of a sample, in the order of their names."""

    tensors: tuple[TensorLayout, ...]

    @classmethod
    def of(cls, tensors: Iterable[TensorLayout]) -> SampleLayout:
        """The layout of samples with these tensors, whatever order they are given in.

        Raises:
            BadSample: there is none, or one has no elements.
        """
        ordered = tuple(sorted(tensors, key=lambda tensor: tensor.name))
        if not ordered:
            raise BadSample("the batch holds no tensors: give a mapping of names to arrays")
        for tensor in ordered:
            if tensor.nbytes == 0:
                raise BadSample(f"samples of shape {tensor.shape} have no elements", tensor=tensor.name)
        return cls(ordered)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each tensor begins in a row."""
        sizes = [_aligned(tensor.nbytes) for tensor in self.tensors]
        return tuple(sum(sizes[:position]) for position in range(len(sizes)))

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        if len(self.tensors) == 1:
            return self.tensors[0].nbytes
        return self.offsets[-1] + _aligned(self.tensors[-1].nbytes)

    def difference(self, other: SampleLayout) -> BadSample | None:
        """What is wrong with samples of another layout: the first tensor that differs, if one does."""
        mine, others = ({tensor.name: tensor for tensor in layout.tensors} for layout in (self, other))
        for name in sorted(mine.keys() | others.keys()):
            if name not in others:
                return BadSample("is missing; every batch needs the same tensors", tensor=name)
            if name not in mine:
                return BadSample("is not expected; every batch needs the same tensors", tensor=name)
            if mine[name] != others[name]:
                return BadSample(
                    f"samples are {others[name]}, the buffer's are {mine[name]}; all samples of a buffer have one "
                    "shape and type: pad, crop or convert them, or make a new buffer",
                    tensor=name,
                )
        return None

    def to_json(self) -> str:
        """As text."""
        return json.dumps([[tensor.name, tensor.dtype, tensor.itemsize, tensor.shape] for tensor in self.tensors])

    @classmethod
    def from_json(cls, text: str) -> SampleLayout:
        """From `to_json`."""
        return cls(
            tuple(TensorLayout(name, dtype, size, tuple(shape)) for name, dtype, size, shape in json.loads(text))
        )


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
