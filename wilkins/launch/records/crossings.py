"""What has crossed from one host to another in a run, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence

from wilkins.errors import count_of
from wilkins.terminal.tables import size, text_table
from wilkins.terminal.wording import listed
from wilkins.values import dataclass

_MOST_ROWS = 20
_MOST_READERS = 3


@dataclass(frozen=True, slots=True)
class Crossing:
    """What a relay has carried: the steps of an out-port, to those who read them on one other host."""

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
    """Bytes of them that have crossed: those that somebody there has read, or was expected to."""
    messages: int
    """For all this, in both directions; steps are among them."""


def table(crossings: Sequence[Crossing], all_in: str = "") -> str:
    """What crossed, the most bytes first; empty if nothing could. `all_in`: a file that has more than the table."""
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
    return f"{text}\n{more}{all_in and f': see {all_in}'}" if left else text


def _readers(one: Crossing) -> str:
    return listed(one.consumers) if len(one.consumers) <= _MOST_READERS else count_of(len(one.consumers), "task")
