"""AnnData's .h5ad files: dense and sparse matrices, annotations, categories, layers, backed reads, parts, errors."""

from __future__ import annotations

import warnings
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import scipy.sparse as sparse
from anndata.io import read_elem, sparse_dataset, write_elem
from fidelity.cases import attempt, case

warnings.simplefilter("ignore")


def value(thing: Any) -> Any:
    """Any part of a data set, as plain values."""
    if sparse.issparse(thing):
        return [type(thing).__name__, thing.shape, str(thing.dtype), thing.toarray().tolist()]
    if isinstance(thing, (pd.DataFrame, pd.Series)):
        return [str(getattr(thing, "dtypes", "")), thing.to_csv()]
    if isinstance(thing, np.ndarray):
        return [str(thing.dtype), thing.shape, thing.tolist()]
    if isinstance(thing, dict) or hasattr(thing, "items"):
        return {key: value(part) for key, part in thing.items()}
    return repr(thing)


def told(data: anndata.AnnData) -> dict[str, Any]:
    parts = ("obs", "var", "obsm", "varm", "obsp", "layers", "uns")
    return {"repr": repr(data), "X": value(data.X), **{part: value(getattr(data, part)) for part in parts}}


def read(name: str) -> list[Any]:
    return [told(anndata.read_h5ad(name))]


def read_backed(name: str) -> list[Any]:
    data = anndata.read_h5ad(name, backed="r")
    seen = [repr(data), data.isbacked, str(data.filename), value(data[3:9, [1, 4]].X)]
    seen += [value(data.X[2:4]), value(data.obs), told(data[:5].to_memory())]
    data.file.close()
    with h5py.File(name, "r") as file:
        part = file["X"] if isinstance(file["X"], h5py.Dataset) else sparse_dataset(file["X"])
        seen.append(value(part[5:7]))
        return [*seen, value(read_elem(file["obs"])), {key: dict(file[key].attrs) for key in file}]


def cells(x: Any) -> anndata.AnnData:
    names = [f"cell {number}" for number in range(20)]
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical(["T", "B", "T", "NK"] * 5),
            "ordered": pd.Categorical(["low", "high"] * 10, ["low", "mid", "high"], ordered=True),
            "depth": np.arange(20) / 7,
            "good": np.arange(20) % 3 == 0,
            "note": ["", "größe", "x", "a longer note"] * 5,
            "gaps": pd.array([1, None, 3, None] * 5, "Int64"),
        },
        names,
    )
    var = pd.DataFrame({"chromosome": list("1122X")}, [f"gene {number}" for number in range(5)])
    return anndata.AnnData(x, obs, var)


def counts() -> Any:
    return (np.arange(100).reshape(20, 5) % 7 * (np.arange(100).reshape(20, 5) % 3 == 0)).astype("f4")


@case("groups", "attributes", "numbers", "strings", "booleans", "enumerations", "contiguous", consume=read)
def dense_and_annotated(name: str) -> None:
    data = cells(counts())
    data.uns = {
        "text": "grüße", "number": 5, "real": 2.5, "list": np.arange(4), "texts": np.array(["a", "bc"]),
        "nest": {"deeper": {"still": np.eye(2)}}, "flag": True, "none": np.zeros((0, 3)),
    }  # fmt: skip
    data.obsm["pca"], data.varm["loads"] = np.arange(40.0).reshape(20, 2), np.eye(5)
    data.obsp["near"] = sparse.random(20, 20, 0.1, "csr", random_state=0)
    data.layers["log"] = np.log1p(counts())
    data.write_h5ad(name)


@case("gzip", "shuffle", "lzf", "chunked", "resizable", consume=read_backed)
def sparse_and_compressed(name: str) -> None:
    data = cells(sparse.csr_matrix(counts()))
    data.layers["columns"] = sparse.csc_matrix(counts())
    data.write_h5ad(name, compression="gzip", compression_opts=5)


@case("lzf", "partial writes", consume=read_backed)
def dense_and_backed(name: str) -> None:
    cells(counts()).write_h5ad(name, compression="lzf")


@case("appending", "overwrites", "file handling", consume=read, again=True)
def changed_on_disk(name: str) -> list[Any]:
    cells(counts()).write_h5ad(name)
    data = anndata.read_h5ad(name, backed="r+")
    data.X[3:5] = 9
    data.obs["added"] = np.arange(20)
    data.write()
    data.file.close()
    with h5py.File(name, "a") as file:
        write_elem(file, "uns/later", {"list": np.arange(3), "table": pd.DataFrame({"a": [1, 2]})})
        write_elem(file, "layers/twice", sparse.csr_matrix(2 * counts()))
        grows = sparse_dataset(file["layers/twice"])
        grows.append(sparse.csr_matrix(counts()[:0]))
    return [value(anndata.read_h5ad(name).X)]


@case("errors", consume=lambda name: [attempt(anndata.read_h5ad, name)])
def refused(name: str) -> list[str]:
    seen = [attempt(anndata.read_h5ad, name), attempt(anndata.read_h5ad, "no-such-file.h5")]
    data = cells(counts())
    data.uns["bad"] = {"an": object()}
    return [*seen, attempt(data.write_h5ad, name)]


@case("zero sizes", "null and scalar spaces", consume=read)
def nothing_in_it(name: str) -> None:
    anndata.AnnData(np.zeros((0, 3), "f4")).write_h5ad(name)


@case("large datasets", consume=lambda name: [float(anndata.read_h5ad(name).X.sum())])
def large(name: str) -> None:
    anndata.AnnData(np.arange(3_000_000, dtype="f8").reshape(3000, 1000)).write_h5ad(name)


@case("compound types", consume=read)
def records(name: str) -> None:
    data = cells(counts())
    data.uns["ranks"] = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    data.write_h5ad(name)


@case("stale files", consume=read)
def over_a_stale_file(name: str) -> None:
    cells(counts()).write_h5ad(name)
