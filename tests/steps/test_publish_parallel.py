"""When a step of a parallel program is published, and first and repeated opens by several ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.build import build, parallel_c

from support.small_workflows import Workflow, out

EVERY_RANK = [[10 * step + rank for rank in range(3)] for step in range(4)]
MPIS = pytest.mark.parametrize(
    "mpi",
    [pytest.param(mpi, marks=pytest.mark.needs(f"h5pcc.{mpi}", f"mpiexec.{mpi}")) for mpi in ("mpich", "openmpi")],
)
PARALLEL = {"nyx": 2, "token": 4, "flush": "flush", "write": {"write": 1, "dset": "/x"}}


@pytest.mark.usual("mpich-static-flush", also_between_hosts=["openmpi-shared-write"])
@pytest.mark.parametrize("way", PARALLEL)
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
@MPIS
def test_parallel_programs(flow: Workflow, mpi: str, static: bool, way: str) -> None:
    """Made by rank 0 and reopened by all (Nyx); opened by rank after rank; one file to the end, flushed or not."""
    program = build("publish.c", *parallel_c(mpi, static=static))
    launcher = "mpiexec.mpich" if mpi == "mpich" else "mpiexec.openmpi --oversubscribe"
    latest = ["latest"] if not static else []
    flow.task("writer", [program, way, "4", *latest], nprocs=3, mpiexec=launcher, outports=out("out.h5", PARALLEL[way]))
    flow.reader("out.h5")
    flow.run()
    if way == "write" and static:  # H5Dwrite cannot be seen there
        assert flow.got() == EVERY_RANK[-1:]
        assert "linked statically" in flow.log()
    else:
        assert flow.got() == EVERY_RANK


@pytest.mark.nightly
@pytest.mark.needs("h5pcc.mpich", "mpiexec.mpich")
def test_ranks_that_write_unequally_often_are_named(flow: Workflow) -> None:
    """The flush after the one write too many waits for the other ranks for ever: the report says so, and what to do."""
    program = build("publish.c", *parallel_c("mpich", static=False))
    rule = out("out.h5", {"write": 1, "dset": "/x"})
    flow.task("writer", [program, "uneven", "2"], nprocs=3, mpiexec="mpiexec.mpich", outports=rule)
    flow.reader("out.h5")
    ran = flow.run(4, "--timeout", "8")
    assert flow.got() == EVERY_RANK[:2]
    assert "writer[0] has been for" in ran.err
    assert "and writer[1] and writer[2] are in none" in ran.err
    assert "give the out-port 'out.h5' `publish: flush`, `next` or `close`" in ran.err


@pytest.mark.needs("h5pcc.mpich", "mpiexec.mpich")
def test_parallel_readers_open_each_step_twice(flow: Workflow) -> None:
    """`opens_per_step` where the ranks of the reader open files together, and each rank alone."""
    program = build("reopen.c", *parallel_c("mpich", static=False))
    flow.task(
        "writer",
        "import h5py\nfor i in range(4):\n    with h5py.File('out.h5', 'w') as f:\n        f['x'] = [i]\n",
        outports=[{"filename": "out.h5"}],
    )
    flow.task(
        "reader",
        [program, "4", "2"],
        nprocs=3,
        mpiexec="mpiexec.mpich",
        inports=[{"filename": "out.h5", "opens_per_step": 2}],
    )
    flow.run()


@pytest.mark.usual("opens", also_between_hosts=["asks"])
@pytest.mark.parametrize("how", ["asks", "opens"])
def test_all_ranks_have_had_the_first_open_that_they_made_together(flow: Workflow, how: str) -> None:
    """`first: missing` where ranks share files: looks of all ranks are answered alike afterwards."""
    program = Path(__file__).parents[1] / "programs" / "first_together.py"
    flow.task(
        "sim",
        [program, how],
        nprocs=2,
        inports=[{"filename": "steer.h5", "first": "missing"}],
        outports=[{"filename": "sim.h5"}],
    )
    flow.task(
        "look",
        """
        for step in range(3):
            with open("sim.h5", "rb") as sim:
                data = sim.read(4)
            with open("steer.h5", "wb") as steer:
                steer.write(data)
        """,
        inports=[{"filename": "sim.h5"}],
        outports=[{"filename": "steer.h5"}],
    )
    flow.run()
    assert flow.got() == [[0], [1]]
