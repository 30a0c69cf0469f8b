"""torch, CuPy and h5py on one device buffer: `write` gives h5py CuPy arrays, `read` takes steps to all three."""

from __future__ import annotations

import sys

import cupy
import h5py
import numpy as np
import torch

import wilkins.transport
from wilkins.transport.devices import h5

STEPS = 3


def write() -> None:
    """CuPy arrays and torch tensors: handed to HDF5 by h5py, and published."""
    for k in range(STEPS):
        x = cupy.arange(1 << 20, dtype="f4") + k
        with h5py.File(f"h{k}.h5", "w") as file:
            file.create_dataset("x", x.shape, x.dtype).write_direct(h5.pointer(x))
        half = torch.arange(1 << 20, device="cuda", dtype=torch.float32).reshape(1024, 1024).t()
        wilkins.transport.publish(f"p{k}.h5", {"cupy": x * 2, "torch": half + k})


def read() -> None:
    """h5py into a CuPy array; one copy of a step as torch tensor and CuPy array."""
    for k in range(STEPS):
        x = cupy.zeros(1 << 20, dtype="f4")
        with h5py.File(f"h{k}.h5") as file:
            file["x"].read_direct(h5.pointer(x))
        assert bool((x == cupy.arange(1 << 20, dtype="f4") + k).all()), "CuPy -> h5py -> CuPy"
    for step in wilkins.transport.open("p*.h5"):
        tensor, array = step.torch("cupy", device="cuda"), step.cupy("cupy")
        assert tensor.data_ptr() == array.data.ptr, "one copy"
        assert bool((array == (cupy.arange(1 << 20, dtype="f4") + step.index) * 2).all())
        tensor += 1
        assert bool((array == (cupy.arange(1 << 20, dtype="f4") + step.index) * 2 + 1).all()), "torch -> CuPy"
        turned = step.torch("torch", device="cuda").cpu().numpy()
        assert np.array_equal(turned, np.arange(1 << 20, dtype="f4").reshape(1024, 1024).T + step.index)


read() if sys.argv[1] == "read" else write()
