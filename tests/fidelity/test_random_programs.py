"""Random programs do the same with memory as with files: what each call returns, and all that their readers see.

There are two families: programs of one process, and of several ranks. `make fuzz` runs 20,000
(``WILKINS_FUZZ_PROGRAMS=n``), with fresh seeds; ``WILKINS_FUZZ_SEED=serial-s`` or ``ranks-s`` those of a seed again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import pytest
from fidelity import batches, random_ranks, random_serial, ranks_batch, serial_batch
from fidelity.batches import AGREE, DIED, REGRESSIONS, SAME, Batch, Program, Side, keep, outcomes, shrunk
from fidelity.parallel import LAUNCHERS, Column
from hypothesis.strategies import SearchStrategy

FAMILIES = {"serial": serial_batch, "ranks": ranks_batch}
ROUND = {"serial": 6, "ranks": 10}
"""Batches of a round of all tests: 2,000 programs, 800 of them of several ranks. `make test` has one of each,"""
SHORTER = 8
"""... of so many times fewer programs."""
SHARE = {"serial": 0.75, "ranks": 0.25}
"""... and their part of fresh ones."""


def seeds(family: str) -> list[int]:
    """The batches to be run: one, many fresh ones, those of a round of `make soak`, or always the same few."""
    if one := os.environ.get("WILKINS_FUZZ_SEED"):
        wanted, _, number = one.partition("-")
        return [int(number)] if family == wanted else []
    fresh = int(SHARE[family] * int(os.environ.get("WILKINS_FUZZ_PROGRAMS", "0")))
    first = random.randrange(10**9) if fresh else 1000 * int(os.environ.get("WILKINS_TEST_SEED", "0")) % 10**9
    return list(range(first, first + (-(-fresh // FAMILIES[family].COUNT) or ROUND[family])))


USUAL = not any(name in os.environ for name in ("WILKINS_FUZZ_SEED", "WILKINS_FUZZ_PROGRAMS", "WILKINS_TEST_SEED"))


def needs(named: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Of a batch, by what it follows from."""
    return pytest.mark.needs(*(Column(named["mpi"], named["hdf5"]).needs if "mpi" in named else ("python:h5py",)))


def each() -> Iterator[Any]:
    """Family, seed and number of programs of every batch."""
    for family, module in FAMILIES.items():
        starts = seeds(family)
        if USUAL:
            shorter = module.COUNT // SHORTER
            marks = [needs(ranks_batch.combination(0) if family == "ranks" else {})]
            yield pytest.param(family, 0, shorter, id=f"{family}-0-{shorter}", marks=marks)
        for start in starts:
            marks = [needs(ranks_batch.combination(start) if family == "ranks" else {})]
            marks += [pytest.mark.nightly] if USUAL else []
            yield pytest.param(family, start, module.COUNT, id=f"{family}-{start}", marks=marks)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("family", "start", "count"), list(each()))
def test_random_programs(tmp_path: Path, family: str, start: int, count: int) -> None:
    """All of a batch agree; of one that does not, the smallest that Hypothesis finds is kept and told."""
    print(f"again with: WILKINS_FUZZ_SEED={family}-{start} python -m pytest tests/fidelity/test_random_programs.py")
    batch, strategy = FAMILIES[family].make(start, count)
    told = outcomes(tmp_path / "batch", batch)
    print(f"{told.count(SAME)} of {len(told)} programs agree; HDF5 itself dies of {told.count(DIED)}, with files")
    differing = [text for text in told if text not in AGREE]
    if differing:
        smallest, text = shrunk(tmp_path / "shrunk", batch, strategy, start, told)
        path = keep(batch, smallest, f"{family}-{start}")
        pytest.fail(f"{len(differing)} of {len(told)} programs differ; kept as {path}:\n{json.dumps(smallest)}\n{text}")
    assert told.count(DIED) < len(told) / 5


KEPT = [
    pytest.param(path, id=path.stem, marks=needs(json.loads(path.read_text(encoding="utf-8"))))
    for path in sorted(REGRESSIONS.glob("*.json"))
]


@pytest.mark.usual("closed-late", "undefined-address")
@pytest.mark.parametrize("kept", KEPT)
def test_kept_programs(tmp_path: Path, kept: Path) -> None:
    """Those that once differed, and those that show how a batch is read."""
    named = json.loads(kept.read_text(encoding="utf-8"))
    drawn = named.pop("programs")
    assert outcomes(tmp_path / "batch", FAMILIES[named["family"]].batch(named, drawn)) == [SAME] * len(drawn)


def one(name: str, dtype: str) -> Program:
    """A program of one dataset."""
    return {"file": {}, "calls": [["create", 0, name, dtype, [20], {}, 1]], "take": {"reads": [[0, []]]}}


NAMED = {"kind": "case", "write": "own", "read": "own", "queue": 4}


@pytest.mark.rig
def test_a_wrong_byte_is_seen(tmp_path: Path) -> None:
    """Of four files, one has a wrong bit in its values; which, and what its readers saw."""

    def spoil(folder: Path) -> None:
        path = folder / "case-0002.h5"
        with h5py.File(path, "r") as file:
            place = file["x"].id.get_offset()
        with path.open("r+b") as image:
            image.seek(place)
            byte = image.read(1)[0]
            image.seek(place)
            image.write(bytes([byte ^ 1]))

    told = outcomes(tmp_path / "batch", serial_batch.batch(NAMED, [one("x", "<i4")] * 4), spoil)
    assert [text == SAME for text in told] == [True, True, False, True]
    assert "/links/x[1]/value" in told[2]


@pytest.mark.rig
def test_a_file_that_is_not_there_is_seen(tmp_path: Path) -> None:
    """A way that lacks a file differs, whatever else agrees."""

    def spoil(folder: Path) -> None:
        (folder / "case-0001.h5").unlink()

    told = outcomes(tmp_path / "batch", serial_batch.batch(NAMED, [one("x", "<i4")] * 3), spoil)
    assert [text == SAME for text in told] == [True, False, True]


UNTIL_IT_DIES = """
import os, sys
with open("out.txt", "w") as out:
    for line in open("batch.txt"):
        print("==", line.split()[0], file=out, flush=True)
        if line.split()[1] == "deadly":
            os.abort()
"""


@pytest.mark.rig
def test_a_program_that_ends_its_process_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of several ranks cannot perform each program in a process of its own: it runs again without the one."""
    batch = Batch(
        [{"is": "harmless"}, {"is": "deadly"}, {"is": "harmless"}, {"is": "deadly"}],
        (Side("write", (sys.executable, "-c", UNTIL_IT_DIES), ("out.txt",)),),
        {},
        lambda some: {"batch.txt": "".join(f"{k:04d} {program['is']}\n" for k, program in enumerate(some))},
        {"is": "nothing"},
        queue=1,
    )

    def copied(folder: Path, batch: Batch) -> str:
        assert [program["is"] for program in batch.programs] == ["harmless", "nothing", "harmless", "nothing"]
        shutil.copytree(folder.parent / "files", folder)
        return ""

    monkeypatch.setattr(batches, "_through_channels", copied)
    assert outcomes(tmp_path / "batch", batch) == [SAME, DIED, SAME, DIED]


@pytest.mark.nightly
@pytest.mark.rig
def test_what_differs_is_shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis draws the programs of a seed again, and takes away what a difference does not need."""

    def some(folder: Path, batch: Batch) -> list[str]:
        del folder
        return ["resized" if "resize" in json.dumps(program["calls"]) else SAME for program in batch.programs]

    monkeypatch.setattr(batches, "outcomes", some)
    monkeypatch.setattr(batches, "SHRINKING", 10_000)
    batch, strategy = serial_batch.make(1, 60)
    told = some(tmp_path, batch)
    assert "resized" in told
    smallest: Sequence[Program]
    smallest, text = shrunk(tmp_path / "shrunk", batch, strategy, 1, told)
    assert text == "resized"
    assert len(smallest) == 1
    assert len(smallest[0]["calls"]) <= 6


@pytest.mark.parametrize("programs", [random_serial.programs, random_ranks.programs])
@pytest.mark.rig
def test_a_seed_draws_the_same_programs(programs: Callable[..., SearchStrategy[Program]]) -> None:
    """In every process, so that the command in a report runs what failed."""
    strategy = programs(reopened=True)
    assert batches.draw(strategy, 20, 5) == batches.draw(strategy, 20, 5)


@pytest.mark.rig
def test_batches_have_all_numbers_of_ranks() -> None:
    """Fresh seeds have all pairs with either MPI and every HDF5; an ordinary round each number twice."""
    assert len({tuple(ranks_batch.combination(start).values()) for start in range(1000, 1150)}) == 150
    usual = [ranks_batch.combination(start) for start in range(ROUND["ranks"])]
    assert {(each["mpi"], each["writers"]) for each in usual} == {(mpi, n) for mpi in LAUNCHERS for n in range(1, 6)}
    assert sorted(each["readers"] for each in usual) == sorted([*range(1, 6)] * 2)
