"""Compiles a workflow into a task graph: nodes are task instances, edges are channels from out-ports to in-ports.

An in-port takes the steps of every out-port whose pattern can match a name that its own pattern matches, but where a
task passes such steps on (a stage, `wilkins.plan.stages`): then of that one, not of those before it. With n writing
and m reading instances, instances are joined in contiguous, balanced blocks (`blocks`), unless both patterns hold
``{instance}`` or a parameter of a sweep: then the names decide.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wilkins.errors import Problem, WorkflowError, count_of, suggest
from wilkins.flow.policy import FlowPolicy, kept_words
from wilkins.plan.plan import Link, Mode, PortRef, reached
from wilkins.schema.patterns import PatternIndex, covers, intersect, is_wild
from wilkins.spec.ensemble import INSTANCE
from wilkins.spec.load import Document, load, place
from wilkins.spec.workflow import InPort, OutPort, Port, Task, Workflow, ready_made
from wilkins.values import dataclass

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, slots=True)
class Wiring:
    """The connections between the tasks of a workflow."""

    links: tuple[Link, ...]
    modes: Mapping[PortRef, Mode]
    notes: tuple[str, ...]
    passing: frozenset[PortRef] = frozenset()
    """Out-ports on which their tasks pass on the steps of the in-port of the same name."""


def compile(path: str | Path, overrides: Sequence[str] = (), *, files: bool = False) -> networkx.MultiDiGraph[str]:
    """The task graph of a workflow file.

    Nodes are instance names (``freeze``, or ``freeze[0]`` of an ensemble) with ``task`` (the spec), ``instance``,
    ``nprocs`` and ``stage`` (whether it passes on files that it reads); edges are channels with ``outport`` and
    ``inport`` (patterns), ``called`` (what the reader calls the files: the pattern, or the name that its ``as`` gives),
    ``policy`` and ``mode`` (``memory``, ``both`` or ``file``).

    Raises:
        WorkflowError: with everything found wrong.
    """
    document = load(path, overrides)
    return build(document, wire(document, files=files))


def build(document: Document, wiring: Wiring) -> networkx.MultiDiGraph[str]:
    """The graph of a workflow that was wired."""
    import networkx

    graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph(name=document.workflow.name)
    tasks = document.workflow.tasks
    stages = {reference.task for reference in wiring.passing}
    for number, task in enumerate(tasks):
        for instance in range(task.taskCount):
            name = instance_name(task, instance)
            graph.add_node(name, task=task, instance=instance, nprocs=task.nprocs, stage=number in stages)
    for link in wiring.links:
        writer, reader = tasks[link.outport.task], tasks[link.inport.task]
        outport, inport = writer.outports[link.outport.port], reader.inports[link.inport.port]
        for i, j in link.pairs:
            graph.add_edge(
                instance_name(writer, i),
                instance_name(reader, j),
                outport=outport.pattern(i),
                inport=inport.pattern(j),
                called=inport.called(j),
                policy=inport.policy(outport.queue),
                listing=inport.listing,
                mode=wiring.modes[link.outport],
            )
    return graph


def task_words(nprocs: int, stage: bool) -> str:
    """The size of a task in words, and whether it is a stage."""
    return count_of(nprocs, "rank") + (", a stage" if stage else "")


def policy_words(policy: FlowPolicy, listing: str | None) -> str:
    """The policy of a channel; where the reader waits for all files, to list them, no queue has an end."""
    return f"{kept_words(policy.every, policy.offset)}, listing: end" if listing == "end" else str(policy)


def instance_name(task: Task, instance: int) -> str:
    """``freeze``, ``freeze[2]`` in an ensemble, or ``freeze[dt=0.1]`` in a sweep."""
    several = task.taskCount > 1 or task.sweep
    return f"{task.name}[{task.instances.label(instance)}]" if several else str(task.name)


def blocks(writers: int, readers: int) -> tuple[tuple[int, int], ...]:
    """Joins instances in contiguous, balanced blocks.

    4 -> 2 gives 0,1 -> 0 and 2,3 -> 1; 2 -> 4 gives 0 -> 0,1 and 1 -> 2,3.
    """
    if writers >= readers:
        return tuple((i, i * readers // writers) for i in range(writers))
    return tuple((j * writers // readers, j) for j in range(readers))


def wire(document: Document, *, files: bool = False) -> Wiring:
    """Joins out-ports to in-ports and decides which are in memory; `files`: none, whatever the workflow says.

    Raises:
        WorkflowError: a port nobody writes, two tasks writing one name.
    """
    workflow = document.workflow
    links = []
    writers = _Writers(workflow)
    problems = list(_contested_names(workflow, writers.stages))
    for number, task in enumerate(workflow.tasks):
        for position in range(len(task.inports)):
            reference = PortRef(number, "in", position)
            found = [link for link in writers.links_to(reference) if link.pairs]
            links += found
            problems += _inport_problems(workflow, writers, reference, found)
    modes, more, notes = _modes(workflow, links, files)
    problems += more
    if writers.stages or any(port.from_ for task in workflow.tasks for port in task.inports):
        from wilkins.plan import stages

        problems += stages.problems(workflow, writers.stages, links, modes, files)
    if problems:
        raise WorkflowError(sorted(problems, key=lambda problem: (problem.position.line, problem.position.column)))
    return Wiring(tuple(links), modes, tuple(notes), frozenset(writers.stages))


class _Writers:
    """All out-ports, found by name."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self.all = [PortRef(n, "out", p) for n, task in enumerate(workflow.tasks) for p in range(len(task.outports))]
        self.index = PatternIndex((_general(self.port(reference)), reference) for reference in self.all)
        self.found: dict[str, list[PortRef]] = {}
        self.stages: Mapping[PortRef, PortRef] = {}
        """Of tasks that pass on what they read: their out-ports, and the in-ports of the same names."""
        names = [{posixpath.normpath(port.filename) for port in task.inports} for task in workflow.tasks]
        if any(posixpath.normpath(self.port(one).filename) in names[one.task] for one in self.all):
            from wilkins.plan import stages

            self.stages = stages.find(workflow, self.matching)

    def port(self, reference: PortRef) -> OutPort:
        """The out-port itself."""
        return self.workflow.tasks[reference.task].outports[reference.port]

    def matching(self, port: InPort) -> list[PortRef]:
        """Out-ports whose names can match, whatever their dsets."""
        pattern = _general(port)
        if pattern not in self.found:
            self.found[pattern] = sorted(self.index.meeting(pattern), key=lambda ref: (ref.task, ref.port))
        return self.found[pattern]

    def sources_of(self, reference: PortRef) -> Sequence[PortRef]:
        """Out-ports whose files an in-port takes, by their names."""
        inport = self.workflow.tasks[reference.task].inports[reference.port]
        if not self.stages and not inport.from_:
            return self.matching(inport)
        from wilkins.plan import stages

        return stages.sources(self.workflow, self.stages, reference, self.matching(inport))

    def links_to(self, reference: PortRef) -> Iterator[Link]:
        """The links into an in-port."""
        reader = self.workflow.tasks[reference.task]
        inport = reader.inports[reference.port]
        for outport in self.sources_of(reference):
            if outport.task != reference.task and share_dsets(self.port(outport), inport):
                writer = self.workflow.tasks[outport.task]
                yield Link(outport, reference, tuple(_pairs(writer, self.port(outport), reader, inport)))


def share_dsets(outport: Port, inport: Port) -> bool:
    """False only if both list datasets and none meets another."""
    if not outport.dsets or not inport.dsets:
        return True
    return any(covers(one.name, other.name) for one in outport.dsets for other in inport.dsets)


def _pairs(writer: Task, outport: OutPort, reader: Task, inport: InPort) -> Iterator[tuple[int, int]]:
    if outport.differs and inport.differs:
        index = PatternIndex((inport.pattern(j), j) for j in range(reader.taskCount))
        for i in range(writer.taskCount):
            yield from ((i, j) for j in sorted(index.meeting(outport.pattern(i))))
        return
    for i, j in blocks(writer.taskCount, reader.taskCount):
        if intersect(outport.pattern(i), inport.pattern(j)):
            yield i, j


def _general(port: Port) -> str:
    """A pattern that covers the port's pattern for every instance."""
    return port.instances.general(port.filename)


def _contested_names(workflow: Workflow, passing: Container[PortRef]) -> Iterator[Problem]:
    seen: dict[tuple[str, str], Task] = {}
    for number, task in enumerate(workflow.tasks):
        for position, port in enumerate(task.outports):
            if PortRef(number, "out", position) in passing:
                continue
            for folder, name in _fixed_names(task, port):
                other = seen.setdefault((folder, name), task)
                if other is not task:
                    yield Problem(
                        port.where.of("filename"),
                        f"{task.label}: it and {other.label} ({other.where.position}) both write {name!r}; "
                        "give one of them another "
                        "name, or a 'cwd' of its own",
                    )
                    break


def _fixed_names(task: Task, port: OutPort) -> Iterator[tuple[str, str]]:
    """Folders and names of the files that the instances write."""
    folder = task.cwd or ""
    for fixed in (name for name in port.names if not is_wild(name)):
        for instance in range(task.taskCount if task.instances.differs(folder + fixed) else 1):
            yield task.instances.fill(folder, instance), posixpath.normpath(port.of_instance(fixed, instance))


def closing(links: Sequence[Link]) -> frozenset[PortRef]:
    """The in-ports that close a cycle: a task that does not come before theirs in the workflow file writes for them,
    and what theirs writes reaches it."""
    readers: dict[int, set[int]] = defaultdict(set)
    for link in links:
        readers[link.outport.task].add(link.inport.task)
    return frozenset(
        link.inport
        for link in links
        if link.outport.task >= link.inport.task and link.outport.task in reached(readers, link.inport.task)
    )


def _inport_problems(workflow: Workflow, writers: _Writers, reference: PortRef, found: list[Link]) -> Iterator[Problem]:
    task = workflow.tasks[reference.task]
    port = task.inports[reference.port]
    where = port.where.of("filename")
    who = f"{task.label}, inport {port.filename!r}"
    if found:
        fed = {j for link in found for _, j in link.pairs}
        missing = [j for j in range(task.taskCount) if j not in fed]
        if missing:
            yield Problem(where, f"{who}: no task writes {port.pattern(missing[0])!r} for instance {missing[0]}")
        fixed: dict[str, int] = {}
        for link in found:
            outport = writers.port(link.outport)
            if outport.is_folder != port.is_folder:
                label = workflow.tasks[link.outport.task].label
                yield Problem(
                    where,
                    f"{who}: {label} writes {outport.filename!r}; one is a file's and one a folder's: end both with "
                    "'/' if each step is a folder, else none",
                )
            elif not _same_names(outport, port):
                label = workflow.tasks[link.outport.task].label
                yield Problem(where, f"{who}: {_one_step(label, outport)}")
            for i in {i for i, _ in link.pairs} if not is_wild(outport.filename) else ():
                name = posixpath.normpath(outport.pattern(i))
                first = fixed.setdefault(name, link.outport.task)
                if first != link.outport.task:
                    one, two = workflow.tasks[first].label, workflow.tasks[link.outport.task].label
                    yield Problem(where, f"{who}: {one} and {two} both write {name!r}; give one of them another name")
                    break
        return
    if place(port) == "file":
        return
    for ref in writers.all:
        written = writers.port(ref)
        if any(intersect(written.instances.general(one), _general(port)) for one in written.names[1:]):
            yield Problem(where, f"{who}: {_one_step(workflow.tasks[ref.task].label, written)}")
            return
    matching = writers.matching(port)
    others = sorted({workflow.tasks[ref.task].label for ref in matching if ref.task != reference.task})
    if others:
        yield Problem(
            where, f"{who}: {', '.join(others)} writes such files, but other dsets; list a common one, or none"
        )
    elif matching:
        yield Problem(
            where,
            f"{who}: only the task itself writes it, and would wait for itself; remove the in-port, or "
            "name its producer",
        )
    else:
        names = sorted({writers.port(ref).filename for ref in writers.all if ref.task != reference.task})
        hint = suggest(port.filename, names) or (f"; written are {', '.join(map(repr, names[:6]))}" if names else "")
        cure = (
            ""
            if hint.startswith("; did")
            else "; add it to a task's 'outports', or write 'mode: file' if it is on disk"
        )
        yield Problem(where, f"{who}: no task writes it{hint}{cure}")


def _same_names(outport: OutPort, inport: InPort) -> bool:
    """True if both list the names that belong together, in one order."""
    return len(outport.names) == len(inport.names) and all(
        intersect(outport.instances.general(one), inport.instances.general(other))
        for one, other in zip(outport.names, inport.names, strict=True)
    )


def _one_step(label: str, outport: OutPort) -> str:
    """Tells a reader how to list names."""
    names = ", ".join(map(repr, outport.names))
    one = len(outport.names) == 1
    return f"{label} writes {names} as {'a step of its own' if one else 'one step'}; " + (
        "name it alone" if one else "list these names, in this order"
    )


def _modes(workflow: Workflow, links: list[Link], files: bool) -> tuple[dict[PortRef, Mode], list[Problem], list[str]]:
    """The mode of every port: what the out-port says, else what its readers say, else memory."""
    modes: dict[PortRef, Mode] = {}
    problems: list[Problem] = []
    notes: list[str] = []
    readers: dict[PortRef, list[PortRef]] = defaultdict(list)
    for link in links:
        readers[link.outport].append(link.inport)
    for number, task in enumerate(workflow.tasks):
        for position, port in enumerate(task.outports):
            reference = PortRef(number, "out", position)
            who = f"{task.label}, outport {port.filename!r}"
            where = port.where.of("filename")
            wanted = {place(_inport(workflow, reader)) for reader in readers[reference]} - {None}
            said = place(port)
            is_checkpoint = bool(task.restart and task.restart.files and intersect(port.filename, task.restart.files))
            if not readers[reference] and is_checkpoint:
                modes[reference] = "file"
            elif not readers[reference]:
                modes[reference] = "plain"
                notes.append(f"{where}: note: {who}: no task reads it; it is written to disk as without Wilkins")
            elif files:
                modes[reference] = "file"
            elif said:
                modes[reference] = said
                if wanted - {said}:
                    notes.append(f"{where}: note: {who}: its readers say otherwise; the out-port decides: {said}")
            else:
                modes[reference] = "both" if len(wanted) > 1 else wanted.pop() or "memory" if wanted else "memory"
            keepers = [workflow.tasks[reader.task] for reader in readers[reference]]
            if is_checkpoint and modes[reference] == "memory" and not any(map(_keeps, keepers)):
                problems.append(
                    Problem(
                        where,
                        f"{who}: the task restarts from these files, but they are in memory only; add 'mode: both', "
                        "or a task 'func: wilkins.tasks.checkpoint' that reads them",
                    )
                )
            alike = task.taskCount > 1 and not is_wild(_general(port)) and not task.instances.differs(task.cwd or "")
            if modes[reference] != "memory" and alike:
                problems.append(
                    Problem(
                        where,
                        f"{who}: all {task.taskCount} instances would write this one file; put {INSTANCE} "
                        "into the name, or into 'cwd'",
                    )
                )
    sources: dict[PortRef, set[Mode]] = defaultdict(set)
    for link in links:
        sources[link.inport].add(modes[link.outport])
    for number, task in enumerate(workflow.tasks):
        for position, inport in enumerate(task.inports):
            reference = PortRef(number, "in", position)
            found = sources[reference]
            modes[reference] = "plain" if not found else found.pop() if len(found) == 1 else "both"
            if modes[reference] == "plain":
                where = inport.where.of("filename")
                unused = "" if inport.as_ is None else "; 'as' has no effect"
                notes.append(
                    f"{where}: note: {task.label}, inport {inport.filename!r}: a real file that no task writes{unused}"
                )
    return modes, problems, notes


def _keeps(task: Task) -> bool:
    """Whether the task takes files from memory to storage."""
    return ready_made(task) == "checkpoint"


def _inport(workflow: Workflow, reference: PortRef) -> InPort:
    return workflow.tasks[reference.task].inports[reference.port]
