"""Finds the MPI a program uses, and the ``mpiexec`` that belongs to it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal

from wilkins.plan.program import Program, find_libraries
from wilkins.values import dataclass

Family = Literal["mpich", "openmpi"]

_MPICH_LIBRARY = r"libmpich(fort|cxx)?\.so\.|libmpi(fort|cxx)?\.so\.12\b"
_OPENMPI_LIBRARY = r"libmpi(_\w+)?\.so\.(?!12\b)\d+"
_STANDARD_ABI = "libmpi_abi.so."
_LAUNCHERS: dict[Family, tuple[str, ...]] = {
    "mpich": ("mpiexec.hydra", "mpiexec.mpich", "mpiexec", "mpirun"),
    "openmpi": ("mpirun.openmpi", "mpiexec.openmpi", "orterun", "mpirun", "mpiexec"),
}
_ANY_LAUNCHER = ("mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpirun.openmpi", "mpirun")
_TITLES: dict[Family, str] = {"mpich": "MPICH", "openmpi": "Open MPI"}
_INSTALL: dict[Family, str] = {
    "mpich": "install it ('pip install mpich', or your system's package 'mpich')",
    "openmpi": "install it (your system's package 'openmpi-bin', or the module of your MPI)",
}
_MAX_EXTENSIONS = 300


@dataclass(frozen=True, slots=True)
class Linked:
    """The MPI a program would load."""

    family: Family
    library: Path | None


def linked_mpi(files: Iterable[Path], library_path: str = "") -> list[Linked]:
    """The MPIs that files would load, each family once."""
    found: dict[Family, Linked] = {}
    for file in files:
        for family, library in _linked(file, library_path):
            found.setdefault(family, Linked(family, library))
    return list(found.values())


@cache
def _linked(file: Path, library_path: str) -> tuple[tuple[Family, Path | None], ...]:
    found: dict[Family, Path | None] = {}
    for name, where in find_libraries(file, library_path).items():
        family = library_family(name)
        if family:
            found.setdefault(family, where)
    return tuple(found.items())


def may_use_mpi(program: Program, script: Path | None) -> bool:
    """Whether a program that is not linked to MPI may load it at run time.

    An executable may hold it or load it later, a Python script import it by modules of its own, any other script start
    a program that has it.
    """
    source = script or program.path
    try:
        text = source.read_bytes()
    except OSError:
        return True
    if script is None:
        return program.kind == "script" or program.barrier is not None or b"MPI_Init" in text
    own = [path.stem for path in script.parent.iterdir() if path.suffix == ".py" or path.is_dir()]
    names = b"|".join(re.escape(os.fsencode(name)) for name in own)
    return re.search(rb"(?i)\bmpi|\b(?:import|from)\s+(?:\.|(?:" + names + rb")\b)", text) is not None


def library_family(soname: str) -> Family | None:
    """The family of an MPI library by its soname; None for other libraries.

    The standard ABI, which any MPI serves, tells nothing either.
    """
    if soname.startswith(_STANDARD_ABI):
        return None
    if re.match(_MPICH_LIBRARY, soname):
        return "mpich"
    return "openmpi" if re.match(_OPENMPI_LIBRARY, soname) else None


def python_extensions(script: Path, interpreter: Path) -> Iterator[Path]:
    """The compiled modules of the packages that a script imports by name anywhere in its text."""
    import ast

    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    packages = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            packages.add(node.module.partition(".")[0])
    count = 0
    for package in sorted(packages - set(sys.stdlib_module_names)):
        for folder in _module_path(interpreter):
            home = Path(folder) / package
            files = home.rglob("*.so") if home.is_dir() else Path(folder).glob(f"{package}.*.so")
            for file in files:
                count += 1
                if count > _MAX_EXTENSIONS:
                    return
                yield file


@cache
def _module_path(interpreter: Path) -> tuple[str, ...]:
    """Where a Python looks for packages."""
    import subprocess

    if interpreter == Path(sys.executable):
        return tuple(part for part in sys.path if part)
    command = [str(interpreter), "-c", "import sys; print('\\n'.join(sys.path[1:]))"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(part for part in done.stdout.splitlines() if part)


def choose_mpiexec(
    linked: list[Linked], home: Path, commands: str | None = None, libraries: str | None = None
) -> tuple[str, ...]:
    """The launcher for a program, with the options it needs, without ``-n``.

    Args:
        linked: the MPIs that the program would load; with none or several, the environment's decides.
        home: folder of the interpreter of a Python program, else of the Python that runs Wilkins.
        commands, libraries: the task's ``PATH`` and ``LD_LIBRARY_PATH``; None: this process's.

    Raises:
        ValueError: there is none; the message says how to get it.
    """
    path = (commands or os.environ.get("PATH", os.defpath)).split(os.pathsep)
    if len(linked) == 1:
        family, library = linked[0].family, linked[0].library
        near = [parent / "bin" for parent in library.parents][:4] if library else []
        if library:
            near += [parent / "bin" for parent in library.resolve().parents][:4]
        for candidate in _candidates(_LAUNCHERS[family], [*near, home, *path]):
            if launcher_family(candidate, libraries) == family:
                return (candidate, *launcher_options(family))
        where = f" (it is linked to {library})" if library else ""
        raise ValueError(
            f"the program uses {_TITLES[family]}{where}, but no mpiexec of it was found; "
            f"{_INSTALL[family]}, or name one with 'mpiexec:'"
        )
    known = {one.family for one in linked}
    for candidate in _candidates(_ANY_LAUNCHER, [home, *path]):
        found = launcher_family(candidate, libraries)
        if found and (not known or found in known):
            return (candidate, *launcher_options(found))
    raise ValueError(f"no mpiexec was found to start its ranks; {_INSTALL['mpich']}, or name one with 'mpiexec:'")


def launchers(folders: Iterable[str | Path]) -> list[tuple[Family, str]]:
    """Every ``mpiexec`` in these folders, once, with its family."""
    names = dict.fromkeys(name for known in _LAUNCHERS.values() for name in known)
    files = {os.path.realpath(file): file for file in reversed(list(_candidates(tuple(names), folders)))}
    asked = [(launcher_family(file), file) for file in reversed(files.values())]
    return [(family, file) for family, file in asked if family]


def _candidates(names: tuple[str, ...], folders: Iterable[str | Path]) -> Iterator[str]:
    # Real folders: Open MPI takes the folder it was called from for its prefix, and refuses "/" (of a linked "/bin").
    for folder in dict.fromkeys(os.path.realpath(folder) for folder in folders if str(folder)):
        for name in names:
            found = shutil.which(name, path=folder)
            if found:
                yield found


@cache
def launcher_family(mpiexec: str, libraries: str | None = None) -> Family | None:
    """The family of an ``mpiexec``, by what it says of its version.

    Args:
        libraries: the ``LD_LIBRARY_PATH`` that it needs; None: this process's.
    """
    import subprocess

    environment = None if libraries is None else {**os.environ, "LD_LIBRARY_PATH": libraries}
    try:
        done = subprocess.run(
            [mpiexec, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = (done.stdout + done.stderr).lower()
    if re.search(r"open mpi|open-mpi|openrte|prrte", said):
        return "openmpi"
    return "mpich" if re.search(r"hydra|mpich|intel\(r\) mpi|mvapich", said) else None


def launcher_options(family: Family) -> tuple[str, ...]:
    """Options that let tasks share the machine: more ranks than cores, unbound, also as root."""
    if family == "mpich":
        return ()
    root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    return ("--oversubscribe", "--bind-to", "none", *root)
