"""Every kind of HDF5 program with every MPI: values checked, no file on disk, in both launches.

The programs (`programs/`) check each value they read and end with an error at the first wrong one. Meep, the remaining
cell of the matrix, is an example with its own test.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from programs.build import PYPI_MPICC, SOURCES, build, parallel_c, parallel_fortran, pypi_mpi_c, serial_c

from support.running import MPIEXEC, WILKINS, Finished, run_tree

STEPS = 4
MPIEXECS = {
    "mpich": ("mpiexec.mpich",),
    "openmpi": ("mpirun.openmpi", "--oversubscribe"),
    "pypi": (MPIEXEC,),
}
MPICH = pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich", "h5pfc.mpich")
OPENMPI = pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi", "h5pfc.openmpi")
PYPI = pytest.mark.needs("python:mpi4py", "python:h5py", str(PYPI_MPICC))
SERIAL = pytest.mark.needs("h5cc", "pkg-config")
H5PY = pytest.mark.needs("python:h5py")


@dataclass(frozen=True, slots=True)
class Task:
    """A program of a workflow."""

    program: Path
    nprocs: int
    args: tuple[str, ...]
    mpi: str = ""
    """The MPI it is linked to, a key of ``MPIEXECS``; empty for none."""


@dataclass(frozen=True, slots=True)
class Case:
    """One producer and its consumers."""

    pattern: str
    producer: Task
    consumers: tuple[Task, ...] = field(default=())

    @property
    def ranks(self) -> int:
        return self.producer.nprocs + sum(task.nprocs for task in self.consumers)


def entry(name: str, task: Task, **ports: object) -> dict[str, object]:
    """A task of the workflow file."""
    words: dict[str, object] = {"name": name, "func": str(task.program), "nprocs": task.nprocs, "args": list(task.args)}
    if task.mpi:
        words["mpiexec"] = " ".join(MPIEXECS[task.mpi])
    return words | ports


def write_workflow(folder: Path, case: Case) -> Path:
    """The case as a workflow file."""
    port = [{"filename": case.pattern}]
    tasks = [entry("produce", case.producer, outports=port)]
    tasks += [entry(f"consume{k}", task, inports=port) for k, task in enumerate(case.consumers)]
    path = folder / "workflow.yaml"
    path.write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    return path


def run_case(folder: Path, case: Case, launch: str) -> Finished:
    """Run it; whatever it prints belongs to the failure."""
    workflow = write_workflow(folder, case)
    before = sorted(path.name for path in folder.iterdir())
    argv = [*WILKINS, "run", str(workflow)]
    if launch == "one-job":
        argv = [*MPIEXECS[case.producer.mpi], "-n", str(case.ranks), *argv]
    done = run_tree(argv, 90, folder)
    said = f"{workflow.read_text()}\n{done.out}\n{done.err}"
    assert done.code == 0, said
    new = sorted(path.name for path in folder.iterdir() if path.name not in before)
    assert [name for name in new if not name.startswith(".std")] == ["wilkins-runs"], said
    return done


def h5py_reader(pattern: str, *more: str) -> Task:
    return Task(SOURCES / "rows_read.py", 1, (pattern, str(STEPS), *more))


def c_program(source: str, mpi: str, nprocs: int, *, static: bool, more: tuple[str, ...] = ()) -> Task:
    return Task(build(source, *parallel_c(mpi, static=static)), nprocs, ("plt%04d.h5", str(STEPS), *more), mpi)


def fortran_program(source: str, mpi: str, nprocs: int, *, static: bool, f08: bool = False) -> Task:
    program = build(source, *parallel_fortran(mpi, static=static), defines=("USE_F08",) if f08 else ())
    return Task(program, nprocs, ("plt#.h5", str(STEPS)), mpi)


LAUNCHES = pytest.mark.parametrize("launch", ["alone", "one-job"])
FAMILIES = pytest.mark.parametrize("mpi", [pytest.param("mpich", marks=MPICH), pytest.param("openmpi", marks=OPENMPI)])
LINKED = pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])


@pytest.mark.usual("earliest-alone-shared-mpich")
@H5PY
@FAMILIES
@LINKED
@LAUNCHES
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_parallel_c(tmp_path: Path, mpi: str, static: bool, launch: str, libver: str) -> None:
    """Rows on three ranks to columns on two, in every way parallel HDF5 writes, and to h5py."""
    case = Case(
        "plt*.h5",
        c_program("par_write.c", mpi, 3, static=static, more=("latest",) if libver == "latest" else ()),
        (c_program("par_read.c", mpi, 2, static=static), h5py_reader("plt{step:04d}.h5")),
    )
    done = run_case(tmp_path, case, launch)
    assert f"read {STEPS} steps" in done.out
    assert f"h5py read {STEPS} steps" in done.out


@pytest.mark.usual("mpi_f08-alone-static-openmpi")
@FAMILIES
@LINKED
@LAUNCHES
@pytest.mark.parametrize("f08", [False, True], ids=["mpi", "mpi_f08"])
def test_parallel_fortran(tmp_path: Path, mpi: str, static: bool, launch: str, f08: bool) -> None:
    """The same in Fortran, with either of its MPI modules."""
    case = Case(
        "plt*.h5",
        fortran_program("par_write.F90", mpi, 2, static=static, f08=f08),
        (fortran_program("par_read.F90", mpi, 3, static=static, f08=f08),),
    )
    assert f"read {STEPS} steps" in run_case(tmp_path, case, launch).out


@pytest.mark.nightly
@SERIAL
@FAMILIES
@LAUNCHES
def test_languages_mix(tmp_path: Path, mpi: str, launch: str) -> None:
    """C to Fortran, and to serial C with HDF5 inside."""
    serial = Task(build("ser_read.c", *serial_c(static=True)), 1, ("plt%04d.h5", str(STEPS)))
    case = Case(
        "plt*.h5",
        c_program("par_write.c", mpi, 2, static=False),
        (fortran_program("par_read.F90", mpi, 2, static=True), serial),
    )
    assert "rank 0 read" in run_case(tmp_path, case, launch).out


@pytest.mark.usual("mpich-shared")
@MPICH
@OPENMPI
@LINKED
@pytest.mark.parametrize("producer", ["mpich", "openmpi"])
def test_two_mpis_in_one_graph(tmp_path: Path, producer: str, static: bool) -> None:
    """A producer on one MPI, consumers on both."""
    consumers = tuple(c_program("par_read.c", mpi, 2, static=not static) for mpi in ("mpich", "openmpi"))
    case = Case("plt*.h5", c_program("par_write.c", producer, 2, static=static), consumers)
    assert run_case(tmp_path, case, "alone").out.count(f"read {STEPS} steps") == 2


@pytest.mark.nightly
@PYPI
@LAUNCHES
def test_h5py_one_file_per_rank(tmp_path: Path, launch: str) -> None:
    """PyPI's MPICH with h5py's wheel: two ranks write files of their own."""
    writer = Task(SOURCES / "part_write.py", 2, (str(STEPS),), "pypi")
    case = Case("part*.h5", writer, (h5py_reader("part{part}-{step:04d}.h5", "2"),))
    assert f"h5py read {STEPS} steps" in run_case(tmp_path, case, launch).out


@pytest.mark.usual("one-job")
@PYPI
@SERIAL
@LAUNCHES
def test_serial_c_under_pypi_mpich(tmp_path: Path, launch: str) -> None:
    """PyPI's MPICH with Debian's serial HDF5: each rank reads what its counterpart writes."""
    args = ("part%d-%04d.h5", str(STEPS))
    writer = Task(build("ser_write.c", *pypi_mpi_c(), defines=("USE_MPI",)), 2, args, "pypi")
    reader = Task(build("ser_read.c", *pypi_mpi_c(), defines=("USE_MPI",)), 2, args, "pypi")
    done = run_case(tmp_path, Case("part*.h5", writer, (reader,)), launch)
    assert "rank 0 read" in done.out
    assert "rank 1 read" in done.out


@pytest.mark.usual("static-shared")
@SERIAL
@H5PY
@pytest.mark.parametrize("written", ["shared", "static"])
@pytest.mark.parametrize("read", ["shared", "static"])
def test_serial_c(tmp_path: Path, written: str, read: str) -> None:
    """Serial C, HDF5 shared and inside, and h5py."""
    args = ("plt%04d.h5", str(STEPS))
    writer = Task(build("ser_write.c", *serial_c(static=written == "static")), 1, args)
    reader = Task(build("ser_read.c", *serial_c(static=read == "static")), 1, args)
    case = Case("plt*.h5", writer, (reader, h5py_reader("plt{step:04d}.h5")))
    assert "rank 0 read" in run_case(tmp_path, case, "alone").out


@pytest.mark.usual("static-openmpi")
@FAMILIES
@LINKED
def test_a_rewritten_name(tmp_path: Path, mpi: str, static: bool) -> None:
    """A parallel stream under one name: the k-th open is the k-th step on all ranks."""
    args = ("field.h5", str(STEPS))
    case = Case(
        "field.h5",
        Task(build("par_write.c", *parallel_c(mpi, static=static)), 3, args, mpi),
        (Task(build("par_read.c", *parallel_c(mpi, static=static)), 2, args, mpi),),
    )
    assert f"read {STEPS} steps" in run_case(tmp_path, case, "alone").out


@pytest.mark.usual("mpich")
@FAMILIES
def test_end_of_stream_on_all_ranks(tmp_path: Path, mpi: str) -> None:
    """Past the last step every rank's open fails, as for a missing file, and the run has succeeded."""
    reader = Task(build("par_read.c", *parallel_c(mpi, static=False)), 3, ("plt%04d.h5", str(STEPS + 5)), mpi)
    case = Case("plt*.h5", c_program("par_write.c", mpi, 2, static=False), (reader,))
    assert f"step {STEPS - 1} sum" in run_case(tmp_path, case, "alone").out


def comparisons() -> list[tuple[int, int, int]]:
    """Ranks, seed and operations of comparisons of MPI-IO; with `make fuzz` (WILKINS_FUZZ=n) n of fresh seeds."""
    if one := os.environ.get("WILKINS_FUZZ_SEED"):
        return [(int(one) % 6 + 1, int(one), 300)]
    if many := os.environ.get("WILKINS_FUZZ"):
        first = random.randrange(10**9)
        return [(seed % 6 + 1, seed, 300) for seed in range(first, first + int(many))]
    return [(1, 1, 300), (1, 2, 300), (2, 3, 300), (3, 4, 300), (5, 5, 60)]


@pytest.mark.usual("2-3-300-mpich")
@FAMILIES
@pytest.mark.parametrize(("ranks", "seed", "operations"), comparisons())
def test_mpi_io_as_on_disk(tmp_path: Path, mpi: str, ranks: int, seed: int, operations: int) -> None:
    """Random datatypes, views, kinds of transfer and failing calls do on a file in memory what they do on disk."""
    print(f"again with: WILKINS_FUZZ_SEED={seed} python -m pytest tests/guests/test_matrix.py -k as_on_disk")
    program = build("io_compare.c", f"mpicc.{mpi}")
    producer = Task(program, ranks, ("memory.dat", "disk.dat", str(seed), str(operations)), mpi)
    consumer = Task(SOURCES / "same_bytes.py", 1, ("memory.dat", "disk.dat"))
    (tmp_path / "disk.dat").touch()
    done = run_case(tmp_path, Case("memory.dat", producer, (consumer,)), "alone")
    assert f"{operations} operations agree" in done.out
    assert "the same" in done.out


@pytest.mark.usual("mpich")
@FAMILIES
def test_mpi_io_calls(tmp_path: Path, mpi: str) -> None:
    """Error classes and handlers, hints, groups, views and sizes are those of a real file."""
    producer = Task(build("io_calls.c", f"mpicc.{mpi}"), 2, ("memory.dat",), mpi)
    consumer = Task(SOURCES / "bytes_read.py", 1, ("memory.dat",))
    done = run_case(tmp_path, Case("memory.dat", producer, (consumer,)), "alone")
    assert "all answers right" in done.out
    assert "100000 bytes" in done.out
    said = (tmp_path / "wilkins-runs" / "latest" / "layer.log").read_text()
    assert "task 'produce' rank 1 calls MPI_File_write_shared on 'memory.dat', but files in memory" in said
    assert "rank 0 sets a view with data representation \"external32\" on 'memory.dat', but data in memory" in said


@pytest.mark.nightly
@FAMILIES
@pytest.mark.parametrize("f08", [False, True], ids=["mpi", "mpi_f08"])
def test_mpi_io_from_fortran(tmp_path: Path, mpi: str, f08: bool) -> None:
    """Fortran's handles of files and types reach the same functions."""
    program = build("io_strided.F90", f"mpif90.{mpi}", defines=("USE_F08",) if f08 else ())
    consumer = Task(SOURCES / "bytes_read.py", 1, ("memory.dat",))
    case = Case("memory.dat", Task(program, 3, ("memory.dat",), mpi), (consumer,))
    done = run_case(tmp_path, case, "alone")
    assert "Fortran agrees" in done.out
    assert "120 bytes" in done.out
