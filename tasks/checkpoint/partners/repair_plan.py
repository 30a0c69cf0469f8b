"""Plans which parts of a version to copy and which to decode, from the parts that nodes have. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wilkins.tasks.checkpoint.storage.erasure import spans
from wilkins.tasks.checkpoint.storage.node_parts import Code, CodedGroup, Sheet


@dataclass(frozen=True, slots=True)
class Holder:
    """A node of this job that has a part of a version."""

    node: int
    """The node's number in this job."""
    was: int
    """The number of the node whose part it has, in the job that wrote it; -1: it has all of it."""
    bad: frozenset[tuple[int, int]] = frozenset()
    """Pieces that are not what was written: chunk (parity chunks behind the data), and piece."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """A piece of a stripe that has to be made again."""

    group: CodedGroup
    stripe: int
    piece: int
    sources: tuple[tuple[int, int], ...]
    """k fragments: number in the stripe, and the node of this job that has it."""
    decoder: int
    """The node of this job that makes it."""
    lost: tuple[tuple[int, int], ...]
    """What is made: chunk, and the node it was on in the job that wrote it."""


@dataclass(frozen=True, slots=True)
class Copying:
    """Undamaged pieces of a damaged part."""

    node: int
    was: int
    pieces: tuple[tuple[int, int], ...]
    """Chunk and piece."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done to bring a version to storage."""

    streams: Mapping[int, int]
    """Which node of this job copies a rank's whole stream."""
    copies: tuple[Copying, ...]
    decodings: tuple[Decoding, ...]


def work_for(sheet: Sheet | None, ranks: int, holders: Sequence[Holder]) -> Work | str:
    """What brings a version to storage, or why nothing does. Pure: all ranks come to the same.

    Args:
        sheet: any node's; None if one has all of it.
        ranks: how many wrote it.
        holders: the nodes of this job that have a part of it.
    """
    if sheet is None:
        return Work(dict.fromkeys(range(ranks), holders[0].node), (), ())
    by_node = {one.was: one for one in reversed(holders)}
    streams: dict[int, int] = {}
    copies: list[Copying] = []
    decodings: list[Decoding] = []
    broken: list[int] = []
    for number, node in enumerate(sheet.nodes):
        found, data = by_node.get(number), _data_chunks(sheet, number)
        if found is not None and not any(chunk < data for chunk, _ in found.bad):
            streams |= dict.fromkeys(node.ranks, found.node)
        else:
            broken.append(number)
    if broken and sheet.code is None:
        names = ", ".join(sheet.nodes[one].name for one in broken)
        return f"it was in the memory of {names}, which is gone, and has no parity"
    if sheet.code is None:
        return Work(streams, (), ())
    for group in sheet.code.groups:
        wanted = [one for one in group.nodes if one in broken]
        if not wanted:
            continue
        made = _decodings(sheet, sheet.code, group, by_node)
        if isinstance(made, str):
            return made
        decodings += made
        pieces = range(len(spans(group.chunk, sheet.code.piece)))
        for number in wanted:
            if found := by_node.get(number):
                good = [
                    (chunk, piece)
                    for chunk in range(_data_chunks(sheet, number))
                    for piece in pieces
                    if (chunk, piece) not in found.bad
                ]
                copies.append(Copying(found.node, number, tuple(good)))
    return Work(streams, tuple(copies), tuple(decodings))


def _data_chunks(sheet: Sheet, node: int) -> int:
    return 0 if sheet.code is None else sheet.code.stripes(sheet.code.group_of(node)).data


def _decodings(sheet: Sheet, code: Code, group: CodedGroup, by_node: Mapping[int, Holder]) -> list[Decoding] | str:
    stripes, found = code.stripes(group), []
    for piece in range(len(spans(group.chunk, code.piece))):
        for stripe in range(stripes.size):
            there, lost = [], []
            for fragment in range(stripes.size):
                number = group.nodes[stripes.member_with(stripe, fragment)]
                holder = by_node.get(number)
                chunk = fragment  # parity chunks count on behind the data of their holder
                if fragment >= stripes.data:
                    chunk = stripes.data + stripes.part_of(fragment)
                if holder is not None and (chunk, piece) not in holder.bad:
                    there.append((fragment, holder.node))
                elif fragment < stripes.data:
                    lost.append((fragment, number))
            if not lost:
                continue
            if len(there) < stripes.data:
                return _too_much(sheet, group, by_node, code.parity)
            sources = tuple(there[: stripes.data])
            decoder = sources[(stripe + piece) % len(sources)][1]
            found.append(Decoding(group, stripe, piece, sources, decoder, tuple(lost)))
    return found


def _too_much(sheet: Sheet, group: CodedGroup, by_node: Mapping[int, Holder], parity: int) -> str:
    gone = [sheet.nodes[one].name for one in group.nodes if one not in by_node]
    damaged = [sheet.nodes[one].name for one in group.nodes if one in by_node and by_node[one].bad]
    what = [f"the memory of {', '.join(gone)} is gone"] if gone else []
    what += [f"that of {', '.join(damaged)} is damaged"] if damaged else []
    names = ", ".join(sheet.nodes[one].name for one in group.nodes)
    return f"{' and '.join(what)}; of the {len(group.nodes)} nodes {names} any {parity} may be lost, not more"
