"""Looks at programs: which HDF5 and MPI they load, and whether the layer can be preloaded into them."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from wilkins.doctor.facts import Hdf5, ProgramFacts
from wilkins.errors import Problem
from wilkins.plan.environments import of_task
from wilkins.plan.mpi import choose_mpiexec, linked_mpi, python_extensions
from wilkins.plan.program import Program, find_libraries, find_program, inspect
from wilkins.spec.load import load
from wilkins.spec.workflow import ready_made

_VERSION = re.compile(rb"HDF5 library version: (\d+\.\d+\.\d+[\w.-]*)")
_WHEEL = re.compile(r"(?P<name>.+)\.libs")
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?")


def of_words(word: str, *args: str) -> ProgramFacts:
    """A program as on a command line: a path, a command on PATH, or a Python file.

    Args:
        args: its arguments; of a Python, the script among them is looked at, too.
    """
    path = Path(word).expanduser()
    try:
        if path.suffix == ".py" and path.is_file():
            return _facts(word, Program(Path(sys.executable), "elf"), path.resolve())
        found = path if path.exists() or "/" in word else shutil.which(word)
        if found is None:
            raise ValueError(f"there is no {word!r} here nor on PATH; mend the name")
        script = next((Path(arg).resolve() for arg in args if arg.endswith(".py")), None)
        return _facts(word, inspect(Path(found)), script if _PYTHON.fullmatch(Path(found).name) else None)
    except ValueError as error:
        return ProgramFacts(word, problem=str(error))


def of_workflow(file: Path) -> Iterator[ProgramFacts]:
    """The programs of a workflow file, but for ready-made tasks and what is in containers.

    Raises:
        WorkflowError: the file is wrong.
    """
    document = load(file, ())
    home = document.path.resolve().parent
    seen = set()
    for task in document.workflow.tasks:
        key = (task.func, task.venv, task.conda, task.modules)
        if ready_made(task) or task.container or key in seen:
            continue
        seen.add(key)
        problems: list[Problem] = []
        found = of_task(task, home, problems)
        commands, python, libraries = (found.commands, found.python, found.libraries) if found else (None, None, None)
        try:
            if problems:
                raise ValueError(problems[0].message)
            yield _facts(task.func, *find_program(task.func, home, commands, python), libraries)
        except ValueError as error:
            yield ProgramFacts(task.func, problem=str(error))


def _facts(name: str, program: Program, script: Path | None, libraries: str | None = None) -> ProgramFacts:
    interpreter = program.interpreter or program.path
    python = script is not None or _PYTHON.fullmatch(interpreter.name) is not None
    source = script or (program.path if program.interpreter and python else None)
    extensions = list(python_extensions(source, interpreter)) if source else []
    files = [interpreter if python else program.path, *extensions]
    library_path = os.environ.get("LD_LIBRARY_PATH", "") if libraries is None else libraries
    linked = linked_mpi(files, library_path)
    mpiexec = no_mpiexec = ""
    if linked:
        try:
            mpiexec = choose_mpiexec(linked, interpreter.parent if python else Path(sys.executable).parent)[0]
        except ValueError as error:
            no_mpiexec = str(error)
    return ProgramFacts(
        name,
        unreachable=program.unreachable,
        script=program.kind == "script" and not python,
        hdf5=tuple(_hdf5(files, library_path)),
        families=tuple(one.family for one in linked),
        mpiexec=mpiexec,
        no_mpiexec=no_mpiexec,
    )


def _hdf5(files: Iterable[Path], library_path: str) -> Iterator[Hdf5]:
    """Every HDF5 that files load or have inside, once."""
    seen: set[Path] = set()
    for file in files:
        libraries = find_libraries(file, library_path)
        # Its libraries for Fortran, C++ and tables are called alike, and are not HDF5 itself.
        shared = [
            where for name, where in libraries.items() if where and name.startswith("libhdf5") and _version(where)
        ]
        for library in shared:
            if library.resolve() not in seen:  # two modules may find it by different ways
                seen.add(library.resolve())
                wheel = _WHEEL.fullmatch(library.parent.name)
                parallel = bool(linked_mpi([library], library_path))
                yield Hdf5(library, _version(library), False, parallel, wheel["name"] if wheel else "")
        if not shared and (version := _version(file)):
            yield Hdf5(file, version, True, bool(linked_mpi([file], library_path)))


@cache
def _version(file: Path) -> str:
    """The version of the HDF5 whose code a file holds; empty if it holds none."""
    try:
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = _VERSION.search(data)
            return found[1].decode() if found else ""
    except (OSError, ValueError):  # it cannot be read, or is empty
        return ""
