"""Shows on which hosts a plan's ranks run, and which channels cross from one to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from wilkins.errors import count_of
from wilkins.flow.relays import FEW_HOSTS
from wilkins.plan.placing import Crossing, crossing
from wilkins.plan.plan import ChannelPlan, Plan, TaskPlan
from wilkins.plan.relayrules import Relay, trees_of
from wilkins.terminal.tables import size, text_table

_MOST_WAYS = 3
_MOST_SENDERS = 8
_MOST_RANKS = 64


def hosts_table(plan: Plan) -> str:
    """Each host with its ranks by task; neighbours that have the same share a line."""
    ranks: list[dict[str, list[int]]] = [{} for _ in plan.hosts]
    for task in plan.tasks:
        name = _entry(task)
        for host, count in task.share:
            ranks[host].setdefault(name, []).append(count)
    lines = [(host.slots, _ranks(found)) for host, found in zip(plan.hosts, ranks, strict=True)]
    rows, first = [], 0
    for (slots, text), same in groupby(lines):
        count = len(list(same))
        names = [host.name for host in plan.hosts[first : first + count]]
        who = names[0] if count == 1 else f"{names[0]} .. {names[-1]} ({count} hosts)"
        rows.append((who, str(slots), text))
        first += count
    return text_table(("host", "slots", "ranks"), rows)


def _ranks(found: dict[str, list[int]]) -> str:
    parts = [
        f"{name} {sum(counts)}" + (f" ({count_of(len(counts), 'instance')})" if len(counts) > 1 else "")
        for name, counts in found.items()
    ]
    return ", ".join(parts) or "-"


def ways_table(
    plan: Plan,
    groups: Sequence[Sequence[ChannelPlan]],
    between: Callable[[Plan, Sequence[ChannelPlan]], str],
    sizes: Mapping[str, int],
) -> str:
    """How the steps of channels get to their readers; channels between instances of the same tasks share a line.

    Args:
        sizes: bytes of a step, by entry of the workflow file, where they are known.
    """
    trees = trees_of(plan) if len(plan.hosts) > FEW_HOSTS else {}
    rows = [(between(plan, group), "; ".join(_ways(plan, group, sizes, trees))) for group in groups]
    return text_table(("channel", "its steps go"), rows)


def _ways(
    plan: Plan, group: Sequence[ChannelPlan], sizes: Mapping[str, int], trees: Mapping[int, Sequence[Relay]]
) -> Iterator[str]:
    found = [crossing(plan, channel) for channel in group]
    local = sum(way.local for way in found)
    if local:
        yield "through shared memory" + (f" ({local} of {len(found)} channels)" if local < len(found) else "")
    across = list(dict.fromkeys(way for way in found if not way.local))
    if across and any(channel.outport in trees for channel in group):
        outports = dict.fromkeys(channel.outport for channel in group)
        tree = _tree(plan, [one for outport in outports for one in trees.get(outport, ())])
        yield f"over the network: {tree}{_bytes(plan, group, sizes)}"
    elif across:
        shown = ", ".join(_way(plan, way) for way in across[:_MOST_WAYS])
        more = f" and {len(across) - _MOST_WAYS} more ways" if len(across) > _MOST_WAYS else ""
        ports = [port for channel in group if (port := plan.ports[channel.outport]).compress]
        packed = ", compressed" if ports else ""
        packed += " where that is faster" if ports and all(port.compress_when == "faster" for port in ports) else ""
        yield f"over the network: {shown}{more}{_bytes(plan, group, sizes)}{packed}"


def _tree(plan: Plan, relays: Sequence[Relay]) -> str:
    """Which hosts send steps, and to which others, each to all at once."""
    to: dict[int, dict[str, None]] = {}
    for relay in relays:
        to.setdefault(relay.writes, {})[plan.hosts[relay.reads].name] = None
    shown = [f"{plan.hosts[host].name} -> {' and '.join(names)}" for host, names in list(to.items())[:_MOST_SENDERS]]
    more = f" and {count_of(len(to) - _MOST_SENDERS, 'more host')} that hand them on" if len(to) > _MOST_SENDERS else ""
    return f"{', '.join(shown)}{more}"


def _bytes(plan: Plan, group: Sequence[ChannelPlan], sizes: Mapping[str, int]) -> str:
    """What crosses when each producer has made a step: once to each other host that reads it."""
    ways = {(channel.outport, host) for channel in group for host in crossing(plan, channel).across}
    of_step = sizes.get(_entry(plan.tasks[plan.ports[group[0].outport].task]))
    if not of_step:
        return ""
    return f", {size(of_step)} a step" if len(ways) == 1 else f", {len(ways)} x {size(of_step)} a step"


def job_lines(plan: Plan) -> str:
    """What starts the plan as one MPI job, each rank on its host; empty if that is refused, or too long for a line.

    Open MPI's `mpirun` puts ranks in the order of hosts only if hosts are listed one by one, and so does `srun`.
    """
    runs = [(host, sum(count for _, count in some)) for host, some in groupby(_shares(plan), lambda share: share[0])]
    if plan.total_ranks > _MOST_RANKS or any(map(refused_in_job, plan.tasks)):
        return ""
    counted = ",".join(f"{plan.hosts[host].name}:{count}" for host, count in runs)
    each = ",".join(plan.hosts[host].name for host, count in runs for _ in range(count))
    starts = (
        ("MPICH", f"mpiexec --host {counted} -n {plan.total_ranks}"),
        ("Open MPI", f"mpirun --map-by seq --host {each} -n {plan.total_ranks}"),
        ("Slurm", f"srun -K1 -m arbitrary -w {each} -n {plan.total_ranks}"),
    )
    return "\n".join(f"one job, by {what}: {words} wilkins run {plan.shown}" for what, words in starts)


def refused_in_job(task: TaskPlan) -> bool:
    """Whether its ranks would be ranks of the job, which cannot be started again or later than others, and must not
    fail."""
    apart = task.nprocs == 1 or any("{filename}" in word for word in task.args)
    return not apart and bool(task.retries or task.after or task.spares or task.is_elastic)


def _shares(plan: Plan) -> Iterator[tuple[int, int]]:
    """Hosts and numbers of ranks there, in the order of the job's ranks."""
    return (share for task in plan.tasks for share in task.share)


def _entry(task: TaskPlan) -> str:
    return task.name.partition("[")[0]


def _way(plan: Plan, way: Crossing) -> str:
    return f"{_named(plan, way.writes)} -> {_named(plan, way.reads)}"


def _named(plan: Plan, hosts: Sequence[int]) -> str:
    names = [plan.hosts[host].name for host in hosts]
    return "+".join(names) if len(names) < _MOST_WAYS else f"{names[0]} .. {names[-1]}"
