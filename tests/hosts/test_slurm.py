"""``wilkins submit`` on a real Slurm: jobs that end well, that fail, that are cancelled and go on."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import h5py
import pytest
from hosts.slurm import NEEDS, Slurm
from hosts.test_one_job_on_hosts import OVER_TCP, await_step, mixed

from support.resuming import SIMULATION, SUMS
from support.running import MPIEXEC, WILKINS, must_run, run_tree, started_tree, wait_for, write_program

pytestmark = [
    pytest.mark.needs(*NEEDS, "python:psij"),
    pytest.mark.timeout(120),
]

QUICKSTART = Path(__file__).resolve().parents[2] / "examples/quickstart"
JOB_S = 60.0
SUMMED = """
tasks:
  - func: ./simulation.py
    args: ["{steps}", "{pause}"]
    outports: [{{filename: "u*.h5"}}]
    restart: {{files: state.h5}}
  - func: ./sums.py
    inports: [{{filename: "u*.h5"}}]
    restart: {{files: sums.h5}}
"""
PARALLEL = """
import socket
from mpi4py import MPI
import h5py
world = MPI.COMM_WORLD
for step in range(3):
    with h5py.File(f"s{step}-{world.rank}.h5", "w") as file:
        file["x"] = [world.allreduce(world.rank) * 100 + step * 10 + world.rank]
with open("where.txt", "a") as file:
    file.write(socket.gethostname() + "\\n")
"""
SUM_OF_STEPS = """
import socket
import h5py
with open("sums.txt", "w") as out:
    for step in range(3):
        total = 0
        for rank in range(4):
            with h5py.File(f"s{step}-{rank}.h5") as file:
                total += int(file["x"][0])
        out.write(f"{total}\\n")
with open("where.txt", "a") as file:
    file.write(socket.gethostname() + "\\n")
"""
SUMS_OF_STEPS = "2406\n2446\n2486\n"
MPI_TASK = """
from mpi4py import MPI
import h5py
world = MPI.COMM_WORLD
for step in range(2):
    total = world.allreduce(world.rank + 1)
    if TASK == "writer":
        if world.rank == 0:
            with h5py.File(f"s{step}.h5", "w") as file:
                file["x"] = total + step
    else:
        with h5py.File(f"s{step}.h5") as file:
            assert int(file["x"][()]) == total + step
if world.rank == 0:
    open(f"{TASK}.txt", "w").write(f"{world.size} ranks")
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """A Slurm of three nodes for the tests of this file."""
    with Slurm(3) as one:
        yield one


def nothing_is_left(slurm: Slurm) -> None:
    """Nobody's shared memory is used any more."""
    for host in slurm.rig.names:
        wait_for(partial(_has_no_shared_memory, slurm, host), 30, f"the end of all on {host}")


def _has_no_shared_memory(slurm: Slurm, host: str) -> bool:
    return not slurm.rig.shared_memory(host)


def submitted(slurm: Slurm, folder: Path, *options: str | Path) -> str:
    """The number of a job that is submitted in a folder."""
    said = slurm.run(*WILKINS, "submit", *options, cwd=folder)
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout.split()[1]


def output(folder: Path, number: str) -> str:
    """What a job has printed."""
    return (folder / "wilkins-jobs" / f"{number}.out").read_text()


def summed(folder: Path, steps: int, pause: float) -> Path:
    """A folder with a simulation, and a program that sums up what it makes; both can be restarted."""
    folder.mkdir()
    write_program(folder / "simulation.py", SIMULATION)
    write_program(folder / "sums.py", SUMS)
    (folder / "workflow.yaml").write_text(SUMMED.format(steps=steps, pause=pause))
    return folder


def steps_summed(folder: Path) -> int:
    """How many steps the newest checkpoint of the sums holds."""
    if not (folder / "sums.h5").exists():
        return 0
    with h5py.File(folder / "sums.h5") as file:
        return len(file["seen"])


def test_the_quickstart_is_run_by_a_job(slurm: Slurm, tmp_path: Path) -> None:
    """In a folder with a blank and a letter that is not ASCII; with the result of a run without a job."""
    folder, here = tmp_path / "heat März", tmp_path / "here"
    for copy in (folder, here):
        shutil.copytree(QUICKSTART, copy, ignore=shutil.ignore_patterns("cuts*", "wilkins-*"))
    must_run(here, *WILKINS, "run", "workflow.yaml")
    number = submitted(slurm, folder, "workflow.yaml", "--name", "heat", "--environment", "export GREETING='a b'")
    job = slurm.await_job(number, JOB_S)
    printed = output(folder, number)
    assert (job["JobState"], job["ExitCode"], job["JobName"]) == ("COMPLETED", "0:0", "heat"), printed
    assert (job["NumNodes"], job["NumCPUs"], job["TimeLimit"]) == ("1", "2", "01:00:00")
    assert (folder / "cuts.csv").read_text() == (here / "cuts.csv").read_text()
    assert "consumer | step 4:" in printed
    nothing_is_left(slurm)


def test_a_job_exits_with_what_its_run_exits_with(slurm: Slurm, tmp_path: Path) -> None:
    write_program(tmp_path / "fails.py", "raise SystemExit(7)\n")
    (tmp_path / "workflow.yaml").write_text("tasks: [{func: ./fails.py}]\n")
    number = submitted(slurm, tmp_path, "workflow.yaml")
    job = slurm.await_job(number, JOB_S)
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "1:0"), output(tmp_path, number)


@pytest.mark.nightly
def test_lines_before_the_run_that_fail_end_the_job(slurm: Slurm, tmp_path: Path) -> None:
    write_program(tmp_path / "program.py", "open('ran', 'w')\n")
    (tmp_path / "workflow.yaml").write_text("tasks: [{func: ./program.py}]\n")
    (tmp_path / "setup.sh").write_text("echo before\n(exit 5)\n")
    number = submitted(slurm, tmp_path, "workflow.yaml", "--setup", "setup.sh")
    job = slurm.await_job(number, JOB_S)
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "5:0")
    assert output(tmp_path, number) == "before\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("ends", ["cancelled", "told"])
def test_a_job_that_was_ended_goes_on_in_another(slurm: Slurm, tmp_path: Path, ends: str) -> None:
    """Cancelled, or told by a signal to its script, as it is before its time is over: the run ends in order."""
    calm = summed(tmp_path / "calm", 24, 0.0)
    must_run(calm, *WILKINS, "run", "workflow.yaml")
    folder = summed(tmp_path / "job", 24, 0.25)
    first = submitted(slurm, folder, "workflow.yaml")
    wait_for(lambda: steps_summed(folder) >= 6, JOB_S, "the sums have a checkpoint after the simulation's first one")
    words = ["scancel"] if ends == "cancelled" else ["scancel", "--signal=TERM", "--batch"]
    assert slurm.run(*words, first).returncode == 0
    job = slurm.await_job(first, JOB_S)
    assert job["JobState"] == {"cancelled": "CANCELLED", "told": "FAILED"}[ends], job
    if ends == "told":
        assert job["ExitCode"] == "143:0"
        assert "to go on with this run" in output(folder, first)
    assert not (folder / "result.txt").exists()
    second = submitted(slurm, folder, "--resume", "latest")
    assert slurm.await_job(second, JOB_S)["JobState"] == "COMPLETED", output(folder, second)
    assert re.search(r"restarted at (4|8|12)\b", output(folder, second))
    assert re.search(r"restarted after (6|9|12)\b", output(folder, second))
    assert (folder / "result.txt").read_text() == (calm / "result.txt").read_text()
    nothing_is_left(slurm)


@pytest.mark.needs("mpiexec")
def test_two_mpi_tasks_of_a_job_run_at_once(slurm: Slurm, tmp_path: Path) -> None:
    """Neither waits for a job step of the other."""
    for task in ("writer", "reader"):
        write_program(tmp_path / f"{task}.py", f"TASK = {task!r}\n{MPI_TASK}")
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n"
        "  - {func: ./writer.py, nprocs: 2, threads: 2, outports: [{filename: 's*.h5', queue: 1}]}\n"
        "  - {func: ./reader.py, nprocs: 2, inports: [{filename: 's*.h5'}]}\n"
    )
    number = submitted(slurm, tmp_path, "workflow.yaml", "--timeout", "30")
    job = slurm.await_job(number, JOB_S)
    assert (job["JobState"], job["NumCPUs"]) == ("COMPLETED", "6"), output(tmp_path, number)
    assert [(tmp_path / f"{task}.txt").read_text() for task in ("writer", "reader")] == ["2 ranks", "2 ranks"]


@pytest.mark.usual("salloc")
@pytest.mark.parametrize("how", ["salloc", "submit"])
def test_a_run_takes_the_nodes_of_its_allocation(slurm: Slurm, tmp_path: Path, how: str) -> None:
    """A task of four ranks on two nodes, and one of one rank on the third."""
    write_program(tmp_path / "writer.py", PARALLEL)
    write_program(tmp_path / "reader.py", SUM_OF_STEPS)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n"
        "  - {func: ./writer.py, nprocs: 4, placement: [2, 2, 0], outports: [{filename: 's*.h5'}]}\n"
        "  - {func: ./reader.py, placement: [0, 0, 1], inports: [{filename: 's*.h5'}]}\n"
    )
    if how == "salloc":
        words = ["salloc", "-N3", "--ntasks-per-node=2", *WILKINS, "run", "--timeout", "40", "workflow.yaml"]
        said = slurm.run(*words, cwd=tmp_path)
        assert said.returncode == 0, said.stdout + said.stderr
    else:
        number = submitted(slurm, tmp_path, "workflow.yaml", "--nodes", "3", "--cores", "6", "--timeout", "40")
        job = slurm.await_job(number, JOB_S)
        assert (job["JobState"], job["NumNodes"]) == ("COMPLETED", "3"), output(tmp_path, number)
    assert (tmp_path / "sums.txt").read_text() == SUMS_OF_STEPS
    assert sorted((tmp_path / "where.txt").read_text().split()) == ["node0", "node0", "node1", "node1", "node2"]
    nothing_is_left(slurm)


@pytest.mark.usual("together")
@pytest.mark.parametrize(
    ("placement", "hosts"),
    [("together", "node0:3,node1:3"), ("[1, 2, 1]", "node2:3,node0:3,node1:1")],
    ids=["together", "apart"],
)
def test_job_steps_are_the_ranks_of_a_run(slurm: Slurm, tmp_path: Path, placement: str, hosts: str) -> None:
    """By the line that the plan prints."""
    write_program(tmp_path / "writer.py", PARALLEL)
    write_program(tmp_path / "reader.py", SUM_OF_STEPS)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n"
        f"  - {{func: ./writer.py, nprocs: 4, placement: {placement}, outports: [{{filename: 's*.h5'}}]}}\n"
        "  - {func: ./reader.py, inports: [{filename: 's*.h5'}]}\n"
    )
    planned = slurm.run(*WILKINS, "plan", "--hosts", hosts, "workflow.yaml", cwd=tmp_path).stdout
    line = re.findall(r"^one job, by Slurm: srun (.*) wilkins run workflow.yaml$", planned, re.MULTILINE)[0]
    said = slurm.run("srun", "--mpi=pmi2", *line.split(), *WILKINS, "run", "workflow.yaml", cwd=tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr
    assert (tmp_path / "sums.txt").read_text() == SUMS_OF_STEPS
    assert sorted((tmp_path / "where.txt").read_text().split()) == sorted(line.split()[4].split(","))
    nothing_is_left(slurm)


@pytest.mark.needs("mpicc.openmpi")
def test_job_steps_of_open_mpi(slurm: Slurm, tmp_path: Path) -> None:
    """Its ranks meet by PMIx; with all its barriers of one kind, or a rank may get a message before it is ready."""
    mixed(tmp_path, "once", "openmpi")
    srun = ("env", "SLURM_PMIX_FENCE=tree", "srun", "-N3", "-n5", "-K1", "--mpi=pmix")
    words = [*srun, *WILKINS, "run", "workflow.yaml"]
    said = slurm.run(*words, cwd=tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "sum:0 | total 126" in said.stdout
    nothing_is_left(slurm)


@pytest.mark.nightly
@pytest.mark.needs("mpicc.openmpi")
@pytest.mark.usual("openmpi")
@pytest.mark.parametrize("family", ["pypi", "openmpi"])
def test_a_task_on_any_one_node_of_an_allocation(slurm: Slurm, tmp_path: Path, family: str) -> None:
    """Its mpiexec finds a Slurm that would start its ranks on the first node."""
    mixed(tmp_path, "once", family)
    words = ["salloc", "-N3", "--ntasks-per-node=2", *WILKINS, "run", "--timeout", "40", "workflow.yaml"]
    said = slurm.run(*words, cwd=tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "sum  | total 126" in said.stdout
    nothing_is_left(slurm)


@pytest.mark.nightly
def test_a_rank_that_fails_ends_the_job_step(slurm: Slurm, tmp_path: Path) -> None:
    write_program(tmp_path / "fails.py", "from mpi4py import MPI\nif MPI.COMM_WORLD.rank == 2: raise SystemExit(7)\n")
    (tmp_path / "workflow.yaml").write_text("tasks: [{func: ./fails.py, nprocs: 3}]\n")
    words = ["srun", "-N3", "-n3", "-K1", "--mpi=pmi2", *WILKINS, "run", "workflow.yaml"]
    said = slurm.run(*words, cwd=tmp_path)
    assert said.returncode == 1, said.stdout + said.stderr
    assert "fails: failed: exit code 7" in said.stderr
    nothing_is_left(slurm)


@pytest.mark.nightly
@pytest.mark.needs("mpirun.openmpi")
@pytest.mark.parametrize("family", ["pypi", "openmpi"])
def test_an_mpiexec_takes_the_nodes_of_an_allocation(slurm: Slurm, tmp_path: Path, family: str) -> None:
    """It starts the ranks on its own node by itself, and those on others by a job step."""
    mixed(tmp_path, "once", family)
    options = ["mpirun.openmpi", "--allow-run-as-root", *OVER_TCP] if family == "openmpi" else [MPIEXEC]
    words = ["salloc", "-N3", "--ntasks-per-node=2", *options, "-n", "5", *WILKINS, "run", "workflow.yaml"]
    said = slurm.run(*words, cwd=tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "sum:0 | total 126" in said.stdout
    nothing_is_left(slurm)


@pytest.mark.nightly
def test_a_run_takes_all_parts_of_a_heterogeneous_job(slurm: Slurm, tmp_path: Path) -> None:
    """And of each other node all that the job has there."""
    look = "import os; print('on', os.uname().nodename, os.environ.get('SLURM_CPU_BIND_TYPE'))"
    (tmp_path / "workflow.yaml").write_text(
        f"tasks:\n  - {{func: {sys.executable}, name: look, args: [-c, {json.dumps(look)}], taskCount: 3}}\n"
    )
    words = slurm.on("salloc", "-N1", "-n1", ":", "-N1", "-n2", *WILKINS, "run", "workflow.yaml", folder=tmp_path)
    finished = run_tree(words, 60, tmp_path)
    assert finished.code == 0, finished.err
    assert sorted(re.findall(r"on (node[0-9] \w+)", finished.out)) == ["node0 None", "node1 none", "node1 none"]


@pytest.mark.nightly
def test_a_job_step_that_is_cancelled(slurm: Slurm, tmp_path: Path) -> None:
    mixed(tmp_path, "endless")
    words = ["srun", "-N3", "-n5", "-K1", "--mpi=pmi2", *WILKINS, "run", "workflow.yaml"]
    with started_tree(slurm.on(*words, folder=tmp_path), tmp_path) as tree:
        await_step(tmp_path)
        assert slurm.run("scancel", *slurm.run("squeue", "-h", "-o", "%i").stdout.split()).returncode == 0
        finished = tree.wait(30)
    assert finished.code == 143
    # Whichever of them hears of it first: the head, or the keeper of a node, which is named then.
    assert re.search(r"wilkins: (node[0-9]: )?stopped by SIGTERM", finished.err), finished.err
    nothing_is_left(slurm)


def test_what_slurm_refuses_is_told(slurm: Slurm, tmp_path: Path) -> None:
    write_program(tmp_path / "program.py", "")
    (tmp_path / "workflow.yaml").write_text("tasks: [{func: ./program.py}]\n")
    said = slurm.run(*WILKINS, "submit", "workflow.yaml", "--queue", "nowhere", cwd=tmp_path)
    assert said.returncode == 3
    assert "invalid partition specified: nowhere" in said.stderr
    assert "Slurm did not take the job: sbatch" in said.stderr
