"""Hosts and their network in the model of a workflow, and what the model says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from wilkins.errors import UsageError
from wilkins.flow.bounds import loads
from wilkins.flow.model import Model, ModelHost
from wilkins.flow.placement import Host
from wilkins.flow.timeline import Timeline
from wilkins.launch.records import crossings
from wilkins.launch.records.crossings import Crossing
from wilkins.plan.hosts import expanded
from wilkins.plan.placing import placed_tasks
from wilkins.report.packed import free_cores
from wilkins.schema.kinds import RATE, parse_duration, parse_rate
from wilkins.spec.load import Document
from wilkins.terminal.tables import text_table

T = TypeVar("T")
_MOST_LOADS = 8


def network(hosts: Sequence[Host], latency: Sequence[str], bandwidth: Sequence[str]) -> tuple[ModelHost, ...]:
    """The hosts with their network by the options: ``100us`` for all, ``node[0-3]=1ms`` for some; the last one counts.

    Raises:
        UsageError: an option has another form, or names hosts that are not there.
    """
    if not hosts and (latency or bandwidth):
        option = "--latency" if latency else "--bandwidth"
        raise UsageError(f"{option} is of the network between hosts; say which: --hosts node0:8,node1:8")
    names = [host.name for host in hosts]
    times = _said("--latency", "a time such as 50us or 0.2ms", latency, names, parse_duration, "50us")
    rates = _said("--bandwidth", RATE, bandwidth, names, parse_rate, "12GB/s")
    return tuple(ModelHost(name=name, latency=times.get(name, 0.0), bandwidth=rates.get(name)) for name in names)


def _said(
    option: str, meaning: str, words: Sequence[str], names: Sequence[str], parse: Callable[[str], T], example: str
) -> dict[str, T]:
    """The value of an option for each host."""
    known, found = set(names), dict[str, T]()
    for word in words:
        which, _, value = word.rpartition("=")
        some = expanded(which) if which else names
        if unknown := [name for name in some if name not in known]:
            raise UsageError(f"{option} {word}: there is no host {unknown[0]!r}; --hosts names those there are")
        try:
            found |= dict.fromkeys(some, parse(value))
        except ValueError:
            raise UsageError(f"{option} must be {meaning}, or HOST={example}, not {word!r}") from None
    return found


def on_hosts(model: Model, document: Document, hosts: Sequence[Host], joined: Sequence[ModelHost]) -> Model:
    """The model with each rank on its host, as `placement` says. Slots that no rank has are cores that pack.

    Raises:
        WorkflowError: a task asks for a host that is not there.
        ResourceError: the hosts have too few slots.
    """
    with_slots, shares = placed_tasks(document, hosts)
    tasks = [replace(task, share=share) for task, share in zip(model.tasks, shares, strict=True)]
    cores = free_cores(with_slots, shares)
    return replace(
        model,
        tasks=tuple(tasks),
        hosts=tuple(replace(host, cores=count) for host, count in zip(joined, cores, strict=True)),
    )


def traffic(timeline: Timeline, compressed: Sequence[str] = ()) -> str:
    """The transfers between hosts, sentences about those that are compressed, and what would bound the run."""
    crossed = [
        Crossing(
            producer=one.task,
            consumers=one.readers,
            files=one.pattern,
            writes=one.writes,
            reads=one.reads,
            steps=one.steps,
            bytes=one.bytes,
            moved=one.moved,
            messages=one.messages,
        )
        for one in timeline.crossings
    ]
    return "\n\n".join(text for text in (crossings.table(crossed), "\n".join(compressed), _bound(timeline)) if text)


def _bound(timeline: Timeline) -> str:
    found = loads(timeline)
    if not found:
        return ""
    rows = [
        (same[0].name + (f" and {len(same) - 1} alike" if len(same) > 1 else ""), f"{same[0].percent} %", same[0].why)
        for same in found[:_MOST_LOADS]
    ]
    table = text_table(("busiest", "of the time", "with"), rows)
    return f"{table}\nbound by: {rows[0][0]}"
