"""Restoring for those that write nothing, such as an evaluation beside the training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wilkins.tasks.checkpoint.engine import restore as engine
from wilkins.tasks.checkpoint.engine.restore import Restored
from wilkins.tasks.checkpoint.ranks import make_ranks


def restore(
    folder: str | os.PathLike[str],
    state: Any = None,
    *,
    ranks: Any = None,
    step: int | None = None,
    only: Sequence[str] | None = None,
    allow_missing: Sequence[str] = (),
) -> Restored | None:
    """What `Checkpointer.restore` gives, without a right to write, while another job may save there. Collective.

    Versions in a job's memory are not seen. The version that is read is not pruned meanwhile.

    Args:
        folder: where the versions are.
        state: arrays, tensors and shards to be filled in place; left out: new ones in main memory.
        ranks: None for one process, an mpi4py communicator, or `torch` for torch.distributed's default group.
        step: this version and no other.
        only: patterns of paths; all else is left out.
        allow_missing: patterns of paths of arrays that only `state` or only the version may hold.

    Returns:
        The newest version that verifies on all ranks, or that of a step; None if there is none.

    Raises:
        CheckpointError: there are versions and none verifies; there is none of that step; the state does not fit.
    """
    return engine.restore(
        [Path(folder).absolute()], make_ranks(ranks), state, step=step, only=only, allow_missing=allow_missing
    )
