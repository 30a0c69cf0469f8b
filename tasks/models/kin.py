"""How stored models are related: what two have in common, and who was derived from whom. Pure functions of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wilkins.tasks.models.graph import common
from wilkins.tasks.models.records import Record


@dataclass(frozen=True, slots=True)
class Difference:
    """What one model has of another one."""

    same: tuple[tuple[str, str], ...]
    """Layers that both have with all before them, and with the same values: their names in the one and the other."""
    changed: tuple[tuple[str, str], ...]
    """The same with other values."""
    only_one: tuple[str, ...]
    only_other: tuple[str, ...]
    shared_bytes: int
    """Bytes of tensors that both have."""


def difference(one: Record, other: Record) -> Difference:
    """Compare two models."""
    pairs = common(one.graph, other.graph)
    blobs = [{layer.name: _blobs(record, layer.tensors) for layer in record.graph.layers} for record in (one, other)]
    same = tuple((mine, its) for mine, its in pairs.items() if blobs[0][mine] == blobs[1][its])
    theirs = {stored.blob for stored in other.tensors.values()}
    return Difference(
        same=same,
        changed=tuple(pair for pair in pairs.items() if pair not in same),
        only_one=tuple(layer.name for layer in one.graph.layers if layer.name not in pairs),
        only_other=tuple(layer.name for layer in other.graph.layers if layer.name not in pairs.values()),
        shared_bytes=sum(stored.nbytes for stored in one.tensors.values() if stored.blob in theirs),
    )


def _blobs(record: Record, tensors: Mapping[str, str]) -> dict[str, str]:
    return {role: record.tensors[name].blob for role, name in tensors.items()}


@dataclass(frozen=True, slots=True)
class Member:
    """A model in its family."""

    name: str
    parent: str
    """The name of its parent; empty: it has none."""
    record: Record | None
    """None: it has been removed; its children still name it."""
    common: int | None
    """Layers that it has in common with its parent; None: it has none, or that was removed."""


def family(records: Iterable[Record], of: Sequence[str] = ()) -> list[Member]:
    """Models with their parents, each after its parent, siblings by when they were put.

    Args:
        records: all models.
        of: only these, their ancestors and their descendants; empty: all.
    """
    every = {record.name: record for record in records}
    parents = {record.name: _parent(record, every) for record in every.values()}
    removed = {key: None for key in parents.values() if key and key not in every}
    order = sorted(every, key=lambda name: (every[name].time, name))
    children: dict[str, list[str]] = {}
    for name in order:
        children.setdefault(parents[name], []).append(name)
    kept = _relatives(of, parents, children) if of else {*every, *removed}
    found: list[Member] = []
    waiting = [*reversed(children.get("", [])), *sorted(removed, reverse=True)]
    while waiting:
        name = waiting.pop()
        waiting += reversed(children.get(name, []))
        if name not in kept:
            continue
        record, parent = every.get(name), parents.get(name, "")
        origin = every.get(parent)
        count = len(common(record.graph, origin.graph)) if record and origin else None
        found.append(Member(name, parent, record, count))
    return found


def _parent(record: Record, every: Mapping[str, Record]) -> str:
    """The name of a model's parent; with a mark if that was removed and another model has the name now."""
    if record.parent is None:
        return ""
    there = every.get(record.parent.name)
    if there is None or there.seal == record.parent.sha256:
        return record.parent.name
    return f"{record.parent.name} (before)"


def _relatives(of: Sequence[str], parents: Mapping[str, str], children: Mapping[str, Sequence[str]]) -> set[str]:
    found = set()
    for name in of:
        above: str | None = name
        while above and above not in found:
            found.add(above)
            above = parents.get(above)
        below = list(children.get(name, []))
        while below:
            one = below.pop()
            found.add(one)
            below += children.get(one, [])
    return found
