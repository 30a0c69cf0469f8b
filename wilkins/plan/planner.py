"""Makes the plan of a workflow: which program runs where on how many ranks, and which channels join them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import wilkins.transport
from wilkins.errors import Problem, WorkflowError, suggest
from wilkins.flow.placement import Host
from wilkins.flow.publish import PublishRule
from wilkins.flow.restart import RestartRule
from wilkins.plan import placing
from wilkins.plan.graph import Wiring, closing, instance_name, wire
from wilkins.plan.mpi import choose_mpiexec, linked_mpi, python_extensions
from wilkins.plan.plan import FUNCTION, START, ChannelPlan, Kind, Launch, Plan, PortPlan, PortRef, TaskPlan
from wilkins.plan.program import Program, has_hdf5_inside, inspect
from wilkins.schema.patterns import intersect
from wilkins.schema.reading import plain
from wilkins.spec.ensemble import INSTANCE, numbers_text
from wilkins.spec.gpu_names import asks
from wilkins.spec.load import Document, load
from wilkins.spec.workflow import InPort, OutPort, Port, Task, function_of, ready_made
from wilkins.tasks.registry import all_tasks
from wilkins.transport.plan_table import Looks, ReadKeys, values_of
from wilkins.values import dataclass, replace

if TYPE_CHECKING:
    from wilkins.plan.gpus import Machine

RETRIES = 3
RETRY_DELAY = 1.0
"""Seconds."""
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".f", ".f90", ".F90")
_PYTHON = r"python(\d+(\.\d+)*)?[a-z]?"
_BUILD_HINT = (
    "modules for Henson cannot be started by themselves: build a plain executable of the same source, "
    "without Henson and without "
    "'-Wl,--export-dynamic', for example 'mpicc -o {stem} {stem}.c -lhdf5'"
)


@dataclass(frozen=True, slots=True)
class _Command:
    """A task's program, found and looked at."""

    executable: Path
    script: tuple[str, ...]
    """Words between the executable and the task's own arguments: the ``.py`` file."""
    mpiexec: tuple[str, ...]
    python: bool | None = None
    """Whether it is a Python program; None: it was not found."""


def plan_file(
    path: str | Path,
    overrides: Sequence[str] = (),
    launch: Launch = "alone",
    folder: Path | None = None,
    *,
    files: bool = False,
    hosts: Sequence[Host] = (),
) -> Plan:
    """The plan of a workflow file.

    Args:
        folder: where the tasks run and records go, if that is not the file's folder.
        files: every coupled port in mode ``file``.
        hosts: on which it runs; none: on this machine.

    Raises:
        WorkflowError: with everything found wrong.
        ResourceError: the hosts have too few slots.
    """
    document = load(path, overrides)
    plan = make_plan(document, wire(document, files=files), launch, folder)
    return placing.placed(plan, document, hosts) if hosts else plan


def make_plan(
    document: Document,
    wiring: Wiring,
    launch: Launch = "alone",
    folder: Path | None = None,
    machine: Machine | None = None,
) -> Plan:
    """The plan of a workflow that was read and wired.

    Args:
        folder: where the tasks run and records go, if that is not the file's folder.
        machine: the GPUs to plan for; None: this machine's.

    Raises:
        WorkflowError: a program, folder or launcher is missing or cannot be used.
    """
    import hashlib

    workflow = document.workflow
    home = document.path.resolve().parent
    problems = placing.problems(document)
    tasks: list[TaskPlan] = []
    ports: list[PortPlan] = []
    index: dict[tuple[PortRef, int], int] = {}
    notes: list[str] = []
    first_rank = 0
    closes = closing(wiring.links)
    after = _after(document, wiring, launch, problems)
    for number, task in enumerate(workflow.tasks):
        couples = _is_coupled(task, number, wiring)
        place = home if folder is None or (home / task.func).exists() else folder  # what a package lacks is the user's
        commands = [_command(one, place, couples, launch, problems) for one in _copies(task, place) or (task,)]
        made: list[int] = []
        for instance in range(task.taskCount):
            command = commands[instance if len(commands) > 1 else 0]
            cwd, stdin = _folders(task, instance, home, folder or home, problems)
            if instance == 0:
                _check_code(task, (cwd, home), problems)
                actions = _actions(task, command, (cwd, home), problems, notes)
            makes_cwd = INSTANCE in (task.cwd or "")
            if makes_cwd and not cwd.exists():
                made.append(instance)
            place_of = len(tasks)
            tasks.append(
                TaskPlan(
                    index=place_of,
                    name=instance_name(task, instance),
                    instance=instance,
                    nprocs=task.nprocs,
                    kind=_kind(task, launch),
                    executable=command.executable,
                    args=(*command.script, *_ready_words(task, instance, home), *task.arguments(instance)),
                    cwd=cwd,
                    makes_cwd=makes_cwd,
                    env=_environment(task, instance, actions),
                    prefix=task.prefix,
                    mpiexec=command.mpiexec,
                    stdin=stdin,
                    timeout=task.timeout,
                    on_failure=task.on_failure,
                    retries=(task.retries or RETRIES) if task.on_failure == "restart" else 0,
                    retry_delay=RETRY_DELAY if task.retry_delay is None else task.retry_delay,
                    entry=number,
                    spares=task.taskCount - (task.min_instances or task.taskCount),
                    after=after.get(number, ()),
                    rerun=_rerun(task),
                    enough=task.enough,
                    strict_end=task.strict_end or ready_made(task) is not None,
                    first_rank=first_rank,
                    origin=str(task.where.position),
                    restart=_restart(task, instance, (*command.script, *_ready_words(task, instance, home))),
                    placement=task.placement,
                )
            )
            first_rank += task.nprocs
            for direction, entries in (("in", task.inports), ("out", task.outports)):
                for position, port in enumerate(entries):
                    reference = PortRef(number, "in" if direction == "in" else "out", position)
                    cap = (workflow.memory if port.memory is None else port.memory) if isinstance(port, OutPort) else 0
                    mode = wiring.modes[reference]
                    index[reference, instance] = len(ports)
                    ports.append(
                        PortPlan(
                            **(values_of(ReadKeys, port) if isinstance(port, InPort) else {}),
                            index=len(ports),
                            task=place_of,
                            direction=reference.direction,
                            pattern=port.pattern(instance),
                            mode=mode,
                            cap_bytes=cap if mode in ("memory", "both") else 0,
                            origin=str(port.where.position),
                            publish=_publishing(port, reference in wiring.passing),
                            is_folder=port.is_folder,
                            passes_on=reference in wiring.passing,
                            publish_given="publish" in port.where or reference in wiring.passing,
                            beside=port.beside(instance),
                            keep=_kept(task, port) if mode in ("both", "file") else 0,
                            looks=_looks(port, reference in closes) if isinstance(port, InPort) else "wait",
                            closes_cycle=reference in closes,
                            dsets=tuple(dset.name for dset in port.dsets),
                            step_bytes=task.model.size if task.model and isinstance(port, OutPort) else 0,
                            per_rank=bool(task.model and isinstance(port, OutPort) and task.model.files == "per-rank"),
                            stands=port.called(instance) if isinstance(port, InPort) and port.as_ else "",
                        )
                    )
            if task.restart and task.restart.files and not _declares(task, task.restart.files):
                # Nobody reads its checkpoints; the layer sees when each is whole.
                pattern = task.restart.files.replace(INSTANCE, str(instance))
                ports.append(
                    PortPlan(
                        len(ports),
                        place_of,
                        "out",
                        pattern,
                        "file",
                        origin=str(task.where.of("restart")),
                        keep=task.restart.keep,
                    )
                )
        notes += _unseen(task, commands[0].executable)
        if made:
            which = f"for the instances {numbers_text(made)}" if task.taskCount > 1 else "for instance 0"
            notes.append(f"{task.where.of('cwd')}: note: {task.label}: a run makes the folder {task.cwd!r} {which}")
    if problems:
        raise WorkflowError(sorted(problems, key=lambda problem: (problem.position.line, problem.position.column)))
    plan = Plan(
        name=str(workflow.name),
        source=document.path.resolve(),
        launch=launch,
        tasks=tuple(tasks),
        ports=tuple(ports),
        channels=tuple(_channels(document, wiring, index)),
        total_ranks=first_rank,
        notes=(*document.notes, *wiring.notes, *notes),
        folder=folder,
        digest=hashlib.sha256(document.path.read_bytes()).hexdigest(),
    )
    if not asks(workflow):
        return plan
    from wilkins.plan import devices
    from wilkins.plan.gpu_count import gpus_here

    return devices.place(plan, workflow, machine or gpus_here())


def _after(document: Document, wiring: Wiring, launch: Launch, problems: list[Problem]) -> dict[int, tuple[int, ...]]:
    """By entry of the file: tasks that must have ended before its own are started."""
    asked = [task.after or task.on_failure == "restart" or task.min_instances for task in document.workflow.tasks]
    if not any(asked):
        return {}
    from wilkins.plan import order

    if launch == "one-job":
        problems += order.of_job_ranks(document)
    return order.after(document, wiring, problems)


def _channels(document: Document, wiring: Wiring, index: Mapping[tuple[PortRef, int], int]) -> list[ChannelPlan]:
    """The channels of all links."""
    tasks = document.workflow.tasks
    channels = []
    for link in wiring.links:
        outport = tasks[link.outport.task].outports[link.outport.port]
        reader = tasks[link.inport.task]
        inport = reader.inports[link.inport.port]
        policy = inport.policy(outport.queue)
        channels += [
            ChannelPlan(
                outport=index[link.outport, i],
                inport=index[link.inport, j],
                every=policy.every,
                offset=policy.offset,
                queue=policy.queue,
                when_full=policy.when_full,
                readers=inport.nreaders or reader.nprocs,
                readers_given=inport.nreaders is not None,
            )
            for i, j in link.pairs
        ]
    return channels


def _publishing(port: Port, passes_on: bool) -> PublishRule:
    """When a port's files are steps. What a task passes on rests as if it had made it."""
    if passes_on:
        return PublishRule("next")
    return port.rule if isinstance(port, OutPort) else PublishRule()


def _looks(port: InPort, closes_cycle: bool) -> Looks:
    """Whether looks at names of an in-port wait. In a cycle one task has to begin without."""
    if port.looks == "wait":
        return "always"
    return port.looks or ("now" if closes_cycle else "wait")


def _kind(task: Task, launch: Launch) -> Kind:
    """MPI from 2 ranks on; one rank only if an ``mpiexec`` is asked for."""
    return "mpi" if task.nprocs > 1 or (task.mpiexec and launch == "alone") else "plain"


def _declares(task: Task, files: str) -> bool:
    """Whether the task's checkpoints are files of an out-port."""
    return any(intersect(port.filename, files) for port in task.outports)


def _kept(task: Task, port: Port) -> int:
    """How many of a port's files stay at hand, to restart from."""
    rule = task.restart
    is_checkpoint = rule and rule.files and isinstance(port, OutPort) and intersect(port.filename, rule.files)
    return rule.keep if rule and is_checkpoint else 0


def _restart(task: Task, instance: int, words: tuple[str, ...]) -> RestartRule | None:
    """What one instance can be restarted from; its arguments come after `words`."""
    if task.restart is None:
        return None
    rule = task.restart.replaced(INSTANCE, str(instance))
    return rule if rule.args is None else replace(rule, args=(*words, *rule.args))


def _is_coupled(task: Task, number: int, wiring: Wiring) -> bool:
    if task.restart and task.restart.files:
        return True
    references = [PortRef(number, "in", i) for i in range(len(task.inports))]
    references += [PortRef(number, "out", i) for i in range(len(task.outports))]
    return any(wiring.modes[reference] != "plain" for reference in references)


def _environment(task: Task, instance: int, actions: str) -> dict[str, str]:
    threads = {"OMP_NUM_THREADS": str(task.threads)} if task.threads else {}
    own = threads | {name: value.replace(INSTANCE, str(instance)) for name, value in (task.env or {}).items()}
    if not actions:
        return own
    path = _python_path(own)
    startup = str(Path(str(wilkins.transport.__file__)).parent / "startup")
    return own | {"WILKINS_ACTIONS": actions, "PYTHONPATH": f"{startup}{os.pathsep}{path}" if path else startup}


def _python_path(env: Mapping[str, str]) -> str:
    return env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))


def _actions(
    task: Task, command: _Command, folders: tuple[Path, Path], problems: list[Problem], notes: list[str]
) -> str:
    """What the task's Python is told to call before its program; empty: nothing.

    A program that is not Python cannot be given callbacks, and needs none that only set up what `mode: file` does.

    Args:
        folders: where the task's first instance runs, and the workflow file's.
    """
    if not task.actions or command.python is None:
        return ""
    module, function = task.actions
    program = Path(command.script[0] if command.script else command.executable)
    own = [] if command.python and not command.script else [program.parent]
    searched = list(dict.fromkeys([*own, *folders, *map(Path, filter(None, _python_path(task.env or {}).split(":")))]))
    from wilkins.plan import callbacks

    path = callbacks.find(module, searched)
    is_stock = path is None and module == callbacks.STOCK[0] and function in callbacks.STOCK[1]
    where = task.where.of("actions")
    who = f"{task.label}: 'actions: [{module}, {function}]'"
    if command.python and not is_stock:
        return f"{module}:{function}:{folders[1]}"
    more = callbacks.beyond_passthru(path, function) if path else ""
    if is_stock or (path and not more):
        notes.append(
            f"{where}: note: {who} is accepted and not used: what it sets up, 'mode: file' ('passthru: 1') of a port "
            "does by itself"
        )
        return ""
    cure = (
        "say when its files are complete with 'publish' on its out-ports: next, flush, a number of closes, or "
        "{write: n, dset: PATH}; and where they are with 'mode'"
    )
    why = (
        f"{more}, and {program.name!r} is not a Python program, so that no callback can run in it"
        if path
        else f"{program.name!r} is not a Python program, so that no callback can run in it; those that only set up "
        f"files on disk need not, but there is no {module.replace('.', '/')}.py in {', '.join(map(str, searched))}"
    )
    problems.append(Problem(where, f"{who}: {why}; {cure}"))
    return ""


def _ready_words(task: Task, instance: int, home: Path) -> tuple[str, ...]:
    """What a ready-made task is told: its name, its options, the patterns of its ports, the workflow file's folder. A
    function is told all but the options."""
    ports = [[port.pattern(instance) for port in ports] for ports in (task.inports, task.outports)]
    if function := function_of(task):
        return function, json.dumps([*ports, str(home)])
    name = ready_made(task)
    if name is None:
        return ()
    options = json.dumps(plain(task.sections[all_tasks()[name].key]))
    return name, options.replace(INSTANCE, str(instance)), json.dumps([*ports, str(home)])


def _check_code(task: Task, folders: tuple[Path, ...], problems: list[Problem]) -> None:
    """Looks for a task's function, and those that a ready-made task's options name, where its first instance will."""
    entries = _python_path(task.env or {}).replace(INSTANCE, "0").split(os.pathsep)
    path = [str(folders[0] / entry) for entry in entries if entry]
    if function := function_of(task):
        from wilkins.tasks.code import misfit

        ports = len(task.inports) + len(task.outports)
        words, elsewhere = len(task.args), bool(task.prefix)
        if message := misfit(function, folders[1:], ports, words, path, elsewhere=elsewhere):
            problems.append(Problem(task.where.of("func"), f"{task.label}: {message}"))
        return
    name = ready_made(task)
    if name is None:
        return
    from wilkins.tasks.code import problem as code_problem

    ready = all_tasks()[name]
    options = task.sections[ready.key]
    for key, code in ready.code(options):
        if found := code_problem(code.replace(INSTANCE, "0"), folders, path, elsewhere=bool(task.prefix)):
            message = f"{task.label}, {ready.key}: '{key}: {code}': {found}"
            problems.append(Problem(options.where.of(key), message))


def _folders(task: Task, instance: int, home: Path, folder: Path, problems: list[Problem]) -> tuple[Path, Path | None]:
    cwd = folder / Path((task.cwd or ".").replace(INSTANCE, str(instance))).expanduser()
    if INSTANCE in (task.cwd or "") and not cwd.exists():
        above = next(parent for parent in cwd.parents if parent.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            what = "you may not write there" if above.is_dir() else "it is not a directory"
            message = f"{task.label}: the 'cwd' {str(cwd)!r} cannot be made in {str(above)!r}: {what}; mend the path"
            problems.append(Problem(task.where.of("cwd"), message))
    elif not cwd.is_dir():
        what = "is not a directory" if cwd.exists() else "does not exist"
        cure = f"run: mkdir -p {cwd}" if not cwd.exists() else "mend the path"
        problems.append(Problem(task.where.of("cwd"), f"{task.label}: the 'cwd' {str(cwd)!r} {what}; {cure}"))
    if task.stdin is None:
        return cwd, None
    stdin = home / Path(task.stdin.replace(INSTANCE, str(instance))).expanduser()
    if not stdin.exists() or stdin.is_dir():
        what = "is a directory" if stdin.is_dir() else "does not exist"
        problems.append(
            Problem(task.where.of("stdin"), f"{task.label}: the 'stdin' file {str(stdin)!r} {what}; mend the path")
        )
    return cwd, stdin


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


def _command(task: Task, home: Path, couples: bool, launch: Launch, problems: list[Problem]) -> _Command:
    """Finds a task's program and its launcher; reports what keeps it from being started."""
    try:
        ready = ready_made(task)
        called = START if ready else FUNCTION if function_of(task) else None
        program, script = (Program(Path(sys.executable), "elf"), called) if called else find_program(task, home)
        for module in all_tasks()[ready].needs if ready else ():
            if not _is_installed(module):
                raise ValueError(
                    f"{task.func!r} needs the Python package {module!r}, which {sys.executable} does not have; run: "
                    f"pip install 'wilkins[{module}]'"
                )
        if couples and program.unreachable:
            raise ValueError(program.unreachable)
    except ValueError as error:
        problems.append(Problem(task.where.of("func"), f"{task.label}: {error}"))
        return _Command(Path(task.func), (), ())
    first = task.prefix[0] if task.prefix else "/"
    if "/" not in first and not shutil.which(first, path=(task.env or {}).get("PATH")):
        message = f"{task.label}: there is no {first!r} on PATH; mend 'prefix' or install it"
        problems.append(Problem(task.where.of("prefix"), message))
    words = () if script is None else (str(script),)
    command = _Command(program.path, words, (), _is_python(program, script))
    if _kind(task, launch) == "plain" or (launch == "one-job" and not _may_be_started_again(task)):
        return command
    try:
        if task.mpiexec:
            found = shutil.which(task.mpiexec[0]) or _local(home, task.mpiexec[0])
            if not found:
                raise ValueError(
                    f"there is no {task.mpiexec[0]!r} on PATH; mend 'mpiexec' or load the module that has it"
                )
            # Open MPI looks for the rest of itself beside the folder it is started from: give it the real one.
            launcher = Path(found).parent.resolve() / Path(found).name
            return replace(command, mpiexec=(str(launcher), *task.mpiexec[1:]))
        return replace(command, mpiexec=_mpiexec(task, program, script, home))
    except ValueError as error:
        if launch == "alone" or task.mpiexec or _takes_filename(task):  # else its first start needs none
            problems.append(Problem(task.where.of("mpiexec" if task.mpiexec else "nprocs"), f"{task.label}: {error}"))
        return command


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def _rerun(task: Task) -> Literal["auto", "always", "never"]:
    """Whether a task is started again.

    A ready-made task reads all it needs at its first start, and means every error that it tells.
    """
    return "never" if ready_made(task) and task.rerun == "auto" else task.rerun


def _may_be_started_again(task: Task) -> bool:
    """Whether a program of the task that has ended may be followed by another, as an MPI job of its own."""
    return _takes_filename(task) or (bool(task.inports) and _rerun(task) != "never")


def _takes_filename(task: Task) -> bool:
    return any("{filename}" in word for word in task.arguments(0))


def _is_python(program: Program, script: Path | None) -> bool:
    interpreter = program.interpreter or program.path
    return script is not None or re.fullmatch(_PYTHON, interpreter.name) is not None


def _mpiexec(task: Task, program: Program, script: Path | None, home: Path) -> tuple[str, ...]:
    library_path = (task.env or {}).get("LD_LIBRARY_PATH", _environment_path())
    interpreter = program.interpreter or program.path
    if not re.fullmatch(_PYTHON, interpreter.name) and interpreter != Path(sys.executable):
        return choose_mpiexec(linked_mpi([program.path], library_path), Path(sys.executable).parent)
    source = script or (program.path if program.interpreter else _script_argument(task, home))
    if source == START:
        source = START.with_name("ranks.py")  # where a ready-made task imports MPI
    files = [interpreter, *(python_extensions(source, interpreter) if source else ())]
    return choose_mpiexec(linked_mpi(files, library_path), interpreter.parent)


def _environment_path() -> str:
    return os.environ.get("LD_LIBRARY_PATH", "")


def _script_argument(task: Task, home: Path) -> Path | None:
    """The script of ``func: python3`` with the script among its arguments."""
    word = next((word for word in task.arguments(0) if word.endswith(".py")), None)
    return home / (task.cwd or ".").replace(INSTANCE, "0") / word if word else None


def _local(home: Path, name: str) -> str | None:
    path = home / Path(name).expanduser()
    return str(path) if "/" in name and path.is_file() else None


def find_program(task: Task, home: Path) -> tuple[Program, Path | None]:
    """The program to execute and, for a Python task, the script it runs.

    Raises:
        ValueError: there is none that can be executed.
    """
    func = Path(task.func).expanduser()
    local = home / func
    if func.suffix == ".py":
        return _python(local, task.func)
    if func.suffix == ".hx":
        plain = local.with_suffix("")
        if plain.is_file():
            return inspect(plain), None
        if local.with_suffix(".py").is_file():
            return _python(local.with_suffix(".py"), task.func)
        raise ValueError(
            f"there is neither {plain.name!r} nor {plain.name + '.py'!r} for {task.func!r}; " + _hint(plain)
        )
    if "/" in task.func:
        if local.exists():
            return inspect(local), None
    elif local.is_file() and not _is_blocked(local):
        return inspect(local), None
    else:
        found = shutil.which(task.func)
        if found:
            return inspect(Path(found)), None
        if local.exists():
            return inspect(local), None
    module = local.with_name(f"{local.name}.py")
    if module.is_file():
        return _python(module, task.func)
    raise ValueError(_missing(task.func, local))


def _is_blocked(path: Path) -> bool:
    """Whether a file beside the workflow cannot be executed, so that a command on PATH of that name is meant."""
    return not os.access(path, os.X_OK)


def _hint(plain: Path) -> str:
    return _BUILD_HINT.format(stem=plain.name)


def _python(script: Path, func: str) -> tuple[Program, Path]:
    if script.is_dir():
        raise ValueError(f"{str(script)!r} is a directory; give the Python file in it")
    if not script.is_file():
        raise ValueError(_missing(func, script))
    return Program(Path(sys.executable), "elf"), script.resolve()


def _missing(func: str, local: Path) -> str:
    try:
        names = [path.name for path in local.parent.iterdir() if path.is_file()]
    except OSError:
        return f"there is no program {func!r}: the folder {str(local.parent)!r} cannot be read; mend the path"
    if f"{local.name}.hx" in names:
        return f"there is no program {func!r} in {str(local.parent)!r}, only {local.name + '.hx'!r}; {_hint(local)}"
    source = next((name for name in sorted(names) if Path(name).stem == local.name and name.endswith(_SOURCES)), None)
    if source:
        return f"there is no program {func!r} in {str(local.parent)!r}; build it from {source!r} there"
    where = "" if "/" in func or func.endswith(".py") else " nor on PATH"
    close = suggest(local.name, names)
    if close:
        return f"there is no program {func!r} in {str(local.parent)!r}{where}{close}"
    if " " in func:
        return f"there is no program {func!r}; put what follows the program's name into 'args'"
    return f"there is no program {func!r} in {str(local.parent)!r}{where}; build or install it, or mend the path"


def _unseen(task: Task, executable: Path) -> Iterator[str]:
    """Out-ports whose steps are told by calls of HDF5 that cannot be seen in the program."""
    for port in task.outports:
        if port.publish.when in ("flush", "write") and has_hdf5_inside(executable):
            calls = "flushes" if port.publish.when == "flush" else "writes to datasets"
            yield (
                f"{port.where.of('publish')}: note: {task.label}: {executable.name} has its HDF5 inside, where {calls} "
                "cannot be seen: build it with the shared HDF5 (h5cc -shlib), or give `publish: next` or a number of "
                "closes (`wilkins help static-programs`)"
            )
