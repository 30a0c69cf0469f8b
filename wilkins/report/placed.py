"""Shows on which hosts a plan's ranks run, and which channels cross from one to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from wilkins.errors import count_of
from wilkins.plan.placing import Crossing, crossing
from wilkins.plan.plan import ChannelPlan, Plan
from wilkins.terminal.tables import text_table

_MOST_WAYS = 3


def hosts_table(plan: Plan) -> str:
    """Each host with its ranks by task; neighbours that have the same share a line."""
    ranks: list[dict[str, list[int]]] = [{} for _ in plan.hosts]
    for task in plan.tasks:
        name = task.name.partition("[")[0]
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
    plan: Plan, groups: Sequence[Sequence[ChannelPlan]], between: Callable[[Plan, Sequence[ChannelPlan]], str]
) -> str:
    """How the steps of channels get to their readers; channels between instances of the same tasks share a line."""
    rows = [(between(plan, group), "; ".join(_ways(plan, group))) for group in groups]
    return text_table(("channel", "its steps go"), rows)


def _ways(plan: Plan, group: Sequence[ChannelPlan]) -> Iterator[str]:
    found = [crossing(plan, channel) for channel in group]
    local = sum(way.local for way in found)
    if local:
        yield "through shared memory" + (f" ({local} of {len(found)} channels)" if local < len(found) else "")
    across = list(dict.fromkeys(way for way in found if not way.local))
    if across:
        shown = ", ".join(_way(plan, way) for way in across[:_MOST_WAYS])
        more = f" and {len(across) - _MOST_WAYS} more ways" if len(across) > _MOST_WAYS else ""
        yield f"over the network: {shown}{more}"


def _way(plan: Plan, way: Crossing) -> str:
    return f"{_named(plan, way.writes)} -> {_named(plan, way.reads)}"


def _named(plan: Plan, hosts: Sequence[int]) -> str:
    names = [plan.hosts[host].name for host in hosts]
    return "+".join(names) if len(names) < _MOST_WAYS else f"{names[0]} .. {names[-1]}"
