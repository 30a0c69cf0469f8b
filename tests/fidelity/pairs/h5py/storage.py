"""Cases about how values are stored: types on every object, odd sizes, szip, times of filling, extents."""

from __future__ import annotations

from itertools import product
from typing import Any

import h5py
import numpy as np
from fidelity.cases import attempt, case
from h5py import h5a, h5d, h5p, h5s, h5t, h5z

SCALAR = h5s.create(h5s.SCALAR)


@case("attributes")
def attributes_of_every_object(name: str) -> list[Any]:
    inside = np.dtype([("text", h5py.string_dtype()), ("n", "i4")])
    with h5py.File(name, "w") as f:
        f.create_dataset("x", data=np.arange(5))
        f["kind"] = np.dtype("f4")
        for thing in f, f.create_group("g"), f["x"], f["kind"]:
            thing.attrs["number"] = np.arange(3, dtype=">i2")
            thing.attrs["text"] = "grüße"
            thing.attrs["true"] = True
            thing.attrs["none"] = h5py.Empty("i4")
            thing.attrs["object"] = f["x"].ref
            thing.attrs["region"] = f["x"].regionref[1:3]
            thing.attrs.create("inside", np.array([("a", 7)], inside), dtype=inside)
            thing.attrs.create("kind", np.ones(2), dtype=f["kind"])
            thing.attrs.create("name ünd all", 1)
            thing.attrs["rewritten"] = 1
            thing.attrs["rewritten"] = "of another type"
            h5a.rename(thing.id, b"true", b"renamed")
        return [sorted(f["kind"].attrs), attempt(lambda: f["x"].attrs.create("number", 1, shape=(3,)))]


@case("numbers")
def numbers_of_odd_sizes(name: str) -> list[str]:
    seen = []
    with h5py.File(name, "w") as f:
        for size, order, sign in product((1, 2, 3, 5, 7, 8), (h5t.ORDER_LE, h5t.ORDER_BE), (h5t.SGN_2, h5t.SGN_NONE)):
            kind = h5t.STD_I64LE.copy()
            kind.set_precision(min(8 * size, 8 * size - (size % 2)))
            kind.set_size(size)
            kind.set_order(order)
            kind.set_sign(sign)
            x = h5d.create(f.id, b"i%d %d %d" % (size, order, sign), kind, h5s.create_simple((5,)))
            seen.append(attempt(x.write, h5s.ALL, h5s.ALL, np.array([0, 1, -1, 100, -100]), h5t.NATIVE_INT64))
        for size, fields in {3: (23, 16, 7, 0, 16), 5: (39, 30, 9, 0, 30), 6: (47, 36, 11, 0, 36)}.items():
            for order in h5t.ORDER_LE, h5t.ORDER_BE:
                kind = h5t.IEEE_F64LE.copy()
                kind.set_fields(*fields)
                kind.set_size(size)
                kind.set_ebias((1 << (fields[2] - 1)) - 1)
                kind.set_order(order)
                x = h5d.create(f.id, b"f%d %d" % (size, order), kind, h5s.create_simple((4,)))
                seen.append(attempt(x.write, h5s.ALL, h5s.ALL, np.array([0, 1.5, -3e5, 1e-3])))
        for label in ("IEEE_F16LE", "IEEE_F16BE", "NATIVE_LDOUBLE", "UNIX_D32LE", "STD_B24LE"):
            kind = getattr(h5t, label, None)
            seen.append(
                f"{label} {attempt(lambda kind=kind, label=label: h5d.create(f.id, label.encode(), kind, SCALAR))}"[:60]
            )
    return seen


@case("complex")
def complex_numbers(name: str) -> list[str]:
    seen = []
    with h5py.File(name, "w") as f:
        for kind in ("<c8", ">c8", "<c16", ">c16"):
            f.create_dataset(kind, data=np.array([1 + 2j, -0.5j, np.nan + 1j], kind))
            f.create_dataset(f"packed {kind}", data=np.arange(100).astype(kind) * 1j, compression="gzip", chunks=(7,))
        f.attrs["c"] = 3 - 4j
        f["inside"] = np.array([(1, 2j)], [("n", "i4"), ("c", "c8")])
        for label in ("COMPLEX_IEEE_F16LE", "COMPLEX_IEEE_F32BE", "COMPLEX_IEEE_F64LE"):
            own = getattr(h5t, label, None)  # types of their own since HDF5 2.0
            if own is not None:
                x = h5d.create(f.id, label.encode(), own, h5s.create_simple((3,)))
                seen.append(attempt(x.write, h5s.ALL, h5s.ALL, np.array([1j, 2, 3 + 1j], "c16")))
    return seen


@case("nested types", "array types", "sequences")
def types_in_types(name: str) -> None:
    color = h5py.enum_dtype({"red": 0, "green": 7}, basetype="u1")
    inner = np.dtype([("color", color), ("ok", "?"), ("id", "S3"), ("grid", ">f4", (2, 2))])
    outer = np.dtype([("a", inner), ("many", inner, (2,)), ("text", h5py.string_dtype()), ("raw", "V3")])
    with h5py.File(name, "w") as f:
        value = np.zeros(3, outer)
        value["a"]["color"], value["a"]["ok"], value["a"]["id"] = [0, 7, 0], [True, False, True], [b"x", b"yz", b"abc"]
        value["many"]["grid"] = np.arange(24).reshape(3, 2, 2, 2)
        value["text"], value["raw"] = ["a", "", "ccc" * 50], np.arange(9, dtype="u1").view("V3")
        f.create_dataset("nest", data=value, dtype=outer)
        f.create_dataset("packed", data=value, dtype=outer, chunks=(2,), compression="gzip")
        f.create_dataset("array of enum", (2,), dtype=np.dtype((color, (3,))))[0] = [0, 7, 7]
        f.create_dataset("list of compound", (2,), dtype=h5py.vlen_dtype(np.dtype([("i", "i2"), ("f", "f8")])))
        f["list of compound"][1] = np.array([(1, 2.5), (3, 4.5)], [("i", "i2"), ("f", "f8")])
        f.create_dataset("list of text", (2,), dtype=h5py.vlen_dtype("S4"))
        f.create_dataset("deep", (1,), dtype=np.dtype([("l", [("l", [("l", [("x", "i1"), ("y", "f8")])])])]))
        kind = h5t.vlen_create(h5t.vlen_create(h5t.STD_I32BE))  # a list of lists
        h5d.create(f.id, b"list of lists", kind, h5s.create_simple((3,)))


@case("szip", "scale-offset")
def szip_and_bits(name: str) -> list[str]:
    data = (np.arange(6000, dtype="i4").reshape(60, 100) * 7) % 500
    seen = [repr(h5z.get_filter_info(h5z.FILTER_SZIP)), repr(h5z.filter_avail(h5z.FILTER_NBIT))]
    with h5py.File(name, "w") as f:
        for coding in "ec", "nn":
            options = {"compression": "szip", "compression_opts": (coding, 16), "chunks": (30, 20)}
            seen.append(attempt(lambda c=coding, o=options: f.create_dataset(f"szip {c}", data=data, **o))[:40])
        few = h5t.STD_I32LE.copy()
        few.set_precision(11)
        few.set_offset(2)
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk((50,))
        plist.set_filter(h5z.FILTER_NBIT, h5z.FLAG_MANDATORY)
        for key, kind in {"n-bit": h5t.STD_I16LE, "n-bit of few": few}.items():
            seen.append(attempt(h5d.create, f.id, key.encode(), kind, h5s.create_simple((200,)), plist)[:40])
            attempt(lambda key=key: f[key].write_direct(np.arange(200, dtype="i4")))
        for offset in 0, 3:
            f.create_dataset(f"offset {offset}", data=data.astype("u2"), scaleoffset=offset, fillvalue=499)
        return [*seen, attempt(lambda: f.create_dataset("scaled text", data=b"x", scaleoffset=1))]


TIMES = list(product((h5d.ALLOC_TIME_EARLY, h5d.ALLOC_TIME_LATE, h5d.ALLOC_TIME_INCR), (0, 1, 2)))


def filled(name: str) -> list[Any]:
    with h5py.File(name, "r") as f:
        return [[key, f[key].id.get_storage_size(), f[key].id.get_space_status(), str(f[key][2:7])] for key in f]


@case("fill times", "fill values", consume=filled)
def times_of_allocation_and_filling(name: str) -> list[Any]:
    with h5py.File(name, "w") as f:
        for alloc, fill in TIMES:
            for layout in h5d.CONTIGUOUS, h5d.CHUNKED:
                plist = h5p.create(h5p.DATASET_CREATE)
                plist.set_layout(layout)
                if layout == h5d.CHUNKED:
                    plist.set_chunk((4,))
                plist.set_alloc_time(alloc)
                plist.set_fill_time(fill)
                plist.set_fill_value(np.array(-3, "i4"))
                plist.set_obj_track_times(False)
                key = f"{alloc} {fill} {layout}"
                attempt(h5d.create, f.id, key.encode(), h5t.NATIVE_INT32, h5s.create_simple((10,)), plist)
        for key in f:
            f[key][5] = 1
    return filled(name)


@case("extents", "resizable", "fill values")
def extents_back_and_forth(name: str) -> list[Any]:
    seen: list[Any] = []
    with h5py.File(name, "w") as f:
        shapes = [(20, 20), (3, 20), (20, 3), (0, 5), (9, 9), (40, 1), (11, 13)]
        options: list[dict[str, Any]] = [{}, {"fillvalue": 6}, {"compression": "gzip", "fillvalue": -1}]
        for number, more in enumerate(options):
            x = f.create_dataset(f"x{number}", (20, 20), "i2", chunks=(7, 4), maxshape=(None, None), **more)
            for k, shape in enumerate(shapes):
                x.resize(shape)
                x[: 1 + k, 1:] = k + 1
                seen.append([x.shape, int(x[()].sum()), x.id.get_num_chunks()])
        bounded = f.create_dataset("bounded", data=np.arange(10), maxshape=(12,))
        bounded.resize((12,))
        seen.append(attempt(bounded.resize, (13,)))
        words = f.create_dataset("words", (4,), h5py.string_dtype(), maxshape=(None,), chunks=(3,), fillvalue="none")
        words[:] = ["a", "bb", "ccc", "d"]
        words.resize((1,))
        words.resize((6,))
        seen.append(attempt(lambda: words[()].tolist()))
    return seen


@case("zero sizes", "32 dimensions", "null and scalar spaces")
def odd_spaces(name: str) -> list[str]:
    with h5py.File(name, "w") as f:
        f.create_dataset("rank 32", data=np.arange(2**12).reshape((2,) * 12 + (1,) * 20), dtype="i2")
        shape = (1,) * 29 + (2, 3)  # HDF5 divides by zero when it reads a part of chunks of 32 dimensions
        f.create_dataset(
            "chunked 31", data=np.ones(shape), chunks=shape, maxshape=(None, *shape[1:]), compression="gzip"
        )
        f.create_dataset("grown from nothing", (0,), "i4", maxshape=(None,), chunks=(4,)).resize((5,))
        f.create_dataset("shrunk to nothing", data=np.arange(9), maxshape=(None,), chunks=(4,)).resize((0,))
        f["null text"] = h5py.Empty("S5")
        f.attrs["zero"] = np.zeros((3, 0))
        f["scalar compound"] = np.array((1, 2.5), [("a", "i4"), ("b", "f8")])
        return [attempt(lambda: f.create_dataset("rank 33", (1,) * 33, "i1")), attempt(lambda: f["null text"][0])]
