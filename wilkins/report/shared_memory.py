"""Predicts how much shared memory the steps of a workflow take at once, and what to change where that is too much."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wilkins.errors import count_of
from wilkins.flow.footprint import most_steps
from wilkins.flow.machine import SPARE_STEPS
from wilkins.flow.timeline import Timeline
from wilkins.flow.trace import Event
from wilkins.plan.graph import Wiring, instance_name
from wilkins.plan.plan import PortRef
from wilkins.schema.patterns import is_wild
from wilkins.spec.load import Document
from wilkins.spec.workflow import InPort, TaskModel
from wilkins.terminal.tables import size
from wilkins.transport.plan_table import REORDER
from wilkins.transport.removal import SHARED_MEMORY

BLOCK = 64 << 10
"""Bytes by which the memory of a step grows (`kBlock` of the native layer)."""
_BESIDE = 4 << 10
"""Bytes that a file has beside its data, or more: its headers."""
_RETAINED = 4 << 20
"""Bytes that a source's steps may take for the sake of those that could be opened again (`kRetained` natively)."""
Port = tuple[str, str]
"""Name of a task's instance, and pattern of an out-port."""


@dataclass(frozen=True, slots=True)
class Written:
    """Files that a port was seen to write."""

    sources: int
    """Ranks that wrote files of their own."""
    size: int
    """Bytes of the largest."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The most that the steps of an out-port take."""

    port: Port
    where: str
    """`file:line:column` of the port."""
    size: int
    """Bytes of a step."""
    steps: int
    """Most steps that are in memory at once."""
    queue: int
    """The longest of its channels."""
    cap: int
    """Bytes that the port's `memory` allows; 0: any number."""

    @property
    def wanted(self) -> int:
        """Bytes, if nothing limits them."""
        return self.steps * (-(-(self.size + _BESIDE) // BLOCK) * BLOCK)

    @property
    def bytes(self) -> int:
        """Bytes that it gets."""
        return min(self.wanted, self.cap) if self.cap else self.wanted


def footprints(
    document: Document, wiring: Wiring, seen: Mapping[Port, Written] | None = None, timeline: Timeline | None = None
) -> tuple[list[Footprint], int]:
    """The most memory that steps take, by out-port, and the number of out-ports of unknown size.

    Args:
        document: the workflow; `model: size` is the size of a step.
        wiring: what joins its tasks.
        seen: what a run wrote, for tasks whose model gives no size.
        timeline: how many steps there will be at all; left out: any number.
    """
    found: list[Footprint] = []
    unknown = 0
    read_by: dict[tuple[PortRef, int], list[InPort]] = {}
    for link in wiring.links:
        inport = document.workflow.tasks[link.inport.task].inports[link.inport.port]
        for writer, _ in link.pairs:
            read_by.setdefault((link.outport, writer), []).append(inport)
    made = None if timeline is None else Counter((step.task, step.pattern) for step in timeline.steps)
    for number, task in enumerate(document.workflow.tasks):
        said = task.model or TaskModel(where=task.where)
        for position, outport in enumerate(task.outports):
            reference = PortRef(number, "out", position)
            if wiring.modes[reference] not in ("memory", "both"):
                continue
            for instance in range(task.taskCount):
                inports = read_by.get((reference, instance), ())
                if not inports:
                    continue
                policies = [inport.policy(outport.queue) for inport in inports]
                port = instance_name(task, instance), outport.pattern(instance)
                sources = task.nprocs if said.files == "per-rank" else 1
                was = Written(sources, said.size) if said.size else (seen or {}).get(port)
                if was is None:
                    unknown += 1
                    continue
                at_once = most_steps(policies, outport.publish)
                steps = was.sources * (at_once + max(_retained(inport, was.size, at_once) for inport in inports))
                if made is not None:
                    steps = min(steps, made[port])
                cap = document.workflow.memory if outport.memory is None else outport.memory
                queue = max(policy.queue for policy in policies)
                found.append(Footprint(port, str(outport.where.position), was.size, steps, queue, cap))
    return found, unknown


def _retained(inport: InPort, size: int, at_once: int) -> int:
    """Steps of one source that stay beside those that are needed, since the in-port's names mean steps."""
    if inport.as_ is not None or not is_wild(inport.filename):
        return 0
    fit = _RETAINED // (-(-(size + _BESIDE) // BLOCK) * BLOCK) - at_once
    return max(min(fit, SPARE_STEPS + REORDER), inport.reorder or 0, 0)


def written(events: Sequence[Event]) -> dict[Port, Written]:
    """What the ports of a run have written, by its trace."""
    ranks: dict[Port, set[int]] = {}
    sizes: dict[Port, int] = {}
    for event in events:
        if event.event == "publish":
            port = event.task, event.pattern
            ranks.setdefault(port, set()).add(event.rank)
            sizes[port] = max(sizes.get(port, 0), event.bytes)
    return {port: Written(len(ranks[port]), sizes[port]) for port in ranks}


def total_line(found: Sequence[Footprint], unknown: int) -> str:
    """A line with the sum of all footprints; empty if nothing is known."""
    if not found:
        return ""
    without = f", without {count_of(unknown, 'port')} of which no size is known" if unknown else ""
    return f"shared memory: at most {size(sum(one.bytes for one in found))}{without}"


def warnings(found: Sequence[Footprint], folder: Path | None = SHARED_MEMORY) -> list[str]:
    """Warnings, with cures, for steps that do not fit into a port's `memory` or this machine's shared memory.

    Args:
        folder: the file system that the steps are in; None: those of several hosts, which are not known here.
    """
    said = [_over_cap(one) for one in found if one.wanted > one.cap > 0]
    if folder is None:
        return said
    total = sum(one.bytes for one in found)
    try:
        room = os.statvfs(folder)
    except OSError:
        return said
    free = room.f_bavail * room.f_frsize
    if total > free:
        largest = max(found, key=lambda one: one.bytes)
        task, pattern = largest.port
        cures = _cures(largest, f"'memory: {size(max(free // 2, BLOCK)).replace(' ', '')}'")
        said.append(
            f"warning: the steps take up to {size(total)} of shared memory at once, and {folder} has "
            f"{size(free)} free; most is that of task {task!r}, port {pattern!r}, with "
            f"{count_of(largest.steps, 'step')} of {size(largest.size)}: give it {cures}, or enlarge {folder} "
            "(`wilkins help containers`)"
        )
    return said


def _over_cap(one: Footprint) -> str:
    task, pattern = one.port
    who = f"{one.where}: warning: task {task!r}, port {pattern!r}"
    limit = f"'memory' allows the port {size(one.cap)}"
    if one.size > one.cap:
        more = size(one.size + _BESIDE + BLOCK).replace(" ", "")
        cure = f"give 'memory: {more}' or 'mode: file'"
        return f"{who}: a step takes {size(one.size)}, and {limit}: a run fails; {cure}"
    cures = _cures(one, "more 'memory'")
    return (
        f"{who}: {count_of(one.steps, 'step')} of {size(one.size)} may be there at once, and {limit}: its writer "
        f"waits until readers are done with some; give it {cures}"
    )


def _cures(one: Footprint, memory: str) -> str:
    shorter = f"a shorter 'queue' than {one.queue}, " if one.queue > 1 else ""
    return f"{shorter}{memory} or 'mode: file'"
