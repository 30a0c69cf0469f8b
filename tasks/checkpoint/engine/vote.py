"""The vote: whether all ranks hold the same replicas, and if not, which rank is alone with its values. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""What batch normalisation keeps."""


class Dissent(NamedTuple):
    """A block of replicated arrays whose bytes are not the same on all ranks."""

    owner: int
    """The rank that writes it."""
    block: int
    """Which one of its share."""
    ranks: tuple[int, ...]
    """Ranks that differ from the majority; empty if there is no majority."""


def compare(votes: Sequence[Sequence[Sequence[int]]]) -> list[Dissent]:
    """Compare the digests that every rank has made: `votes[rank][owner][block]`."""
    found = []
    for owner, blocks in enumerate(votes[0]):
        for block in range(len(blocks)):
            values = [vote[owner][block] for vote in votes]
            (value, count), *others = Counter(values).most_common()
            if others:
                clear = 2 * count > len(values)
                ranks = tuple(rank for rank, one in enumerate(values) if one != value) if clear else ()
                found.append(Dissent(owner, block, ranks))
    return found


def explain(dissents: Sequence[Dissent], keys: Sequence[str]) -> str:
    """The message for the user; `keys` are the arrays that the blocks hold."""
    ranks = sorted({rank for one in dissents for rank in one.ranks})
    if ranks and all(one.ranks for one in dissents):
        names = ", ".join(map(str, ranks))
        who = (
            f"rank {names} differs from the majority" if len(ranks) == 1 else f"ranks {names} differ from the majority"
        )
    else:
        who = "no majority agrees, so the wrong rank cannot be named"
    statistics = [key for key in keys if key.rpartition("/")[2].rpartition(".")[2] in _STATISTICS]
    keys = [*statistics, *(key for key in keys if key not in statistics)]
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    if statistics:
        more += ", of which running statistics are each rank's own unless they are averaged"
    return (
        f"the replicas of the state are not the same on all ranks: {who}, in or next to {', '.join(keys[:3])}{more}; "
        "bytes were corrupted, or the ranks were not trained alike. Restore the last version; if these are meant to "
        "differ, do not name them in replicated="
    )
