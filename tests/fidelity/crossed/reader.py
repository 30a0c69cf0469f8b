"""Reads any HDF5 file as a library can that is not made for all of them: ``reader.py tables|netCDF4 OUT FILE...``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fidelity.cases import attempt, failure, tell

warnings.simplefilter("ignore")


def by_tables(name: str) -> Iterator[Any]:
    import tables

    with tables.open_file(name) as file:
        for node in file.walk_nodes():
            yield [node._v_pathname, type(node).__name__, attempt(lambda node=node: node._v_attrs._f_list("all"))]
            if isinstance(node, tables.Leaf) and not isinstance(node, tables.UnImplemented):
                yield [
                    node.shape,
                    attempt(lambda node=node: repr(node.dtype)),
                    attempt(lambda node=node: repr(node[:])),
                ]


def by_netcdf4(name: str) -> Iterator[Any]:
    import netCDF4

    def below(group: Any) -> Iterator[Any]:
        yield [group.path, group.ncattrs(), {key: len(size) for key, size in group.dimensions.items()}]
        for key, variable in group.variables.items():
            yield [
                key,
                repr(variable.dtype),
                variable.shape,
                variable.ncattrs(),
                attempt(lambda v=variable: repr(v[...])),
            ]
        for inner in group.groups.values():
            yield from below(inner)

    with netCDF4.Dataset(name) as file:
        yield from below(file)


def main(library: str, out: str, *files: str) -> None:
    """Read every file, each in a section of its own."""
    read = {"tables": by_tables, "netCDF4": by_netcdf4}[library]
    with Path(out).open("w", encoding="utf-8", errors="surrogateescape") as sections:
        for name in files:
            seen: list[Any] = []
            try:
                for each in read(name):
                    seen.append(each)  # noqa: PERF402 - what was seen before a failure counts
            except Exception as error:
                seen.append(failure(error))
            tell(sections, name, seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
