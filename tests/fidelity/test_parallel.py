"""Parallel files in memory cannot be told from those on disk, whoever writes and reads them together.

``WILKINS_FIDELITY=all`` runs all cases with all numbers of ranks; `make soak` takes some of these at random.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from fidelity import pages, parallel, parallel_table
from fidelity.parallel import COLUMNS, FEATURES, Combination


def combinations() -> list[Combination]:
    """The usual ones; all, if the environment asks for them; a round of `make soak` has two more."""
    if os.environ.get("WILKINS_FIDELITY") == "all":
        return parallel.every()
    seed = os.environ.get("WILKINS_TEST_SEED")
    return parallel.usual() + (random.Random(seed).sample(parallel.every(), 2) if seed else [])


EACH = [pytest.param(each, id=str(each), marks=pytest.mark.needs(*each.column.needs)) for each in combinations()]


@pytest.mark.usual("mpich-1.10-inside-2-to-1-part-2-of-3")
@pytest.mark.timeout(6 * parallel.LIMIT)  # its processes have limits of their own
@pytest.mark.parametrize("combination", EACH)
def test_a_parallel_step_is_what_the_file_would_be(combination: Combination, tmp_path: Path) -> None:
    """What each rank reads and is answered, and what h5py sees."""
    found = parallel.both_ways(tmp_path, combination)
    wrong = {name: text for name, text in found.items() if text != "same"}
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())


@pytest.mark.rig
def test_usual_rounds_leave_nothing_out() -> None:
    """Every case is run with either MPI, and either version of HDF5 that has it."""
    usual = parallel.usual()
    for column in COLUMNS:
        version = column.hdf5.split()[0]
        alike = [each for each in usual if each.column.mpi == column.mpi and each.column.hdf5.startswith(version)]
        assert {case for each in alike for case in each.cases} == set(column.cases)


def test_the_table_is_up_to_date() -> None:
    """Its rows follow from the sources of the cases, whose outcomes the other tests show."""
    written = pages.section(parallel_table.PAGE, parallel_table.SECTION)
    assert written == parallel_table.text(), "cd tests && python -m fidelity.parallel_table"


@pytest.mark.rig
def test_cases_are_about_features_of_the_table() -> None:
    """No case is about a feature that has no row."""
    told = {feature for column in COLUMNS for case in column.cases for feature in case.features}
    assert told <= set(FEATURES)
