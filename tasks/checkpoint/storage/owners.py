"""Whose bytes are damaged in what was cut out of a version's row: arrays of which ranks, indices, or parity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from wilkins.tasks.checkpoint.errors import Damaged
from wilkins.tasks.checkpoint.storage.contents import keys_in, listed
from wilkins.tasks.checkpoint.storage.rows import Row
from wilkins.tasks.checkpoint.storage.versions import Manifest


def owners(
    manifest: Manifest, row: Row, ranges: Iterable[tuple[int, int]], index: Callable[[int], bytes], folder: Path
) -> str:
    """Whose the bytes in some ranges of a row are, in words; empty if they are nobody's.

    Args:
        index: gives that of a rank, or raises `Damaged` or an `OSError`.
        folder: of the version, for messages.
    """
    of_streams: dict[int, list[tuple[int, int]]] = defaultdict(list)
    of_indices = False
    for begin, end in ranges:
        for share in row.shares(begin, end):
            of_indices = of_indices or share.is_index
            if not share.is_index:
                of_streams[share.rank].append((share.begin, share.end))
    keys: dict[str, None] = {}
    unknown: list[str] = []
    for rank, some in sorted(of_streams.items()):
        found = _keys(manifest, rank, some, index, folder)
        keys |= dict.fromkeys(found or ())
        unknown += [] if found is not None else [f"rank {rank}"]
    told = [listed(list(keys))] if keys else []
    told += [f"arrays of {listed(unknown)}"] if unknown else []
    return " and ".join([*told, *(["an index"] if of_indices else [])])


def _keys(
    manifest: Manifest, rank: int, ranges: Sequence[tuple[int, int]], index: Callable[[int], bytes], folder: Path
) -> list[str] | None:
    """The arrays of a rank; None: its index cannot be had."""
    try:
        return keys_in(index(rank), folder, manifest, rank, ranges)
    except (Damaged, OSError):
        return None
