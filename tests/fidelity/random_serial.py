"""Random programs of one process, as ``perform.py`` performs them: what Hypothesis draws them from."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]

NUMBERS = st.integers(0, 40)
SEEDS = st.integers(0, 999)
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "x y", "ü", "a/b", "deep/er/x"])

OUTWARD = st.sampled_from(["out", "other", "beyond"])
"""Names of links to the second file: nothing is ever made below, for that would write to it after it is complete."""

NUMERIC = st.sampled_from(
    ["i1", "<i2", ">i4", "<i8", "u1", ">u2", "<u4", ">u8", "<f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c16", "?"]
)
FIXED = st.one_of(
    NUMERIC,
    NUMERIC,
    st.sampled_from(["V3", "V16", "S1", "S7"]),
    st.tuples(st.just("bytes"), st.integers(1, 9), st.sampled_from(["ascii", "utf-8"])),
    st.tuples(st.just("enum"), st.sampled_from(["i1", ">i4", "u2"]), st.integers(1, 4)),
)
THINGS = st.one_of(
    st.tuples(st.just("text"), st.sampled_from(["ascii", "utf-8"])),
    st.tuples(st.just("sequence"), FIXED),
    st.sampled_from([["reference"], ["region"]]),
)


def nested(inner: Strategy) -> Strategy:
    """Arrays and compounds of other types."""
    sizes = st.lists(st.integers(1, 3), min_size=1, max_size=2)
    fields = st.lists(inner, min_size=1, max_size=4)
    return st.one_of(st.tuples(st.just("array"), inner, sizes), st.tuples(st.just("compound"), fields, st.booleans()))


TYPES = st.one_of(NUMERIC, FIXED, FIXED, THINGS, st.recursive(st.one_of(FIXED, FIXED, THINGS), nested, max_leaves=6))

SHAPES = st.one_of(
    st.lists(st.integers(0, 6), max_size=3),
    st.lists(st.integers(1, 12), min_size=1, max_size=2),
    st.lists(st.integers(1, 12), min_size=1, max_size=2),
    st.lists(st.integers(1, 3), min_size=4, max_size=5),
)
LARGE = st.lists(st.integers(30, 120), min_size=1, max_size=2)
KINDS = st.sampled_from(["slice", "slice", "slice", "at", "list", "all", "all", "over"])
SELECTIONS = st.lists(st.tuples(KINDS, NUMBERS, NUMBERS, NUMBERS), max_size=4)
ALONE = st.sampled_from(["szip", "scaleoffset"])
"""Filters that leave some of their output to chance, which no other is to see, for then its length varies."""

FILTERS = st.one_of(
    st.lists(
        st.tuples(st.sampled_from(["gzip", "gzip", "shuffle", "fletcher32", "lzf"]), st.integers(0, 9)), max_size=3
    ),
    st.lists(st.tuples(ALONE, st.integers(0, 9)), min_size=1, max_size=1),
)
EXTENTS = st.lists(st.one_of(st.none(), st.none(), st.integers(1, 150)), min_size=6, max_size=6)
COMMON = {
    "fill": SEEDS,
    "alloc": st.sampled_from(["early", "late", "incremental"]),
    "filling": st.sampled_from(["alloc", "never", "ifset"]),
    "order": st.booleans(),
    "committed": st.booleans(),
    "narrow": st.integers(1, 7),
}


def chunked(least: int, most: int) -> Strategy:
    """The chunked layout, with chunks of so many elements along each axis."""
    chunks = st.lists(st.integers(least, most), min_size=6, max_size=6)
    always = {"layout": st.just("chunked"), "chunk": chunks, "max": EXTENTS, "filters": FILTERS}
    return st.fixed_dictionaries(always, optional=COMMON)


OTHER = st.one_of(
    st.fixed_dictionaries(
        {}, optional={"layout": st.sampled_from(["compact", "contiguous"]), "null": st.booleans(), **COMMON}
    ),
    st.fixed_dictionaries({}, optional={"outside": st.integers(0, 9), **COMMON}),
)
FIRST = st.one_of(st.none(), SEEDS, SEEDS)
CREATE = st.one_of(
    st.tuples(st.just("create"), NUMBERS, NAMES, TYPES, SHAPES, st.one_of(chunked(1, 9), OTHER), FIRST),
    st.tuples(st.just("create"), NUMBERS, NAMES, TYPES, SHAPES, st.one_of(chunked(1, 9), OTHER), FIRST),
    st.tuples(st.just("create"), NUMBERS, NAMES, NUMERIC, LARGE, st.one_of(chunked(9, 60), OTHER), FIRST),
)


def call(name: str, *arguments: Strategy) -> Strategy:
    return st.tuples(st.just(name), *arguments)


WRITES = st.one_of(
    call("write", NUMBERS, SELECTIONS, SEEDS, st.sampled_from([None, None, "f8", "i2", ">u4"]), st.none()),
    call("write", NUMBERS, SELECTIONS, SEEDS, st.none(), st.one_of(st.none(), NUMBERS)),
    call("points", NUMBERS, st.lists(st.integers(0, 500), min_size=1, max_size=8), SEEDS),
    call("blocks", NUMBERS, st.lists(st.lists(NUMBERS, min_size=5, max_size=9), min_size=1, max_size=3), SEEDS),
    call("chunk", NUMBERS, NUMBERS, SEEDS, st.integers(0, 1)),
    call("resize", NUMBERS, st.lists(st.integers(0, 40), min_size=1, max_size=6)),
    call("read", NUMBERS, SELECTIONS),
    call("settle", NUMBERS),
    call("several", st.lists(NUMBERS, max_size=4), SEEDS),
)
ATTRIBUTES = st.one_of(
    call("attribute", NUMBERS, NAMES, TYPES, st.one_of(st.none(), SHAPES), SEEDS),
    call("attribute", NUMBERS, NAMES, TYPES, st.lists(st.integers(1, 4), max_size=1), SEEDS),
    call("modify", NUMBERS, NAMES, st.one_of(NUMBERS, st.lists(NUMBERS, max_size=9), st.just("words"))),
    call("rename", NUMBERS, NAMES, NAMES),
    call("forget", NUMBERS, NAMES),
    call("many", NUMBERS, st.integers(1, 20)),
    call("comment", NUMBERS, st.sampled_from(["", "checked", "Größe"])),
)
COPIED = st.fixed_dictionaries(
    {}, optional={word: st.booleans() for word in ("shallow", "expand_soft", "expand_refs", "without_attrs")}
)
TREE = st.one_of(
    call("group", NUMBERS, NAMES, st.booleans()),
    call("commit", NUMBERS, NAMES, TYPES),
    call("soft", NUMBERS, NAMES, st.integers(-1, 20)),
    call("hard", NUMBERS, NAMES, NUMBERS),
    call("delete", st.integers(1, 40)),
    call("move", st.integers(1, 40), NUMBERS, NAMES),
    call("copy", st.integers(1, 40), NUMBERS, NAMES, COPIED),
    call("scale", NUMBERS, NUMBERS, NUMBERS, NAMES),
    call("virtual", NUMBERS, NAMES, NUMBERS, st.integers(0, 3)),
    call("crowd", NUMBERS, st.integers(1, 20)),
)
ACROSS = st.one_of(
    call("external", NUMBERS, OUTWARD, st.sampled_from(["/", "/a", "/b", "/nowhere"])),
    call("fetch", NUMBERS, NUMBERS, NAMES, COPIED),
    call("mount", NUMBERS),
    call("reflect", NUMBERS, OUTWARD, NUMBERS, st.integers(0, 3)),
)
"""Calls that concern the second file."""
WHOLE = st.one_of(
    call("flush"),
    call("size"),
    call("about"),
    call("wrong", NUMBERS, NUMBERS),
    call("twice", st.sampled_from(["r+", "a", "r"]), NUMBERS),
)
LIBVER = st.sampled_from([None, None, "latest", ["earliest", "v108"], ["v110", "v110"], ["earliest", "v110"]])
SPACED = st.sampled_from([None, None, "latest", ["v110", "v110"], ["earliest", "v110"]])
"""Bounds within which there are strategies for file space."""
WITH_LAYOUT = {
    "track_order": st.booleans(),
    "fs_strategy": st.sampled_from(["fsm", "page", "aggregate", "none"]),
    "fs_page_size": st.sampled_from([512, 4096]),
    "fs_persist": st.booleans(),
    "rdcc_nbytes": st.sampled_from([0, 2000]),
}
ALIGNED = {
    "meta_block_size": st.sampled_from([0, 100, 100_000]),
    "alignment_threshold": st.sampled_from([1, 500]),
    "alignment_interval": st.sampled_from([1, 64, 4096]),
}
BEHIND = {"track_order": st.booleans(), "userblock_size": st.sampled_from([512, 2048])}
FILE = st.one_of(
    st.fixed_dictionaries({"libver": LIBVER}, optional=BEHIND),
    st.fixed_dictionaries({"libver": LIBVER}, optional=ALIGNED),
    st.fixed_dictionaries({"libver": SPACED}, optional=WITH_LAYOUT | ALIGNED),
    st.fixed_dictionaries({"libver": SPACED}, optional=WITH_LAYOUT),
    st.fixed_dictionaries({"libver": LIBVER, "driver": st.sampled_from(["sec2", "core", "stdio"])}),
)
OPENED = st.fixed_dictionaries(
    {}, optional={"driver": st.sampled_from(["sec2", "core", "stdio"]), "rdcc_nbytes": st.sampled_from([0, 2000])}
)
CHANGES = st.lists(st.one_of(CREATE, WRITES, WRITES, ATTRIBUTES, TREE), max_size=3)
TAKE = st.fixed_dictionaries(
    {"reads": st.lists(st.tuples(NUMBERS, SELECTIONS), max_size=4)}, optional={"file": OPENED, "calls": CHANGES}
)
TARGET = st.lists(st.one_of(CREATE, CREATE, TREE, ATTRIBUTES), max_size=3)


REOPEN = call("reopen", st.sampled_from(["r+", "a", "r"]), OPENED)
STALE = st.sampled_from([1, 1, 3_000_000])
"""Characters of a file of the same name that lies on disk before."""


@st.composite
def programs(draw: st.DrawFn, *, reopened: bool) -> dict[str, Any]:
    """Programs whose files are published at their close, or (`reopened`) may be reopened by their producer."""
    whole = st.one_of(WHOLE, REOPEN) if reopened else WHOLE
    several = st.lists(st.one_of(CREATE, WRITES, WRITES, ATTRIBUTES, TREE, whole), max_size=12)
    made = [
        draw(st.lists(TREE, max_size=3)),
        draw(st.lists(CREATE, min_size=1, max_size=5)),
        draw(several),
        draw(several),
    ]
    program: dict[str, Any] = {"file": draw(FILE), "take": draw(TAKE)}
    mode = draw(st.sampled_from(["", "", "x", "a", "stale"]))
    if mode and not (mode == "a" and "fs_strategy" in program["file"]):  # which h5py refuses
        program |= {"stale": draw(STALE)} if mode == "stale" else {"mode": mode}
    more = draw(st.sampled_from(["", "target", "late"]))
    if more == "target":
        program["target"] = draw(TARGET)
        made.append(draw(st.lists(ACROSS, max_size=3)))
    elif more == "late" and not reopened:
        program["late"] = draw(st.integers(1, 2))
    program["calls"] = [call for calls in made for call in calls]
    return program
