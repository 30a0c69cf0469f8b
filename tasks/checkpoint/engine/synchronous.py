"""Versions of programs that stop for them: saved when the call returns, and read rank by rank.

The newest versions of one course are kept: a program that goes back to an earlier step, or begins anew, gives up what
it saved from there on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wilkins.tasks.checkpoint.engine.checkpointer import Checkpointer
from wilkins.tasks.checkpoint.engine.flush import WRITERS
from wilkins.tasks.checkpoint.engine.restore import Restored, restore
from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.ranks import together
from wilkins.tasks.checkpoint.state.sources import source_of
from wilkins.tasks.checkpoint.state.tree import encode
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.files import cannot
from wilkins.tasks.checkpoint.storage.layout import BLOCK
from wilkins.tasks.group import Group

_LOG = logging.getLogger("wilkins.checkpoint")
_RING = (WRITERS + 2) * BLOCK
"""A block for each thread that writes or captures, the caller among these: more would only wait."""


def save_synchronously(folder: Path, ranks: Group, step: int, state: Any, keep: int) -> None:
    """Make the states of all ranks a version, which is on storage when this returns. Collective.

    Of the course that leads here, the newest `keep` versions stay: none of this step or a later one that was there.

    Raises:
        CheckpointError: a rank's state cannot be kept exactly, or it cannot be written; the same on all ranks.
    """
    stale: list[versions.Version] = []

    def prepare() -> None:
        # What a rank cannot save, all must hear of before they wait for it.
        encode(state, lambda key, value: source_of(key, value, replica=False))
        if ranks.rank == 0:
            stale.extend(one for one in versions.versions(folder) if one.step >= step)

    together(ranks, prepare, lambda error: cannot(error, folder))
    stay = keep + len(stale)
    with Checkpointer(folder, ranks=ranks, trusted=True, keep=stay, ring=_RING, niceness=0) as checkpointer:
        checkpointer.save(step, state)
        checkpointer.wait()
        if ranks.rank == 0:
            _give_up(folder, stale, keep)


def _give_up(folder: Path, stale: list[versions.Version], keep: int) -> None:
    """Remove versions of a course that was given up, and old ones. A failure is logged; the next save tries again."""
    try:
        for one in stale:
            if one.path.exists():
                versions.remove(versions.hide(one))
        versions.prune(folder, keep)
    except OSError as error:
        _LOG.warning("older checkpoints cannot be removed: %s", cannot(error, folder))


def restore_newest(
    folder: Path, ranks: Group, step: int | None = None, only: Sequence[str] | None = None
) -> Restored | None:
    """What each rank saved in the newest version, or in that of a step, under all paths or those of patterns; None if
    there is none. Collective.

    No older version stands in for one that does not verify: what was learned since would be lost unseen.

    Raises:
        CheckpointError: there is none of that step, it does not verify, or other ranks than these saved it.
    """
    restored = restore([folder], ranks, step=step, only=only, older=False)
    if restored is not None and restored.ranks != ranks.size:
        raise CheckpointError(
            f"{restored.path} was saved by another number of ranks than {ranks.size}: give it as many, {restored.ranks}"
        )
    return restored


def newest_manifest(folder: Path) -> Path:
    """The file that is there when the newest version is."""
    return (folder / versions.LATEST).resolve() / versions.MANIFEST
