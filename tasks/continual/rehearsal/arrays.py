"""The rim: NumPy, torch and CuPy arrays of a batch become rows of bytes, and rows become arrays of the same kind.

torch and CuPy are never imported unless a batch comes from them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.continual.errors import BadSample
from wilkins.tasks.continual.rehearsal.draws import Ints
from wilkins.tasks.continual.rehearsal.sample_layout import SampleLayout, TensorLayout, dtype_name, numpy_dtype

Array = Any
"""A NumPy array, a torch tensor or a CuPy array."""
Rows = Any
"""Samples as bytes, one row each: a two-dimensional uint8 NumPy array, or torch tensor on a device."""


class Kind(NamedTuple):
    """Whose array it is, and where it lives."""

    library: str
    device: str = "cpu"


def torch() -> Any:
    """The torch module.

    Raises:
        ImportError: it is not installed.
    """
    return importlib.import_module("torch")


def kind_of(array: Array) -> Kind:
    """The kind of an array."""
    library = type(array).__module__.partition(".")[0]
    if library == "torch" or hasattr(array, "__torch_function__"):
        return Kind("torch", str(array.device))
    if library == "cupy":
        return Kind("cupy", f"cuda:{array.device.id}")
    return Kind("numpy")


def describe(batch: Mapping[str, Array]) -> tuple[SampleLayout, int]:
    """What the samples of a batch are like, and how many there are.

    Raises:
        BadSample: a tensor is not an array of samples, or their numbers differ.
    """
    layouts, lengths = [], {}
    for name, array in batch.items():
        shape = getattr(array, "shape", None)
        if shape is None:
            raise BadSample(f"a {type(array).__name__} is no array: give a NumPy array or a tensor", tensor=name)
        if len(shape) == 0:
            raise BadSample("a batch has the samples along its first axis, but this is a single number", tensor=name)
        try:
            dtype, itemsize = _element(array)
        except BadSample as error:
            raise BadSample(error.reason, tensor=name) from None
        layouts.append(TensorLayout(name, dtype, itemsize, tuple(int(length) for length in shape[1:])))
        lengths[name] = int(shape[0])
    layout = SampleLayout.of(layouts)
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length != lengths[first]:
            raise BadSample(f"holds {length} samples, tensor {first!r} {lengths[first]}", tensor=name)
    return layout, lengths[first]


def _element(array: Array) -> tuple[str, int]:
    if kind_of(array).library == "torch":
        if str(array.layout) != "torch.strided" or array.is_quantized:
            raise BadSample("is sparse or quantized: give a dense tensor of plain numbers")
        return str(array.dtype).removeprefix("torch."), int(array.element_size())
    return dtype_name(array.dtype), int(array.dtype.itemsize)


def labels_of(array: Array, classes: int | None, name: str) -> Ints:
    """The classes of a batch's samples.

    Raises:
        BadSample: they are not one whole number per sample, from 0 on and below `classes`.
    """
    kind = kind_of(array)
    if kind.library == "torch":
        array = array.detach().cpu()
        whole = not (array.is_floating_point() or array.is_complex())
        values = array.numpy() if whole else None
    else:
        values = array.get() if kind.library == "cupy" else array
    if values is None or values.dtype.kind not in "iub":
        raise BadSample(
            f"labels are {array.dtype}, but classes are whole numbers; for regression leave 'label' out", tensor=name
        )
    if values.ndim != 1:
        raise BadSample(f"labels have shape {tuple(values.shape)}, but every sample has one class", tensor=name)
    limit = np.iinfo(np.int64).max if classes is None else classes - 1
    wrong = np.flatnonzero((values < 0) | (values > limit))
    if len(wrong):
        allowed = "from 0 on" if classes is None else f"0 to {limit}"
        raise BadSample(f"sample {wrong[0]} has label {values[wrong[0]]}, but classes are {allowed}", tensor=name)
    labels: Ints = values.astype(np.int64)
    return labels


def pack(batch: Mapping[str, Array], layout: SampleLayout, chosen: Ints) -> Rows:
    """Copy samples of a batch into rows; on the device of the batch's torch tensors, if they are on one."""
    rows = _empty_rows(len(chosen), layout)
    if len(chosen) == 0:
        return rows
    kinds = {name: kind_of(array) for name, array in batch.items()}
    for kind in kinds.values():
        if kind.library == "torch" and kind.device != "cpu":
            return _pack_on_device(batch, layout, chosen, kind.device)
    for tensor, offset in zip(layout.tensors, layout.offsets, strict=True):
        array = batch[tensor.name]
        part = rows[:, offset : offset + tensor.nbytes]
        if kinds[tensor.name].library == "torch":
            every = array.detach().contiguous().view(torch().uint8).reshape(len(array), tensor.nbytes).numpy()
            part[...] = every[chosen]
            continue
        if kinds[tensor.name].library == "cupy":
            array = array[chosen].get()
            part[...] = array.view(np.uint8).reshape(len(chosen), tensor.nbytes)
            continue
        target = part.view(numpy_dtype(tensor.dtype)).reshape(len(chosen), *tensor.shape)
        np.take(array, chosen, axis=0, out=target, mode="clip")
    return rows


def _empty_rows(count: int, layout: SampleLayout) -> NDArray[np.uint8]:
    """Rows to be filled; what lies between tensors is zero, so that saved files do not hold stray memory."""
    gaps = layout.row_bytes != sum(tensor.nbytes for tensor in layout.tensors)
    return (np.zeros if gaps else np.empty)((count, layout.row_bytes), np.uint8)


def _pack_on_device(batch: Mapping[str, Array], layout: SampleLayout, chosen: Ints, device: str) -> Rows:
    rows = torch().zeros((len(chosen), layout.row_bytes), dtype=torch().uint8, device=device)
    index = torch().from_numpy(chosen).to(device)
    for tensor, offset in zip(layout.tensors, layout.offsets, strict=True):
        array = batch[tensor.name]
        if kind_of(array).library != "torch":
            array = torch().as_tensor(array, device=device)
        picked = array.detach().to(device).index_select(0, index)
        part = picked.view(torch().uint8).reshape(len(chosen), tensor.nbytes)
        rows[:, offset : offset + tensor.nbytes] = part
    return rows


def unpack(rows: Rows, layout: SampleLayout, kinds: Mapping[str, Kind]) -> dict[str, Array]:
    """The tensors of rows, contiguous, each of the kind that is asked for."""
    arrays: dict[str, Array] = {}
    for tensor, offset in zip(layout.tensors, layout.offsets, strict=True):
        kind = kinds[tensor.name]
        part = rows[:, offset : offset + tensor.nbytes]
        if kind.library == "torch":
            arrays[tensor.name] = _as_torch(part, tensor, kind.device)
            continue
        if not isinstance(part, np.ndarray):
            part = part.cpu().numpy()
        array = np.ascontiguousarray(part).view(numpy_dtype(tensor.dtype)).reshape(len(rows), *tensor.shape)
        arrays[tensor.name] = importlib.import_module("cupy").asarray(array) if kind.library == "cupy" else array
    return arrays


def _as_torch(part: Rows, tensor: TensorLayout, device: str) -> Array:
    dtype = getattr(torch(), tensor.dtype)
    if len(part) == 0:
        return torch().empty((0, *tensor.shape), dtype=dtype, device=device)
    if isinstance(part, np.ndarray):
        part = torch().from_numpy(np.ascontiguousarray(part))
    return part.to(device).contiguous().view(dtype).reshape(len(part), *tensor.shape)


def with_nan(arrays: Mapping[str, Array]) -> dict[str, NDArray[np.bool_]]:
    """For each tensor that holds NaN, which samples do."""
    found = {}
    for name, array in arrays.items():
        if kind_of(array).library == "torch":
            if not (array.is_floating_point() or array.is_complex()):
                continue
            mask = nan_rows(array).cpu().numpy()
        else:
            mask = _nan_rows(array.get() if kind_of(array).library == "cupy" else array)
        if mask.any():
            found[name] = mask
    return found


def nan_rows(tensor: Array) -> Array:
    """Which samples of a torch tensor of floating-point or complex numbers hold NaN, as a tensor of bools."""
    wide = tensor if tensor.element_size() > 1 else tensor.float()
    if not torch().isnan(wide.sum()):  # ten times faster than looking at each; inf - inf is NaN, too
        return torch().zeros(len(wide), dtype=torch().bool, device=wide.device)
    return torch().isnan(wide).reshape(len(wide), -1).any(1)


def _nan_rows(array: NDArray[Any]) -> NDArray[np.bool_]:
    mask = np.zeros(len(array), bool)
    if array.dtype.names:
        for field in array.dtype.names:
            mask |= _nan_rows(array[field])
    elif array.dtype.kind in "fc" and len(array):
        mask |= np.isnan(array).reshape(len(array), -1).any(1)
    return mask


def concatenate(batch: Mapping[str, Array], representatives: Mapping[str, Array]) -> dict[str, Array]:
    """A batch followed by its representatives: what a rank trains on."""
    joined = {}
    for name, array in batch.items():
        more = representatives[name]
        kind = kind_of(array)
        if kind.library == "torch":
            joined[name] = torch().cat([array, more])
        elif kind.library == "cupy":
            joined[name] = importlib.import_module("cupy").concatenate([array, more])
        else:
            joined[name] = np.concatenate([array, more])
    return joined


def empty_like(batch: Mapping[str, Array]) -> dict[str, Array]:
    """No samples, of a batch's kind."""
    return {name: array[:0] for name, array in batch.items()}
