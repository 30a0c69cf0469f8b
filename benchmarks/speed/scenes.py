"""The streams that are measured: scenes, and in each the contestants that move the same steps."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from .results import Results
from .running import BIN, SOURCES, run, task, which, workflow
from .times import AGAIN, FIRST, Steps, read_sheet

KIB, MIB = 1 << 10, 1 << 20
C, H5PY, VIEWS = "wilkins, C", "wilkins, h5py", "wilkins, channels"
MPI4PY, MPI_C, HAND = "mpi4py Send/Recv", "MPI in C", "shared memory by hand"
SHM, DISK, SST, CORE = "file on /dev/shm", "file on disk", "ADIOS2 SST", "HDF5's core driver"
CORE_H5PY = "HDF5's core driver, h5py"
CORE_BESIDE = "HDF5's core driver beside another"
"""A second program does the same meanwhile, with files of its own, as a consumer does something alike."""
MEMCPY, BESIDE = "memcpy alone", "memcpy beside another"
STRIDED = "NumPy by hand"
MPIS = {"mpich": "MPICH", "openmpi": "Open MPI"}
NULL = {mpi: f"a null device, {name}" for mpi, name in MPIS.items()}
"""HDF5 on MPI-IO that copies and does nothing else."""
SIZES = {"1 KiB": KIB, "1 MiB": MIB, "16 MiB": 16 * MIB, "128 MiB": 128 * MIB, "512 MiB": 512 * MIB}
SETS = "1,000 datasets of 1 KiB"
FOUR_TWO, TWO_ONE, ONE_ONE = "4 x 2 ranks, 256 MiB", "2 x 1 ranks, 256 MiB", "1 x 1 ranks, 256 MiB"


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way to move steps."""

    name: str
    how: Literal["workflow", "processes", "apart"]
    """Two tasks of a workflow; processes side by side; such of which each has a sheet, and the first one's counts."""
    commands: tuple[tuple[str, ...], ...]
    """Without the words about the sheet."""
    ranks: tuple[int, int] = (1, 1)
    """MPI ranks of the tasks."""
    disk: bool = False
    """In a folder on disk, not in memory."""
    again: bool = False
    """Whether the workflow is run once more in its folder, for its first step."""
    longest: int | None = None
    """Steps of its long stream, at most: fewer of those that take long are enough."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Steps of one size, and who moves them."""

    name: str
    steps: Steps
    contestants: tuple[Contestant, ...]


def measure(contestant: Contestant, steps: Steps) -> dict[str, float]:
    """Run a contestant once.

    Raises:
        RuntimeError: a program failed, hung, or read what was not written.
    """
    steps = replace(steps, long=min(steps.long, contestant.longest or steps.long))
    disk = None if contestant.disk else "/dev/shm"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory, tempfile.TemporaryDirectory(dir=disk) as place:
        folder, sheet = Path(place), Path(memory) / "sheet"
        if contestant.how == "workflow":
            commands = [(*command, str(sheet), *steps.words) for command in contestant.commands]
            ports = ({"outports": "step-*.h5"}, {"inports": "step-*.h5"})
            tasks = [
                task(name, command, port, nprocs=ranks)
                for name, command, port, ranks in zip("wr", commands, ports, contestant.ranks, strict=True)
            ]
            command = workflow(tasks, folder)
            run([command], folder)
            if contestant.again:
                found = read_sheet(sheet, steps)
                sheet.unlink()
                run([command], folder)
                return found | {AGAIN: read_sheet(sheet, steps)[FIRST]}
        else:
            sheets = [sheet if k == 0 or contestant.how == "processes" else f"{sheet}.{k}" for k in range(2)]
            pairs = zip(contestant.commands, sheets, strict=False)
            run([[*command, str(path), *steps.words] for command, path in pairs], folder)
        return read_sheet(sheet, steps)


def turn(scene: Scene, results: Results) -> None:
    """Let each contestant run once, one after the other."""
    for contestant in scene.contestants:
        for kind, value in measure(contestant, scene.steps).items():
            results.add(f"{kind}, {scene.name}", contestant.name, value)


def _pair(program: str, *words: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    before = (str(BIN / "python"), program) if program.endswith(".py") else (program,)
    return (*before, "w", *words), (*before, "r", *words)


def _c(programs: Mapping[str, str], sets: int, size: int) -> list[Contestant]:
    if "stream" not in programs:
        return []
    stream, words = programs["stream"], (str(sets), str(size))
    core = _pair(stream, "core", *words)[0]
    found = [
        Contestant(C, "workflow", _pair(stream, "layer", *words), again=True),
        Contestant(SHM, "processes", _pair(stream, "files", *words)),
        Contestant(CORE, "processes", (core,)),
    ]
    return [*found, Contestant(CORE_BESIDE, "apart", (core, core))] if sets * size <= MIB else found


def _stream(programs: Mapping[str, str], size: int) -> list[Contestant]:
    script, bytes_ = str(SOURCES / "stream.py"), str(size)
    found = [
        *_c(programs, 1, size),
        Contestant(H5PY, "workflow", _pair(script, "h5py", bytes_), again=True),
        Contestant(CORE_H5PY, "processes", _pair(script, "core", bytes_)[:1]),
        Contestant(VIEWS, "workflow", _pair(script, "views", bytes_)),
        Contestant(HAND, "processes", _pair(script, "hand", bytes_)),
    ]
    if "stream" in programs:
        found.append(Contestant(DISK, "processes", _pair(programs["stream"], "files", "1", bytes_), disk=True))
    if mpiexec := which("mpiexec"):
        jobs: dict[str, tuple[str, ...]] = {MPI4PY: (str(BIN / "python"), script, "-", "message", bytes_)}
        if "message" in programs:
            jobs[MPI_C] = (programs["message"], bytes_)
        found += [Contestant(name, "processes", ((mpiexec, "-n", "2", *words),)) for name, words in jobs.items()]
    if importlib.util.find_spec("adios2"):
        found.append(Contestant(SST, "processes", _pair(script, "sst", bytes_), longest=2000))
    if "copy" in programs:
        copy = (programs["copy"], bytes_)
        found += [Contestant(MEMCPY, "apart", (copy,)), Contestant(BESIDE, "apart", (copy, copy))]
    return found


def _parallel(programs: Mapping[str, str], size: int, mpi: str, writers: int, readers: int) -> list[Contestant]:
    program = programs.get(f"parallel.{mpi}")
    if program is None:
        return []
    words = ("columns" if readers > 1 else "rows", str(size))
    found = [Contestant(f"wilkins, {MPIS[mpi]}", "workflow", _pair(program, *words), ranks=(writers, readers))]
    if (null := programs.get(f"null.{mpi}")) and (mpiexec := which(f"mpiexec.{mpi}")):
        options = ("--oversubscribe",) if mpi == "openmpi" else ()
        job = (mpiexec, *options, "-n", str(writers), "env", f"LD_PRELOAD={null}", program, "n", *words)
        found.append(Contestant(NULL[mpi], "processes", (job,)))
    return found


def scenes(programs: Mapping[str, str], quick: bool) -> list[Scene]:
    """All scenes, with the contestants whose programs there are."""
    steps = {
        "1 KiB": Steps(50, 200, 10_000),
        "1 MiB": Steps(20, 50, 300),
        "16 MiB": Steps(10, 15, 80),
        "128 MiB": Steps(8, 8, 16),
        "512 MiB": Steps(6, 3, 6),
    }
    if quick:
        steps = {"1 KiB": Steps(20, 50, 2000), "16 MiB": Steps(8, 8, 30), "128 MiB": Steps(6, 4, 8)}
    found = [Scene(name, count, tuple(_stream(programs, SIZES[name]))) for name, count in steps.items()]
    found.append(Scene(SETS, Steps(5, 10, 30), tuple(_c(programs, 1000, KIB))))
    size, few = 256 * MIB, Steps(8, 3, 0) if quick else Steps(12, 8, 0)
    strided = (str(BIN / "python"), str(SOURCES / "strided.py"), "4", "2", str(size))
    four_two = [one for mpi in MPIS for one in _parallel(programs, size, mpi, 4, 2)]
    found.append(Scene(FOUR_TWO, few, (*four_two, Contestant(STRIDED, "processes", (strided,)))))
    for name, writers in ((ONE_ONE, 1), (TWO_ONE, 2)):
        found.append(Scene(name, few, tuple(one for mpi in MPIS for one in _parallel(programs, size, mpi, writers, 1))))
    return found


def left_out(programs: Mapping[str, str]) -> list[str]:
    """What cannot be measured here, and what it takes."""
    needs = {
        "C": ("stream" in programs, "h5cc (libhdf5-dev)"),
        "memcpy": ("copy" in programs, "a C compiler (gcc)"),
        "MPI in C": ("message" in programs, "mpicc (pip install mpich)"),
        "MPI": (which("mpiexec"), "mpiexec (pip install mpich)"),
        "parallel files, MPICH": ("parallel.mpich" in programs, "h5pcc.mpich (libhdf5-mpich-dev)"),
        "parallel files, Open MPI": ("parallel.openmpi" in programs, "h5pcc.openmpi (libhdf5-openmpi-dev)"),
        SST: (importlib.util.find_spec("adios2"), "adios2 (pip install adios2)"),
    }
    return [f"{what}: no {need}" for what, (there, need) in needs.items() if not there]
