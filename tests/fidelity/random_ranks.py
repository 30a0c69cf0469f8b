"""Random programs of several ranks, as those of ``ranks/`` perform them: what Hypothesis draws them from.

A program is lists of calls: words and integers, whose meaning the functions in ``ranks/*.c`` say.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]

NUMBERS = st.integers(0, 40)
SEEDS = st.integers(1, 999)
NAMES = st.integers(0, 9)
TYPES = st.integers(0, 19)
NUMERIC = st.integers(0, 12)
FLAGS = st.integers(0, 1)
IDLE = st.one_of(st.just(0), st.just(0), st.integers(0, 31))
"""The ranks that leave something out: a bit for each."""

SELECTED = st.tuples(st.integers(0, 9), IDLE, *[NUMBERS] * 4)
"""How ranks select: see ``transfers.c``; ranks may have elements in common, and write the same ones there."""


def call(word: str, *arguments: Strategy) -> Strategy:
    return st.tuples(st.just(word), *arguments)


def three(of: Strategy) -> Strategy:
    return st.tuples(of, of, of)


CONTIGUOUS, CHUNKED = 1, 2
FILTERS = st.one_of(st.just(0), st.just(0), st.integers(1, 7))
"""Shuffle, deflate, Fletcher32: a bit for each. What HDF5 1.10 packs with szip here, h5py may take a minute to read."""

REST = (
    st.integers(0, 2),  # when fill values are written
    st.integers(0, 3),  # when storage is allocated
    st.one_of(st.just(-1), st.just(0), SEEDS),  # those are HDF5's, undefined, or from a seed
    st.integers(0, 2),  # the chunk cache
    st.sampled_from([0, 0, 0, 1]),  # whether it has the type that was committed last
)


def dataset(axes: int, largest: int) -> Strategy:
    """A dataset of so many axes: contiguous, chunked or compact, perhaps one that can be resized."""
    sizes = three(st.integers(1, largest)) if axes != 2 else three(st.integers(0, largest))
    chunked = st.tuples(st.just(CHUNKED), three(st.integers(1, 1 + largest // 2)), three(st.integers(-1, 6)), FILTERS)
    other = st.tuples(st.sampled_from([0, CONTIGUOUS]), st.just((1, 1, 1)), three(st.just(-1)), st.just(0))
    layout = st.one_of(chunked, chunked, other)
    types = NUMERIC if largest > 30 else st.one_of(NUMERIC, TYPES)
    return call("create", NUMBERS, NAMES, types, st.just(axes), sizes, layout, *REST)


CREATE = st.one_of(dataset(1, 60), dataset(2, 24), dataset(2, 24), dataset(3, 8), dataset(1, 500), dataset(0, 1))
TRANSFER = (NUMBERS, FLAGS, st.sampled_from([0, 0, 0, 1, 2, 3]), st.integers(0, 2))
WRITE = call("write", *TRANSFER, SEEDS, SELECTED)
READ = call("read", *TRANSFER, st.just(0), SELECTED)
LOOK = call("look", NUMBERS, IDLE)
CHANGE = st.one_of(
    call("extend", NUMBERS, three(st.integers(0, 80))),
    call("extend", NUMBERS, three(st.integers(0, 80))),
    call("chunks", NUMBERS, SEEDS),
    call("attribute", NUMBERS, st.integers(0, 4), TYPES, st.integers(0, 8), SEEDS),
    call("forget", NUMBERS, st.integers(0, 4)),
    call("rename", NUMBERS, st.integers(0, 4), st.integers(0, 4)),
    call("delete", st.integers(1, 40)),
    call("move", st.integers(1, 40), NUMBERS, NAMES),
    call("copy", st.integers(1, 40), NUMBERS, NAMES),
    call("link", NUMBERS, NUMBERS, NAMES, FLAGS),
)
TREE = st.one_of(call("group", NUMBERS, NAMES, FLAGS), call("commit", NUMBERS, NAMES, TYPES))
WHOLE = st.one_of(
    call("flush", FLAGS), call("size"), call("atomic", FLAGS), call("wrong", st.integers(0, 7), NUMBERS), LOOK
)
AGAIN = st.one_of(call("reopen", st.integers(0, 2)), call("alone", NUMBERS))
ACCESS = st.tuples(FLAGS, FLAGS, st.integers(0, 2))
FILE = call(
    "file",
    ACCESS,
    st.sampled_from([0, 0, 1, 2, 3]),
    st.sampled_from([1, 500]),
    st.sampled_from([0, 0, 64, 4096]),
    st.sampled_from([0, 0, 100, 100_000]),
    st.sampled_from([0, 0, 64]),
    st.sampled_from([0, 0, 0, 512, 2048]),
    FLAGS,
)
TAKE = call("take", st.sampled_from([0, 0, 0, 1, 2]), ACCESS)


@st.composite
def programs(draw: st.DrawFn, *, reopened: bool) -> dict[str, Any]:
    """Programs whose files are published at their close, or (`reopened`) may be reopened by their producer.

    Of the former, some have two files, of which halves of the writers have one each.
    """
    whole = st.one_of(WHOLE, AGAIN) if reopened else WHOLE
    several = st.lists(st.one_of(CREATE, WRITE, WRITE, WRITE, READ, CHANGE, CHANGE, TREE, whole), max_size=10)
    made = [
        draw(st.lists(TREE, max_size=2)),
        draw(st.lists(CREATE, min_size=1, max_size=3)),
        draw(st.lists(WRITE, max_size=3)),
        draw(several),
    ]
    return {
        "halves": 0 if reopened else draw(st.sampled_from([0, 0, 0, 1])),
        "calls": [draw(FILE), *(call for calls in made for call in calls)],
        "take": [draw(TAKE), *draw(st.lists(st.one_of(READ, READ, LOOK), max_size=4))],
    }
