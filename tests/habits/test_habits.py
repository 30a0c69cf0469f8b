"""Files as programs use them: whatever else they do with files, they read in a workflow what they read from files."""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import pytest
from habits import known, rig, table
from habits.every import FAMILIES, HABITS

from support.hooks import LIBRARY

USUAL = (
    "look-exists-h5",
    "list-shell-for",
    "order-mesh-after-particles",
    "pass-two",
    "descriptor-write-c-dprintf",
    "redirect-write-to",
    "folder-reader-elsewhere-lists",
    "gone-virtual-sources-read-before",
    "life-sendfile-to-a-socket",
    "onefile-hdf5-fsync-after",
    "stage-of-two-one-with-ranks",
)
"""Those that `make test` runs, in memory: a second each."""
SEED = int(os.environ.get("WILKINS_TEST_SEED", "0"))


def each() -> list[object]:
    """All habits."""
    things = {
        name: (*habit.needs, *(("gcc",) if "c" in (habit.writes.language, habit.reads.language) else ()))
        for name, habit in HABITS.items()
    }
    return [pytest.param(name, id=name, marks=pytest.mark.needs(*needed)) for name, needed in things.items()]


def paces(name: str, mode: str) -> list[str]:
    """How fast the partners of a habit are, this time: as it comes in memory, and in one of the other ways."""
    others = rig.PACES if LIBRARY.exists() else rig.PACES[:-1]
    chosen = others[(crc32(f"{name} {mode}".encode()) + SEED) % len(others)]
    return sorted({"free", chosen}) if mode == "memory" else [chosen]


def run(name: str, mode: str, bench: rig.Bench, alone: rig.Ran) -> str:
    """How a habit differs from what is known of it, in a mode; empty if it does not."""
    habit = HABITS[name]
    found = {pace: rig.judge(habit, alone, bench.workflow(mode, pace, SEED), mode) for pace in paces(name, mode)}
    return known.wrong_as_known(name, mode, found)


@pytest.mark.usual(*USUAL)
@pytest.mark.parametrize("name", each())
def test_in_memory_it_reads_what_it_reads_from_files(name: str, tmp_path: Path) -> None:
    bench = rig.Bench.of(HABITS[name], tmp_path)
    wrong = run(name, "memory", bench, bench.after())
    assert not wrong, f"{wrong}\nagain with: cd tests && python -m habits -v {name}"


@pytest.mark.nightly
@pytest.mark.parametrize("name", each())
def test_on_disk_it_reads_what_it_reads_from_files(name: str, tmp_path: Path) -> None:
    """With the steps on disk as well, and on disk only; there lies what the producer alone would have written."""
    bench = rig.Bench.of(HABITS[name], tmp_path)
    alone = bench.after()
    wrong = [text for mode in ("both", "file") if (text := run(name, mode, bench, alone))]
    assert not wrong, "\n".join([*wrong, f"again with: cd tests && python -m habits -v -m both,file {name}"])


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name, habit in HABITS.items() if habit.beside])
def test_beside_its_producer_it_reads_the_same_files(name: str, tmp_path: Path) -> None:
    """So a consumer that is said to work beside its producer does, and a difference under a workflow is the layer's."""
    bench = rig.Bench.of(HABITS[name], tmp_path)
    assert rig.judge(HABITS[name], bench.after(), bench.beside(), "beside") == "same"


def test_the_table_is_up_to_date() -> None:
    """Its cells follow from the habits and from what is known to be wrong, which the other tests show."""
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "cd tests && python -m habits.table"


def test_no_two_habits_have_one_name_and_none_that_is_gone_is_known() -> None:
    assert len(HABITS) == sum(map(len, FAMILIES.values()))
    assert set(known.load()) <= set(HABITS)
