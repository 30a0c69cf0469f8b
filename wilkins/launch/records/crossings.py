"""The transfers between the hosts of a run, and their table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wilkins.errors import count_of
from wilkins.terminal.tables import size, text_table
from wilkins.terminal.wording import listed
from wilkins.values import dataclass

_MOST_ROWS = 20
_MOST_READERS = 3


@dataclass(frozen=True, slots=True)
class Crossing:
    """The transfers of a relay: the steps of an out-port, to their readers on one other host."""

    producer: str
    consumers: tuple[str, ...]
    files: str
    """The out-port's pattern."""
    writes: str
    """The producer's host."""
    reads: str
    """The consumers' host."""
    steps: int
    bytes: int
    """Of these steps."""
    moved: int
    """Bytes of them that were sent: those that a reader has read, or was expected to read."""
    messages: int
    """Messages in both directions, those of the steps included."""
    compressed: int = 0
    """Bytes of the steps that were compressed on the way,"""
    compressed_to: int = 0
    """what they took there,"""
    compressed_steps: int = 0
    """and of how many steps they were."""
    largest_error: float = 0.0
    """The largest difference that this has made to an element,"""
    part_of_bound: float = 0.0
    """and the largest part of its bound that a difference was."""
    compression_s: float = 0.0
    """Seconds of CPU time that it has taken, on both hosts."""
    unfit: tuple[str, ...] = ()
    """The `dset` of entries of `compress` that have fitted nothing in the steps that crossed."""
    fabric: str = ""
    """By what bytes crossed: ``tcp`` or ``ucx``; empty: the hosts have not met."""
    fabric_reason: str = ""
    """Why, in words; of ``ucx``, its version and transports."""


def unfit(crossings: Sequence[Crossing]) -> list[str]:
    """Messages on entries of `compress` that have fitted nothing in what went to any host."""
    ports: dict[tuple[str, str], list[Crossing]] = {}
    for one in crossings:
        if one.steps:
            ports.setdefault((one.producer, one.files), []).append(one)
    return [
        f"{producer}: 'compress' of {files!r}: no dataset that can be compressed fits {dset!r}, or an earlier entry "
        "fits it (`wilkins help compression`)"
        for (producer, files), some in ports.items()
        for dset in some[0].unfit
        if all(dset in one.unfit for one in some)
    ]


def table(crossings: Sequence[Crossing], all_in: str = "") -> str:
    """The table of transfers, the most bytes first; empty if there are none. `all_in`: the file with all of them."""
    ordered = sorted((one for one in crossings if one.steps), key=lambda one: -one.moved)
    if not ordered:
        return ""
    rows = [
        [
            f"{one.producer} -> {_readers(one)}",
            one.files,
            f"{one.writes} -> {one.reads}",
            *(str(count) for count in (one.steps, size(one.bytes), size(one.moved), one.messages)),
        ]
        for one in ordered[:_MOST_ROWS]
    ]
    text = text_table(["over the network", "files", "hosts", "steps", "bytes", "moved", "messages"], rows, {0, 1, 2})
    left = ordered[_MOST_ROWS:]
    more = f"... and {count_of(len(left), 'more crossing')} with {size(sum(one.moved for one in left))}"
    text = "\n".join([text, *_by_ucx(ordered), *(said for one in ordered[:_MOST_ROWS] if (said := _compressed(one)))])
    return f"{text}\n{more}{all_in and f': see {all_in}'}" if left else text


def _by_ucx(crossings: Sequence[Crossing]) -> list[str]:
    """Which crossings have gone by UCX, where some have."""
    some = [one for one in crossings if one.fabric == "ucx"]
    how = listed(sorted({one.fabric_reason for one in some}))
    return [f"bytes by {how}: {len(some)} of {count_of(len(crossings), 'crossing')}"] if some else []


def _compressed(one: Crossing) -> str:
    """What compression has done; empty: nothing."""
    if not one.compressed:
        return ""
    some = one.compressed_steps < one.steps
    steps = f"{one.compressed_steps} of {count_of(one.steps, 'step')} crossed compressed: " if some else ""
    return (
        f"{one.producer} -> {_readers(one)}: {steps}{size(one.compressed)} crossed as {size(one.compressed_to)}, "
        f"{one.compressed / one.compressed_to:.1f} times smaller; largest error {one.largest_error:.3g}{_of_bound(one)}"
        f"; {one.compression_s:.1f} s of CPU time"
    )


def _of_bound(one: Crossing) -> str:
    return f", none above {percent_of_bound(one.part_of_bound)} of its bound" if one.part_of_bound else ""


def percent_of_bound(part: float) -> str:
    """The largest part of its bound that an error is, rounded up."""
    return f"{math.ceil(1000 * part) / 10:g} %"


def _readers(one: Crossing) -> str:
    return listed(one.consumers) if len(one.consumers) <= _MOST_READERS else count_of(len(one.consumers), "task")
