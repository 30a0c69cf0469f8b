"""The libraries whose programs are compared: the columns of the table, and how each one's programs are had."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from conftest import SYSTEM_PYTHON
from fidelity.rig import HERE, PAIRS, Case, Program, compiled, marked_cases, must_compile, python_cases
from programs.build import serial_c


@dataclass(frozen=True)
class Library:
    """A column of the table."""

    name: str
    title: str
    needs: tuple[str, ...]
    sources: tuple[Path, ...]
    """The files of its cases."""
    command: Callable[[Path], tuple[str, ...]]
    """How its program is started; it is compiled in a given folder if need be."""
    on_hdf5: bool = False
    """Whether it is made on top of HDF5: what no case of it is about, its programs ask of HDF5 itself, if at all."""

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        return python_cases(*self.sources) if self.sources[0].suffix == ".py" else marked_cases(*self.sources)

    def program(self, folder: Path) -> Program:
        files = self.sources if self.sources[0].suffix == ".py" else ()
        return Program(self.command(folder), files, self.cases)


def in_python(name: str, title: str, folder: str, python: str, needs: str) -> Library:
    sources = tuple(sorted((PAIRS / folder).glob("*.py")))
    return Library(name, title, (needs,), sources, lambda _: (python, "-m", "fidelity.cases"))


def on_top(name: str, title: str, folder: str, *needs: str, **environment: str) -> Library:
    """Python programs of a library that is made on top of HDF5."""
    sources = tuple(sorted((PAIRS / folder).glob("*.py")))
    settings = ("env", *(f"{key}={value}" for key, value in environment.items())) if environment else ()
    command = (*settings, sys.executable, "-m", "fidelity.cases")
    return Library(name, title, tuple(f"python:{name}" for name in needs), sources, lambda _: command, on_hdf5=True)


def of_debian_on_top(name: str, title: str, folder: str, *compiler: str) -> Library:
    """Compiled programs that use what Debian's HDF5 brings besides its C library."""
    sources = tuple(path for path in sorted((PAIRS / folder).iterdir()) if path.suffix in (".c", ".cpp", ".f90"))
    return Library(name, title, ("h5cc", compiler[0]), sources, partial(compiled, compiler, sources), on_hdf5=True)


def c_sources(*, later: bool) -> tuple[Path, ...]:
    """The C files; those in ``later.c`` need HDF5 1.14."""
    return tuple(path for path in sorted((PAIRS / "c").glob("*.c")) if later or path.stem != "later")


def of_debian(name: str, title: str, *, static: bool) -> Library:
    """C programs on Debian's HDF5, shared or inside."""
    sources = c_sources(later=False)
    return Library(name, title, ("h5cc",), sources, partial(compiled, serial_c(static=static), sources))


STREAMS = ("stdin", "stdout", "stderr")
"""What Debian's static HDF5 refers to in a way that only executables can."""


def hidden_in_an_object() -> Library:
    """The same C programs as a shared object that has HDF5 inside and shows none of it, loaded by Python."""
    sources = c_sources(later=False)

    def command(folder: Path) -> tuple[str, ...]:
        told = told_by("h5cc", "-show").split()
        archive, *_ = (word for word in told if word.endswith("libhdf5.a"))
        renamed = [f"--redefine-sym={stream}=inner_{stream}" for stream in STREAMS]
        must_compile(["objcopy", *renamed, archive, "inner.a"], folder)
        (folder / "shown").write_text("{ global: run_cases; local: *; };\n")
        files = [str(path) for path in (HERE / "pair.c", HERE / "pair_main.c", HERE / "hidden.c", *sources)]
        words = ["-shared", "-fPIC", "-O1", "-Dmain=run_cases", "-Wl,--version-script=shown", f"-I{HERE}"]
        words += [word for word in told if word.startswith("-I")]
        libraries = [word for word in told if word.startswith("-l")]
        must_compile(["cc", *words, *files, "inner.a", *libraries, "-o", "pairs.so"], folder)
        return (sys.executable, "-m", "fidelity.hidden", str(folder / "pairs.so"))

    return Library("c-hidden", "C, HDF5 1.10 hidden in a shared object", ("h5cc", "objcopy"), sources, command)


def told_by(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def of_wheel(name: str, title: str, package: str) -> Library:
    """C programs on the HDF5 of a package's wheel, with Debian's headers; calls with other names now are renamed."""
    sources = c_sources(later=True)

    def command(folder: Path) -> tuple[str, ...]:
        return compiled(compiler_of_wheel(package), sources, folder)

    return Library(name, title, ("h5cc", f"python:{package}"), sources, command)


def compiler_of_wheel(package: str) -> tuple[str, ...]:
    """A compiler command for C programs on the HDF5 of a package's wheel."""
    libraries = Path(sysconfig.get_path("purelib")) / f"{package}.libs"
    library = sorted(libraries.glob("libhdf5-*.so*"))[0].name
    renamed = [f"-D{call}={call}1" for call in ("H5Literate", "H5Literate_by_name", "H5Lvisit")]
    return ("cc", *renamed, "-I/usr/include/hdf5/serial", f"-Wl,-rpath,{libraries}", f"-L{libraries}", f"-l:{library}")


LIBRARIES = [
    in_python("h5py", "h5py, HDF5 2.0", "h5py", sys.executable, "python:h5py"),
    in_python("h5py-1.10", "h5py, HDF5 1.10", "h5py", SYSTEM_PYTHON, "system-python:h5py"),
    of_debian("c", "C, HDF5 1.10", static=False),
    of_debian("c-static", "C, HDF5 1.10 inside", static=True),
    hidden_in_an_object(),
    of_wheel("c-1.14", "C, HDF5 1.14", "tables"),
    of_wheel("c-2.0", "C, HDF5 2.0", "h5py"),
    of_debian_on_top("cxx", "C++, HDF5 1.10", "cxx", "h5c++", "-shlib"),
    of_debian_on_top("fortran", "Fortran, HDF5 1.10", "fortran", "h5fc", "-shlib"),
    of_debian_on_top("hl", "HDF5's high-level C", "hl", "h5cc", "-shlib", "-lhdf5_hl"),
    in_python("netcdf4", "netCDF4", "netcdf4", sys.executable, "python:netCDF4"),
    in_python("tables", "PyTables", "tables", sys.executable, "python:tables"),
    on_top("pandas", "pandas", "pandas", "pandas", "tables"),
    on_top("xarray-h5netcdf", "xarray, h5netcdf", "xarray", "xarray", "h5netcdf", XARRAY_ENGINE="h5netcdf"),
    on_top("xarray-netcdf4", "xarray, netCDF4", "xarray", "xarray", "netCDF4", XARRAY_ENGINE="netcdf4"),
    on_top("anndata", "anndata", "anndata", "anndata"),
    on_top("openpmd", "openPMD-api, HDF5 hidden inside", "openpmd", "openpmd_api"),
]
