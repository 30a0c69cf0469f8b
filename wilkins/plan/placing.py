"""Gives the ranks of a plan their hosts, and tells which channels cross from one to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wilkins.errors import Position, Problem, ResourceError, WorkflowError
from wilkins.flow.placement import UNTOLD, Host, Misplaced, NoSlots, Wish, evenly, place, verify
from wilkins.plan.plan import ChannelPlan, Plan
from wilkins.spec.load import Document


def wishes(document: Document) -> list[Wish]:
    """What the instances of a workflow's tasks ask for, in the order of a plan's tasks."""
    return [
        Wish(str(task.name), instance, task.nprocs, task.placement)
        for task in document.workflow.tasks
        for instance in range(task.taskCount)
    ]


def problems(document: Document) -> list[Problem]:
    """What is wrong with what tasks ask for, whatever the hosts."""
    try:
        verify(wishes(document))
    except Misplaced as error:
        return [_problem(document, error)]
    return []


def placed(plan: Plan, document: Document, hosts: Sequence[Host]) -> Plan:
    """The plan with a place for each rank. Hosts of which only the names are known share the ranks evenly.

    Raises:
        WorkflowError: a task asks for a host that is not there.
        ResourceError: the hosts have too few slots.
    """
    if any(host.slots == UNTOLD for host in hosts):
        hosts = evenly([host.name for host in hosts], plan.total_ranks)
    try:
        shares = place(wishes(document), hosts)
    except NoSlots as error:
        who = f"task {error.task!r}: " if error.task else ""
        raise ResourceError(
            f"{document.path}: {who}{error}; take more hosts, or give them more slots, such as "
            f"--hosts {hosts[0].name}:{_more(plan, hosts)}"
        ) from error
    except Misplaced as error:
        raise WorkflowError([_problem(document, error)]) from error
    tasks = tuple(replace(task, share=share) for task, share in zip(plan.tasks, shares, strict=True))
    return replace(plan, tasks=tasks, hosts=tuple(hosts))


def _more(plan: Plan, hosts: Sequence[Host]) -> int:
    return max(hosts[0].slots + 1, -(-plan.total_ranks // len(hosts)))


def _problem(document: Document, error: Misplaced) -> Problem:
    task = next(task for task in document.workflow.tasks if task.name == error.task)
    position: Position = task.where.of("placement")
    return Problem(position, f"{task.label}: {error}")


@dataclass(frozen=True, slots=True)
class Crossing:
    """How a channel's steps get from the hosts of its writer to those of its reader."""

    writes: tuple[int, ...]
    """Hosts of the writer, by index."""
    reads: tuple[int, ...]
    """Hosts of the reader."""

    @property
    def local(self) -> bool:
        """All steps stay in the shared memory of one host."""
        return self.writes == self.reads and len(self.writes) == 1


def crossing(plan: Plan, channel: ChannelPlan) -> Crossing:
    """The hosts at both ends of a channel of a plan for several hosts."""
    return Crossing(_hosts(plan, channel.outport), _hosts(plan, channel.inport))


def _hosts(plan: Plan, port: int) -> tuple[int, ...]:
    return tuple(sorted({host for host, _ in plan.tasks[plan.ports[port].task].share}))
