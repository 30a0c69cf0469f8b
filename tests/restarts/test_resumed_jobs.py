"""Runs of programs of Open MPI, alone and under its mpirun: a rank, an mpirun or the launcher is killed; resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.build import build, parallel_c

from support.resuming import CHAIN, NORM, SUMS, check, seeds

MPIRUN = ("mpirun.openmpi", "--oversubscribe")

pytestmark = pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi")


@pytest.mark.nightly
@pytest.mark.parametrize("job", [False, True], ids=["alone", "one-job"])
@seeds
def test_open_mpi(tmp_path: Path, seed: int, job: bool) -> None:
    """Two ranks write with parallel HDF5; their checkpoints are what they go on from."""
    simulation = build("restartable.c", *parallel_c("openmpi", static=bool(seed % 2)), "-lm")
    workflow = CHAIN.format(simulation=simulation, mpiexec=" ".join(MPIRUN))
    words = (*MPIRUN, "-n", "4") if job else ()
    victims = ("everything", "the launcher", "restartable", "mpirun", "sums.py")
    check(tmp_path, seed, 20, workflow, *words, victims=victims, norm=NORM, sums=SUMS.replace("u*.h5", "n*.h5"))
