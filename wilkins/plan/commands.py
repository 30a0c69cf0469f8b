"""Finds the program of a task and what starts its ranks, and says what keeps it from being started."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wilkins.errors import Problem
from wilkins.plan.graph import Wiring
from wilkins.plan.mpi import Linked, choose_mpiexec, linked_mpi, may_use_mpi, python_extensions
from wilkins.plan.plan import ELASTIC, FUNCTION, START, Environment, Kind, Launch, PortRef
from wilkins.plan.program import Program, find_program, has_hdf5_inside, read_elf
from wilkins.schema.patterns import intersect
from wilkins.spec.workflow import ENVIRONMENT_KEYS, Port, Task, function_of, needs_of, ready_made
from wilkins.tasks.registry import all_tasks
from wilkins.values import dataclass, replace

if TYPE_CHECKING:
    from wilkins.plan.environments import Found

_PYTHON = r"python(\d+(\.\d+)*)?[a-z]?"


@dataclass(frozen=True, slots=True)
class Command:
    """A task's program, found and inspected."""

    executable: Path
    script: tuple[str, ...]
    """Words between the executable and the task's own arguments: the ``.py`` file."""
    mpiexec: tuple[str, ...]
    python: bool | None = None
    """Whether it is a Python program; None: it was not found."""
    alone: bool = False
    """Whether its ranks are independent: it was started by an ``mpiexec``, and has no MPI."""
    environment: Environment | None = None


def kind_of(task: Task, launch: Launch) -> Kind:
    """MPI from 2 ranks on; one rank only if an ``mpiexec`` is asked for."""
    return "mpi" if task.nprocs > 1 or (task.mpiexec and launch == "alone") else "plain"


def is_elastic(task: Task) -> bool:
    """Whether it is a ready-made task whose ranks go on without those that die."""
    name = ready_made(task)
    ready = all_tasks()[name] if name else None
    return ready is not None and ready.elastic(task.sections[ready.key])


def _copies(task: Task, home: Path) -> list[Task]:
    """The instances of an ensemble, if each has a program of its own: ``NAME-inst0``, ``NAME-inst1`` and so on."""
    if task.taskCount == 1 or ready_made(task):
        return []
    stem = task.func.removesuffix(".hx").removesuffix(".py")
    for suffix in ("", ".py"):
        names = [f"{stem}-inst{instance}{suffix}" for instance in range(task.taskCount)]
        if all((home / name).is_file() for name in names):
            return [replace(task, func=name if "/" in name else f"./{name}") for name in names]
    return []


def commands_of(
    task: Task, home: Path, folder: Path | None, couples: bool, launch: Launch, problems: list[Problem]
) -> list[Command]:
    """The program of each instance."""
    place = home if folder is None or (home / task.func).exists() else folder  # what a package lacks is the user's
    found = None
    if any(getattr(task, name) for name in ENVIRONMENT_KEYS):
        from wilkins.plan import environments

        found = environments.of_task(task, home, problems)
        if found is None:
            return [Command(Path(task.func), (), ())] * task.taskCount
        if found.environment.container:
            return [_contained(task, home, couples, launch, found, problems)] * task.taskCount
    if copies := _copies(task, place):
        return [_command(one, place, couples, launch, found, problems) for one in copies]
    return [_command(task, place, couples, launch, found, problems)] * task.taskCount


def _contained(task: Task, home: Path, couples: bool, launch: Launch, found: Found, problems: list[Problem]) -> Command:
    """A program in a container, and the ``mpiexec`` there."""
    from wilkins.plan import environments

    container = found.environment.container
    assert container is not None
    script = None
    try:
        program, script = environments.program_inside(task.func, home, container)
        if couples and program.unreachable:
            raise ValueError(program.unreachable)
    except ValueError as error:
        problems.append(Problem(task.where.of("func"), f"{task.label}: {error}"))
        program = Program(Path(task.func), "elf")
    if couples and (message := environments.too_old(container)):
        problems.append(Problem(task.where.of("container"), f"{task.label}: {message}"))
    if launch == "one-job":
        message = (
            f"{task.label}: 'container' is for tasks that `wilkins run` starts itself, and this is an MPI job; start "
            "the workflow without an mpiexec"
        )
        problems.append(Problem(task.where.of("container"), message))
    words = () if script is None else (str(script),)
    mpiexec = (task.mpiexec or ("mpiexec",)) if kind_of(task, launch) == "mpi" else ()
    return Command(program.path, words, mpiexec, script is not None, environment=found.environment)


def _command(
    task: Task, home: Path, couples: bool, launch: Launch, found: Found | None, problems: list[Problem]
) -> Command:
    """Finds a task's program and its launcher; reports what keeps it from being started."""
    commands, python = (found.commands, found.python) if found else (None, None)
    try:
        ready = ready_made(task)
        called = START if ready else FUNCTION if function_of(task) else None
        program, script = (
            (Program(Path(sys.executable), "elf"), called)
            if called
            else find_program(task.func, home, commands, python)
        )
        for module, extra in needs_of(task).items():
            if not _is_installed(module):
                raise ValueError(
                    f"{task.func!r} needs the Python package {module!r}, which {sys.executable} does not have; run: "
                    f"pip install 'wilkins[{extra}]'"
                )
        if couples and program.unreachable:
            raise ValueError(program.unreachable)
    except ValueError as error:
        problems.append(Problem(task.where.of("func"), f"{task.label}: {error}"))
        return Command(Path(task.func), (), ())
    first = task.prefix[0] if task.prefix else "/"
    if "/" not in first and not shutil.which(first, path=(task.env or {}).get("PATH", commands)):
        message = f"{task.label}: there is no {first!r} on PATH; mend 'prefix' or install it"
        problems.append(Problem(task.where.of("prefix"), message))
    words = () if script is None else (str(script),)
    environment = found.environment if found else None
    command = Command(program.path, words, (), _is_python(program, script), environment=environment)
    if is_elastic(task) and kind_of(task, launch) == "mpi":
        return replace(command, mpiexec=(sys.executable, str(ELASTIC)))
    if kind_of(task, launch) == "plain" or (launch == "one-job" and not _may_be_started_again(task)):
        return command
    try:
        if task.mpiexec:
            launcher = shutil.which(task.mpiexec[0], path=commands) or _local(home, task.mpiexec[0])
            if not launcher:
                raise ValueError(
                    f"there is no {task.mpiexec[0]!r} on PATH; mend 'mpiexec' or load the module that has it"
                )
            # Open MPI looks for the rest of itself beside the folder it is started from: give it the real one.
            path = Path(launcher).parent.resolve() / Path(launcher).name
            return replace(command, mpiexec=(str(path), *task.mpiexec[1:]))
        libraries = (task.env or {}).get("LD_LIBRARY_PATH", found.libraries if found else _environment_path())
        linked, near = _linked(task, program, script, home, libraries)
        mpiexec = choose_mpiexec(linked, near, commands, libraries if found else None)
        return replace(command, mpiexec=mpiexec, alone=not linked and not may_use_mpi(program, script))
    except ValueError as error:
        if launch == "alone" or task.mpiexec or _takes_filename(task):  # else its first start needs none
            problems.append(Problem(task.where.of("mpiexec" if task.mpiexec else "nprocs"), f"{task.label}: {error}"))
        return command


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def rerun_of(task: Task) -> Literal["auto", "always", "never"]:
    """Whether a task is started again.

    A ready-made task reads all it needs at its first start, and means every error that it tells.
    """
    return "never" if ready_made(task) and task.rerun == "auto" else task.rerun


def _may_be_started_again(task: Task) -> bool:
    """Whether a program of the task that has ended may be followed by another, as an MPI job of its own."""
    return _takes_filename(task) or (bool(task.inports) and rerun_of(task) != "never")


def _takes_filename(task: Task) -> bool:
    return any("{filename}" in word for word in task.arguments(0))


def _is_python(program: Program, script: Path | None) -> bool:
    interpreter = program.interpreter or program.path
    return script is not None or re.fullmatch(_PYTHON, interpreter.name) is not None


def _linked(
    task: Task, program: Program, script: Path | None, home: Path, library_path: str
) -> tuple[list[Linked], Path]:
    """The MPIs that a task's program would load, and the folder in which to look for a launcher first."""
    interpreter = program.interpreter or program.path
    if not re.fullmatch(_PYTHON, interpreter.name) and interpreter != Path(sys.executable):
        return linked_mpi([program.path], library_path), Path(sys.executable).parent
    source = script or (program.path if program.interpreter else _script_argument(task, home))
    if source == START:
        source = START.with_name("ranks.py")  # where a ready-made task imports MPI
    files = [interpreter, *(python_extensions(source, interpreter) if source else ())]
    return linked_mpi(files, library_path), interpreter.parent


def ranks_alone(task: Task, command: Command) -> Iterator[str]:
    """A note where an ``mpiexec`` starts ranks of a program without MPI."""
    if command.alone:
        yield (
            f"{task.where.of('nprocs')}: note: {task.label}: {Path(task.func).name} uses no MPI, so each of its "
            f"{task.nprocs} ranks does all of the work as if it were alone; leave out 'nprocs', or give 'taskCount' "
            "for instances"
        )


def _environment_path() -> str:
    return os.environ.get("LD_LIBRARY_PATH", "")


def _script_argument(task: Task, home: Path) -> Path | None:
    """The script of ``func: python3`` with the script among its arguments."""
    word = next((word for word in task.arguments(0) if word.endswith(".py")), None)
    return home / task.instances.fill(task.cwd or ".", 0) / word if word else None


def _local(home: Path, name: str) -> str | None:
    path = home / Path(name).expanduser()
    return str(path) if "/" in name and path.is_file() else None


def hidden_programs(
    task: Task, number: int, command: Command, cwd: Path, home: Path, wiring: Wiring
) -> Iterator[Problem]:
    """Ports whose patterns match the task's own script in the folder where it starts: it could not be read there."""
    argument = _script_argument(task, home) if command.python and not command.script else None
    files = {Path(command.script[0]) if command.script else argument or command.executable}
    scripts = [cwd.resolve() / path.name for path in files if path.parent.resolve() == cwd.resolve()]
    scripts = [path for path in scripts if path.is_file() and not read_elf(path)]
    sides: tuple[tuple[Literal["in", "out"], Sequence[Port]], ...] = (("out", task.outports), ("in", task.inports))
    for side, ports in sides:
        for place, port in enumerate(ports):
            mode = wiring.modes[PortRef(number, side, place)]
            if mode == "plain" or (side == "out" and mode != "memory") or port.is_folder:
                continue
            for script in scripts:
                if intersect(task.instances.fill(port.filename, 0), str(script)):
                    such = f", such as '{port.filename}.h5'" if port.filename.endswith("*") else ""
                    yield Problem(
                        port.where.of("filename"),
                        f"{task.label}: {port.filename!r} matches its own program {script.name!r}, too, which could "
                        f"not be opened then; narrow it{such}, or move the program into another folder",
                    )


def unseen(task: Task, executable: Path) -> Iterator[str]:
    """Out-ports whose steps are marked by calls of HDF5 that cannot be intercepted in the program."""
    for port in task.outports:
        if port.publish.when in ("flush", "write") and has_hdf5_inside(executable):
            calls = "flushes" if port.publish.when == "flush" else "writes to datasets"
            yield (
                f"{port.where.of('publish')}: note: {task.label}: {executable.name} has its HDF5 inside, where {calls} "
                "cannot be seen: build it with the shared HDF5 (h5cc -shlib), or give `publish: next` or a number of "
                "closes (`wilkins help static-programs`)"
            )
