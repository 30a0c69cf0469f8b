"""Result files: appended to or replaced as a whole, so that no reader finds half a file."""

from __future__ import annotations

import csv
import fnmatch
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import h5py

from wilkins import atomic
from wilkins.tasks.errors import TaskError


def filled(pattern: str, step: int, name: str) -> str:
    """A file's name for a step; ``{name}`` is that of the step's own file, without folder and suffix."""
    return pattern.format(step=step, name=Path(name).stem)


def goes_to(name: Path, port: str) -> bool:
    """Whether a file's name matches a port's pattern: on its last components, as the ports of tasks do."""
    have, want = PurePath(os.path.normpath(name)).parts, PurePath(port).parts
    parts = zip(reversed(have), reversed(want), strict=False)
    return len(have) >= len(want) and all(fnmatch.fnmatchcase(part, one) for part, one in parts)


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Puts a file in place.

    Raises:
        OSError: it cannot be written; names it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        atomic.put(path, data)
    except OSError as error:  # of a full disk, it names no file
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """A JSON object, with null for numbers that are not finite."""
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

    def __init__(self, path: Path, head: Sequence[str], keep: int | None = None) -> None:
        """Begins a file; with `keep`, appends behind the first `keep` bytes of the existing one.

        Raises:
            TaskError: it is shorter than that.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        if keep is not None:
            size = path.stat().st_size if path.exists() else 0
            if size < keep:
                raise TaskError(
                    f"{path} has {size} bytes, and the run that is to go on had written {keep}; put it back, or begin "
                    "anew: run the workflow without '--resume'"
                )
            os.truncate(path, keep)
        mode = "w" if keep is None else "a"
        # Names of files need not be UTF-8.
        self._file = path.open(mode, encoding="utf-8", errors="backslashreplace", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        if keep is None:
            self._writer.writerow(head)

    def add(self, row: Sequence[Any]) -> None:
        """A row; numbers with all their digits."""
        self._writer.writerow(row)
        self._file.flush()

    def durable(self) -> int:
        """The bytes so far, which are on disk when this returns."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """No more rows."""
        self._file.close()
