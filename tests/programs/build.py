"""Compiles the programs of this folder with the compilers of the machine, each once for all processes of a test run."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
PYPI_MPICC = Path(sys.executable).parent / "mpicc"
"""The compiler of this Python's own MPI, if it has one."""

NEWER = SOURCES.parents[1] / "build" / "hdf5-1.14"
"""Where `tools/newer-hdf5` has laid parallel HDF5 1.14; programs with it also need ``NEWER_LIBC``."""
NEWER_LIBC = SOURCES / "newer_libc.c"


@cache
def programs_folder() -> Path:
    """One for all processes of a test run: the first makes it, and those that it starts find it."""
    if given := os.environ.get("WILKINS_TEST_PROGRAMS"):
        return Path(given)
    folder = Path(tempfile.mkdtemp(prefix="wilkins-programs-"))
    os.environ["WILKINS_TEST_PROGRAMS"] = str(folder)
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def build(source: str, *compiler: str, defines: tuple[str, ...] = ()) -> Path:
    """The executable made from a source file of this folder by a compiler command (its words, libraries last).

    Processes and threads may ask for the same one at the same time.

    Raises:
        RuntimeError: it does not compile; with what the compiler said.
    """
    key = hashlib.sha256(repr((source, compiler, defines)).encode()).hexdigest()[:16]
    folder = programs_folder() / key
    folder.mkdir(exist_ok=True)
    program = folder / Path(source).stem
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _compile(source, compiler, defines, program)
    return program


def _compile(source: str, compiler: tuple[str, ...], defines: tuple[str, ...], program: Path) -> None:
    words, libraries = split_libraries(compiler)
    made = program.with_suffix(".made")
    command = [*words, "-O1", *(f"-D{name}" for name in defines), str(SOURCES / source), "-o", str(made), *libraries]
    done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    made.rename(program)


def split_libraries(compiler: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """A compiler command without and with only its words that name libraries, which go last."""
    libraries = [word for word in compiler if word.startswith(("-l", "-L"))]
    return [word for word in compiler if word not in libraries], libraries


AS_OF_1_10 = "-DH5_USE_110_API"
"""What HDF5 1.10 has, too, is called as there."""


def parallel_c(mpi: str, *, static: bool) -> tuple[str, ...]:
    """Debian's compiler command for C with parallel HDF5; `mpi` is ``mpich`` or ``openmpi``."""
    return (f"h5pcc.{mpi}", AS_OF_1_10, "-noshlib" if static else "-shlib")


def newer_parallel_c(mpi: str) -> tuple[str, ...]:
    """The compiler command for C with parallel HDF5 1.14 inside."""
    rest = ("-lsz", "-lz", "-lcurl", "-lcrypto", "-lm", "-ldl")  # what HDF5 was built with
    own = (f"-I{NEWER / mpi / 'include'}", AS_OF_1_10, f"-L{NEWER / mpi}", "-l:libhdf5.a")
    return (f"mpicc.{mpi}", *own, *rest)


def parallel_fortran(mpi: str, *, static: bool) -> tuple[str, ...]:
    """The same for Fortran."""
    return (f"h5pfc.{mpi}",) if static else (f"h5pfc.{mpi}", "-shlib")


def serial_c(*, static: bool) -> tuple[str, ...]:
    """Debian's compiler command for C with serial HDF5."""
    return ("h5cc", AS_OF_1_10, "-noshlib" if static else "-shlib")


def pypi_mpi_c() -> tuple[str, ...]:
    """The compiler command for C with PyPI's MPICH and Debian's serial HDF5."""
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "hdf5-serial"], capture_output=True, text=True, timeout=30, check=True
    )
    return (str(PYPI_MPICC), *flags.stdout.split())
