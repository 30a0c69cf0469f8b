"""Cases about calls beyond reading and writing: stored chunks, mounted files, append modes, what is on disk."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from fidelity.cases import attempt, case, take, take_both, target
from h5py import h5f, h5i, h5o, h5p

NUMBERS = np.arange(24, dtype="f8").reshape(4, 6)


def stored_chunks(name: str) -> list[Any]:
    seen: list[Any] = [take(name)]
    with h5py.File(name, "r") as f:
        for x in f["plain"], f["packed"]:
            seen.append(x.id.get_num_chunks())
            for i in range(x.id.get_num_chunks()):
                info = x.id.get_chunk_info(i)
                mask, raw = x.id.read_direct_chunk(info.chunk_offset)
                seen.append([str(info), mask, hashlib.sha256(bytes(raw)).hexdigest()])
        found: list[str] = []
        attempt(lambda: f["packed"].id.chunk_iter(lambda info: found.append(str(info))))
        seen += [found, [str(part) for part in f["plain"].iter_chunks()]]
        seen.append(attempt(f["plain"].id.read_direct_chunk, (1, 1)))
        seen.append(attempt(f["plain"].id.get_chunk_info_by_coord, (2, 3)))
    return seen


@case("chunk calls", consume=stored_chunks)
def chunks_as_they_are_stored(name: str) -> list[Any]:
    with h5py.File(name, "w") as f:
        plain = f.create_dataset("plain", (6, 9), "i4", chunks=(2, 3), maxshape=(None, None))
        plain.id.write_direct_chunk((2, 3), np.arange(6, dtype="i4").tobytes())
        packed = f.create_dataset("packed", (100,), "u2", chunks=(10,), compression="gzip", shuffle=True)
        packed[:] = np.arange(100)
        mask, raw = packed.id.read_direct_chunk((30,))
        packed.id.write_direct_chunk((70,), raw, mask)
        packed.id.write_direct_chunk((80,), np.full(10, 5, "u2").tobytes(), 0b11)  # no filter was applied
        return [
            packed[30:90].tolist(),
            str(packed.id.get_chunk_info(7)),
            attempt(plain.id.write_direct_chunk, (1, 1), b""),
            attempt(plain.id.read_direct_chunk, (0, 0)),
        ]


def mounts(name: str) -> list[Any]:
    with h5py.File(name, "r") as f, h5py.File(target(name), "r") as g:
        h5f.mount(f.id, b"/point", g.id)
        seen = [sorted(f["point"]), f["point/x"][()].tolist(), f["point/x"].name, attempt(lambda: f["point/hidden"])]
        h5f.unmount(f.id, b"/point")
        return [*seen, sorted(f["point"]), attempt(h5f.unmount, f.id, b"/point")]


@case("mounted files", consume=mounts, pair=True)
def mounted(name: str) -> list[Any]:
    with h5py.File(name, "w") as f, h5py.File(target(name), "w") as g:
        f["point/hidden"] = 1
        f.flush()
        g["x"] = NUMBERS
        h5f.mount(f.id, b"/point", g.id)
        f["point"]["through"] = 5
        f["point/x"].attrs["seen"] = "through the mount"
        seen = [sorted(f["point"]), "hidden" in f["point"], attempt(lambda: f.move("point/x", "x"))]
        seen.append(attempt(h5f.mount, f.id, b"/point", g.id))
        h5f.unmount(f.id, b"/point")
        return [*seen, sorted(f["point"]), sorted(g)]


@case("appending", again=True)
def appended_to_what_it_wrote(name: str) -> list[Any]:
    with h5py.File(name, "a") as f:
        f["x"] = NUMBERS
    seen: list[Any] = []
    for mode in ("r+", "a", "a"):
        with h5py.File(name, mode) as f:
            f[f"y{len(f)}"] = len(f)
            f["x"][0] += 1
            seen.append([sorted(f), f.mode])
    return seen


@case("appending", again=True)
def appended_without_truncation(name: str) -> list[str]:
    with h5py.File(h5f.create(name.encode(), h5f.ACC_EXCL)) as f:
        f["x"] = 1
    seen = [attempt(lambda: h5f.create(name.encode(), h5f.ACC_EXCL))]
    with h5py.File(h5f.open(name.encode(), h5f.ACC_RDWR)) as f:
        f["y"] = 2
    return seen


def rewritten(name: str) -> list[Any]:
    with h5py.File(name, "r") as f:
        return [sorted(f), {key: f[key].shape for key in f}, Path(name).stat().st_size]


@case("stale files", consume=rewritten)
def over_a_stale_file(name: str) -> None:
    with h5py.File(name, "w") as f:
        f["new"] = NUMBERS


@case("stale files", consume=rewritten)
def over_a_huge_file(name: str) -> int:
    with h5py.File(name, "w") as f:
        f["new"] = NUMBERS
        f.flush()
        return int(f.id.get_filesize())


@case("stale files", consume=rewritten)
def over_no_hdf5_file(name: str) -> None:
    with h5py.File(name, "w") as f:
        f["new"] = NUMBERS


def from_other_files(name: str) -> list[Any]:
    with h5py.File(name, "r") as f:
        return [f["raw"][()].tolist(), f["pieces"][2:5].tolist(), f["raw"].external, f["pieces"].external]


@case("external storage", consume=from_other_files)
def kept_in_other_files(name: str) -> list[Any]:
    with h5py.File(name, "w") as f:
        f.create_dataset("raw", (10,), "i4", external="raw-file.bin")[:] = np.arange(10)
        pieces = [("piece-1.bin", 8, 24), ("piece-2.bin", 0, h5py.h5s.UNLIMITED)]
        f.create_dataset("pieces", (10,), "i8", external=pieces)[:] = np.arange(10) * 11
        failed = attempt(lambda: f.create_dataset("chunked", (10,), "i4", external="raw-file.bin", chunks=(2,)))
        return [f["pieces"][()].tolist(), Path("piece-1.bin").read_bytes().hex(), failed]


@case("external storage", consume=take_both, pair=True)
def kept_in_a_file_of_a_port(name: str) -> None:
    with h5py.File(name, "w") as f:
        f.create_dataset("raw", (10,), "i4", external=target(name))[:] = np.arange(10)


@case("copy, move, delete")
def copied_with_options(name: str) -> list[Any]:
    with h5py.File(name, "w") as f:
        f["a/x"] = NUMBERS
        f["a/refs"] = np.array([f["a/x"].ref, f["a"].ref], h5py.ref_dtype)
        f["a/out"] = h5py.ExternalLink("plain-file.h5", "/x")
        f["a/kind"] = np.dtype([("u", "i2"), ("v", "f4")])
        f.create_dataset("a/typed", (2,), f["a/kind"])
        f.copy("a", "refs expanded", expand_refs=True)
        f.copy("a", "all expanded", expand_external=True, expand_soft=True)
        f.copy(f["a/x"], f["a"], "object")
        flags = h5p.create(h5p.OBJECT_COPY)
        flags.set_copy_object(0x40)  # H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG
        attempt(h5o.copy, f.id, b"a", f.id, b"merged", flags)
        f.move("a/typed", "b/c/typed")
        f["b/second"] = f["b/c/typed"]
        del f["b/c/typed"]
        del f["a/kind"]
        seen = [f["b/second"].id.get_type().committed(), h5i.get_name(f["b/second"].id)]
        return [*seen, attempt(lambda: f.__delitem__("b/none")), attempt(lambda: f.copy("none", "x"))]


@case("overwrites", "copy, move, delete", again=True)
def created_again_and_again(name: str) -> int:
    with h5py.File(name, "w") as f:
        for i in range(40):
            if "x" in f:
                del f["x"]
            f.create_dataset("x", data=np.full(1000 * (i % 7 + 1), i), chunks=(500,), compression="gzip")
            f["x"].attrs["i"] = i
    with h5py.File(name, "r+") as f:
        del f["x"]
        f["x"] = NUMBERS
        return int(f.id.get_freespace())
