"""Compiles the programs of this folder with the compilers of the machine, each once per test run."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock

SOURCES = Path(__file__).resolve().parent
PYPI_MPICC = Path(sys.executable).parent / "mpicc"
"""The compiler of this Python's own MPI, if it has one."""

NEWER = SOURCES.parents[1] / "build" / "hdf5-1.14"
"""Where `tools/newer-hdf5` has laid parallel HDF5 1.14; programs with it also need ``NEWER_LIBC``."""
NEWER_LIBC = SOURCES / "newer_libc.c"

_COMPILING = Lock()


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="wilkins-programs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def build(source: str, *compiler: str, defines: tuple[str, ...] = ()) -> Path:
    """The executable made from a source file of this folder by a compiler command (its words, libraries last).

    Threads may ask at the same time.

    Raises:
        RuntimeError: it does not compile; with what the compiler said.
    """
    with _COMPILING:
        return _build(source, compiler, defines)


@cache
def _build(source: str, compiler: tuple[str, ...], defines: tuple[str, ...]) -> Path:
    folder = Path(tempfile.mkdtemp(dir=_folder()))
    program = folder / Path(source).stem
    words, libraries = split_libraries(compiler)
    command = [*words, "-O1", *(f"-D{name}" for name in defines), str(SOURCES / source), "-o", str(program), *libraries]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return program


def split_libraries(compiler: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """A compiler command without and with only its words that name libraries, which go last."""
    libraries = [word for word in compiler if word.startswith(("-l", "-L"))]
    return [word for word in compiler if word not in libraries], libraries


def parallel_c(mpi: str, *, static: bool) -> tuple[str, ...]:
    """Debian's compiler command for C with parallel HDF5; `mpi` is ``mpich`` or ``openmpi``."""
    return (f"h5pcc.{mpi}",) if static else (f"h5pcc.{mpi}", "-shlib")


def newer_parallel_c(mpi: str) -> tuple[str, ...]:
    """The compiler command for C with parallel HDF5 1.14 inside; what 1.10 has, too, is called as there."""
    rest = ("-lsz", "-lz", "-lcurl", "-lcrypto", "-lm", "-ldl")  # what HDF5 was built with
    own = (f"-I{NEWER / mpi / 'include'}", "-DH5_USE_110_API", f"-L{NEWER / mpi}", "-l:libhdf5.a")
    return (f"mpicc.{mpi}", *own, *rest)


def parallel_fortran(mpi: str, *, static: bool) -> tuple[str, ...]:
    """The same for Fortran."""
    return (f"h5pfc.{mpi}",) if static else (f"h5pfc.{mpi}", "-shlib")


def serial_c(*, static: bool) -> tuple[str, ...]:
    """Debian's compiler command for C with serial HDF5."""
    return ("h5cc",) if static else ("h5cc", "-shlib")


def pypi_mpi_c() -> tuple[str, ...]:
    """The compiler command for C with PyPI's MPICH and Debian's serial HDF5."""
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "hdf5-serial"], capture_output=True, text=True, timeout=30, check=True
    )
    return (str(PYPI_MPICC), *flags.stdout.split())
