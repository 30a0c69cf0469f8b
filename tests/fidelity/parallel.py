"""The parallel part of the rig: C programs that several ranks run together, with both MPIs, HDF5 shared and inside.

All cases of ``pairs/parallel`` are one program, with HDF5 1.14 also those of ``pairs/parallel_newer``. Its writers' and
readers' numbers of ranks differ; h5py looks at the same files, too. What each rank says is compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml
from fidelity import rig
from fidelity.rig import PAIRS
from programs.build import NEWER_LIBC, newer_parallel_c, parallel_c, split_libraries

from support.running import WILKINS

NEWER = "1.14 inside"
LAUNCHERS = {
    "mpich": ("mpiexec.mpich",),
    "openmpi": ("mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"),
}
LIMIT = 300.0  # seconds for one side, or for a workflow of both: six ranks that spin share two cores with other tests

UNDETERMINED = r"/view/image: "
"""Bytes of the file: parallel HDF5 1.10 writes some that it has not set, in the nodes of chunk indices."""

MIXED = re.compile(r":   mixed: (\d+)$")
"""Elements in which atomic transfers of several ranks are mixed: on disk, those of Open MPI's own MPI-IO may be."""

FEATURES = {
    "contiguous": "contiguous layout",
    "chunked": "chunked layout",
    "filtered": "filtered: shuffle, gzip, szip, Fletcher32",
    "early, late and incremental allocation": "early, late and incremental allocation, each with every time of filling",
    "fill values": "fill values",
    "chunk caches set by the program": "chunk caches set by the program",
    "ranks writing halves of one chunk": "ranks that write parts of one chunk",
    "chunks written as they are stored": "chunks written and read as they are stored",
    "datasets created, extended and deleted together": "datasets created, extended, shrunk and deleted together",
    "many objects": "hundreds of objects",
    "attributes": "attributes",
    "types of every class": "compound, enumeration and array types; writes of single members",
    "metadata read by some ranks only": "metadata read by some ranks only",
    "collective metadata": "collective metadata reads and writes",
    "collective and independent": "collective and independent transfers, and what HDF5 says of how they went",
    "ranks without anything to write or read": "ranks without anything to write or read",
    "hyperslabs, their unions, and points": "hyperslabs, their unions and differences, points, gaps in memory",
    "overwrites": "overwrites",
    "large datasets (24 MB)": "large datasets (24 MB), compact ones",
    "reopening read-write": "reopening read-write, by all ranks and by one alone",
    "left open at MPI_Finalize": "files and objects left open at MPI_Finalize",
    "closed while objects are open": "files closed while objects are open",
    "atomic mode": "atomic mode, with ranks that race",
    "sub-communicators": "sub-communicators that write and read at the same time",
    "files of one rank": "files of one rank, through MPI-IO and without",
    "files opened twice": "files opened twice, flushed",
    "hints, handles and access lists": "hints, handles, sizes, access lists",
    "a stale or huge file of that name on disk": "a stale or huge file of that name on disk",
    "oldest and newest file formats": "the newest file format: each kind of chunk index, a user block",
    "failing calls": "failing calls: return codes, error classes, messages",
    "several datasets at once": "several datasets in one call",
    "transfers by selections": "transfers by selections, with and without, and what HDF5 says of how they went",
    "files in pages": "files in pages",
    "calls of event sets": "calls of event sets",
}
"""What the cases are about, in the order of the table, and how it is called there."""


@dataclass(frozen=True)
class Column:
    """An MPI, and an HDF5: ``1.10 shared``, ``1.10 inside``, or ``1.14 inside``."""

    mpi: str
    hdf5: str

    @property
    def title(self) -> str:
        name = {"mpich": "MPICH", "openmpi": "Open MPI"}[self.mpi]
        return f"{name}, HDF5 {self.hdf5}"

    @property
    def needs(self) -> tuple[str, ...]:
        newer = ("newer-hdf5",) if self.hdf5 == NEWER else ()
        return (*LAUNCHERS[self.mpi][:1], f"h5pcc.{self.mpi}", *newer, "python:h5py")

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files of its cases; those whose files stay open to the end come last."""
        folders = ("parallel", "parallel_newer") if self.hdf5 == NEWER else ("parallel",)
        found = (source for folder in folders for source in (PAIRS / folder).glob("*.c"))
        return tuple(sorted(found, key=lambda source: (source.stem == "unclosed", source)))

    @cached_property
    def cases(self) -> tuple[rig.Case, ...]:
        return rig.marked_cases(*self.sources)

    @property
    def compiler(self) -> tuple[str, ...]:
        """The words of the command."""
        return newer_parallel_c(self.mpi) if self.hdf5 == NEWER else parallel_c(self.mpi, static="inside" in self.hdf5)

    @property
    def besides(self) -> tuple[Path, ...]:
        """What is compiled with every program."""
        return (NEWER_LIBC,) if self.hdf5 == NEWER else ()

    def program(self, folder: Path) -> str:
        """The program, compiled in a folder."""
        options = split_libraries(self.compiler)[0]
        return rig.compiled(self.compiler, (*self.sources, *self.besides), folder, "parallel_main.c", options)[0]


COLUMNS = tuple(Column(mpi, hdf5) for mpi in ("mpich", "openmpi") for hdf5 in ("1.10 shared", "1.10 inside", NEWER))


@dataclass(frozen=True)
class Chosen(rig.Program):
    """The program, and the cases of it that are run."""

    def argv(self, action: str, out: str) -> list[str]:
        return [*super().argv(action, out), *(case.name for case in self.cases)]


@dataclass(frozen=True)
class Combination:
    """How many ranks write and read, and with which program; ``share`` of ``shares``: each takes every n-th case."""

    column: Column
    writers: int
    readers: int
    share: int = 0
    shares: int = 1

    def __str__(self) -> str:
        hdf5 = self.column.hdf5.replace(" ", "-")
        part = f"-part-{self.share + 1}-of-{self.shares}" if self.shares > 1 else ""
        return f"{self.column.mpi}-{hdf5}-{self.writers}-to-{self.readers}{part}"

    @property
    def cases(self) -> tuple[rig.Case, ...]:
        return self.column.cases[self.share :: self.shares]


def usual() -> list[Combination]:
    """Those of an ordinary round of tests: each case once with each MPI and HDF5, on few ranks that share two cores."""
    mpich, mpich_inside, mpich_newer, openmpi, openmpi_inside, openmpi_newer = COLUMNS
    return [
        Combination(mpich, 3, 2, 0, 3),
        Combination(mpich_inside, 2, 1, 1, 3),
        Combination(mpich, 1, 5, 2, 3),
        Combination(openmpi, 2, 3, 0, 3),
        Combination(openmpi_inside, 1, 2, 1, 3),
        Combination(openmpi_inside, 2, 1, 2, 3),
        Combination(mpich_newer, 2, 3, 0, 2),
        Combination(mpich_newer, 3, 1, 1, 2),
        Combination(openmpi_newer, 3, 2),
    ]


def every() -> list[Combination]:
    """All cases, all columns, all numbers of ranks."""
    return [Combination(column, w, r) for column in COLUMNS for w in range(1, 7) for r in range(1, 7)]


def both_ways(folder: Path, combination: Combination) -> dict[str, str]:
    """Run the cases with real files and with channels in a new folder, and compare: as ``rig.both_ways``."""
    folder.mkdir(parents=True, exist_ok=True)
    program = Chosen((combination.column.program(folder),), (), combination.cases)
    through_files(folder / "files", combination, program)
    through_channels(folder / "steps", combination, program)
    if combination.column.mpi != "openmpi":
        return rig.compare(folder / "files", folder / "steps", program, UNDETERMINED)
    found = rig.compare(folder / "files", folder / "steps", program, f"{UNDETERMINED}|{MIXED.pattern}")
    for name, lines in rig.sections(folder / "steps" / "write.txt").items():
        if mixed := [line for line in lines if (told := MIXED.search(line)) and int(told[1])]:
            found[name] = "atomic transfers are mixed in memory: " + "; ".join(mixed)
    return found


def through_files(folder: Path, combination: Combination, program: rig.Program) -> None:
    """Run writers, readers and h5py one after another."""
    folder.mkdir()
    rig.prepare(folder)
    job = (*LAUNCHERS[combination.column.mpi], "-n")
    rig.run(folder, [*job, str(combination.writers), *program.argv("write", "write.txt")], LIMIT)
    for name, argv in rig.looks(program):
        rig.run(folder, [*job, str(combination.readers), *argv] if name == "read" else argv, LIMIT)


def through_channels(folder: Path, combination: Combination, program: rig.Program) -> None:
    """Run them as one workflow."""
    folder.mkdir()
    stale = rig.prepare(folder)
    tasks = [rig.producer(program) | {"nprocs": combination.writers}]
    for name, argv in rig.looks(program):
        tasks.append(rig.consumer(name, argv, program))
        if name == "read":
            tasks[-1]["nprocs"] = combination.readers
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    rig.run(folder, [*WILKINS, "run", "workflow.yaml"], LIMIT)
    rig.check_disk(folder, stale)
