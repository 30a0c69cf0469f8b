"""pandas frames in HDF5: fixed and table formats, appending, queries, indexes, chunked reads, removal, errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from fidelity.cases import attempt, case, target

warnings.simplefilter("ignore")


def told(frame: Any) -> list[Any]:
    kinds = [str(kind) for kind in frame.dtypes] if isinstance(frame, pd.DataFrame) else [str(frame.dtype)]
    return [type(frame).__name__, kinds, str(frame.index.dtype), repr(frame.index.names), frame.to_csv()[:4000]]


def read(name: str) -> list[Any]:
    with pd.HDFStore(name, "r") as store:
        seen: list[Any] = [store.keys(), store.info(), [group._v_pathname for group in store.groups()]]
        for key in store:
            storer = store.get_storer(key)
            seen.append([key, storer.format_type, storer.is_table, attempt(lambda s=storer: s.nrows), told(store[key])])
            if storer.is_table:
                seen.append([attempt(lambda k=key: told(store.select(k, "index < 3"))), repr(storer.data_columns)])
                seen.append([len(part) for part in store.select(key, chunksize=7)])
        seen += [attempt(lambda: store["nothing"]), attempt(store.put, "new", pd.Series([1]))]
    return [*seen, attempt(lambda: told(pd.read_hdf(name, seen[0][0])))]


def read_both(name: str) -> list[Any]:
    return [read(name), read(target(name))]


def query(name: str) -> list[Any]:
    conditions = ("number > 5", "kind == 'b'", "number in [1, 3] & real < 2", "when >= '2020-01-05'", "no such")
    with pd.HDFStore(name, "r") as store:
        seen: list[Any] = [attempt(lambda c=c: told(store.select("t", c))) for c in conditions]
        seen += [told(store.select("t", "number < 4", columns=["real"])), told(store.select("t", start=4, stop=6))]
        seen += [
            told(store.select_column("t", "kind")),
            told(store.select_as_coordinates("t", "number > 15").to_series()),
        ]
        return [*seen, told(store.select_as_multiple(["left", "right"], "a > 2", selector="left"))]


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "number": np.arange(20),
            "real": np.arange(20) / 7,
            "small": np.arange(20, dtype="f4"),
            "good": np.arange(20) % 2 == 0,
            "kind": list("abca") * 5,
            "when": pd.date_range("2020-01-01", periods=20),
        }
    )


@case("groups", "numbers", "booleans", "attributes", "strings", "contiguous", "zero sizes", consume=read)
def fixed_frames(name: str) -> list[str]:
    with pd.HDFStore(name, "w") as store:
        store["frame"] = frame()
        store["deep/er/series"] = pd.Series([1.5, np.nan, 3], ["x", "y", "größe"], name="s")
        store["times"] = pd.Series(range(5), pd.date_range("2020-01-01", periods=5, freq="h", tz="Europe/Berlin"))
        store["empty"] = pd.DataFrame({"a": np.zeros(0)})
        store["integers"] = pd.DataFrame(np.arange(12, dtype="u2").reshape(3, 4), columns=list("abcd"))
        several = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["one", "two"])
        store["levels"] = pd.Series(range(4), several)
        return [attempt(store.append, "frame", frame()), attempt(lambda: store.select("frame", "index > 3"))]


@case("compound types", "fixed strings", "resizable", "chunked", "enumerations", consume=query)
def tables_to_query(name: str) -> None:
    with pd.HDFStore(name, "w") as store:
        store.put("t", frame(), format="table", data_columns=["number", "real", "kind", "when"])
        wide = pd.DataFrame(np.arange(30.0).reshape(10, 3), columns=list("abc"))
        store.append_to_multiple({"left": ["a"], "right": None}, wide, selector="left")
        store.create_table_index("t", columns=["number"], optlevel=9, kind="full")


@case("appending", "file handling", "copy, move, delete", "overwrites", consume=read, again=True)
def appended_and_removed(name: str) -> list[Any]:
    seen = []
    with pd.HDFStore(name, "w") as store:
        for part in range(3):
            store.append("t", frame().assign(number=lambda f, p=part: f["number"] + 100 * p), min_itemsize={"kind": 8})
        seen.append(store.remove("t", "index > 15"))
        seen.append(attempt(store.append, "t", frame().drop(columns="real")))
        seen.append(attempt(store.append, "t", frame().assign(kind="much too long for it")))
        store["gone"] = frame()
        store.remove("gone")
    frame().to_hdf(name, key="later", mode="a", format="table")
    frame().to_hdf(name, key="t", mode="r+", format="table", append=True)
    with pd.HDFStore(name, "a") as store:
        store["later"] = frame()[:3]
        store.flush(fsync=True)
        return [*seen, store.keys(), len(store["t"]), "gone" in store]


@case("gzip", "shuffle", "fletcher32", "plugin filters", consume=read_both, pair=True)
def compressed(name: str) -> None:
    with pd.HDFStore(name, "w", complevel=5, complib="zlib", fletcher32=True) as store:
        store.put("z", frame(), format="table")
        store.append("b", frame(), complib="bzip2", data_columns=True)
    frame().to_hdf(target(name), key="blosc", complevel=9, complib="blosc:lz4")


@case("creation order", "sequences", consume=read)
def categories_and_objects(name: str) -> list[str]:
    with pd.HDFStore(name, "w") as store:
        categories = frame().assign(kind=lambda f: f["kind"].astype("category"))
        store.put("categories", categories, format="table")
        return [attempt(store.put, "objects", pd.Series([{"a": 1}, [2], "three"]))]


def read_wrongly(name: str) -> list[str]:
    return [
        attempt(pd.read_hdf, name),
        attempt(pd.read_hdf, name, "none"),
        attempt(pd.read_hdf, name, "t", where="index > 3"),
    ]


@case("errors", consume=read_wrongly, again=True)
def refused(name: str) -> list[str]:
    seen = [attempt(pd.read_hdf, name), attempt(pd.HDFStore, name, "r"), attempt(pd.HDFStore, name, "r+")]
    frame().to_hdf(name, key="one")
    frame().to_hdf(name, key="two")
    seen += [attempt(pd.HDFStore, name, "z"), attempt(frame().to_hdf, name, key="t", format="no such")]
    store = pd.HDFStore(name, "r")
    seen += [attempt(store.put, "x", frame()), attempt(pd.HDFStore, name, "a")[:300]]
    store.close()
    return [*seen, attempt(store.keys)]


@case("drivers", consume=read)
def in_memory_first(name: str) -> None:
    with pd.HDFStore(name, "w", driver="H5FD_CORE") as store:
        store["x"] = frame()


@case("large datasets", "many objects", consume=lambda name: [float(pd.read_hdf(name, "large")["x"].sum())])
def large_and_many(name: str) -> None:
    with pd.HDFStore(name, "w") as store:
        store["large"] = pd.DataFrame({"x": np.arange(3_000_000.0)})
        for number in range(30):
            store[f"many/s{number}"] = pd.Series([number])


@case("stale files", consume=read)
def over_a_stale_file(name: str) -> None:
    frame().to_hdf(name, key="x", mode="w")
