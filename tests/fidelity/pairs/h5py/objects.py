"""Cases about what a file holds: groups, links, attributes, types, layouts, filters, references."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from fidelity.cases import attempt, case, target
from h5py import h5d, h5p, h5s, h5t

NUMBERS = np.arange(24, dtype="f8").reshape(4, 6)
MIXED = np.dtype([("x", "f8"), ("n", ">i2"), ("tag", "S5"), ("v", "f4", (2, 3)), ("in", [("a", "u1"), ("b", "c16")])])
NAMED = h5py.enum_dtype({"red": 0, "green": 1, "blue": 42}, basetype="i2")
TEXT = h5py.string_dtype()


def values() -> dict[str, Any]:
    """One value of every type that h5py can write."""
    compound = np.zeros(3, MIXED)
    compound["x"], compound["n"], compound["tag"] = [1.5, -2, 3e300], [1, -2, 300], [b"a", b"bcdef", b""]
    found: dict[str, Any] = {
        "python int": 5, "python float": 2.5, "text": "grüße", "bytes": b"abc", "list": [1, 2, 3], "bool": True,
        "bools": np.array([True, False, True]), "compound": compound, "one compound": compound[1],
        "fixed": np.array([b"ab", b"cde"]), "opaque": np.void(b"\x00\x01\xff"), "empty": h5py.Empty("f4"),
        "empty text": h5py.Empty(TEXT), "no rows": np.zeros((0, 3), "i4"), "one": np.float32(0.1), "complex": 1 + 2j,
        "half": np.array([1, 2], "f2"), "nan": np.array([np.nan, np.inf, -0.0]), "dates": np.array([1, 2]).astype("V8"),
    }  # fmt: skip
    for kind in ("i1", "u1", "<i2", ">i2", "<u4", ">u4", "<i8", ">i8", "u8", "<f4", ">f4", ">f8", "c8", ">c16"):
        found[f"type {kind}"] = np.array([0, 1, 100]).astype(kind)
    return found


@case("groups")
def empty_file(name: str) -> None:
    h5py.File(name, "w").close()


@case("groups")
def nested_groups(name: str) -> None:
    with h5py.File(name, "w") as f:
        f.create_group("a/b/c/d/e/f/g")
        f["a/b"].create_group("x").attrs["n"] = 1
        f.create_group("größe/☃")
        f["a"]["y"] = 3
        for i in range(300):
            f["a/b/c"].create_group(f"many{i:03d}")
        f.require_group("a/b/c/d/again")


@case("attributes")
def attributes_of_every_type(name: str) -> None:
    with h5py.File(name, "w") as f:
        for key, value in values().items():
            f.attrs[key] = value
        f.attrs.create("enum", [0, 1, 42], dtype=NAMED)
        f.attrs.create("strings", ["one", "", "drei"], dtype=TEXT)
        f.attrs.create("fixed utf", "größe".encode(), dtype=h5py.string_dtype("utf-8", 10))
        f.attrs.create("ragged", np.array([np.arange(3), np.arange(5)], object), dtype=h5py.vlen_dtype("i4"))
        f.attrs["ref"] = f.create_dataset("x", data=1).ref
        f.attrs.modify("python int", 6)
        del f.attrs["list"]


@case(
    "numbers",
    "complex",
    "booleans",
    "enumerations",
    "opaque types",
    "fixed strings",
    "strings",
    "array types",
    "compound types",
)
def datasets_of_every_type(name: str) -> None:
    with h5py.File(name, "w") as f:
        for key, value in values().items():
            f[key] = value
        f.create_dataset("enum", data=[0, 1, 42], dtype=NAMED)


@case("fixed strings", "strings", "array types", "compound types")
def texts_and_arrays(name: str) -> None:
    with h5py.File(name, "w") as f:
        f["compound"] = values()["compound"]
        f.create_dataset("array", data=np.arange(12).reshape(2, 2, 3), dtype=np.dtype("i4"))
        f.create_dataset("array type", (3,), dtype=np.dtype(("f4", (2, 2))))[1] = np.ones((2, 2))
        f.create_dataset("strings", data=["one", "", "drei", "x" * 5000], dtype=TEXT)
        f.create_dataset("ascii", data=[b"a", b"bb"], dtype=h5py.string_dtype("ascii"))
        f.create_dataset("fixed utf", data=["größe".encode()], dtype=h5py.string_dtype("utf-8", 10))


@case("numbers", "bitfields", "opaque types", "fixed strings")
def low_level_types(name: str) -> None:
    with h5py.File(name, "w") as f:
        space = h5s.create_simple((4,))
        null_padded = h5t.C_S1.copy()
        null_padded.set_size(7)
        null_padded.set_strpad(h5t.STR_SPACEPAD)
        odd = h5t.STD_I32LE.copy()
        odd.set_precision(25)
        odd.set_offset(3)
        opaque = h5t.create(h5t.OPAQUE, 5)
        opaque.set_tag(b"five bytes")
        kinds = {"pad": null_padded, "odd": odd, "opaque": opaque, "bits": h5t.STD_B16BE, "big": h5t.IEEE_F64BE}
        for key, kind in kinds.items():
            h5d.create(f.id, key.encode(), kind, space)


@case("strings", "sequences", "nested types")
def variable_length(name: str) -> None:
    with h5py.File(name, "w") as f:
        ragged = f.create_dataset("ragged", (4,), dtype=h5py.vlen_dtype("f4"))
        ragged[0] = np.arange(3)
        ragged[2] = np.arange(70000)
        ragged[2] = np.arange(2)
        inside = np.dtype([("name", TEXT), ("list", h5py.vlen_dtype("i2"))])
        mixed = f.create_dataset("compound", (3,), dtype=inside, chunks=(2,))
        mixed[1] = ("hello", np.array([1, 2, 3], "i2"))
        f.create_dataset("chunked", (10,), dtype=TEXT, chunks=(3,), compression="gzip")[4:6] = ["a", "b" * 70000]


@case("object references", "region references", "nested types")
def references(name: str) -> None:
    with h5py.File(name, "w") as f:
        x = f.create_dataset("g/x", data=NUMBERS)
        f.create_dataset("refs", (4,), dtype=h5py.ref_dtype)[:2] = [x.ref, f["g"].ref]
        regions = f.create_dataset("regions", (3,), dtype=h5py.regionref_dtype)
        regions[0] = x.regionref[1:3, ::2]
        regions[1] = x.regionref[NUMBERS > 5]
        f.attrs["region"] = x.regionref[0]
        pair = np.dtype([("what", h5py.ref_dtype), ("n", "i4")])
        f.create_dataset("pairs", (2,), dtype=pair)[0] = (x.ref, 7)


@case("null and scalar spaces", "zero sizes", "32 dimensions")
def spaces(name: str) -> None:
    with h5py.File(name, "w") as f:
        f["null"] = h5py.Empty("f8")
        f["scalar"] = 7
        f.create_dataset("zero", (0,), "f4")
        f.create_dataset("zero of many", (3, 0, 2), "f4", maxshape=(None, None, 2))
        f.create_dataset("rank 32", (1,) * 31 + (2,), "i1")
        h5d.create(f.id, b"scalar unwritten", h5t.NATIVE_INT32, h5s.create(h5s.SCALAR))


@case("contiguous", "compact", "chunked", "resizable", "fill times")
def layouts(name: str) -> None:
    with h5py.File(name, "w") as f:
        f.create_dataset("contiguous", data=NUMBERS)
        f.create_dataset("chunked", data=NUMBERS, chunks=(3, 4))
        f.create_dataset("guessed", (1000, 1000), "f4", chunks=True)
        f.create_dataset("resizable", data=NUMBERS, maxshape=(None, None))
        f.create_dataset("bounded", data=NUMBERS, maxshape=(10, 6))
        compact = h5p.create(h5p.DATASET_CREATE)
        compact.set_layout(h5d.COMPACT)
        space = h5s.create_simple((6,))
        h5d.create(f.id, b"compact", h5t.NATIVE_INT32, space, compact).write(h5s.ALL, h5s.ALL, np.arange(6, dtype="i4"))
        early = h5p.create(h5p.DATASET_CREATE)
        early.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        h5d.create(f.id, b"early", h5t.NATIVE_INT32, h5s.create_simple((100000,)), early)
        never = h5p.create(h5p.DATASET_CREATE)
        never.set_fill_time(h5d.FILL_TIME_NEVER)
        h5d.create(f.id, b"never filled", h5t.NATIVE_INT32, h5s.create_simple((100000,)), never)


@case("gzip", "shuffle", "lzf", "fletcher32", "scale-offset", "plugin filters")
def filters(name: str) -> None:
    data = np.arange(60000, dtype="i4").reshape(200, 300) % 1000
    with h5py.File(name, "w") as f:
        pipelines: dict[str, dict[str, Any]] = {
            "gzip": {"compression": "gzip", "compression_opts": 9},
            "shuffled": {"compression": "gzip", "shuffle": True},
            "lzf": {"compression": "lzf"},
            "checked": {"fletcher32": True},
            "scaled": {"scaleoffset": 0},
            "all": {"compression": "gzip", "shuffle": True, "fletcher32": True, "chunks": (7, 11)},
        }
        for key, options in pipelines.items():
            f.create_dataset(key, data=data, **options)
            f[key][10:20, 5] = -3
        f.create_dataset("scaled floats", data=data / 7, scaleoffset=3)
        f.create_dataset("partly", (1000, 1000), "f4", compression="gzip")[500:510, 3:999:7] = 1
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk((100,))
        plist.set_filter(25000, 1, (1, 2))
        unknown = h5d.create(f.id, b"unknown filter", h5t.NATIVE_INT32, h5s.create_simple((100,)), plist)
        unknown.write(h5s.ALL, h5s.ALL, np.arange(100, dtype="i4"))


@case("fill values")
def fill_values(name: str) -> None:
    with h5py.File(name, "w") as f:
        f.create_dataset("contiguous", (100, 7), "f4", fillvalue=-1.5)[5:9, 2] = 3
        f.create_dataset("chunked", (100, 7), "i8", fillvalue=9, chunks=(10, 3))[50] = 3
        f.create_dataset("never written", (1000,), "f8", fillvalue=np.nan)
        f.create_dataset("zeros", (300000,), "f8")[150000] = 1
        f.create_dataset("text", (3,), TEXT, fillvalue="none")[1] = "some"
        compound = np.zeros((), MIXED)
        compound["x"] = 8
        f.create_dataset("compound", (3,), MIXED, fillvalue=compound)


@case("links")
def links(name: str) -> None:
    with h5py.File(name, "w") as f:
        f["x"] = NUMBERS
        f["g/hard"] = f["x"]
        f["g/up"] = f["/"]
        f["soft"] = h5py.SoftLink("/g/hard")
        f["dangling"] = h5py.SoftLink("/nowhere")
        f["loop"] = h5py.SoftLink("/loop")
        f["lost"] = h5py.ExternalLink("no-such-file.h5", "/x")
        f["self"] = h5py.ExternalLink(name, "/x")


@case("external links", pair=True)
def external_links(name: str) -> None:
    with h5py.File(target(name), "w") as f:
        f["far/x"] = NUMBERS
        f["far/back"] = h5py.ExternalLink(name, "/here")
    with h5py.File(name, "w") as f:
        f["here"] = 5
        f["there"] = h5py.ExternalLink(target(name), "/far")
        f["not there"] = h5py.ExternalLink(target(name), "/nowhere")
        f["dotted"] = h5py.ExternalLink("./" + target(name), "/far/x")
        f["on disk"] = h5py.ExternalLink("plain-file.h5", "/x")
        f["from here"] = f["on disk"][1]


@case("committed types")
def committed_types(name: str) -> None:
    with h5py.File(name, "w") as f:
        f["kinds/mixed"] = MIXED
        f["kinds/text"] = TEXT
        f["kinds/mixed"].attrs["about"] = "a type with an attribute"
        f.create_dataset("x", (3,), f["kinds/mixed"])
        f["x"].attrs.create("t", "abc", dtype=f["kinds/text"])


@case("dimension scales")
def dimension_scales(name: str) -> None:
    with h5py.File(name, "w") as f:
        f["field"], f["x"], f["y"] = NUMBERS, np.arange(6), np.arange(4.0)
        f["x"].make_scale("x axis")
        f["y"].make_scale()
        f["field"].dims[0].label = "rows"
        f["field"].dims[0].attach_scale(f["y"])
        f["field"].dims[1].attach_scale(f["x"])
        f["field"].dims[1].attach_scale(f["y"])
        f["field"].dims[1].detach_scale(f["y"])


@case("virtual datasets", pair=True)
def virtual_datasets(name: str) -> None:
    with h5py.File(target(name), "w") as f:
        f["part"] = np.arange(10)
    with h5py.File(name, "w") as f:
        f["part"] = np.arange(10, 20)
        layout = h5py.VirtualLayout((4, 10), "i8")
        layout[0] = h5py.VirtualSource(target(name), "part", (10,))
        layout[1] = h5py.VirtualSource(".", "part", (10,))
        layout[2, ::2] = h5py.VirtualSource("plain-file.h5", "x", (5,))
        layout[3] = h5py.VirtualSource("no-such-file.h5", "x", (10,))
        f.create_virtual_dataset("all", layout, fillvalue=-7)


@case("creation order")
def creation_order(name: str) -> None:
    with h5py.File(name, "w", track_order=True) as f:
        for key in "zebra", "ant", "mole":
            f.create_group(key, track_order=True)["z"] = 1
            f.attrs[key] = 1
        f.create_dataset("ordered", (3,), "f4", track_order=True).attrs["b"] = 1
        f["ordered"].attrs["a"] = 2


@case("formats")
def latest_format(name: str) -> None:
    with h5py.File(name, "w", libver="latest") as f:
        f["x"] = NUMBERS
        f.create_dataset("one chunk", data=NUMBERS, chunks=(4, 6))
        f.create_dataset("fixed array", data=np.arange(1000), chunks=(10,), compression="gzip")
        f.create_dataset("extensible", data=np.arange(1000), chunks=(10,), maxshape=(None,))
        f.create_dataset("tree", data=NUMBERS, chunks=(2, 2), maxshape=(None, None))
        f.create_dataset("text", data=["a", "b"], dtype=TEXT)
        for i in range(100):
            f.create_group(f"g{i}").attrs["n"] = i


@case("formats")
def version_bounds(name: str) -> None:
    with h5py.File(name, "w", libver=("v108", "v110")) as f:
        f.create_dataset("x", data=NUMBERS, chunks=(2, 2), maxshape=(None, 6))


@case("many objects")
def many_datasets(name: str) -> None:
    with h5py.File(name, "w") as f:
        for i in range(5000):
            h5d.create(f.id, b"d%05d" % i, h5t.NATIVE_INT32, h5s.create(h5s.SCALAR)).write(
                h5s.ALL, h5s.ALL, np.array(i, "i4")
            )


@case("attributes", "errors", pair=True)
def many_attributes(name: str) -> list[str]:
    with h5py.File(name, "w") as f:
        for i in range(50):
            f.attrs[f"a{i}"] = i
        for i in range(500):
            f.require_group("old").attrs[f"a{i:04d}"] = np.arange(i % 7)
        failed = attempt(lambda: f.attrs.__setitem__("too large", np.zeros(20000)))
    with h5py.File(target(name), "w", libver="latest") as f:
        for i in range(500):
            f.attrs[f"a{i:04d}"] = i
        f["x"] = 1
        return [failed, attempt(f["x"].attrs.__setitem__, "too large", np.zeros(20000))]


@case("partial writes")
def partial_writes(name: str) -> None:
    with h5py.File(name, "w") as f:
        x = f.create_dataset("x", (1000, 1000), "f4")
        x[::3, 5:900:7] = 2.5
        x[[1, 5, 7], 3] = [1, 2, 3]
        x[500] = np.arange(1000)
        f.create_dataset("points", (50,), "i4")[np.array([3, 5, 9])] = [7, 8, 9]
        c = f.create_dataset("c", (5,), MIXED)
        c["x"] = np.arange(5)
        c[2, "n"] = 9
        rounded = f.create_dataset("rounded", (5,), "f4")
        rounded[:] = np.arange(5) / 3
        clipped = f.create_dataset("clipped", (4,), "i1")
        clipped[:] = np.array([1, 300, -300, 5], "i4")


@case("overwrites")
def overwrites(name: str) -> None:
    with h5py.File(name, "w") as f:
        for i in range(4):
            f.require_dataset("x", (50000,), "f8")[...] = i
        f["x"][...] += 1
        f["packed"] = NUMBERS
        del f["packed"]
        f.create_dataset("packed", data=np.arange(90000) % 5, compression="gzip")
        f["packed"][::2] = 77


@case("extents")
def resizes(name: str) -> list[float]:
    with h5py.File(name, "w") as f:
        x = f.create_dataset("x", data=np.ones((100, 100)), maxshape=(None, None), chunks=(13, 7))
        x.resize((10, 10))
        x.resize((120, 50))
        sums = [float(x[()].sum())]
        y = f.create_dataset("y", data=np.ones(100000), maxshape=(None,), fillvalue=4, compression="gzip")
        y.resize((5,))
        y.resize((200000,))
        sums.append(float(y[()].sum()))
        x.resize((0, 0))
        x.resize((3, 3))
        return [*sums, float(x[()].sum())]


@case("copy, move, delete")
def freed_space_reads_as_nothing(name: str) -> float:
    with h5py.File(name, "w") as f:
        f["x"] = np.ones(200000)
        f.flush()
        del f["x"]
        f.create_dataset("y", (150000,), "f8")[0] = 5
        return float(f["y"][()].sum())


@case("copy, move, delete", pair=True)
def copies_and_moves(name: str) -> None:
    with h5py.File(name, "w") as f:
        f["a/x"] = NUMBERS
        f["a/x"].attrs["unit"] = "m"
        f["a/link"] = h5py.SoftLink("/a/x")
        f["a/text"] = ["one", "two"]
        f.copy("a", "b")
        f.copy("a", "c", shallow=True)
        f.copy("a", "d", expand_soft=True, without_attrs=True)
        f.move("a/x", "moved/x")
        with h5py.File(target(name), "w") as g:
            f.copy("b", g)
            g.copy("b/x", f, "came back")
        with h5py.File("memory", "w", driver="core", backing_store=False) as g:
            f.copy("b", g, "in")
            g.copy("in", f, "by core")
