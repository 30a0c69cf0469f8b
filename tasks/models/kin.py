"""How stored models are related: what two have in common, and who was derived from whom. Pure functions of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wilkins.tasks.models.graph import common
from wilkins.tasks.models.records import Parent, Record


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
    unchanged, common_there = set(same), set(pairs.values())
    theirs = {stored.blob for stored in other.tensors.values()}
    return Difference(
        same=same,
        changed=tuple(pair for pair in pairs.items() if pair not in unchanged),
        only_one=tuple(layer.name for layer in one.graph.layers if layer.name not in pairs),
        only_other=tuple(layer.name for layer in other.graph.layers if layer.name not in common_there),
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
    layers: int | None = None
    """How many it has; None: it has been removed, and its children still name it."""
    common: int | None = None
    """Layers that it has in common with its parent; None: it has none, or that was removed."""
    score: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    """What a family is made of: of 10,000 models, a hundredth of their records."""

    seal: str
    parent: Parent | None
    time: float
    hashes: frozenset[bytes]
    score: float | None
    tags: tuple[str, ...]


def family(records: Iterable[Record], of: Sequence[str] = ()) -> list[Member]:
    """Models with their parents, each after its parent, siblings by when they were put.

    Args:
        records: all models.
        of: only these, their ancestors and their descendants; empty: all.
    """
    every = {record.name: _known(record) for record in records}
    parents = {name: _parent(one, every) for name, one in every.items()}
    removed = {name for name in parents.values() if name and name not in every}
    children: dict[str, list[str]] = {}
    for name in sorted(every, key=lambda name: (every[name].time, name)):
        children.setdefault(parents[name], []).append(name)
    kept = _relatives(of, parents, children) if of else {*every, *removed}
    found: list[Member] = []
    waiting = [*reversed(children.get("", [])), *sorted(removed, reverse=True)]
    while waiting:
        name = waiting.pop()
        waiting += reversed(children.get(name, []))
        if name not in kept:
            continue
        one, parent = every.get(name), parents.get(name, "")
        if one is None:
            found.append(Member(name, parent))
            continue
        shared = len(one.hashes & every[parent].hashes) if parent in every else None
        found.append(Member(name, parent, len(one.hashes), shared, one.score, one.tags))
    return found


def _known(record: Record) -> _Known:
    hashes = frozenset(bytes.fromhex(one) for one in record.graph.hashes().values())
    return _Known(record.seal, record.parent, record.time, hashes, record.score, record.tags)


def _parent(one: _Known, every: Mapping[str, _Known]) -> str:
    """The name of a model's parent; with a mark if that was removed and another model has the name now."""
    if one.parent is None:
        return ""
    there = every.get(one.parent.name)
    if there is None or there.seal == one.parent.sha256:
        return one.parent.name
    return f"{one.parent.name} (before)"


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
