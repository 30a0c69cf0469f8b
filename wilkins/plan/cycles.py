"""Cycles of tasks in which no in-port has `first:`. They work only if a task of each begins without a step."""

from __future__ import annotations

from wilkins.plan.plan import Plan


def without_first(plan: Plan) -> list[str]:
    """A note on each such cycle, at the place of the in-port that closes it; instances of one entry count once."""
    import networkx as nx

    waiting = [one for one in plan.channels if plan.ports[one.inport].first == "wait"]
    graph = nx.DiGraph((plan.ports[one.outport].task, plan.ports[one.inport].task) for one in waiting)
    cycle_of = {task: cycle for cycle in map(frozenset, nx.strongly_connected_components(graph)) for task in cycle}
    notes: dict[str, str] = {}
    known = set()
    for channel in waiting:
        port = plan.ports[channel.inport]
        cycle = cycle_of[port.task]
        if plan.ports[channel.outport].task in cycle and port.closes_cycle and cycle not in known:
            known.add(cycle)
            names = ", ".join(plan.tasks[task].name for task in sorted(cycle))
            notes.setdefault(
                port.origin,
                f"{port.origin}: note: the tasks {names} form a cycle, and no in-port of it has `first:`; that is "
                "right if one of them writes before it reads, or looks for its file and goes on without; else give "
                f"{port.called!r} of {plan.tasks[port.task].name} `first: missing` or `first: file` "
                "(`wilkins help graphs`)",
            )
    return list(notes.values())
