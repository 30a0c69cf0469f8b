"""Batches of random programs of several ranks: parallel HDF5 under both MPIs, 1..5 ranks to 1..5."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fidelity.batches import Batch, Program, Side, draw
from fidelity.parallel import COLUMNS, LAUNCHERS, UNDETERMINED, Column
from fidelity.random_ranks import programs
from hypothesis.strategies import SearchStrategy
from programs.build import build

COUNT = 80
"""Programs of a batch."""

HERE = Path(__file__).parent
SOURCES = sorted((HERE / "ranks").glob("*.c"))


def combination(start: int) -> dict[str, Any]:
    """Which MPI, HDF5 and numbers of ranks the batch of a seed has.

    150 seeds in a row have all combinations; ten in a row have each number of writers with either MPI, and each number
    of readers twice.
    """
    place = start % 25
    return {
        "mpi": ["mpich", "openmpi"][start % 2],
        "hdf5": COLUMNS[start // 2 % 3].hdf5,
        "writers": 1 + place % 5,
        "readers": 1 + (2 * place + place // 5) % 5,
    }


def make(start: int, count: int) -> tuple[Batch, SearchStrategy[Program]]:
    """The batch of a seed, and what its programs were drawn from."""
    chance = random.Random(start)
    again = chance.random() < 0.4
    named = {
        "family": "ranks",
        "kind": "again" if again else "case",
        **combination(start),
        "queue": chance.randint(2, 5) if again else chance.randint(4, 8),
    }
    strategy = programs(reopened=again)
    return batch(named, draw(strategy, count, start)), strategy


def batch(named: dict[str, Any], drawn: Sequence[Program]) -> Batch:
    """Programs with what else a batch follows from."""
    kind, mpi = named["kind"], named["mpi"]
    column = Column(mpi, named["hdf5"])
    rest = (HERE / "pair.c", *column.besides, *(source for source in SOURCES if source.name != "main.c"))
    performer = build(str(HERE / "ranks" / "main.c"), *column.compiler, f"-I{HERE}", *map(str, rest))

    def side(action: str, ranks: int) -> Side:
        outs = tuple(f"{action}-{rank}.txt" for rank in range(ranks))
        return Side(action, (str(performer), action, action, "batch.txt"), outs, ranks, LAUNCHERS[mpi])

    viewer = Side("view", (sys.executable, "-m", "fidelity.view", "view.txt", "@files.txt"), ("view.txt",))
    return Batch(
        drawn,
        (side("write", named["writers"]), side("read", named["readers"]), viewer),
        {f"{kind}-*.h5": "next" if kind == "again" else "close", "target-*.h5": "close"},
        lambda some: {
            "batch.txt": "".join(f"{line}\n" for line in (kind, *lines(some))),
            "files.txt": "".join(f"{file}\n" for file in files(kind, some)),
        },
        {"halves": 0, "calls": [["file"]], "take": [["take"]]},
        named["queue"],
        undetermined=UNDETERMINED,
        named=named,
    )


def files(kind: str, drawn: Sequence[Program]) -> Iterator[str]:
    """All files, in the order in which those of a port are published."""
    yield from (f"{way}-{number}.h5" for way in (kind, "target") for number in ("first", "second"))
    for number, program in enumerate(drawn):
        yield from (f"{way}-{number:04d}.h5" for way in ((kind, "target") if program["halves"] else (kind,)))


def lines(drawn: Sequence[Program]) -> Iterator[str]:
    """Programs as those in ``ranks/`` read them: a line for each call."""
    for number, program in enumerate(drawn):
        yield f"program {number} {program['halves']}"
        for call in (*program["calls"], *program["take"]):
            yield " ".join(map(str, words(call)))
        yield "end"


def words(call: Any) -> Iterator[str | int]:
    """A call's word and integers, which are grouped as they were drawn."""
    for word in call:
        if isinstance(word, (list, tuple)):
            yield from words(word)
        else:
            yield word
