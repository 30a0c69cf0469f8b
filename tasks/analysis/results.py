"""Result files: appended to or replaced as a whole, so that whoever reads one never finds half a file."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py


def filled(pattern: str, step: int, name: str) -> str:
    """A file's name for a step; ``{name}`` is that of the step's own file, without folder and suffix."""
    return pattern.format(step=step, name=Path(name).stem)


def write_whole(path: Path, data: bytes) -> None:
    """Puts a file in place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """A JSON object; what is not a finite number is null there."""
    known = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
    write_whole(path, (json.dumps(known, indent=2) + "\n").encode())


def write_hdf5(path: Path, values: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
    """An HDF5 file of datasets; an out-port of the task if its name is one's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, value in values.items():
            file[name] = value
        file.attrs.update(attributes)


class Rows:
    """A CSV file that gets a row per step, each complete before the next step is read."""

    def __init__(self, path: Path, head: Sequence[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(head)

    def add(self, row: Sequence[Any]) -> None:
        """A row; numbers with all their digits."""
        self._writer.writerow(row)
        self._file.flush()

    def close(self) -> None:
        """No more rows."""
        self._file.close()
