"""Compresses one block after the other, in a process of its own: a compressor that dies takes nothing else with it.

It takes pickled blocks on its standard input, and gives what they became.
The filters are HDF5's own and SZ3's (registered as 32024, from hdf5plugin): any HDF5 that finds them reads the result.
SZ3: X. Liang et al., "SZ3: A modular framework for composing prediction-based error-bounded lossy compressors", IEEE
Transactions on Big Data 2023.
"""

from __future__ import annotations

import pickle
import resource
import sys
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from wilkins.compression.bounds import difference, inside

SZ3, SHUFFLE, DEFLATE, FLETCHER32 = 32024, 2, 1, 3
_LEVEL = 4
_MEMORY = 1 << 30
"""Bytes that compressing may take, whatever the size of a block."""
_LOSSY_MASK, _LOSSLESS_MASK = 0b0110, 0b0001
"""Which filters of a lossy dataset's four a chunk skips."""


class Encoded(NamedTuple):
    """A block as it stands in a file."""

    mask: int
    """The filters that it skipped, a bit for each, in the order of the dataset's."""
    data: bytes
    lossy: bool


def filters(properties: h5py.h5p.PropDCID, bound: float) -> None:
    """Give a dataset that is to be made its filters; 0: without loss."""
    if bound:
        properties.set_filter(SZ3, h5py.h5z.FLAG_OPTIONAL, _sz3(bound))
    properties.set_shuffle()
    properties.set_deflate(_LEVEL)
    properties.set_fletcher32()


def _sz3(bound: float) -> tuple[int, ...]:
    import hdf5plugin

    return tuple(hdf5plugin.SZ3(absolute=inside(bound)).filter_options)


def encoded(block: NDArray[Any], bound: float) -> Encoded:
    """A block as a chunk of a dataset with `filters`: by SZ3 if that keeps the bound, else, and for 0, without loss."""
    with h5py.File("block", "w", driver="core", backing_store=False) as file:
        _keep_small(block)
        if bound and (found := _lossy(file, block, bound)) is not None:
            return Encoded(_LOSSY_MASK, found, lossy=True)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        filters(properties, 0.0)
        mask, data = _chunk(_dataset(file, "lossless", block, properties, block))
        return Encoded(_LOSSLESS_MASK | mask << 1, data, lossy=False)


def _keep_small(block: NDArray[Any]) -> None:
    """Let this process die rather than take all memory for a block."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY + 64 * block.nbytes, resource.RLIM_INFINITY))


def _lossy(file: h5py.File, block: NDArray[Any], bound: float) -> bytes | None:
    """None: SZ3 does not take it, or does not keep the bound, or gains nothing."""
    if not np.isfinite(block).all():  # it loses them, or dies
        return None
    limits = np.finfo(block.dtype)
    if inside(bound) < limits.tiny:  # which it takes for 0: it wants 32 GB, and comes to no end
        return None
    if max(abs(float(block.max())), abs(float(block.min()))) > limits.max / 16:  # its predictions overflow, and it dies
        return None
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_filter(SZ3, h5py.h5z.FLAG_OPTIONAL, _sz3(bound))
    properties.set_fletcher32()
    try:
        mask, data = _chunk(_dataset(file, "lossy", block, properties, block))
        if mask or len(data) >= block.nbytes:
            return None
        again = _dataset(file, "again", block, properties, None)
        again.id.write_direct_chunk((0,) * block.ndim, data)
        return data if difference(block, again[...], bound) else None
    except (OSError, ValueError, RuntimeError):
        return None


def _dataset(
    file: h5py.File, name: str, like: NDArray[Any], properties: h5py.h5p.PropDCID, data: NDArray[Any] | None
) -> h5py.Dataset:
    properties.set_chunk(like.shape)
    made = h5py.h5d.create(
        file.id, name.encode(), h5py.h5t.py_create(like.dtype), h5py.h5s.create_simple(like.shape), properties
    )
    if data is not None:
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
        file.flush()
    return h5py.Dataset(made)


def _chunk(dataset: h5py.Dataset) -> tuple[int, bytes]:
    mask, data = dataset.id.read_direct_chunk((0,) * dataset.ndim)
    return int(mask), bytes(data)


def main() -> None:
    """Takes blocks until there is none."""
    take, give = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            block, bound = pickle.load(take)
        except EOFError:
            return
        pickle.dump(tuple(encoded(block, bound)), give)
        give.flush()
