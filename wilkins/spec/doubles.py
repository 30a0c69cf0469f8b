"""Joins entries of a task's ports that name the same file, each with datasets of its own: they are one port."""

from __future__ import annotations

from typing import TypeVar

from wilkins.flow.policy import FlowPolicy
from wilkins.schema.reading import Reader, Where, key_of, keys_of
from wilkins.spec.workflow import Dset, InPort, Port, Task
from wilkins.values import replace

P = TypeVar("P", bound=Port)

_POLICY = ("flow", "io_freq")
_JOINED = ("filename", "dsets", *_POLICY)
"""Keys that are not simply the same in both entries, or in one of them."""


def joined(reader: Reader, task: Task) -> Task:
    """The task with one port for each file name, and a note for each that was joined; contradictions are reported."""
    return replace(
        task,
        inports=_ports(reader, f"{task.label}, inport", task.inports),
        outports=_ports(reader, f"{task.label}, outport", task.outports),
    )


def _ports(reader: Reader, context: str, ports: tuple[P, ...]) -> tuple[P, ...]:
    found: dict[tuple[str, ...], P] = {}
    for port in ports:
        first = found.get(port.names)
        found[port.names] = _join(reader, f"{context} {port.filename!r}", first, port) if first else port
    return tuple(found.values())


def _join(reader: Reader, who: str, first: P, port: P) -> P:
    here, there = port.where.of("filename"), first.where.of("filename")
    reader.note(here, f"{who}: is listed at {there}, too; the entries are one port with the datasets of both")
    entries = ((first, there), (port, here))
    values = {}
    for item in keys_of(type(port)):
        name, key = item.name, key_of(item)
        if name in _JOINED or key not in port.where:
            continue
        values[name] = getattr(port, name)
        if key in first.where and values[name] != getattr(first, name):
            reader.problem(
                port.where.of(key),
                f"{who}: {key!r} differs from that at {first.where.of(key)}, in another entry of the same file; the "
                "entries are one port: give both the same, or keep one",
            )
    if isinstance(first, InPort) and isinstance(port, InPort) and _policy(first) != _policy(port):
        places = [next((one.where.of(key) for key in _POLICY if key in one.where), at) for one, at in entries]
        reader.problem(
            places[1],
            f"{who}: it takes other steps than at {places[0]}, in another entry of the same file ('flow' or 'io_freq'; "
            "all without), but a step holds all datasets of its file: give both the same",
        )
    where = Where(first.where.position, {**port.where.keys, **first.where.keys})
    return replace(first, **values, dsets=_dsets(first, port), where=where)


def _policy(port: InPort) -> FlowPolicy:
    return (port.flow or port.io_freq or (FlowPolicy(),))[0]


def _dsets(first: Port, port: Port) -> tuple[Dset, ...]:
    """The datasets of both ports, each once; an entry without any is for all."""
    if not first.dsets and not port.dsets:
        return ()
    found: dict[tuple[object, ...], Dset] = {}
    for one in (first, port):
        for dset in one.dsets or (Dset(name="*", where=one.where),):
            found.setdefault(tuple(getattr(dset, item.name) for item in keys_of(Dset)), dset)
    return tuple(found.values())
