"""Programs of one MPI job that fail are started again or left out, and come after others, unless they are its ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.running import MPIEXEC, run_tree
from support.surviving import (
    CHECKPOINTS,
    FILTERED,
    LAST,
    LIMIT,
    READER,
    RESTART,
    SIMULATION,
    TRAINED,
    got,
    job,
    prepare,
    run,
    steps,
    summary,
)

pytestmark = pytest.mark.needs(MPIEXEC)

RANKS = """\
from mpi4py import MPI
import h5py
from dies import dies
world = MPI.COMM_WORLD
print("begins at", 0, flush=True)
for step in range(12):
    with h5py.File(f"plt{step:04}-{world.rank}.h5", "w") as file:
        file["u"] = [float(step)]
    world.Barrier()
"""


@pytest.mark.nightly
def test_all_that_can_fail_fails(tmp_path: Path) -> None:
    """A producer twice, which goes back to a checkpoint; a filter, and a program that is started for each step."""
    each = '  - func: one.py\n    args: ["{filename}"]\n    inports: [{filename: "plt*.h5"}]\n'
    filtered = FILTERED + "    restart: each-step\n"
    workflow = SIMULATION + CHECKPOINTS + RESTART + filtered + RESTART + LAST + each + RESTART
    deaths = {"DIE_simulate": "5", "DIE_before": "2", "DIE_writing": "4", "DIE_one": "3:2", "STEPS": "7"}
    done = run(tmp_path, workflow, job(4), **deaths)
    assert done.code == 0, done.out + done.err
    assert got(done) == steps(7, factor=2.0)
    assert (tmp_path / "one.txt").read_text().split() == [str(step) for step in range(7)]
    told = summary(tmp_path)
    assert [told[name]["retries"] for name in ("simulate", "filter", "sink", "one")] == [2, 1, 0, 2]
    said = done.said
    assert re.findall(r"simulate: starts again from (the beginning|\S+)", said) == [
        "the beginning",
        f"{tmp_path}/chk0004.h5",
    ]


@pytest.mark.nightly
def test_a_program_fails_beside_ranks_of_the_job(tmp_path: Path) -> None:
    """It reads what two ranks write, and is started again while they wait for it."""
    (tmp_path / "ranks.py").write_text(RANKS)
    (tmp_path / "read.py").write_text(
        "import h5py\nfrom dies import dies\nfrom wilkins.transport import steps\n"
        "for name in steps.names('plt*.h5'):\n    with h5py.File(name) as file:\n        value = float(file['u'][0])\n"
        "    dies('read', value, 'kill')\n    print('got x', value, flush=True)\n"
    )
    reader = READER.replace("sink", "read") + "    restart: each-step\n" + RESTART
    workflow = SIMULATION.replace("simulate.py", "ranks.py\n    nprocs: 2") + reader
    done = run(tmp_path, workflow, job(3), DIE_read="7:2")
    assert done.code == 0, done.out + done.err
    assert sorted(got(done)) == sorted(2 * steps())
    assert summary(tmp_path)["read"]["retries"] == 2


@pytest.mark.nightly
def test_a_consumer_that_is_behind_ends_the_job_which_can_be_gone_on_with(tmp_path: Path) -> None:
    done = run(tmp_path, SIMULATION + CHECKPOINTS + TRAINED + RESTART, job(2), DIE_train="10")
    assert done.code == 1, done.out + done.err
    told = done.said
    assert f"its newest restart point, {tmp_path}/state0009.json, is behind" in told
    assert "to go on with this run: mpiexec -n 2 wilkins run --resume" in told
    done = run_tree([*job(2), "--resume", "latest"], LIMIT, tmp_path, {"DIE_train": "10"})
    assert done.code == 0, done.out + done.err
    assert f"total {sum(range(12))} 12" in done.out


@pytest.mark.nightly
def test_a_program_comes_after_ranks_of_the_job(tmp_path: Path) -> None:
    """Though their processes wait in MPI_Finalize for those of another task."""
    (tmp_path / "ranks.py").write_text(
        "from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 0:\n    print('first', flush=True)\n"
    )
    (tmp_path / "long.py").write_text(
        "import os, time\nfrom mpi4py import MPI\nwhile not os.path.exists('second'):\n    time.sleep(0.05)\n"
    )
    workflow = (
        "  - {func: ranks.py, nprocs: 2}\n  - {func: long.py, nprocs: 2}\n"
        "  - {func: /bin/touch, args: [second], after: ranks}\n"
        "  - {func: /bin/echo, args: [third], after: touch}\n"
    )
    done = run(tmp_path, workflow, job(6))
    assert done.code == 0, done.out + done.err
    assert re.findall(r"\| (\w+)", done.out) == ["first", "third"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("on_failure: restart", "MPI can be initialised once in a job"),
        ("taskCount: 2, min_instances: 1", "the job ends when one of its ranks fails"),
        ("after: 'true'", "MPI_Init of each rank waits for all others"),
    ],
    ids=["restart", "min_instances", "after"],
)
@pytest.mark.usual("restart")
def test_what_ranks_of_the_job_cannot_do_is_refused(tmp_path: Path, more: str, why: str) -> None:
    prepare(tmp_path, f"  - {{func: simulate.py, nprocs: 2, {more}}}\n  - {{func: /bin/true}}\n")
    done = run_tree(job(3), LIMIT, tmp_path)
    told = done.said
    assert done.code == 2, done.out + done.err
    assert f"{more.split(':')[0].split(',')[-1].strip().replace('taskCount', 'min_instances')}" in told
    assert f"are ranks of this MPI job, and {why}" in told
    assert "start the workflow without an mpiexec" in told
