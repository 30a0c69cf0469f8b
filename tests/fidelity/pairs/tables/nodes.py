"""PyTables files: arrays of every kind, tables, indexes, links, attributes, filters, undo, appending, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import tables
from fidelity.cases import attempt, case, target


class Particle(tables.IsDescription):  # type: ignore[misc]
    """A row."""

    name = tables.StringCol(8)
    number = tables.Int64Col(dflt=-1)
    energy = tables.Float32Col(shape=(2, 2))
    bright = tables.BoolCol()
    kind = tables.EnumCol({"red": 0, "blue": 7}, "red", base="uint8")
    place = tables.ComplexCol(itemsize=16)

    class inner(tables.IsDescription):  # type: ignore[misc]  # noqa: N801
        """A row in the row."""

        x = tables.Float64Col()
        when = tables.Time64Col()


def contents(node: Any) -> list[Any]:
    """Everything the library tells of a node."""
    seen: list[Any] = [node._v_pathname, type(node).__name__]
    if isinstance(node, tables.link.Link):
        return [*seen, node.target]
    seen.append({key: repr(node._v_attrs[key]) for key in node._v_attrs._f_list("all")})
    if isinstance(node, tables.Leaf):
        seen += [
            node.shape,
            str(node.atom) if hasattr(node, "atom") else "",
            node.filters,
            node.chunkshape,
            node.byteorder,
        ]
        seen += [attempt(lambda: repr(node.read())), node.size_on_disk, node.size_in_memory]
    if isinstance(node, tables.Table):
        seen += [
            repr(node.coltypes),
            node.indexedcolpathnames,
            attempt(lambda: node.read_where("number > 2")["number"]),
        ]
    return seen


def read_both(name: str) -> list[Any]:
    return [read(name), read(target(name))]


def read(name: str) -> list[Any]:
    with tables.open_file(name) as file:
        seen: list[Any] = [contents(node) for node in file.walk_nodes()]
        seen += [file.format_version, file.filename, file.get_filesize(), attempt(file.create_group, "/", "new")]
        return [*seen, attempt(file.get_node, "/none")]


@case("groups", "attributes", "links", "external links", consume=read_both, pair=True)
def groups_links_and_attributes(name: str) -> None:
    with tables.open_file(target(name), "w", title="the other") as other:
        other.create_array("/", "far", [1, 2, 3])
    with tables.open_file(name, "w", title="a title") as file:
        group = file.create_group("/a", "b", createparents=True)
        array = file.create_array(group, "x", np.arange(5))
        array.attrs.number, array.attrs.text, array.attrs.list = 5, "grüße", np.arange(3)
        array.attrs.pickled = {"any": ["object", 1.5]}
        file.create_hard_link("/", "hard", array)
        file.create_soft_link("/", "soft", "/a/b/x")
        file.create_external_link("/", "out", f"{target(name)}:/far")
        file.move_node("/a/b/x", "/a", "moved")
        file.copy_node("/a", newname="copy", newparent="/", recursive=True)
        file.remove_node("/copy/b")


@case(
    "contiguous",
    "numbers",
    "booleans",
    "complex",
    "fixed strings",
    "enumerations",
    "null and scalar spaces",
    consume=read,
)
def arrays_of_every_type(name: str) -> None:
    with tables.open_file(name, "w") as file:
        for kind in ("i1", "u2", "<i4", ">i8", "f2", "<f4", ">f8", "c8", "c16", "?", "S5"):
            data = np.array([0, 1, 100]).astype(kind)
            file.create_array("/", f"array_{kind}".replace("<", "le").replace(">", "be").replace("?", "bool"), data)
        file.create_array("/", "scalar", np.float64(1.5))
        file.create_array("/", "text", "ünïcode".encode())
        colors = tables.EnumAtom({"red": 0, "blue": 7}, "red", base="uint8")
        file.create_carray("/", "enum", colors, (3,))[:] = [7, 0, 7]


@case("compound types", "nested types", "array types", "overwrites", "copy, move, delete", consume=read)
def table_of_particles(name: str) -> None:
    with tables.open_file(name, "w") as file:
        table = file.create_table("/", "particles", Particle, expectedrows=100)
        for number in range(20):
            row = table.row
            row["name"], row["number"], row["energy"], row["inner/x"] = f"p{number}", number, number / 3, number
            row["bright"], row["kind"], row["place"] = number % 2, 7 if number % 3 else 0, 1j * number
            row.append()
        table.flush()
        table.cols.number.create_csindex()
        table.remove_rows(3, 5)
        table.modify_column(0, 4, colname="number", column=[9, 8, 7, 6])
        table.append(table[0:1])
        table.copy("/", "sorted", sortby="number")


@case("sequences", "strings", "resizable", "partial writes", "extents", "chunked", consume=read)
def growing_arrays(name: str) -> None:
    with tables.open_file(name, "w") as file:
        grows = file.create_earray("/", "grows", tables.Float32Atom(), (0, 3))
        for step in range(5):
            grows.append(np.full((4, 3), step, "f4"))
        grows.truncate(11)
        grows[::2, 1] = -1
        ragged = file.create_vlarray("/", "ragged", tables.Int16Atom())
        ragged.append([1, 2, 3])
        ragged.append(list(range(300)))
        words = file.create_vlarray("/", "words", tables.VLUnicodeAtom())
        words.append("größe")
        things = file.create_vlarray("/", "things", tables.ObjectAtom())
        things.append({"a": 1})


@case("gzip", "shuffle", "fletcher32", "plugin filters", "fill values", consume=read)
def filters(name: str) -> list[str]:
    data = np.arange(6000, dtype="i4").reshape(60, 100) % 300
    seen = []
    with tables.open_file(name, "w") as file:
        for library in ("zlib", "bzip2", "blosc", "blosc:lz4", "blosc2", "blosc2:zstd", "lzo"):
            filters = tables.Filters(5, library, fletcher32=library == "zlib")
            atom = tables.Int32Atom(dflt=-3)
            label = library.replace(":", "_")
            made = attempt(
                lambda f=filters, n=label, a=atom: file.create_carray(
                    "/", n, a, (60, 100), filters=f, chunkshape=(7, 50)
                )
            )
            seen.append(made[:80])
            if label in file.root:
                file.root[label][10:50] = data[10:50]
    return seen


@case("appending", "file handling", consume=read, again=True)
def appended(name: str) -> list[Any]:
    with tables.open_file(name, "w") as file:
        file.create_earray("/", "x", tables.Int32Atom(), (0,)).append([1, 2])
    for mode in ("a", "r+"):
        with tables.open_file(name, mode) as file:
            file.root.x.append([3, 4])
            file.flush()
    with tables.open_file(name) as first, tables.open_file(name) as second:
        return [first.root.x[:].tolist(), second.root.x.shape, first is second]


@case("errors", consume=read)
def refused(name: str) -> list[str]:
    seen = [attempt(tables.open_file, name), attempt(tables.open_file, name, "r+"), attempt(tables.is_hdf5_file, name)]
    with tables.open_file(name, "w") as file:
        file.create_array("/", "x", [1, 2, 3])
        seen += [attempt(file.create_array, "/", "x", [1]), attempt(lambda: file.root.none)]
        seen += [attempt(tables.open_file, name), attempt(tables.open_file, name, "w")]
        seen += [attempt(lambda: file.root.x[9]), attempt(file.create_array, "/", "bad", np.array([{}], object))]
    return [*seen, attempt(lambda: file.root), attempt(tables.is_pytables_file, name)]


@case("many objects", consume=lambda name: len(tables.open_file(name).list_nodes("/")))
def many_arrays(name: str) -> None:
    with tables.open_file(name, "w") as file:
        for number in range(300):
            file.create_array("/", f"a{number}", [number])


@case("user blocks", "drivers", consume=read_both, pair=True)
def user_block_and_core(name: str) -> None:
    with tables.open_file(name, "w", user_block_size=512) as file:
        file.create_array("/", "x", np.arange(9))
    with tables.open_file(target(name), "w", driver="H5FD_CORE") as file:
        file.create_array("/", "x", np.arange(9))


@case("closing", consume=read)
def closed_by_the_registry(name: str) -> list[str]:
    file = tables.open_file(name, "w")
    array = file.create_array("/", "x", np.arange(1000))
    file.enable_undo()
    file.create_array("/", "gone", [1])
    file.undo()
    tables.file._open_files.close_all()
    return [attempt(lambda: array[0]), attempt(lambda: file.root)]


@case("zero sizes", "null and scalar spaces", "32 dimensions", "large datasets", consume=read)
def odd_shapes(name: str) -> None:
    with tables.open_file(name, "w") as file:
        file.create_earray("/", "nothing", tables.Int32Atom(), (0, 3))
        file.create_array("/", "many_dimensions", np.arange(4).reshape((1,) * 30 + (2, 2)))
        file.create_array("/", "one", 5)
        file.create_array("/", "large", np.arange(3_000_000, dtype="f8"))


@case("stale files", consume=read)
def over_a_stale_file(name: str) -> None:
    with tables.open_file(name, "w") as file:
        file.create_array("/", "new", [1])
