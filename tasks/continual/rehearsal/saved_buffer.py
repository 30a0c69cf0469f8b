"""Saves a buffer to files and restores it, so that a trainer that was killed goes on with the same draws.

A save is one file per rank, `rank-<k>-of-<n>.step-<s>.<token>.npz`; ranks agree on the token, so files of two saves
never pass for one set. Files hold arrays and JSON, nothing that could run code.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wilkins.atomic import replacing
from wilkins.tasks.continual.errors import BadSample, CheckpointError
from wilkins.tasks.continual.rehearsal.arrays import Kind, unpack
from wilkins.tasks.continual.rehearsal.exchange import Exchange
from wilkins.tasks.continual.rehearsal.part import Part
from wilkins.tasks.continual.rehearsal.rounds import Drawn
from wilkins.tasks.continual.rehearsal.statistics import Statistics

FORMAT = 1
_NAME = re.compile(r"rank-(?P<rank>\d+)-of-(?P<ranks>\d+)\.step-(?P<step>\d+)\.(?P<token>[0-9a-f]{8})\.npz")


@dataclass(frozen=True, slots=True)
class Saved:
    """What a save consists of."""

    step: int
    part: Part
    drawn: Drawn | None
    kinds: Mapping[str, Kind]
    statistics: Statistics


class _Set(NamedTuple):
    """One rank's file of a save."""

    step: int
    token: int
    path: Path


def save(folder: str | os.PathLike[str], saved: Saved, exchange: Exchange, keep: int) -> None:
    """Write this rank's file, and remove older ones once all ranks have written theirs.

    Raises:
        CheckpointError: a rank could not write; nothing was removed then.
    """
    folder = Path(folder)
    token = int(exchange.gather([secrets.randbits(32)])[0][0])
    name = f"rank-{exchange.rank}-of-{exchange.size}.step-{saved.step}.{token:08x}.npz"
    trouble = ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / name, saved)
    except OSError as error:
        trouble = f"cannot write {folder / name}: {error.strerror or error}"
    _raise_first(exchange.tell(trouble))
    others = [one for one in _sets(folder, exchange) if one.path.name != name]
    earlier = sorted((one for one in others if one.step < saved.step), reverse=True)
    unfinished = folder.glob(f".rank-{exchange.rank}-of-{exchange.size}.step-*.part")  # of kills while writing
    for path in {one.path for one in set(others) - set(earlier[: max(keep, 1) - 1])}.union(unfinished):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _write(path: Path, saved: Saved) -> None:
    arrays, values = saved.part.state()
    if saved.drawn is not None:
        rows = saved.drawn.rows
        arrays["drawn"] = rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()
    options = saved.part.options
    values |= {
        "format": FORMAT,
        "options": {name: getattr(options, name) for name in ("eviction", "balance", "label")},
        "kinds": dict(saved.kinds),
        "statistics": asdict(saved.statistics) | {"classes": {}},
    }
    arrays["values"] = np.frombuffer(json.dumps(values).encode(), np.uint8)
    with replacing(path, durable=True) as file:
        np.savez(file, **arrays)


def load(folder: str | os.PathLike[str], step: int | None, part: Part, exchange: Exchange) -> Saved:
    """Restore this rank's part from the newest set of files that all ranks have, or from that of a step.

    Raises:
        CheckpointError: there is none, or it does not fit; the same on all ranks.
    """
    folder = Path(folder)
    mine = _sets(folder, exchange)
    tables = exchange.gather([number for one in mine for number in one[:2]])
    common = set.intersection(*({(int(s), int(t)) for s, t in table.reshape(-1, 2)} for table in tables))
    choice = sorted(pair for pair in common if step is None or pair[0] == step)
    if not choice:
        raise CheckpointError(_nothing(folder, step, sorted(common), exchange.size))
    path = next(one.path for one in mine if one[:2] == choice[-1])
    trouble, saved = "", None
    try:
        saved = _read(path, choice[-1][0], part)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, BadSample) as error:
        trouble = f"cannot restore a rehearsal buffer from {path}: {error}"
    _raise_first(exchange.tell(trouble))
    assert saved is not None
    return saved


def _read(path: Path, step: int, part: Part) -> Saved:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    values: dict[str, Any] = json.loads(arrays.pop("values").tobytes())
    if values["format"] != FORMAT:
        raise ValueError(f"its format is {values['format']}, and this version reads format {FORMAT}")
    for name, value in values["options"].items():
        if getattr(part.options, name) != value:
            raise ValueError(f"it was saved with {name}={value!r}, this buffer has {getattr(part.options, name)!r}")
    kinds = {name: Kind(*kind) for name, kind in values["kinds"].items()}
    rows = arrays.pop("drawn", None)
    part.restore(arrays, values)
    assert part.layout is not None
    drawn = None if rows is None else Drawn(rows, unpack(rows, part.layout, kinds), kinds)
    statistics = Statistics(**values["statistics"] | _since_start(part))
    return Saved(step, part, drawn, kinds, statistics)


def _since_start(part: Part) -> dict[str, Any]:
    classes = {label: count for label, count in sorted(part.classes.items()) if count}
    return {"classes": classes, "waits": 0, "wait_seconds": 0.0, "longest_wait": 0.0, "round_seconds": 0.0}


def _sets(folder: Path, exchange: Exchange) -> list[_Set]:
    """This rank's files in a folder."""
    found = []
    for path in folder.glob("rank-*.npz"):
        match = _NAME.fullmatch(path.name)
        if match and (int(match["rank"]), int(match["ranks"])) == (exchange.rank, exchange.size):
            found.append(_Set(int(match["step"]), int(match["token"], 16), path))
    return found


def _nothing(folder: Path, step: int | None, common: list[tuple[int, int]], size: int) -> str:
    if common:
        there = ", ".join(str(number) for number, _ in common)
        return f"{folder} holds no rehearsal buffer of step {step}, but of {there}"
    names = (_NAME.fullmatch(path.name) for path in folder.glob("rank-*.npz"))
    sizes = sorted({int(match["ranks"]) for match in names if match} - {size})
    if sizes:
        saved = " and ".join(str(count) for count in sizes)
        return f"{folder} holds a rehearsal buffer of {saved} ranks, but this task has {size}: give it as many"
    return f"{folder} holds no rehearsal buffer that all {size} ranks have saved: no file, or some rank's is missing"


def _raise_first(troubles: list[str]) -> None:
    for rank, trouble in enumerate(troubles):
        if trouble:
            raise CheckpointError(f"rank {rank} {trouble}" if len(troubles) > 1 else trouble)
