"""openPMD series in one file: meshes, particles, constant components, chunks in parts, attributes, appending, errors.

The wheel of openPMD-api carries an HDF5 of its own, linked statically, that nothing can see or reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import openpmd_api as pmd
from fidelity.cases import attempt, case

JSON = '{"backend": "hdf5", "hdf5": {"dataset": {"chunks": "none"}}}'


def created(name: str) -> Any:
    """A new series that does not say when it was made."""
    series = pmd.Series(name, pmd.Access.create)
    series.set_date("2020-01-01 00:00:00 +0000")
    return series


def attributes(thing: Any) -> dict[str, str]:
    return {key: repr(thing.get_attribute(key)) for key in thing.attributes}


def component(series: Any, part: Any) -> list[Any]:
    """Everything the library tells of a component, and its values, read in two ways."""
    seen: list[Any] = [str(part.dtype), part.shape, part.unit_SI, attributes(part)]
    if 0 in part.shape:
        return seen
    whole = part.load_chunk()
    first = part.load_chunk([0] * part.ndim, [max(1, n // 2) for n in part.shape])
    series.flush()
    return [*seen, whole.tolist() if whole.size < 500 else float(whole.sum()), float(np.sum(first).real)]


def told(series: Any) -> list[Any]:
    seen: list[Any] = [attributes(series), str(series.iteration_encoding), list(series.iterations)]
    for number in series.iterations:
        iteration = series.iterations[number]
        seen.append([number, iteration.time, iteration.dt, attributes(iteration)])
        for name, mesh in sorted(iteration.meshes.items()):
            seen.append([name, attributes(mesh), mesh.axis_labels, mesh.grid_spacing])
            seen += [[key, component(series, mesh[key])] for key in sorted(mesh)]
        for kind, species in sorted(iteration.particles.items()):
            for name, record in sorted(species.items()):
                seen.append([kind, name, attributes(record)])
                seen += [[key, component(series, record[key])] for key in sorted(record)]
    return seen


def read(name: str) -> list[Any]:
    series = pmd.Series(name, pmd.Access.read_only)
    seen = told(series)
    series.close()
    return seen


def mesh(iteration: Any, name: str, values: Any, **how: Any) -> Any:
    part = iteration.meshes[name][pmd.Mesh_Record_Component.SCALAR]
    part.reset_dataset(pmd.Dataset(values.dtype, values.shape, **how))
    if values.size:
        part.store_chunk(values)
    return part


@case("groups", "attributes", "numbers", "complex", "contiguous", "fixed strings", consume=read)
def meshes_of_every_type(name: str) -> None:
    series = created(name)
    series.set_author("A. Nobody")
    series.set_attribute("list", [1.5, 2.5])
    series.set_attribute("texts", ["one", "größe"])
    series.set_attribute("flag", True)
    iteration = series.iterations[100]
    iteration.time, iteration.dt = 2.5, 0.5
    for kind in ("i1", "u2", "i4", "u8", "f4", "f8", "c8", "c16"):
        mesh(iteration, kind, np.arange(12).reshape(3, 4).astype(kind), options=JSON)
    field = iteration.meshes["E"]
    field.axis_labels, field.grid_spacing = ["x", "y"], [0.5, 0.25]
    for axis in "xyz":
        field[axis].reset_dataset(pmd.Dataset(np.dtype("f8"), [20, 30]))
        field[axis].store_chunk(np.full((20, 30), ord(axis) / 7))
    series.flush()
    series.close()


@case("chunked", "partial writes", "gzip", "resizable", consume=read)
def stored_in_parts(name: str) -> None:
    series = created(name)
    for number in range(3):
        iteration = series.iterations[number]
        part = iteration.meshes["rho"][pmd.Mesh_Record_Component.SCALAR]
        part.reset_dataset(pmd.Dataset(np.dtype("f4"), [8, 10], options='{"hdf5": {"dataset": {"chunks": [3, 4]}}}'))
        for row in range(0, 8, 2):
            part.store_chunk(np.full((2, 10), row + number, "f4"), [row, 0], [2, 10])
        iteration.close()
    series.close()


@case("compound types", "null and scalar spaces", "zero sizes", consume=read)
def particles_and_constants(name: str) -> None:
    series = created(name)
    electrons = series.iterations[0].particles["electrons"]
    for axis in "xyz":
        for record in ("position", "momentum"):
            electrons[record][axis].reset_dataset(pmd.Dataset(np.dtype("f8"), [50]))
            electrons[record][axis].store_chunk(np.arange(50.0) * ord(axis))
        electrons["positionOffset"][axis].reset_dataset(pmd.Dataset(np.dtype("f8"), [50]))
        electrons["positionOffset"][axis].make_constant(0.5)
    electrons["id"][pmd.Record_Component.SCALAR].reset_dataset(pmd.Dataset(np.dtype("u8"), [50]))
    electrons["id"][pmd.Record_Component.SCALAR].store_chunk(np.arange(50, dtype="u8"))
    empty = series.iterations[0].meshes["empty"][pmd.Mesh_Record_Component.SCALAR]
    empty.reset_dataset(pmd.Dataset(np.dtype("f8"), [3]))
    empty.make_empty(np.dtype("f8"), 2)
    series.close()


@case("appending", "file handling", "overwrites", consume=read, again=True)
def appended(name: str) -> list[Any]:
    seen = []
    for number in range(3):
        series = created(name) if number == 0 else pmd.Series(name, pmd.Access.append)
        mesh(series.iterations[number], "n", np.full((4, 4), number))
        series.close()
    series = pmd.Series(name, pmd.Access.read_write)
    series.iterations[1].set_attribute("note", "changed later")
    series.close()
    series = pmd.Series(name, pmd.Access.read_only)
    seen.append(told(series))
    series.close()
    return seen


@case("errors", consume=lambda name: [attempt(read, name)[:300], attempt(read, "no-such-file.h5")[:300]])
def refused(name: str) -> list[str]:
    seen = [attempt(pmd.Series, name, pmd.Access.read_only)[:300]]
    seen.append(attempt(pmd.Series, "x.nothing", pmd.Access.create)[:100])
    series = created(name)
    part = mesh(series.iterations[0], "n", np.arange(4.0))
    seen.append(attempt(part.store_chunk, np.arange(9.0), [0], [9])[:200])
    series.close()
    return seen


@case("large datasets", "many objects", consume=read)
def large_and_many(name: str) -> None:
    series = created(name)
    mesh(series.iterations[0], "large", np.arange(3_000_000.0))
    for number in range(50):
        mesh(series.iterations[0], f"m{number}", np.array([number]))
    series.close()


@case("stale files", consume=read)
def over_a_stale_file(name: str) -> None:
    series = created(name)
    mesh(series.iterations[0], "n", np.arange(4.0))
    series.close()
