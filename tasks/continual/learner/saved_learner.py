"""Saves a learner with its rehearsal buffer, so that a trainer that was killed goes on as if nothing had happened.

A save is a version of a checkpoint. Each rank holds in it what is its own; rank 0 holds what all ranks share, as it is
there: batch statistics of other ranks differ, and are not kept. All ranks see the same folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from wilkins.tasks.checkpoint.engine.restore import read_rank
from wilkins.tasks.checkpoint.engine.synchronous import newest_manifest, restore_newest, save_synchronously
from wilkins.tasks.checkpoint.ranks import together
from wilkins.tasks.continual.errors import CheckpointError
from wilkins.tasks.continual.learner.strategy import Strategy
from wilkins.tasks.continual.learner.world import group_of_ranks
from wilkins.tasks.continual.rehearsal.buffer import RehearsalBuffer

KEPT = 2
"""How many saves stay, the newest ones."""
_OWN = ("own", "buffer", "extra")
"""What each rank has for itself."""


class Saved(Protocol):
    """What is saved of a `Learner`."""

    @property
    def steps(self) -> int:
        """Optimiser steps that it has made."""

    @property
    def strategy(self) -> Strategy:
        """Has the rehearsal buffer."""

    def state_dict(self) -> dict[str, Any]:
        """See `Learner.state_dict`."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Learner.load_state_dict`."""


def save(learner: Saved, folder: str | PathLike[str], extra: Mapping[str, Any], keep: int = KEPT) -> None:
    """See `Learner.save`."""
    ranks = group_of_ranks()
    buffer = learner.strategy.buffer if learner.steps else None
    kept = buffer.state_dict() if buffer else None
    state = {**learner.state_dict(), "buffer": kept, "extra": dict(extra)}
    if ranks.rank:
        state = {name: state[name] for name in _OWN}
    save_synchronously(Path(folder), ranks, learner.steps, state, keep)


def file_of_newest(folder: str | PathLike[str]) -> Path:
    """The file that is there as long as the newest save is."""
    return newest_manifest(Path(folder))


def load(learner: Saved, folder: str | PathLike[str], only: int | None = None) -> dict[str, Any] | None:
    """See `Learner.load`."""
    folder, ranks = Path(folder), group_of_ranks()
    if learner.steps:
        raise CheckpointError("a saved learner is loaded before its first step")
    restored = restore_newest(folder, ranks, only)
    if restored is None:
        return None
    state: dict[str, Any] = restored.state

    def fill() -> None:
        try:
            if ranks.rank:
                shared = [name for name in learner.state_dict() if name not in _OWN]
                state.update(read_rank(restored.path, 0, shared) | state)
            learner.load_state_dict(state)
            if state["buffer"] is not None:
                _buffer_of(learner.strategy).load_state_dict(state["buffer"])
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"cannot restore a learner from {restored.path}: {error}") from error

    together(ranks, fill, str)
    extra: dict[str, Any] = state["extra"]
    return extra


def newest_extra(folder: str | PathLike[str]) -> dict[str, Any] | None:
    """What came with the newest save in a folder, for this rank; None: there is none. Collective."""
    restored = restore_newest(Path(folder), group_of_ranks(), None, only=["extra/*"])
    found: dict[str, Any] | None = restored.state["extra"] if restored else None
    return found


def _buffer_of(strategy: Strategy) -> RehearsalBuffer:
    if strategy.buffer is None:
        raise CheckpointError(f"it was saved with a rehearsal buffer, which the strategy {strategy.name!r} has not")
    return strategy.buffer
