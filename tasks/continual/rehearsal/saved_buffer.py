"""A buffer's state as arrays and plain values, and as versions of a folder, so that a trainer that was killed goes on
with the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint.engine.synchronous import restore_newest, save_synchronously
from wilkins.tasks.checkpoint.ranks import together
from wilkins.tasks.continual.errors import BadSample, CheckpointError
from wilkins.tasks.continual.rehearsal.arrays import Kind, unpack
from wilkins.tasks.continual.rehearsal.rounds import Drawn
from wilkins.tasks.continual.rehearsal.shard import Shard
from wilkins.tasks.continual.rehearsal.statistics import Statistics
from wilkins.tasks.group import Group

FORMAT = 2
_OPTIONS = ("eviction", "balance", "label")


def _option(shard: Shard, name: str) -> str | None:
    value: str | None = getattr(shard.options, "eviction_name" if name == "eviction" else name)
    return value


@dataclass(frozen=True, slots=True)
class Saved:
    """The state that is saved besides the shard."""

    step: int
    drawn: Drawn | None
    kinds: Mapping[str, Kind]
    statistics: Statistics


def state_of(saved: Saved, shard: Shard) -> dict[str, Any]:
    """What `restored` takes."""
    arrays, values = shard.state()
    drawn = None
    if saved.drawn is not None:
        rows = saved.drawn.rows
        drawn = rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()
    return {
        "format": FORMAT,
        "step": saved.step,
        "options": {name: _option(shard, name) for name in _OPTIONS},
        "kinds": {name: list(kind) for name, kind in saved.kinds.items()},
        "statistics": asdict(saved.statistics) | {"classes": {}},
        "arrays": arrays,
        "values": values,
        "drawn": drawn,
    }


def restored(state: Mapping[str, Any], shard: Shard) -> Saved:
    """Fill a shard, which is empty, from what `state_of` has given.

    Raises:
        CheckpointError: it does not fit.
    """
    try:
        return _restored(state, shard)
    except (ValueError, KeyError, TypeError, BadSample) as error:
        raise CheckpointError(f"cannot restore a rehearsal buffer: {error}") from error


def _restored(state: Mapping[str, Any], shard: Shard) -> Saved:
    if state["format"] != FORMAT:
        raise ValueError(f"its format is {state['format']}, and this version reads format {FORMAT}")
    for name, value in state["options"].items():
        if _option(shard, name) != value:
            raise ValueError(f"it was saved with {name}={value!r}, this buffer has {_option(shard, name)!r}")
    kinds = {name: Kind(*kind) for name, kind in state["kinds"].items()}
    rows = state["drawn"]
    shard.restore(state["arrays"], state["values"])
    assert shard.layout is not None
    drawn = None if rows is None else Drawn(rows, unpack(rows, shard.layout, kinds), kinds)
    return Saved(state["step"], drawn, kinds, Statistics(**state["statistics"] | _since_start(shard)))


def _since_start(shard: Shard) -> dict[str, Any]:
    classes = {label: count for label, count in sorted(shard.classes.items()) if count}
    return {"classes": classes, "waits": 0, "wait_seconds": 0.0, "longest_wait": 0.0, "round_seconds": 0.0}


def save(folder: Path, step: int, state: Mapping[str, Any], group: Group, keep: int) -> None:
    """Make the shards of all ranks a version.

    Raises:
        CheckpointError: a rank could not write; the same on all.
    """
    save_synchronously(folder, group, step, {"buffer": dict(state)}, keep)


def load(folder: Path, step: int | None, restore: Callable[[Mapping[str, Any]], None], group: Group) -> None:
    """Restore the shards of all ranks, each by `restore`, from the newest version or that of a step.

    Raises:
        CheckpointError: there is none, or it does not fit; the same on all ranks.
    """
    found = restore_newest(folder, group, step)
    if found is None:
        raise CheckpointError(f"{folder} holds no rehearsal buffer")
    together(group, lambda: restore(found.state["buffer"]), str)
