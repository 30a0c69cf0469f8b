"""Stages: tasks that read files, and pass them on under the same names, changed or not.

A task of which an in-port and an out-port have one `filename` is a stage, if another task that is none writes such
files. Readers take a stage's files, not those that it was given: of the nearest stage before them in the workflow file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence

from wilkins.errors import Problem, suggest
from wilkins.plan.plan import Link, Mode, PortRef
from wilkins.schema.patterns import is_wild
from wilkins.spec.ensemble import INSTANCE
from wilkins.spec.workflow import InPort, Port, Workflow

Stages = Mapping[PortRef, PortRef]
"""Of each stage: its out-port, and the in-port of the same name."""


def is_one(outport: Port, inport: Port) -> bool:
    """Whether two ports of a task have one name."""
    return posixpath.normpath(outport.filename) == posixpath.normpath(inport.filename)


def find(workflow: Workflow, matching: Callable[[InPort], Sequence[PortRef]]) -> Stages:
    """The stages of a workflow. `matching`: the out-ports whose names an in-port's pattern can match."""
    pairs: dict[PortRef, PortRef] = {}
    for number, task in enumerate(workflow.tasks):
        for place, inport in enumerate(task.inports):
            for position, outport in enumerate(task.outports):
                if is_one(outport, inport) and inport.as_ is None:
                    pairs[PortRef(number, "out", position)] = PortRef(number, "in", place)
    return {
        outport: inport
        for outport, inport in pairs.items()
        if any(one not in pairs for one in matching(workflow.tasks[inport.task].inports[inport.port]))
    }


def sources(workflow: Workflow, stages: Stages, reader: PortRef, writers: Sequence[PortRef]) -> list[PortRef]:
    """Those of the out-ports from which an in-port takes its files."""
    inport = workflow.tasks[reader.task].inports[reader.port]
    others = [one for one in writers if one.task != reader.task]
    if inport.from_:
        return [one for one in others if workflow.tasks[one.task].name in inport.from_]
    before = [one for one in others if one in stages and one.task < reader.task]
    plain = [one for one in others if one not in stages]
    if not before:
        return plain or others
    nearest = max(before, key=lambda one: one.task)
    given = _given(workflow, stages, nearest, writers)
    return sorted([nearest, *(one for one in plain if one not in given)], key=lambda one: (one.task, one.port))


def _given(workflow: Workflow, stages: Stages, stage: PortRef, writers: Sequence[PortRef]) -> set[PortRef]:
    """All tasks whose files reach a stage, directly or over other tasks."""
    given: set[PortRef] = set()
    todo = [stage]
    while todo:
        for one in sources(workflow, stages, stages[todo.pop()], writers):
            if one not in given:
                given.add(one)
                todo += [one] if one in stages else []
    return given


def problems(
    workflow: Workflow, stages: Stages, links: Sequence[Link], modes: Mapping[PortRef, Mode], files: bool
) -> Iterator[Problem]:
    """Problems with stages, and with the key by which in-ports name their producers. `files`: as in `wire`."""
    names = [str(task.name) for task in workflow.tasks]
    for number, task in enumerate(workflow.tasks):
        for place, inport in enumerate(task.inports):
            reader = PortRef(number, "in", place)
            writing = {names[link.outport.task] for link in links if link.inport == reader}
            for name in inport.from_:
                who = f"{task.label}, inport {inport.filename!r}: 'from'"
                if name not in names:
                    yield Problem(inport.where.of("from"), f"{who}: there is no task {name!r}{suggest(name, names)}")
                elif name not in writing:
                    why = "would wait for itself" if name == task.name else f"gets no such file of {name!r}"
                    yield Problem(inport.where.of("from"), f"{who}: it {why}; name a task that writes them")
    for outport, given in stages.items():
        task = workflow.tasks[outport.task]
        port = task.outports[outport.port]
        who = f"{task.label}, outport {port.filename!r}: it passes on the files of the in-port of that name"
        if port.is_set:
            yield Problem(port.where.of("filename"), f"{who}, and cannot do so with steps that are not one file each")
            continue
        if (port.device or "host") != "host":
            yield Problem(port.where.of("device"), f"{who}, through the host's memory; leave out 'device'")
        if "publish" in port.where:
            yield Problem(port.where.of("publish"), f"{who}, each when it begins the next; leave out 'publish'")
        if modes[outport] not in ("memory", "plain") or modes[given] != "memory":
            cure = "leave out --files" if files else "leave out 'mode' there and at its producers"
            yield Problem(port.where.of("filename"), f"{who}, in memory alone; {cure}")
        if task.nprocs > 1 and not is_wild(port.filename):
            yield Problem(
                port.where.of("filename"),
                f"{who}, and its ranks could not distinguish them; let its producer number the names",
            )
        if task.taskCount > 1 and not port.differs:
            yield Problem(
                port.where.of("filename"), f"{who}, and each of its instances would; put {INSTANCE} into the name"
            )
        if outport in _given(workflow, stages, outport, list(_writers_of(links, stages))):
            yield Problem(
                task.inports[given.port].where.of("from"),
                f"{task.label}, inport {port.filename!r}: 'from' leads back to the task itself; name tasks before it",
            )


def _writers_of(links: Sequence[Link], stages: Stages) -> dict[PortRef, None]:
    return dict.fromkeys([*(link.outport for link in links), *stages])
