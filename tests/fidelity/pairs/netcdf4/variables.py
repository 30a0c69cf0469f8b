"""netCDF-4 files: dimensions, variables of every type, groups, types of the user, filters, appending, errors."""

from __future__ import annotations

from typing import Any

import netCDF4
import numpy as np
from fidelity.cases import attempt, case


def contents(group: Any) -> dict[str, Any]:
    """Everything the library tells of a group."""
    seen: dict[str, Any] = {key: repr(group.getncattr(key)) for key in group.ncattrs()}
    seen["dimensions"] = [[key, len(value), value.isunlimited()] for key, value in group.dimensions.items()]
    seen["types"] = [
        repr(kind) for kinds in (group.cmptypes, group.vltypes, group.enumtypes) for kind in kinds.values()
    ]
    for key, variable in group.variables.items():
        about = [repr(variable.dtype), variable.dimensions, variable.shape, attempt(variable.filters)]
        about += [attempt(variable.chunking), attempt(variable.endian), attempt(variable.get_fill_value)]
        about += [{name: repr(variable.getncattr(name)) for name in variable.ncattrs()}]
        seen[key] = [*about, attempt(lambda variable=variable: variable[...].tolist())]
    for key, below in group.groups.items():
        seen[f"group {key}"] = contents(below)
    return seen


def read(name: str) -> list[Any]:
    with netCDF4.Dataset(name) as file:
        file.set_auto_mask(False)
        seen = [file.data_model, file.disk_format, contents(file), file.filepath()]
        seen.append(attempt(file.createDimension, "new", 3))
        return [*seen, attempt(lambda: file["none"])]


@case("groups", "attributes", "creation order", "dimension scales", consume=read)
def groups_and_attributes(name: str) -> None:
    with netCDF4.Dataset(name, "w") as file:
        file.title, file.number, file.list, file.text = "grüße", 5, np.arange(3, dtype="i2"), ["one", "two"]
        for path in "ocean", "ocean/deep", "air":
            group = file.createGroup(path)
            group.level = path
            group.createDimension("x", 4)
            group.createVariable("x", "f8", ("x",))[:] = np.arange(4)
            group.createVariable("t", "f4", ("x",)).units = "K"
        file.renameGroup("air", "sky")
        file["ocean"].renameVariable("t", "temperature")
        file["ocean/deep"].renameDimension("x", "depth")


@case("numbers", "strings", "fixed strings", "null and scalar spaces", consume=read)
def variables_of_every_type(name: str) -> None:
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("x", 3)
        file.createDimension("letters", 5)
        for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
            for endian in "little", "big":
                variable = file.createVariable(f"{kind} {endian}", kind, ("x",), endian=endian)
                variable[:] = np.array([0, 1, 100], kind)
        file.createVariable("scalar", "f8", ())[...] = 2.5
        file.createVariable("letters", "S1", ("x", "letters"))[:] = netCDF4.stringtochar(
            np.array(["ab", "cde", ""], "S5")
        )
        text = file.createVariable("text", str, ("x",))
        text[:] = np.array(["one", "", "größe"], object)


@case("compound types", "nested types", "sequences", "enumerations", "complex", "opaque types", consume=read)
def types_of_the_user(name: str) -> list[str]:
    with netCDF4.Dataset(name, "w", auto_complex=True) as file:
        file.createDimension("x", 3)
        inner = np.dtype([("a", "i2"), ("b", "f8")], align=True)
        outer = np.dtype([("n", "i4"), ("in", inner), ("many", "f4", (2,))], align=True)
        file.createCompoundType(inner, "inner")
        kind = file.createCompoundType(outer, "outer")
        value = np.zeros(3, outer)
        value["n"], value["in"]["b"], value["many"][1] = [1, 2, 3], [0.5, 1.5, 2.5], 9
        file.createVariable("compound", kind, ("x",))[:] = value
        ragged = file.createVariable("ragged", file.createVLType("i4", "list"), ("x",))
        ragged[0], ragged[2] = np.arange(3, dtype="i4"), np.arange(500, dtype="i4")
        clouds = file.createEnumType("u1", "clouds", {"clear": 0, "stratus": 7})
        file.createVariable("sky", clouds, ("x",), fill_value=0)[:] = [7, 0, 7]
        seen = attempt(lambda: file.createVariable("c", "c16", ("x",)).__setitem__(slice(None), np.array([1j, 2, 3])))
        return [seen, attempt(file.createVariable, "bad", clouds, ("x",), fill_value=99)[:80]]


@case("gzip", "shuffle", "szip", "fletcher32", "plugin filters", "chunked", "contiguous", consume=read)
def filters(name: str) -> list[str]:
    data = np.arange(3000, dtype="i4").reshape(50, 60) % 700
    seen = []
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("y", 50)
        file.createDimension("x", 60)
        file.createVariable("plain", "i4", ("y", "x"), contiguous=True)[:] = data
        for kind in ("zlib", "szip", "zstd", "bzip2", "blosc_lz", "blosc_zstd"):
            options: dict[str, Any] = {"compression": kind, "chunksizes": (20, 20), "fletcher32": kind == "zlib"}
            made = attempt(lambda kind=kind, options=options: file.createVariable(kind, "i4", ("y", "x"), **options))
            seen.append(made[:60])
            if kind in file.variables:
                file[kind][:] = data
        rounded = file.createVariable("rounded", "f4", ("y", "x"), compression="zlib", significant_digits=3)
        rounded[:] = data / 7
    return seen


@case("fill values", "fill times", "partial writes", "overwrites", "resizable", "extents", consume=read)
def unlimited_and_filled(name: str) -> None:
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("time", None)
        file.createDimension("more", None)
        file.createDimension("x", 5)
        series = file.createVariable("series", "f4", ("time", "x"), fill_value=-1)
        file.createVariable("both", "i2", ("time", "more"))[3:5, 2] = 7
        for step in range(10):
            series[step, ::2] = step
        series[2] = 8
        file.createVariable("default fill", "i4", ("x",))[1] = 3
        file.createVariable("no fill", "i4", ("x",), fill_value=False)[:] = 4
        scaled = file.createVariable("scaled", "i2", ("x",))
        scaled.scale_factor, scaled.add_offset = 0.5, 10.0
        scaled[:] = np.arange(5)


@case("appending", "file handling", "committed types", consume=read, again=True)
def appended(name: str) -> list[Any]:
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("t", None)
        file.createCompoundType(np.dtype([("a", "i4")]), "kept type")
        file.createVariable("x", "f8", ("t",))[:3] = [1, 2, 3]
    for step in range(3):
        with netCDF4.Dataset(name, "a" if step % 2 else "r+") as file:
            file["x"][3 + step] = step
            file.sync()
            file.setncattr(f"step {step}", step)
    with netCDF4.Dataset(name) as file:
        return [file["x"][:].tolist(), sorted(file.ncattrs())]


@case("errors", consume=read)
def refused(name: str) -> list[str]:
    seen = [attempt(netCDF4.Dataset, name)]
    seen.append(attempt(netCDF4.Dataset, "no-such-file.nc"))
    with netCDF4.Dataset(name, "w", clobber=False) as file:
        file.createDimension("x", 2)
        seen += [attempt(file.createDimension, "x", 3), attempt(file.createVariable, "v", "f8", ("none",))]
        file.createVariable("v", "f8", ("x",))[:] = 1
        seen += [attempt(lambda: file["v"].__setitem__(slice(0, 5), np.ones(5))), attempt(lambda: file.nothing)]
    return [*seen, attempt(lambda: file["v"]), attempt(netCDF4.Dataset, name, "w", clobber=False)]


@case("many objects", consume=lambda name: len(netCDF4.Dataset(name).variables))
def many_variables(name: str) -> None:
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("x", 2)
        for number in range(300):
            file.createVariable(f"v{number}", "i4", ("x",))[:] = number


@case("drivers", "formats", consume=read)
def classic_model_and_diskless(name: str) -> list[str]:
    with netCDF4.Dataset(name, "w", format="NETCDF4_CLASSIC", diskless=True, persist=True) as file:
        file.createDimension("x", 3)
        file.createVariable("v", "f4", ("x",))[:] = 1
        return [attempt(file.createGroup, "g"), attempt(file.createVariable, "u", "u8", ("x",))]


@case("zero sizes", "32 dimensions", "large datasets", consume=read)
def odd_shapes(name: str) -> None:
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("none", None)
        file.createDimension("large", 3_000_000)
        file.createVariable("nothing", "f8", ("none",))
        names = [f"d{number}" for number in range(32)]
        for number, dimension in enumerate(names):
            file.createDimension(dimension, 1 + number // 30)
        file.createVariable("many_dimensions", "i4", names)[:] = np.arange(4).reshape((1,) * 30 + (2, 2))
        file.createVariable("large", "f8", ("large",))[:] = np.arange(3_000_000)


@case("stale files", consume=read)
def over_a_stale_file(name: str) -> None:
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("x", 1)
