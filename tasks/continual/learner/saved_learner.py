"""Saves a learner with its rehearsal buffer, so that a trainer that was killed goes on as if nothing had happened.

A save is a file per rank, `own-<k>-of-<n>.step-<s>.pt`, the buffer's files in `buffer/`, and last `learner.step-<s>.pt`
with what all ranks share, by rank 0. So a save is complete when the last one is there. Files are torch's; they are read
with `weights_only`, which runs no code. All ranks see the same folder.
"""

from __future__ import annotations

import contextlib
import pickle
import re
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import torch

from wilkins.atomic import replacing
from wilkins.tasks.continual.errors import CheckpointError
from wilkins.tasks.continual.learner.strategies import Strategy
from wilkins.tasks.continual.learner.world import gathered, rank_and_size

KEPT = 2
"""How many saves stay, the newest ones."""
_SHARED = re.compile(r"learner\.step-(\d+)\.pt")


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
    folder, step = Path(folder), learner.steps
    rank, ranks = rank_and_size()
    shared, mine = _shared(folder, step), _own(folder, rank, ranks, step)
    state = learner.state_dict()
    own = {"own": state.pop("own"), "extra": dict(extra)}

    def prepare() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # First what says that a save is complete, whose other files are about to go or to change: those that are not
        # kept beside this one, and those of an earlier course, from here on.
        there = _steps(folder) if rank == 0 else []
        stay = [one for one in there if one < step][1 - keep :] if keep > 1 else []
        for one in set(there) - set(stay):
            _shared(folder, one).unlink(missing_ok=True)

    _together(folder, prepare)
    state["buffer"] = learner.strategy.save(folder / "buffer", keep) if step else None
    _together(folder, lambda: _write(mine, own))
    _together(folder, lambda: _write(shared, state) if rank == 0 else None)
    _tidy(folder, step, keep)


def file_of(folder: str | PathLike[str], step: int) -> Path:
    """The file that is there when the save made after an optimiser step is complete."""
    return _shared(Path(folder), step)


def _tidy(folder: Path, step: int, keep: int) -> None:
    """Remove what belongs to no save that is kept: the newest ones up to this step, as rank 0 finds them."""
    rank, ranks = rank_and_size()
    there = [int(word) for word in gathered(" ".join(map(str, _steps(folder))))[0].split()]
    kept = [one for one in there if one <= step][-keep:]
    for one in set(there) - set(kept) if rank == 0 else ():
        _remove(_shared(folder, one))
    mine = {_own(folder, rank, ranks, one) for one in kept}
    for path in set(folder.glob(f"own-{rank}-of-*.step-*.pt")) - mine:
        _remove(path)
    for path in folder.glob(f".own-{rank}-of-*.step-*.part"):  # what a kill left half written
        _remove(path)
    for path in folder.glob(".learner.step-*.part") if rank == 0 else ():
        _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def load(learner: Saved, folder: str | PathLike[str], only: int | None = None) -> dict[str, Any] | None:
    """See `Learner.load`."""
    folder = Path(folder)
    if learner.steps:
        raise CheckpointError("a saved learner is loaded before its first step")
    rank, ranks = rank_and_size()
    there = _steps(folder)
    if only is not None and only not in there:
        raise CheckpointError(f"{folder} holds no save of optimiser step {only}, but of {there or 'none'}")
    newest = gathered(str(max(there, default=-1) if only is None else only))
    if len(set(newest)) > 1:
        raise CheckpointError(f"the ranks find different saves in {folder}: all must see the same folder")
    step = int(newest[0])
    if step < 0:
        return None
    found: dict[str, Any] = {}

    def read() -> None:
        mine = _own(folder, rank, ranks, step)
        if not mine.exists():
            raise ValueError(f"{mine.name} is missing: it was saved by another number of ranks than {ranks}")
        found.update(_read(_shared(folder, step)), **_read(mine))
        learner.load_state_dict(found)

    _together(folder, read)
    if found["buffer"] is not None:
        learner.strategy.load(folder / "buffer", found["buffer"])
    extra: dict[str, Any] = found["extra"]
    return extra


def _together(folder: Path, work: Callable[[], object]) -> None:
    """Do something on all ranks, and go on when all have done it, or raise what went wrong on one of them on all."""
    trouble = ""
    try:
        work()
    except OSError as error:
        trouble = f"cannot use {error.filename or folder}: {error.strerror or error}"
    except (CheckpointError, RuntimeError, ValueError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
        trouble = f"cannot restore a learner from {folder}: {error}"
    for rank, told in enumerate(gathered(trouble)):
        if told:
            raise CheckpointError(f"rank {rank} {told}" if rank_and_size()[1] > 1 else told)


def _write(path: Path, state: Mapping[str, Any]) -> None:
    with replacing(path, durable=True) as file:
        torch.save(dict(state), file)


def _read(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _shared(folder: Path, step: int) -> Path:
    return folder / f"learner.step-{step}.pt"


def _own(folder: Path, rank: int, ranks: int, step: int) -> Path:
    return folder / f"own-{rank}-of-{ranks}.step-{step}.pt"


def _steps(folder: Path) -> list[int]:
    """Of complete saves, in ascending order."""
    return sorted(int(match[1]) for path in folder.glob("learner.*") if (match := _SHARED.fullmatch(path.name)))
