"""Whose bytes are where in an HDF5 file."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from wilkins.contents.owners import owners


def test_bytes_are_those_of_their_dataset(tmp_path: Path) -> None:
    """Of every layout; what is none's is metadata, and small data that HDF5 keeps there."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        plain = file.create_dataset("plain", data=np.arange(100_000))
        packed = file.create_dataset(
            "group/packed", data=np.arange(90_000).reshape(300, 300), chunks=(50, 60), compression=1
        )
        chunked = file.create_dataset("group/chunked", data=np.arange(10_000), chunks=(700,))
        file["group/empty"], file["none"] = np.zeros((0, 3)), h5py.Empty("f4")
        file["more"], file["again"] = plain, chunked  # further names
        offset = plain.id.get_offset()
        places = {"/plain": [(offset, 100_000 * plain.dtype.itemsize)]}
        for one in (packed, chunked):
            infos = [one.id.get_chunk_info(k) for k in range(one.id.get_num_chunks())]
            places[one.name] = [(info.byte_offset, info.size) for info in infos]
    data = memoryview(path.read_bytes())
    whole = [(0, len(data))]
    owned = np.zeros(len(data), bool)
    for name, pieces in places.items():
        for begin, size in pieces:
            owned[begin : begin + size] = True
            known = {"/plain": {"/plain", "/more"}, "/group/chunked": {"/group/chunked", "/again"}}.get(name, {name})
            for at in (begin, begin + size // 2, begin + size - 1):
                assert owners(data, whole, [(at, at + 1)]) in {f"dataset {one!r}" for one in known}
    free = np.flatnonzero(~owned)
    for at in free[:: len(free) // 50].tolist():
        assert owners(data, whole, [(at, at + 1)]) == "metadata of the file"
    assert owners(data, whole, whole).startswith("datasets ")


def test_what_cannot_be_found_is_not_named(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for number in range(9):
            file[f"name{number}"] = np.arange(10_000)
    data = memoryview(path.read_bytes())
    whole = [(0, len(data))]
    assert owners(data, whole, whole) == "datasets '/name0', '/name1', '/name2' and 6 more"
    assert owners(data, [(0, 100), (900, len(data))], whole) == ""
    assert owners(data[:500], [(0, 500)], whole) == ""
    assert owners(memoryview(bytes(10_000)), [(0, 10_000)], whole) == ""
    assert owners(memoryview(b""), [], []) == ""
