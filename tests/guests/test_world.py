"""Under one mpiexec, MPI_COMM_WORLD is the task: unmodified C, Fortran and Python programs, two tasks in one job."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from wilkins.transport.board import native_library

PROGRAMS = Path(__file__).parents[1] / "native" / "world"
PYTHON_BIN = Path(sys.executable).parent
LIMIT = 60


@dataclass(frozen=True)
class Mpi:
    """One MPI installation: its compilers and how it starts a job."""

    name: str
    cc: str
    launch: tuple[str, ...]
    fortran: str = ""
    variables: dict[str, str] = field(default_factory=dict)


MPICH = Mpi("mpich", "mpicc.mpich", ("mpiexec.mpich",), "mpifort.mpich")
OPEN_MPI = Mpi(
    "openmpi",
    "mpicc.openmpi",
    ("mpirun.openmpi", "--oversubscribe"),
    "mpifort.openmpi",
    {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
)
PYPI_MPICH = Mpi("pypi-mpich", str(PYTHON_BIN / "mpicc"), (str(PYTHON_BIN / "mpiexec"),))
PYPI_MPICH_ABI = Mpi("pypi-mpich-abi", str(PYTHON_BIN / "mpicc_abi"), PYPI_MPICH.launch)


def mpis(*choice: Mpi) -> pytest.MarkDecorator:
    """Runs a test once for each of these MPIs."""
    return pytest.mark.parametrize(
        "mpi",
        [pytest.param(mpi, id=mpi.name, marks=pytest.mark.needs(mpi.cc, mpi.launch[0])) for mpi in choice],
    )


@dataclass(frozen=True)
class Task:
    """Ranks of a job that are one task."""

    ranks: int
    command: Sequence[str | Path]
    variables: dict[str, str] = field(default_factory=dict)


def start(
    mpi: Mpi, tasks: Sequence[Task], cwd: Path, *, preload: bool = True, world: bool = True
) -> subprocess.Popen[str]:
    """Starts one MPI job of these tasks, each with a world of its own unless `world` is false."""
    words: list[str] = list(mpi.launch)
    first = 0
    for position, task in enumerate(tasks):
        variables = dict(task.variables)
        if preload:
            variables["LD_PRELOAD"] = str(native_library())
        if world:
            variables["WILKINS_WORLD"] = f"{first}:{first + task.ranks - 1}"
        (windows := cwd / f"windows-{position}").mkdir(exist_ok=True)  # as the launcher does: see window_variables
        variables["OMPI_MCA_osc_sm_backing_directory"] = str(windows)
        variables["OMPI_MCA_osc_rdma_backing_directory"] = str(windows)
        words += [":"] if position else []
        words += ["-n", str(task.ranks), "env", *(f"{name}={value}" for name, value in variables.items())]
        words += [str(word) for word in task.command]
        first += task.ranks
    return subprocess.Popen(
        words,
        cwd=cwd,
        env=os.environ | mpi.variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(job: subprocess.Popen[str]) -> tuple[int, str]:
    """Waits for a job; its exit status and output."""
    try:
        output, _ = job.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        job.terminate()
        output, _ = job.communicate(timeout=LIMIT)
        pytest.fail(f"the job did not end within {LIMIT} s:\n{output}")
    return job.returncode, output


def run(mpi: Mpi, tasks: Sequence[Task], cwd: Path, *, preload: bool = True, world: bool = True) -> tuple[int, str]:
    return finish(start(mpi, tasks, cwd, preload=preload, world=world))


def well(output: str) -> list[str]:
    """The ranks that reported to be well, in order."""
    return sorted(re.findall(r"world of \d+: rank \d+ is well", output))


def everyone(*sizes: int) -> list[str]:
    return sorted(f"world of {size}: rank {rank} is well" for size in sizes for rank in range(size))


def build(compiler: str, source: str, folder: Path, *options: str) -> Path:
    program = folder / Path(source).stem
    subprocess.run([compiler, "-g", *options, str(PROGRAMS / source), "-o", str(program)], cwd=folder, check=True)
    return program


def check_two_worlds(mpi: Mpi, program: Sequence[str | Path], cwd: Path, **variables: str) -> None:
    status, output = run(mpi, [Task(n, [*program, str(n)], variables) for n in (2, 3)], cwd)
    assert (status, well(output)) == (0, everyone(2, 3)), output


@pytest.mark.usual("mpich", "openmpi")
@mpis(MPICH, OPEN_MPI, PYPI_MPICH, PYPI_MPICH_ABI)
def test_c_program(mpi: Mpi, tmp_path: Path) -> None:
    check_two_worlds(mpi, [build(mpi.cc, "world_uses.c", tmp_path)], tmp_path)


@pytest.mark.usual("mpich")
@mpis(MPICH, OPEN_MPI, PYPI_MPICH)
def test_shared_file_of_the_world(mpi: Mpi, tmp_path: Path) -> None:
    program = build(mpi.cc, "world_uses.c", tmp_path)
    status, output = run(mpi, [Task(n, [program, str(n), "file"]) for n in (2, 3)], tmp_path)
    assert (status, well(output)) == (0, everyone(2, 3)), output


@pytest.mark.needs("gfortran")
@pytest.mark.usual("openmpi-world_f08.f90")
@pytest.mark.parametrize("source", ["world_mpi.f90", "world_f08.f90"])
@mpis(MPICH, OPEN_MPI)
def test_fortran_program(mpi: Mpi, source: str, tmp_path: Path) -> None:
    check_two_worlds(mpi, [build(mpi.fortran, source, tmp_path)], tmp_path)


@pytest.mark.usual("mpich")
@mpis(MPICH, PYPI_MPICH)
def test_sessions(mpi: Mpi, tmp_path: Path) -> None:
    check_two_worlds(mpi, [build(mpi.cc, "world_sessions.c", tmp_path)], tmp_path)


@mpis(PYPI_MPICH)
def test_mpi4py(mpi: Mpi, tmp_path: Path) -> None:
    check_two_worlds(mpi, [sys.executable, PROGRAMS / "world_mpi4py.py"], tmp_path)


def open_mpi_for_mpi4py() -> dict[str, str]:
    """Variables that let the mpi4py of this Python use Debian's Open MPI."""
    folder = subprocess.run(["mpicc.openmpi", "--showme:libdirs"], capture_output=True, text=True, check=True).stdout
    [library] = (path for name in folder.split() for path in [Path(name, "libmpi.so").resolve()] if path.exists())
    return {"MPI4PY_MPIABI": "openmpi", "MPI4PY_LIBMPI": str(library)}


@mpis(OPEN_MPI)
def test_mpi4py_on_open_mpi(mpi: Mpi, tmp_path: Path) -> None:
    check_two_worlds(mpi, [sys.executable, PROGRAMS / "world_mpi4py.py"], tmp_path, **open_mpi_for_mpi4py())


@mpis(OPEN_MPI)
def test_weak_references_see_what_the_mpi_has(mpi: Mpi, tmp_path: Path) -> None:
    """mpi4py asks for functions of MPI 4 by weak references; Open MPI 4.1 has none, whatever is preloaded."""
    script = "from mpi4py import MPI; w = MPI.COMM_WORLD; assert w.allgather(w.rank) == [0, 1]"
    task = Task(2, [sys.executable, "-c", script], open_mpi_for_mpi4py())
    status, output = run(mpi, [task], tmp_path, world=False)
    assert status == 0, output


@pytest.mark.usual("mpich", "openmpi")
@mpis(MPICH, OPEN_MPI, PYPI_MPICH)
def test_without_a_world_nothing_changes(mpi: Mpi, tmp_path: Path) -> None:
    task = Task(2, [build(mpi.cc, "world_uses.c", tmp_path), "2"])
    bare, preloaded = (run(mpi, [task], tmp_path, preload=preload, world=False) for preload in (False, True))
    assert bare[0] == preloaded[0] == 0
    assert sorted(bare[1].splitlines()) == sorted(preloaded[1].splitlines())


@pytest.mark.usual("mpich-fails-5", "openmpi-abort-6", "pypi-mpich-fails-5")
@pytest.mark.parametrize(
    ("how", "status"),
    [("plain", 0), ("late", 0), ("quick", 0), ("fails", 5), ("abort", 6)],
)
@mpis(MPICH, OPEN_MPI, PYPI_MPICH)
def test_ways_to_end(mpi: Mpi, how: str, status: int, tmp_path: Path) -> None:
    """The job ends by itself with the program's status, also beside a program that never calls MPI."""
    if mpi is PYPI_MPICH and how == "quick":
        pytest.skip("MPICH 5 leaves its job in an exit handler; its mpiexec kills the other ranks of most plain runs")
    program = build(mpi.cc, "world_ends.c", tmp_path)
    tasks = [Task(2, [program, "late"]), Task(1, [program, how])]
    found, output = run(mpi, tasks, tmp_path)
    assert found == status, output


@pytest.mark.usual("mpich")
@mpis(MPICH, OPEN_MPI, PYPI_MPICH)
def test_exit_without_finalize_ends_the_job(mpi: Mpi, tmp_path: Path) -> None:
    """As it does without us; whose status is reported is up to mpiexec."""
    program = build(mpi.cc, "world_ends.c", tmp_path)
    tasks = [Task(1, [program, how]) for how in ("endless", "abrupt")]
    status, output = run(mpi, tasks, tmp_path)
    assert status != 0, output


@mpis(PYPI_MPICH)
def test_python_that_imports_mpi_late(mpi: Mpi, tmp_path: Path) -> None:
    """Told which MPI it will use, a Python task joins the job before it runs, and holds up nobody."""
    early = build(mpi.cc, "world_ends.c", tmp_path)
    script = (
        "import pathlib, time\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.05)\n"
        "from mpi4py import MPI\n"
        "assert MPI.COMM_WORLD.size == 2"
    )
    library = PYTHON_BIN.parent / "lib" / "libmpi.so.12"
    python = Task(2, [sys.executable, "-c", script], {"WILKINS_MPI": str(library)})
    job = start(mpi, [Task(1, [early, "signal"]), python], tmp_path)
    status, output = finish(job)
    assert status == 0, output


@mpis(MPICH)
def test_wrong_ranks_are_explained(mpi: Mpi, tmp_path: Path) -> None:
    program = build(mpi.cc, "world_ends.c", tmp_path)
    status, output = run(mpi, [Task(1, [program, "late"], {"WILKINS_WORLD": "4:5"})], tmp_path, world=False)
    assert status != 0
    assert "rank 0 of an MPI job of 1, but its task was given the ranks 4 to 5" in output


@mpis(MPICH)
@pytest.mark.bench
def test_finalize_waits_without_work(mpi: Mpi, tmp_path: Path) -> None:
    """A task that has ended stays until the job does, and takes no time from the others."""
    program = build(mpi.cc, "world_ends.c", tmp_path)
    before = os.times()
    began = time.monotonic()
    status, output = run(mpi, [Task(1, [program, "fast"]), Task(1, [program, "slow"])], tmp_path)
    assert status == 0, output
    after = os.times()
    assert time.monotonic() - began > 3
    assert after.children_user + after.children_system - before.children_user - before.children_system < 1.5
