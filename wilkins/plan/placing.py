"""Places the ranks of a plan on hosts, and finds the channels between hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from wilkins.errors import Position, Problem, ResourceError, UsageError, WorkflowError, suggest
from wilkins.flow.placement import UNSPECIFIED, Host, Misplaced, NoSlots, Rule, Share, Wish, evenly, place, verify
from wilkins.plan.plan import ChannelPlan, Plan
from wilkins.spec.load import Document
from wilkins.values import dataclass, replace

_SHOWN = 4
"""Hosts of the first ranks of a task that a message names."""


def wishes(document: Document) -> list[Wish]:
    """The placements that the instances of a workflow's tasks ask for, in the order of a plan's tasks."""
    return [
        Wish(str(task.name), instance, task.nprocs, task.placement)
        for task in document.workflow.tasks
        for instance in range(task.taskCount)
    ]


def placed_again(plan: Plan, hosts: Sequence[Host], moved: Mapping[str, Rule]) -> Plan:
    """The plan of a run that goes on with another one, with a place on hosts for each rank; none: on this machine.

    Args:
        moved: by task, where it is to run, if not where the plan has it.

    Raises:
        UsageError: there is no such task.
        ResourceError: the hosts have too few slots, or lack one that a task asks for, or a task that is to be started
            again would be on several.
    """
    names = [task.entry_name for task in plan.tasks]
    for name in moved:
        if name not in names:
            raise UsageError(f"--set {name}.placement: the run has no task {name!r}{suggest(name, names)}")
    rules = [moved.get(name, task.placement) for name, task in zip(names, plan.tasks, strict=True)]
    tasks = tuple(replace(task, placement=rule, share=()) for task, rule in zip(plan.tasks, rules, strict=True))
    if not hosts:
        return replace(plan, tasks=tasks, hosts=())
    wanted = [Wish(name, task.instance, task.nprocs, task.placement) for name, task in zip(names, tasks, strict=True)]
    hosts = _with_slots(hosts, wanted)
    try:
        shares = place(wanted, hosts)
    except Misplaced as error:
        who = f"task {error.task!r}: " if error.task else ""
        place_of_task = f", or another place for the task: --set {error.task}.placement=together" if error.task else ""
        raise ResourceError(f"{who}{error}; take other hosts, or more slots on them{place_of_task}") from error
    tasks = tuple(replace(task, share=share) for task, share in zip(tasks, shares, strict=True))
    return _startable(replace(plan, tasks=tasks, hosts=tuple(hosts)))


def _startable(plan: Plan) -> Plan:
    """The plan, if all tasks that are to be started again after a failure can be.

    Raises:
        ResourceError: the ranks of one are on several hosts, and the run could not go back.
    """
    for task in plan.tasks:
        if task.retries and len(task.share) > 1 and not plan.can_resume:
            hosts = ", ".join(plan.hosts[host].name for host, _ in task.share)
            raise ResourceError(
                f"{task.origin}: {task.name}: with 'on_failure: restart' of a task whose ranks are on several hosts "
                f"({hosts}) all tasks go back together, and none of them says to what: give a task `restart:` "
                "(`wilkins help restarting`), or this one `placement: [HOST]` with a host that has slots for all of "
                "its ranks"
            )
    return plan


def problems(document: Document) -> list[Problem]:
    """Problems with the placements that tasks ask for, on any hosts."""
    try:
        verify(wishes(document))
    except Misplaced as error:
        return [_problem(document, error)]
    return []


def placed(plan: Plan, document: Document, hosts: Sequence[Host]) -> Plan:
    """The plan with a place for each rank. Hosts of which only the names are known share the ranks evenly.

    Raises:
        WorkflowError: a task asks for a host that is not there.
        ResourceError: the hosts have too few slots, or a task that is to be started again would be on several.
    """
    hosts, shares = placed_tasks(document, hosts)
    tasks = tuple(replace(task, share=share) for task, share in zip(plan.tasks, shares, strict=True))
    return _startable(replace(plan, tasks=tasks, hosts=hosts))


def placed_tasks(document: Document, hosts: Sequence[Host]) -> tuple[tuple[Host, ...], tuple[Share, ...]]:
    """The hosts with their slots, and where each instance of a task runs; raises as `placed` does."""
    wanted = wishes(document)
    hosts = _with_slots(hosts, wanted)
    try:
        return tuple(hosts), place(wanted, hosts)
    except NoSlots as error:
        who = f"task {error.task!r}: " if error.task else ""
        more = max(hosts[0].slots + 1, -(-_ranks(wanted) // len(hosts)))
        raise ResourceError(
            f"{document.path}: {who}{error}; take more hosts, or give them more slots, such as "
            f"--hosts {hosts[0].name}:{more}"
        ) from error
    except Misplaced as error:
        raise WorkflowError([_problem(document, error)]) from error


def _with_slots(hosts: Sequence[Host], wanted: Sequence[Wish]) -> Sequence[Host]:
    """Hosts of which only the names are known share the ranks evenly."""
    if any(host.slots == UNSPECIFIED for host in hosts):
        return evenly([host.name for host in hosts], _ranks(wanted))
    return hosts


def _ranks(wanted: Sequence[Wish]) -> int:
    return sum(wish.nprocs for wish in wanted)


def as_launched(plan: Plan, ranks: Sequence[tuple[str, Sequence[int]]]) -> Plan:
    """The plan of one MPI job, with its ranks where its launcher has put them.

    Args:
        ranks: of each host, its name and the ranks of the job that are there; in the order of their first ranks.

    Raises:
        ResourceError: a task has ranks on a host, then on another one, and then on the first again.
    """
    names = [name for name, _ in ranks]
    host_of = {rank: host for host, (_, here) in enumerate(ranks) for rank in here}
    tasks = []
    for task in plan.tasks:
        of = [host_of[rank] for rank in range(task.first_rank, task.first_rank + task.nprocs)]
        share = tuple((host, len(list(some))) for host, some in groupby(of))
        if len(share) > len(set(of)):
            first = " ".join(names[host] for host in of[:_SHOWN])
            raise ResourceError(
                f"{task.origin}: {task.name}: its ranks are dealt to hosts in turns ({first} ...); start the job so "
                "that consecutive ranks are on one host: `wilkins plan --hosts HOST:N,...` prints the line"
            )
        tasks.append(replace(task, share=share))
    return replace(plan, tasks=tuple(tasks), hosts=tuple(Host(name, len(here)) for name, here in ranks))


def _problem(document: Document, error: Misplaced) -> Problem:
    task = next(task for task in document.workflow.tasks if task.name == error.task)
    position: Position = task.where.of("placement")
    return Problem(position, f"{task.label}: {error}")


@dataclass(frozen=True, slots=True)
class Crossing:
    """The hosts at both ends of a channel."""

    writes: tuple[int, ...]
    """Hosts of the writer, by index."""
    reads: tuple[int, ...]
    """Hosts of the reader."""

    @property
    def local(self) -> bool:
        """Whether all steps stay in the shared memory of one host."""
        return self.writes == self.reads and len(self.writes) == 1

    @property
    def across(self) -> tuple[int, ...]:
        """Hosts of the reader to which steps come from another one."""
        return tuple(host for host in self.reads if self.writes != (host,))


def crossing(plan: Plan, channel: ChannelPlan) -> Crossing:
    """The hosts at both ends of a channel of a plan for several hosts."""
    return Crossing(_hosts(plan, channel.outport), _hosts(plan, channel.inport))


def _hosts(plan: Plan, port: int) -> tuple[int, ...]:
    return tuple(sorted({host for host, _ in plan.tasks[plan.ports[port].task].share}))
