"""What is compared: the features of HDF5, in the order of their table, and what cells cannot say by themselves."""

from __future__ import annotations

FEATURES = {
    "groups": "nested groups",
    "links": "hard and soft links",
    "external links": "external links",
    "committed types": "committed types",
    "creation order": "links and attributes in order of creation",
    "attributes": "attributes of every type, on every kind of object, few and many",
    "numbers": "integers and floats of every size and byte order, and odd ones",
    "complex": "complex numbers",
    "booleans": "booleans",
    "enumerations": "enumerations",
    "bitfields": "bitfields",
    "opaque types": "opaque types",
    "fixed strings": "strings of fixed length",
    "strings": "strings of variable length",
    "sequences": "sequences of variable length",
    "array types": "array types",
    "compound types": "compound types",
    "nested types": "types within types",
    "object references": "references to objects",
    "region references": "references to regions",
    "null and scalar spaces": "null and scalar spaces",
    "zero sizes": "extents of zero",
    "32 dimensions": "32 dimensions",
    "contiguous": "contiguous layout",
    "compact": "compact layout",
    "chunked": "chunked layout",
    "resizable": "datasets that can grow",
    "virtual datasets": "virtual datasets",
    "external storage": "datasets kept in other files (external storage)",
    "gzip": "gzip",
    "shuffle": "shuffle",
    "szip": "szip",
    "lzf": "LZF",
    "fletcher32": "Fletcher32",
    "scale-offset": "scale-offset and n-bit",
    "plugin filters": "filters that a program or a plugin brings",
    "fill values": "fill values",
    "fill times": "times of allocation and of filling",
    "dimension scales": "dimension scales",
    "user blocks": "user blocks",
    "file space": "strategies for file space, sizes, alignment",
    "formats": "oldest and newest file formats",
    "many objects": "thousands of objects in a group",
    "large datasets": "large datasets (24 MB)",
    "partial writes": "writes of parts: hyperslabs, points, members of compounds",
    "overwrites": "overwrites",
    "extents": "extents that shrink and grow",
    "filling memory": "H5Dfill",
    "copy, move, delete": "copies, moves, deletes",
    "mounted files": "mounted files",
    "multi-dataset calls": "multi-dataset calls",
    "chunk calls": "chunks read and written as they are stored",
    "async calls": "asynchronous calls and event sets",
    "appending": "append modes",
    "stale files": "a stale or huge file of that name on disk",
    "drivers": "drivers that a program asks for (core, stdio, ...), file images",
    "file handling": "files opened twice, flushed, asked about, reopened",
    "closing": "files closed late, in odd order or not at all",
    "errors": "failing calls: return codes, error classes, messages",
    "swmr": "one writer with many readers at the same time (SWMR)",
}

SWMR = (
    "A reader sees a step when it is whole, so it cannot follow a writer. The calls that ask for SWMR fail with an "
    "error that says so; left out of the ports, such a file is shared on disk as before."
)
INSIDE = (
    "A program with HDF5 linked statically inside is reached through the C library alone, and is not refused: its "
    "reader sees each step once, whole, which is a state that a SWMR reader may see, but no later one."
)
NOTES = {("c-static", "swmr"): INSIDE, ("c-hidden", "swmr"): INSIDE}
"""What is to be known of a cell, by library and feature."""

EXPLAINED: dict[tuple[str, str], str] = {}
"""Cases of libraries that see another thing than with a file, and why; a test fails if they do not any more."""

ABSENT = {
    "h5py": ("filling memory", "multi-dataset calls", "async calls"),
    "c": ("lzf", "dimension scales", "multi-dataset calls", "async calls"),
    "c-later": ("lzf", "dimension scales"),
    "netcdf4": (
        *("links", "external links", "booleans", "bitfields", "array types", "object references", "region references"),
        *("compact", "virtual datasets", "external storage", "lzf", "scale-offset", "user blocks", "file space"),
        *("filling memory", "copy, move, delete", "mounted files", "multi-dataset calls", "chunk calls", "async calls"),
        *("closing", "swmr"),
    ),
    "tables": (
        *("committed types", "creation order", "bitfields", "opaque types", "object references", "region references"),
        *("compact", "virtual datasets", "external storage", "szip", "lzf", "scale-offset", "fill times"),
        *("dimension scales", "file space", "formats", "filling memory", "mounted files", "multi-dataset calls"),
        *("chunk calls", "async calls", "swmr"),
    ),
}
"""What a library has no calls for."""


def absent(library: str) -> tuple[str, ...]:
    """The features that a library has no calls for."""
    kinds = {"h5py-1.10": "h5py", "c-static": "c", "c-hidden": "c", "c-1.14": "c-later", "c-2.0": "c-later"}
    return ABSENT.get(kinds.get(library, library), ())
