"""xarray datasets in netCDF-4 files: coordinates, times, encodings, groups, lazy and partial reads, appending, errors.

XARRAY_ENGINE names the engine that writes and reads them: ``h5netcdf`` or ``netcdf4``.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import xarray as xr
from fidelity.cases import attempt, case, target

ENGINE: Any = os.environ["XARRAY_ENGINE"]


def told(data: xr.Dataset) -> list[Any]:
    """Everything the library tells of a dataset."""
    kept = ("dtype", "zlib", "complevel", "shuffle", "fletcher32", "chunksizes", "contiguous", "_FillValue", "units")
    seen: list[Any] = [dict(data.sizes), {key: repr(value) for key, value in data.attrs.items()}]
    for name, variable in data.variables.items():
        encoding = {key: repr(variable.encoding[key]) for key in kept if key in variable.encoding}
        about = [name, variable.dims, str(variable.dtype), {k: repr(v) for k, v in variable.attrs.items()}, encoding]
        seen.append([*about, attempt(lambda variable=variable: repr(variable.values.tolist())[:3000])])
    return seen


def read(name: str) -> list[Any]:
    with xr.open_dataset(name, engine=ENGINE) as data:
        seen: list[Any] = [told(data)]
    with xr.open_dataset(name, engine=ENGINE, decode_cf=False) as data:
        seen.append(told(data))
    seen.append(attempt(lambda: told(xr.load_dataset(name, engine=ENGINE, group="none"))))
    return seen


def read_both(name: str) -> list[Any]:
    return [read(name), read(target(name))]


def read_tree(name: str) -> list[Any]:
    with xr.open_datatree(name, engine=ENGINE) as tree:
        return [[node.path, told(node.to_dataset())] for node in tree.subtree]


def read_parts(name: str) -> list[Any]:
    with xr.open_dataset(name, engine=ENGINE) as data:
        some = data["t"].isel(time=slice(1, 7, 2), x=[0, 3]).load()
        near = data["t"].sel(x=1.2, method="nearest")
        return [some.values.tolist(), near.values.tolist(), float(data["t"].mean()), data["t"][2].values.tolist()]


def weather() -> xr.Dataset:
    times = np.datetime64("2020-01-01", "ns") + np.arange(8) * np.timedelta64(1, "D")
    return xr.Dataset(
        {
            "t": (("time", "x"), np.arange(32.0).reshape(8, 4), {"units": "K", "list": [1, 2, 3]}),
            "wet": (("time", "x"), (np.arange(32).reshape(8, 4) % 3).astype(bool)),
            "station": (("x",), np.array(["Ulm", "Bö", "", "a longer name"], object)),
            "since": (("time",), np.arange(8) * np.timedelta64(3, "h").astype("timedelta64[ns]")),
        },
        {"time": times, "x": [0.5, 1.0, 1.5, 2.0], "height": 2.0},
        {"title": "weather of 2020", "numbers": np.arange(3), "one": 1.5},
    )


@case("attributes", "dimension scales", "strings", "booleans", "null and scalar spaces", consume=read)
def coordinates_times_and_texts(name: str) -> None:
    weather().to_netcdf(name, engine=ENGINE)


@case("gzip", "shuffle", "fletcher32", "chunked", "contiguous", "resizable", "fill values", consume=read)
def encoded(name: str) -> list[str]:
    data = weather().drop_vars(["station"])
    data["gaps"] = data["t"].where(data["t"] > 5)
    data["gaps"].attrs = {}
    how = {
        "t": {"zlib": True, "complevel": 4, "shuffle": True, "fletcher32": True, "chunksizes": (3, 2)},
        "gaps": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -99},
        "x": {"contiguous": True},
    }
    data.to_netcdf(name, engine=ENGINE, encoding=how, unlimited_dims=["time"])
    return [attempt(data.to_netcdf, "other.nc", engine=ENGINE, encoding={"t": {"no such word": 1}})[:60]]


@case("numbers", "fixed strings", "zero sizes", "large datasets", consume=read)
def variables_of_every_type(name: str) -> None:
    kinds = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S3")
    data = xr.Dataset({kind: ("x", np.array([0, 1, 100]).astype(kind)) for kind in kinds})
    data["big endian"] = "x", np.array([1, 2, 3], ">f8")
    data["nothing"] = "none", np.zeros(0)
    data["large"] = "many", np.arange(3_000_000.0)
    data.to_netcdf(name, engine=ENGINE)


@case("groups", "appending", "file handling", consume=read_tree, again=True)
def a_tree_that_grows(name: str) -> list[Any]:
    tree = xr.DataTree.from_dict({"/": weather()[["t"]], "/a": weather()[["wet"]], "/a/b": xr.Dataset({"n": 5})})
    tree.to_netcdf(name, engine=ENGINE)
    xr.Dataset({"added": ("y", [1, 2, 3])}).to_netcdf(name, mode="a", group="later/on", engine=ENGINE)
    xr.Dataset({"root too": 1.0}).to_netcdf(name, mode="a", engine=ENGINE)
    return [told(xr.load_dataset(name, engine=ENGINE, group="later/on"))]


@case("enumerations", "complex", consume=read)
def types_that_need_more(name: str) -> list[str]:
    data = xr.Dataset({"c": ("x", np.array([1j, 2, 3 - 4j]))})
    return [attempt(data.to_netcdf, name, engine=ENGINE, **{"auto_complex": True} if ENGINE == "netcdf4" else {})]


@case("partial writes", consume=read_parts)
def read_in_parts(name: str) -> None:
    weather().to_netcdf(name, engine=ENGINE, encoding={"t": {"chunksizes": (2, 2), "zlib": True}})


@case("formats", "errors", consume=read)
def classic_model_and_refusals(name: str) -> list[str]:
    data = weather().drop_vars(["wet"])
    seen = [
        attempt(xr.open_dataset, name, engine="no such engine"),
        attempt(xr.open_dataset, "no-such.h5", engine=ENGINE),
    ]
    data.to_netcdf(name, engine=ENGINE, format="NETCDF4_CLASSIC")
    return [*seen, attempt(xr.Dataset({"o": ("x", np.array([{}], object))}).to_netcdf, "other.nc", engine=ENGINE)]


@case("many objects", consume=read)
def many_variables(name: str) -> None:
    xr.Dataset({f"v{number}": ("x", [number, 2 * number]) for number in range(150)}).to_netcdf(name, engine=ENGINE)


def read_several(name: str) -> list[Any]:
    """Both files as one dataset, and an engine that is found by looking at the file."""
    first, second = xr.load_dataset(name), xr.load_dataset(target(name))
    return [told(xr.concat([first, second], "time")), told(first), sorted(xr.backends.list_engines())]


@case("stale files", "overwrites", consume=read_several, pair=True)
def files_of_one_dataset(name: str) -> None:
    data = weather()[["t"]]
    data.isel(time=slice(0, 4)).to_netcdf(target(name), engine=ENGINE)
    data.isel(time=slice(0, 4)).to_netcdf(name, engine=ENGINE)


@case("stale files", consume=read)
def over_a_stale_file(name: str) -> None:
    weather()[["t"]].to_netcdf(name, engine=ENGINE)
