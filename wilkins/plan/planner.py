"""Makes the plan of a workflow: which program runs where on how many ranks, and which channels join them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wilkins.transport
from wilkins.errors import Problem, WorkflowError
from wilkins.flow.placement import Host
from wilkins.flow.policy import FlowPolicy
from wilkins.flow.restart import RestartRule
from wilkins.plan import placing
from wilkins.plan.commands import (
    Command,
    commands_of,
    hidden_programs,
    is_elastic,
    kind_of,
    ranks_alone,
    rerun_of,
    unseen,
)
from wilkins.plan.graph import Wiring, instance_name, wire
from wilkins.plan.plan import ChannelPlan, Launch, Plan, PortRef, TaskPlan
from wilkins.plan.ports import Ports
from wilkins.schema.reading import plain
from wilkins.spec.ensemble import Instances, numbers_text
from wilkins.spec.gpu_names import asks
from wilkins.spec.load import Document, load
from wilkins.spec.workflow import Task, Workflow, function_of, ready_made
from wilkins.tasks.registry import ReadyMade, all_tasks
from wilkins.transport.plan_table import values_of
from wilkins.values import dataclass, replace

if TYPE_CHECKING:
    from wilkins.plan.gpus import Machine

RETRIES = 3
RETRY_DELAY = 1.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the workflow file, with what was found for its instances."""

    number: int
    task: Task
    home: Path
    """The workflow file's folder."""
    commands: Sequence[Command]
    """By instance."""
    folders: Sequence[tuple[Path, Path | None]]
    """By instance: where it runs, and the file that it reads as its standard input."""
    actions: str
    """The functions that its Python calls before its program, as the value of a variable."""


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

    workflow, home = document.workflow, document.path.resolve().parent
    problems, notes = placing.problems(document), [*document.notes, *wiring.notes]
    after = _after(document, wiring, launch, problems)
    entries = []
    for number, task in enumerate(workflow.tasks):
        commands = commands_of(task, home, folder, _is_coupled(task, number, wiring), launch, problems)
        entries.append(_entry(number, task, commands, home, folder or home, problems, notes))
        problems += hidden_programs(task, number, commands[0], entries[-1].folders[0][0], home, wiring)
        if task.taskCount > 1 or task.sweep:
            from wilkins.plan import alike

            notes += alike.notes(number, task, wiring, len({(one.executable, one.script) for one in commands}))
    if problems:
        raise WorkflowError(sorted(problems, key=lambda problem: (problem.position.line, problem.position.column)))
    tasks: list[TaskPlan] = []
    for entry in entries:
        for instance in range(entry.task.taskCount):
            tasks.append(_planned(entry, instance, launch, after.get(entry.number, ()), len(tasks), _ranks(tasks)))
    ports = Ports(workflow, wiring)
    for planned in tasks:
        ports.add(planned)
    plan = Plan(
        name=str(workflow.name),
        source=document.path.resolve(),
        launch=launch,
        tasks=tuple(tasks),
        ports=tuple(ports.planned),
        channels=tuple(_channels(document, wiring, ports.index)),
        total_ranks=_ranks(tasks),
        notes=tuple(notes),
        folder=folder,
        digest=hashlib.sha256(document.path.read_bytes()).hexdigest(),
    )
    return _with_gpus(plan, workflow, machine) if asks(workflow) else plan


def _with_gpus(plan: Plan, workflow: Workflow, machine: Machine | None) -> Plan:
    from wilkins.plan import devices
    from wilkins.plan.gpu_count import gpus_here

    return devices.place(plan, workflow, machine or gpus_here())


def _ranks(tasks: Sequence[TaskPlan]) -> int:
    """The number of ranks of all tasks. Ranks are numbered in the order of the tasks."""
    return tasks[-1].first_rank + tasks[-1].nprocs if tasks else 0


def _entry(
    number: int,
    task: Task,
    commands: Sequence[Command],
    home: Path,
    folder: Path,
    problems: list[Problem],
    notes: list[str],
) -> _Entry:
    """Find the programs of an entry, in the workflow file's folder and in the folder where its tasks run."""
    folders = [_folders(task, instance, home, folder, problems) for instance in range(task.taskCount)]
    first = folders[0][0], home
    _check_code(task, first, problems)
    actions = _actions(task, commands[0], first, problems, notes)
    notes += unseen(task, commands[0].executable)
    notes += ranks_alone(task, commands[0])
    notes += _made(task, [cwd for cwd, _ in folders])
    notes += _too_long(task)
    return _Entry(number, task, home, commands, folders, actions)


def _planned(
    entry: _Entry, instance: int, launch: Launch, after: tuple[int, ...], index: int, first_rank: int
) -> TaskPlan:
    """One task of an entry."""
    task, command = entry.task, entry.commands[instance]
    cwd, stdin = entry.folders[instance]
    words = (*command.script, *_ready_words(task, instance, entry.home))
    return TaskPlan(
        index=index,
        name=instance_name(task, instance),
        instance=instance,
        parameters=task.instances.parameters(instance),
        nprocs=task.nprocs,
        kind=kind_of(task, launch),
        executable=command.executable,
        args=(*words, *task.arguments(instance)),
        cwd=cwd,
        makes_cwd=_makes_cwd(task),
        env=_environment(task, instance, entry.actions),
        prefix=task.prefix,
        mpiexec=command.mpiexec,
        stdin=stdin,
        timeout=task.timeout,
        expected_memory=task.resources.memory if task.resources else 0,
        expected_walltime=task.resources.walltime if task.resources else None,
        on_failure=task.on_failure,
        retries=(task.retries or RETRIES) if task.on_failure == "restart" else 0,
        retry_delay=RETRY_DELAY if task.retry_delay is None else task.retry_delay,
        entry=entry.number,
        spares=task.taskCount - (task.min_instances or task.taskCount),
        after=after,
        rerun=rerun_of(task),
        enough=task.enough,
        strict_end=task.strict_end or ready_made(task) is not None,
        first_rank=first_rank,
        origin=str(task.where.position),
        restart=_restart(task, instance, words),
        saves=_saves(task),
        placement=task.placement,
        environment=command.environment,
    )


def _after(document: Document, wiring: Wiring, launch: Launch, problems: list[Problem]) -> dict[int, tuple[int, ...]]:
    """By entry of the file: tasks that must have ended before its own are started."""
    if launch == "one-job":
        problems += _elastic_ranks(document)
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
                readers=inport.nreaders or reader.nprocs,
                readers_given=inport.nreaders is not None,
                **values_of(FlowPolicy, policy),
            )
            for i, j in link.pairs
        ]
    return channels


def _restart(task: Task, instance: int, words: tuple[str, ...]) -> RestartRule | None:
    """The restart rule of one instance; its arguments come after `words`."""
    if task.restart is None:
        return None
    rule = task.restart.replaced(lambda text: task.instances.fill(text, instance))
    return rule if rule.args is None else replace(rule, args=(*words, *rule.args))


def _elastic_ranks(document: Document) -> Iterator[Problem]:
    """Problems with tasks whose ranks are to go on without each other, and are ranks of one MPI job."""
    for task in document.workflow.tasks:
        if task.nprocs > 1 and is_elastic(task):
            yield Problem(
                task.where.of("nprocs"),
                f"{task.label}: its ranks are to go on without those that die, but they are ranks of this MPI job, "
                "which ends when one of its ranks is killed; start the workflow without an mpiexec (`wilkins run`), or "
                "remove 'on_failure' from the section of the task",
            )


def _saves(task: Task) -> bool:
    """Whether it is a ready-made task whose options ask for saves."""
    name = ready_made(task)
    ready = all_tasks()[name] if name else None
    return ready is not None and ready.saves(task.sections[ready.key])


def _is_coupled(task: Task, number: int, wiring: Wiring) -> bool:
    if task.restart and task.restart.files:
        return True
    references = [PortRef(number, "in", i) for i in range(len(task.inports))]
    references += [PortRef(number, "out", i) for i in range(len(task.outports))]
    return any(wiring.modes[reference] != "plain" for reference in references)


def _environment(task: Task, instance: int, actions: str) -> dict[str, str]:
    threads = {"OMP_NUM_THREADS": str(task.threads)} if task.threads else {}
    own = threads | {name: task.instances.fill(value, instance) for name, value in (task.env or {}).items()}
    if not actions:
        return own
    path = _python_path(own)
    startup = str(Path(str(wilkins.transport.__file__)).parent / "startup")
    return own | {"WILKINS_ACTIONS": actions, "PYTHONPATH": f"{startup}{os.pathsep}{path}" if path else startup}


def _python_path(env: Mapping[str, str]) -> str:
    return env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))


def _actions(
    task: Task, command: Command, folders: tuple[Path, Path], problems: list[Problem], notes: list[str]
) -> str:
    """The functions that the task's Python calls before its program, as the value of a variable; empty: none.

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
    """The arguments of a ready-made task: its name, its options, the patterns of its ports, the workflow file's folder.
    A function gets all but the options."""
    ports = [[port.pattern(instance) for port in ports] for ports in (task.inports, task.outports)]
    if function := function_of(task):
        return function, json.dumps([*ports, str(home)])
    name = ready_made(task)
    if name is None:
        return ()
    options = plain(task.options(instance)[all_tasks()[name].key])
    options = options if task.variants else _filled(options, task.instances, instance)
    return name, json.dumps(options), json.dumps([*ports, str(home)])


def _filled(value: Any, instances: Instances, instance: int) -> Any:
    """Options of a ready-made task for one instance."""
    if isinstance(value, dict):
        return {name: _filled(item, instances, instance) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, instances, instance) for item in value]
    return instances.fill(value, instance) if isinstance(value, str) else value


def _check_code(task: Task, folders: tuple[Path, ...], problems: list[Problem]) -> None:
    """Looks for a task's function, and those that a ready-made task's options name, where its first instance will."""
    entries = task.instances.fill(_python_path(task.env or {}), 0).split(os.pathsep)
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
    every = [sections[ready.key] for sections in task.variants or (task.sections,)]
    named = {pair: one for one in every for pair in ready.code(one)}
    for (key, code), options in named.items():
        if found := code_problem(task.instances.fill(code, 0), folders, path, elsewhere=bool(task.prefix)):
            message = f"{task.label}, {ready.key}: '{key}: {code}': {found}"
            problems.append(Problem(options.where.of(key), message))
    if not task.prefix:
        _check_calls(task, ready, folders, path, problems)


def _check_calls(
    task: Task, ready: ReadyMade, folders: tuple[Path, ...], path: Sequence[str], problems: list[Problem]
) -> None:
    """Looks whether functions take the arguments that a ready-made task's options give them."""
    from wilkins.tasks.signatures import unfit

    every = [sections[ready.key] for sections in task.variants or (task.sections,)]
    called = {(key, code, tuple(given)): one for one in every for key, code, given in ready.calls(one)}
    for (key, code, given), options in called.items():
        if message := unfit(task.instances.fill(code, 0), given, folders, path):
            problems.append(Problem(options.where.of(key), f"{task.label}, {ready.key}: {key!r}: {message}"))


def _folders(task: Task, instance: int, home: Path, folder: Path, problems: list[Problem]) -> tuple[Path, Path | None]:
    cwd = folder / Path(task.instances.fill(task.cwd or ".", instance)).expanduser()
    if _makes_cwd(task) and not cwd.exists():
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
    stdin = home / Path(task.instances.fill(task.stdin, instance)).expanduser()
    if not stdin.exists() or stdin.is_dir():
        what = "is a directory" if stdin.is_dir() else "does not exist"
        problems.append(
            Problem(task.where.of("stdin"), f"{task.label}: the 'stdin' file {str(stdin)!r} {what}; mend the path")
        )
    return cwd, stdin


def _makes_cwd(task: Task) -> bool:
    """Whether each instance has a folder of its own, which a run makes."""
    return task.instances.differs(task.cwd or "")


def _too_long(task: Task) -> Iterator[str]:
    """A note of a program that may run longer than its task's `timeout` lets it."""
    walltime = task.resources.walltime if task.resources else None
    if task.resources and walltime and task.timeout and walltime > task.timeout:
        yield (
            f"{task.resources.where.of('walltime')}: note: {task.label}: it is expected to run for up to "
            f"{walltime:g} s ('walltime'), but its 'timeout' stops it after {task.timeout:g} s, and the run fails; "
            "make 'timeout' the longer one"
        )


def _made(task: Task, cwds: Sequence[Path]) -> Iterator[str]:
    """A note of the folders of instances that a run makes."""
    made = [instance for instance, cwd in enumerate(cwds) if _makes_cwd(task) and not cwd.exists()]
    if made:
        which = f"for the instances {numbers_text(made)}" if task.taskCount > 1 else "for instance 0"
        yield f"{task.where.of('cwd')}: note: {task.label}: a run makes the folder {task.cwd!r} {which}"
