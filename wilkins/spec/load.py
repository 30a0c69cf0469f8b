"""Reads a workflow file: limits, keys and types, ``--set``, and what only several keys together can get wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import yaml

from wilkins.errors import Position, Problem, WorkflowError, count_of, suggest
from wilkins.schema.kinds import WHOLE_FILE
from wilkins.schema.patterns import intersect, is_wild, pattern_problem
from wilkins.schema.positions import compose, compose_option, read_text
from wilkins.schema.reading import INVALID, Reader, keys_of, scalars
from wilkins.schema.sections import SectionMap
from wilkins.spec import contradictions, doubles, parameters
from wilkins.spec.ensemble import INSTANCE, PerInstance, placeholders
from wilkins.spec.workflow import (
    ENVIRONMENT_KEYS,
    Dset,
    InPort,
    OutPort,
    Parameter,
    Port,
    Task,
    Workflow,
    default_name,
    ready_made,
)
from wilkins.tasks.registry import PREFIX, all_tasks
from wilkins.values import dataclass, replace

Place = Literal["memory", "both", "file"]
_TASK_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_MIN_CAP = 65536


@dataclass(frozen=True, slots=True)
class Document:
    """A workflow file that was read and found right in itself."""

    path: Path
    workflow: Workflow
    """Every task has its name."""
    notes: tuple[str, ...] = ()


def load(path: str | Path, overrides: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> Document:
    """Read and validate a workflow file.

    Args:
        overrides: ``task.key=value`` or ``key=value``, as given with ``--set``.
        environment: variables for ``${VAR}``; the process's own by default.

    Raises:
        WorkflowError: with everything found wrong.
    """
    path = Path(path)
    file = str(path)
    root = compose(read_text(path), file)
    reader = Reader(file, environment)
    root = _settle(reader, root, overrides)
    workflow = reader.section(Workflow, root, WHOLE_FILE)
    if workflow is INVALID or reader.problems:
        raise WorkflowError(_in_order(reader.problems))
    for name, parameter in (workflow.parameters or {}).items():
        if name not in reader.used:
            reader.note(parameter.where.position, f"parameter {name!r} is not used; write ${{{name}}}, or remove it")
    tasks = tuple(_swept(doubles.joined(reader, task)) for task in _named(reader, workflow.tasks))
    if any(name in section.where for section in (workflow, *tasks) for name in ENVIRONMENT_KEYS):
        from wilkins.spec import environments

        tasks = tuple(environments.with_default(workflow, task) for task in tasks)
        for where, message in (found for task in tasks for found in environments.contradictions(task)):
            reader.problem(where, message)
    workflow = replace(workflow, name=workflow.name or path.stem, tasks=tasks)
    if not re.fullmatch(_TASK_NAME, workflow.name):
        workflow = replace(workflow, name=default_name(workflow.name))
    for task in workflow.tasks:
        _check_task(reader, task)
    if reader.problems:
        raise WorkflowError(_in_order(reader.problems))
    return Document(path, workflow, tuple(reader.notes))


def _settle(reader: Reader, root: yaml.Node, overrides: Sequence[str]) -> yaml.Node:
    """The document with every ``--set`` applied; the reader gets the values of the parameters."""
    declared = parameters.declared_in(root)
    settings: dict[str, yaml.Node] = {}
    for override in overrides:
        target, equals, value = override.partition("=")
        if equals and target in declared:
            settings[target] = compose_option(value, f"--set {override}")
        else:
            root = _override(root, override)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    for name, node in pairs:
        if name.value == "parameters":
            read = SectionMap(Parameter, "parameter").read(reader, node, f"{WHOLE_FILE}: 'parameters'")
            taken = [item.name for item in keys_of(Workflow)]
            reader.parameters = parameters.resolve(reader, {} if read is INVALID else read, settings, taken)
    return root


def _swept(task: Task) -> Task:
    """A task with as many instances as its sweep has, whose parameters its ports know."""
    if task.sweep is None:
        return task
    from wilkins.spec.sweep_rows import labelled

    instances = labelled(task.sweep, str(task.name))
    return replace(
        task,
        sweep=instances,
        taskCount=len(instances.rows),
        inports=tuple(replace(port, instances=instances) for port in task.inports),
        outports=tuple(replace(port, instances=instances) for port in task.outports),
    )


def place(port: Port) -> Place | None:
    """Where the file says that a port's steps are: in memory, on disk, both, or nothing about it.

    A step always holds its whole file: if some datasets are to be in memory and some on disk, all are on both.

    Raises:
        ValueError: it contradicts itself.
    """
    said: set[Place] = set()
    switches: list[tuple[Port | Dset, bool | None]] = [(port, port.memory if isinstance(port, InPort) else None)]
    switches += [(dset, dset.memory) for dset in port.dsets]
    for one, memory in switches:
        memory = memory if memory is not None else one.metadata
        in_file = one.file if one.file is not None else one.passthru
        if memory is False and in_file is False:
            raise ValueError("neither memory nor file would carry the data; set one of them to 1")
        if memory and in_file:
            said.add("both")
        elif memory is not None or in_file is not None:
            said.add("file" if in_file or memory is False else "memory")
    switched: Place | None = None if not said else said.pop() if len(said) == 1 else "both"
    if port.mode and switched and port.mode != switched:
        raise ValueError(
            f"'mode: {port.mode}' and its other keys, which mean {switched!r}, differ; keep the mode alone"
        )
    return port.mode or switched


def _named(reader: Reader, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    taken: dict[str, Task] = {}
    for task in tasks:
        if task.name is None:
            continue
        where = task.where.of("name")
        if not re.fullmatch(_TASK_NAME, task.name) or len(task.name) > 100:
            reader.problem(where, f"{task.label} has a name that cannot be used for logs; use a-z, A-Z, 0-9 and _.+-")
        elif task.name in taken:
            first = taken[task.name].where.position
            reader.problem(where, f"two tasks are named {task.name!r} (the first at {first}); rename one")
        taken.setdefault(task.name, task)
    named = []
    for task in tasks:
        if task.name is None:
            base = name = default_name(task.func)
            number = 1
            while name in taken:
                number += 1
                name = f"{base}-{number}"
            taken[name] = task
            task = replace(task, name=name)
        named.append(task)
    return tuple(named)


def _check_ready_made(reader: Reader, task: Task) -> None:
    """A section needs its ``func``, and the other way round."""
    wanted = ready_made(task)
    if wanted is None and not task.sections:
        return
    found = all_tasks().get(wanted or "")
    owners = {ready.key: name for name, ready in all_tasks().items()}
    for name in task.sections:
        if found is None or name != found.key:
            message = (
                f"{task.label}: the section {name!r} goes with 'func: {PREFIX}{owners[name]}'; set that, or remove it"
            )
            reader.problem(task.where.of(name), message)
    if wanted is None:
        return
    if found is None:
        names = [PREFIX + name for name in all_tasks()]
        hint = suggest(task.func, names) or f"; there are {', '.join(names)}"
        reader.problem(task.where.of("func"), f"{task.label}: there is no ready-made task {task.func!r}{hint}")
    elif found.key not in task.sections:
        message = f"{task.label}: {task.func!r} needs its options; add '{found.key}: {{...}}'"
        reader.problem(task.where.of("func"), message)
    else:
        for sections in task.variants or (task.sections,):
            options = sections[found.key]
            for name, message in found.check(options, task):
                reader.problem(options.where.of(name), f"{task.label}, {found.key}: {message}")
        if task.args:
            message = f"{task.label}: a ready-made task takes no 'args'; its options stand under {found.key!r}"
            reader.problem(task.where.of("args"), message)


def _check_sweep(reader: Reader, task: Task) -> None:
    """Placeholders that stand for nothing, and values that cannot be part of a file's name."""
    if task.sweep is None:
        return
    if "taskCount" in task.where:
        message = f"{task.label}: 'sweep' and 'taskCount' both say how many instances it has; remove 'taskCount'"
        reader.problem(task.where.of("taskCount"), message)
    for where, texts in texts_of(task):
        for name in dict.fromkeys(name for text in texts for name in placeholders(text)):
            if name not in (*task.sweep.names, "instance", "filename", "file"):
                hint = suggest(name, [*task.sweep.names, "instance"]) or (
                    f"; its parameters are {', '.join(task.sweep.names)} (as part of a text, write '{{ {name} }}')"
                )
                message = f"{task.label}: {{{name}}} is no parameter of its sweep{hint}"
                reader.problem(where, message)
    for port in (*task.inports, *task.outports):
        used = {name for text in (*port.names, getattr(port, "as_", None) or "") for name in placeholders(text)}
        for place, name in enumerate(task.sweep.names):
            wrong = next((row[place] for row in task.sweep.rows if name in used and set("/*?[]") & {*row[place]}), None)
            if wrong is not None:
                reader.problem(
                    port.where.of("filename"),
                    f"{task.label}: {{{name}}} may be {wrong!r}, which cannot be part of a file's name; use "
                    f"{INSTANCE} there",
                )


def _check_placeholders(reader: Reader, task: Task) -> None:
    """Of a task without a sweep: what stands in braces is the number of the instance, or nothing."""
    of_ports = {port.where.of(what) for port in (*task.inports, *task.outports) for what in ("filename", "as")}
    for where, texts in () if task.sweep else texts_of(task):
        for name in dict.fromkeys(name for text in texts for name in placeholders(text)):
            hint = "" if name in ("instance", "filename", "file") else suggest(name, ["instance"])
            if hint:
                reader.problem(where, f"{task.label}: {{{name}}} stands for nothing{hint}")
            elif where in of_ports and name != "instance":
                cure = "write '*' for what differs from file to file, or {instance} for the number of an instance"
                reader.problem(where, f"{task.label}: {{{name}}} stands for nothing; {cure}")


def texts_of(task: Task, *, ports: bool = True) -> Iterator[tuple[Position, Sequence[str]]]:
    """The texts of a task in which placeholders may stand, with those of its ports or without; not the options of
    ready-made tasks."""
    words = [text for word in task.args for text in (word.values if isinstance(word, PerInstance) else (word,))]
    yield task.where.of("args"), words
    yield task.where.of("env"), tuple((task.env or {}).values())
    yield task.where.of("cwd"), (task.cwd or "",)
    yield task.where.of("stdin"), (task.stdin or "",)
    if task.restart:
        yield task.where.of("restart"), (task.restart.files, *(task.restart.args or ()), *task.restart.hook)
    for port in (*task.inports, *task.outports) if ports else ():
        yield port.where.of("filename"), port.names
        yield port.where.of("as"), (getattr(port, "as_", None) or "",)


def _check_task(reader: Reader, task: Task) -> None:
    _check_ready_made(reader, task)
    _check_sweep(reader, task)
    _check_placeholders(reader, task)
    for where, message in (
        *contradictions.of_devices(task),
        *contradictions.of_compression(task),
        *contradictions.of_failure(task),
        *contradictions.of_restart(task),
        *contradictions.of_sets(task),
    ):
        reader.problem(where, message)
    if task.nwriters is not None and task.nwriters > task.nprocs:
        reader.problem(
            task.where.of("nwriters"),
            f"{task.label}: 'nwriters' is {task.nwriters}, more than its 'nprocs' of {task.nprocs}",
        )
    for number, word in enumerate(task.args, 1):
        if isinstance(word, PerInstance) and len(word.values) != task.taskCount:
            reader.problem(
                word.position,
                f"{task.label}: 'args' item {number} lists {count_of(len(word.values), 'value')}, but the task has "
                f"{count_of(task.taskCount, 'instance')} ('taskCount'); give one value for each instance",
            )
    words = [text for word in task.args for text in (word.values if isinstance(word, PerInstance) else (word,))]
    if any("{filename}" in word for word in words) and not task.inports:
        reader.problem(
            task.where.of("args"),
            f"{task.label}: '{{filename}}' stands for the step to be read, but the task has no in-port; add 'inports:'",
        )
    _check_names(reader, task)
    for noun, ports in (("inport", task.inports), ("outport", task.outports)):
        for port in ports:
            who = f"{task.label}, {noun} {port.filename!r}"
            where = port.where.of("filename")
            for problem in filter(None, (pattern_problem(name.rstrip("/")) for name in port.names)):
                reader.problem(where, f"{who}: {problem}")
            _check_range(reader, task, port, who)
            try:
                place(port)
            except ValueError as error:
                reader.problem(port.where.position, f"{who}: {error}")
            if isinstance(port, InPort):
                _check_inport(reader, task, port, who)
            elif isinstance(port, OutPort) and port.memory is not None and 0 < port.memory < _MIN_CAP:
                reader.problem(
                    port.where.of("memory"),
                    f"{who}: a limit of {port.memory} bytes holds no file; give a size such as 1GiB, "
                    "or 'metadata: 1' to exchange in memory",
                )


def _check_names(reader: Reader, task: Task) -> None:
    """A name that the program gives must be one in-port's: that of a file, and no other port's."""
    for number, port in enumerate(task.inports):
        if port.as_ is None:
            continue
        who = f"{task.label}, inport {port.filename!r}"
        where = port.where.of("as")
        if problem := pattern_problem(port.as_):
            reader.problem(where, f"{who}, 'as': {problem}")
            continue
        if is_wild(port.as_):
            reader.problem(
                where,
                f"{who}: 'as: {port.as_}' is a pattern, but it is to be the one name that the program opens for every "
                "step; write that name, or leave 'as' out if the program opens the files by their own names",
            )
            continue
        for place, other in enumerate(task.inports):
            if place == number or (other.as_ is not None and place > number):
                continue
            if intersect(port.called(0), other.called(0)):
                of_other = f"'as: {other.as_}'" if other.as_ is not None else "'filename'"
                reader.problem(
                    where,
                    f"{who}: 'as: {port.as_}' is also a name of its inport {other.filename!r} ({of_other}), so that an "
                    "open of it could mean either; give one of them another name",
                )


def _check_range(reader: Reader, task: Task, port: Port, who: str) -> None:
    if port.range is None:
        return
    if INSTANCE not in port.filename:
        stem, dot, suffix = port.filename.rpartition(".")
        named = f"{stem}-inst{INSTANCE}{dot}{suffix}" if dot else f"{suffix}-inst{INSTANCE}"
        message = (
            f"'range' has no effect, since the file name does not hold {INSTANCE}; if the instances' files have names "
            f"of their own, write such as {named!r}"
        )
        reader.note(port.where.of("range"), f"{who}: {message}")
    elif len(port.range) < task.taskCount:
        reader.problem(
            port.where.of("range"),
            f"{who}: 'range' has {count_of(len(port.range), 'number')}, but the task has "
            f"{count_of(task.taskCount, 'instance')} ('taskCount'); give one number for each instance",
        )


def _check_inport(reader: Reader, task: Task, port: InPort, who: str) -> None:
    if port.flow and port.io_freq:
        reader.problem(port.where.of("flow"), f"{who}: give 'flow' or 'io_freq', not both")
    if port.nreaders is not None and port.nreaders > task.nprocs:
        reader.problem(
            port.where.of("nreaders"),
            f"{who}: 'nreaders' is {port.nreaders}, more than its task's 'nprocs' of {task.nprocs}",
        )
    policy, has_queue = port.flow or port.io_freq or (None, False)
    if port.listing == "end" and policy and policy.when_full != "block":
        reader.problem(
            port.where.of("listing"),
            f"{who}: with 'listing: end' all steps wait to be listed, so none is dropped; leave out that policy, or "
            "'listing'",
        )
    if port.queue and has_queue:
        reader.problem(port.where.of("queue"), f"{who}: the queue is given twice; remove 'queue' or the one in 'flow'")
    elif port.queue and port.queue > 1 and policy and policy.when_full != "block":
        reader.problem(
            port.where.of("queue"), f"{who}: 'queue' goes with a flow that blocks; write it into 'flow: {{queue: ...}}'"
        )


def _in_order(problems: Sequence[Problem]) -> list[Problem]:
    """By position, each once (an alias is read wherever it is used)."""
    unique = {str(problem): problem for problem in problems}
    return sorted(unique.values(), key=lambda problem: (problem.position.line, problem.position.column))


def _override(root: yaml.Node, override: str) -> yaml.Node:
    """The document with one ``--set`` applied."""
    option = f"--set {override}"

    def fail(message: str) -> WorkflowError:
        return WorkflowError([Problem(Position(option), message)])

    target, equals, text = override.partition("=")
    if not equals or not target:
        if target in parameters.declared_in(root):
            raise fail(f"write it with a value, as {target}=...")
        raise fail("write it as task.key=value, for example --set melt.nprocs=8")
    value = compose_option(text, option)
    names = {name: number for number, name in _task_names(root)}
    task = max((name for name in names if target.startswith(f"{name}.")), key=len, default=None)
    if task is not None:
        return _replaced(root, ["tasks", str(names[task]), *target[len(task) + 1 :].split(".")], value, fail)
    keys = [item.name for item in keys_of(Workflow)]
    if target not in keys and "." not in target:
        known = [*parameters.declared_in(root), *keys]
        raise fail(
            f"there is no parameter or key {target!r}{suggest(target, known) or '; known are ' + ', '.join(known)}"
        )
    if "." in target:
        wrong = target.partition(".")[0]
        hint = suggest(wrong, list(names)) or f"; there are {', '.join(names) or 'none'}"
        raise fail(f"the workflow has no task {wrong!r}{hint}")
    return _replaced(root, [target], value, fail)


def _task_names(root: yaml.Node) -> list[tuple[int, str]]:
    tasks = next((v for k, v in root.value if k.value == "tasks"), None) if isinstance(root, yaml.MappingNode) else None
    if not isinstance(tasks, yaml.SequenceNode):
        return []
    found = []
    for number, task in enumerate(tasks.value):
        if isinstance(task, yaml.MappingNode):
            keys = scalars(task)
            name = keys.get("name") or default_name(keys.get("func", ""))
            found.append((number, name))
    return found


def _replaced(node: yaml.Node, path: list[str], value: yaml.Node, fail: Callable[[str], WorkflowError]) -> yaml.Node:
    """A copy of the nodes along a path, with the last one replaced; nothing shared by aliases is touched."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    marks = (node.start_mark, node.end_mark)
    if isinstance(node, yaml.MappingNode):
        pairs = list(node.value)
        for number, (name, old) in enumerate(pairs):
            if name.value == step:
                pairs[number] = (name, _replaced(old, rest, value, fail))
                break
        else:
            name = yaml.ScalarNode("tag:yaml.org,2002:str", step, value.start_mark, value.end_mark)
            empty = yaml.MappingNode("tag:yaml.org,2002:map", [], *marks)
            pairs.append((name, _replaced(empty, rest, value, fail)))
        return yaml.MappingNode(node.tag, pairs, *marks)
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        items = list(node.value)
        items[int(step)] = _replaced(items[int(step)], rest, value, fail)
        return yaml.SequenceNode(node.tag, items, *marks)
    count = f"a list of {len(node.value)}, numbered from 0" if isinstance(node, yaml.SequenceNode) else "no mapping"
    raise fail(f"there is no {step!r} to set: what is there is {count}")
