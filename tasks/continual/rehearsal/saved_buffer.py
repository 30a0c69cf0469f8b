"""A buffer's state as arrays and plain values, and as versions of a folder, so that a trainer that was killed goes on
with the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint.engine.at_once import restore_newest, save_at_once
from wilkins.tasks.checkpoint.ranks import together
from wilkins.tasks.continual.errors import BadSample, CheckpointError
from wilkins.tasks.continual.rehearsal.arrays import Kind, unpack
from wilkins.tasks.continual.rehearsal.part import Part
from wilkins.tasks.continual.rehearsal.rounds import Drawn
from wilkins.tasks.continual.rehearsal.statistics import Statistics
from wilkins.tasks.group import Group

FORMAT = 2
_OPTIONS = ("eviction", "balance", "label")


def _option(part: Part, name: str) -> str | None:
    value: str | None = getattr(part.options, "eviction_name" if name == "eviction" else name)
    return value


@dataclass(frozen=True, slots=True)
class Saved:
    """What is saved besides the part."""

    step: int
    drawn: Drawn | None
    kinds: Mapping[str, Kind]
    statistics: Statistics


def state_of(saved: Saved, part: Part) -> dict[str, Any]:
    """What `restored` takes."""
    arrays, values = part.state()
    drawn = None
    if saved.drawn is not None:
        rows = saved.drawn.rows
        drawn = rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()
    return {
        "format": FORMAT,
        "step": saved.step,
        "options": {name: _option(part, name) for name in _OPTIONS},
        "kinds": {name: list(kind) for name, kind in saved.kinds.items()},
        "statistics": asdict(saved.statistics) | {"classes": {}},
        "arrays": arrays,
        "values": values,
        "drawn": drawn,
    }


def restored(state: Mapping[str, Any], part: Part) -> Saved:
    """Fill a part, which is empty, from what `state_of` has given.

    Raises:
        CheckpointError: it does not fit.
    """
    try:
        return _restored(state, part)
    except (ValueError, KeyError, TypeError, BadSample) as error:
        raise CheckpointError(f"cannot restore a rehearsal buffer: {error}") from error


def _restored(state: Mapping[str, Any], part: Part) -> Saved:
    if state["format"] != FORMAT:
        raise ValueError(f"its format is {state['format']}, and this version reads format {FORMAT}")
    for name, value in state["options"].items():
        if _option(part, name) != value:
            raise ValueError(f"it was saved with {name}={value!r}, this buffer has {_option(part, name)!r}")
    kinds = {name: Kind(*kind) for name, kind in state["kinds"].items()}
    rows = state["drawn"]
    part.restore(state["arrays"], state["values"])
    assert part.layout is not None
    drawn = None if rows is None else Drawn(rows, unpack(rows, part.layout, kinds), kinds)
    return Saved(state["step"], drawn, kinds, Statistics(**state["statistics"] | _since_start(part)))


def _since_start(part: Part) -> dict[str, Any]:
    classes = {label: count for label, count in sorted(part.classes.items()) if count}
    return {"classes": classes, "waits": 0, "wait_seconds": 0.0, "longest_wait": 0.0, "round_seconds": 0.0}


def save(folder: Path, step: int, state: Mapping[str, Any], group: Group, keep: int) -> None:
    """Make the parts of all ranks a version.

    Raises:
        CheckpointError: a rank could not write; the same on all.
    """
    save_at_once(folder, group, step, {"buffer": dict(state)}, keep)


def load(folder: Path, step: int | None, restore: Callable[[Mapping[str, Any]], None], group: Group) -> None:
    """Restore the parts of all ranks, each by `restore`, from the newest version or that of a step.

    Raises:
        CheckpointError: there is none, or it does not fit; the same on all ranks.
    """
    found = restore_newest(folder, group, step)
    if found is None:
        raise CheckpointError(f"{folder} holds no rehearsal buffer")
    together(group, lambda: restore(found.state["buffer"]), str)
