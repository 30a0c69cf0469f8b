"""Tensors as datasets of HDF5 files, also those of dtypes that HDF5 does not know."""

from __future__ import annotations

import h5py
import numpy as np
import torch

_RAW = {1: torch.uint8, 2: torch.int16}
"""The dtypes that replace those unknown to HDF5 (bfloat16, float8), by bytes per element."""
_DTYPE = "torch_dtype"


def put(group: h5py.Group, name: str, tensor: torch.Tensor) -> None:
    """Write a tensor as a dataset; of dtypes that NumPy lacks, the bits, with the dtype's name as an attribute."""
    host = tensor.detach().cpu().contiguous()
    try:
        group[name] = host.numpy()
    except TypeError:
        raw = host.reshape(-1).view(_RAW[host.element_size()]).reshape(host.shape)
        group[name] = raw.numpy()
        group[name].attrs[_DTYPE] = str(host.dtype).removeprefix("torch.")


def get(dset: h5py.Dataset) -> torch.Tensor:
    """Read a tensor of `put`, in host memory.

    Raises:
        ValueError: the dataset is none.
    """
    values = np.array(dset[()])  # a copy of one's own, also of a scalar
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    try:
        tensor = torch.from_numpy(values)
    except TypeError:
        raise ValueError(f"{dset.name!r} holds {dset.dtype}, which no tensor does") from None
    named = dset.attrs.get(_DTYPE)
    if named is None:
        return tensor
    dtype = getattr(torch, str(named), None)
    if not isinstance(dtype, torch.dtype) or dtype.itemsize != tensor.element_size():
        raise ValueError(f"{dset.name!r} says it holds {named!r}, which this version of torch does not know")
    return tensor.reshape(-1).view(dtype).reshape(tensor.shape)
