"""Writes or reads steps that prove to be whole, as whole.c does, with the libraries of Python.

    whole.py WHO write LIBRARY HOW NAME FIRST STEPS ROWS
    whole.py WHO read LIBRARY NAME

LIBRARY is ``h5py``, ``netcdf4`` or ``channel``; HOW is that of whole.c (netCDF and channels: ``close``) or, with h5py,
``rename`` (written under another name) or ``remove`` (each step, when it has been written). ``update`` instead of
``read`` writes into what it has read.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

COLUMNS = 512
CHUNKS = (16, COLUMNS)
NAMES = ("u", "c", "z", "g")
PARTS = 4
PAUSE = float(os.environ.get("PAUSE", "0"))
"""Seconds between steps."""
PHASES = ("between", "create", "write", "extend", "rest", "reopen", "flush", "close", "done", "open", "read", "leave")

Array = np.ndarray[Any, np.dtype[Any]]


class Told:
    """What a process is doing, in a mapped file ``phase-WHO-RANK``: its pid, and the step's number and the phase."""

    def __init__(self, path: Path, mode: str = "r") -> None:
        self._words = np.memmap(path, np.int64, "r+" if mode == "r+" else "r", shape=(2,))

    @classmethod
    def new(cls, path: Path) -> Told:
        """Of this process."""
        path.write_bytes(bytes(16))
        told = cls(path, "r+")
        told._words[0] = os.getpid()
        return told

    @property
    def pid(self) -> int:
        """The process; 0 before it has begun."""
        return int(self._words[0])

    @property
    def now(self) -> tuple[int, str]:
        """The step's number, and the phase."""
        number, phase = divmod(int(self._words[1]), 16)
        return number, PHASES[phase]

    def __call__(self, number: int, phase: str) -> None:
        self._words[1] = number * 16 + PHASES.index(phase)


def values(number: int, place: int, rows: int) -> Array:
    """What a dataset of a step holds."""
    return (np.arange(rows * COLUMNS, dtype="i4") + (number * 1000003 + place * 10007)).reshape(rows, COLUMNS)


def verdict(number: Any, rows: Any, digest: Any, read: Any, names: tuple[str, ...] = NAMES) -> tuple[int, str]:
    """The number of a step and whether it is whole; `read` gives the array of a name, `names` those there are to be."""
    if number is None or rows is None:
        return -1, "TORN"
    found, size, total = int(np.ravel(number)[0]), int(np.ravel(rows)[0]), 0
    for place, name in enumerate(names):
        try:
            data = np.asarray(read(name))
        except (KeyError, OSError, RuntimeError, IndexError) as error:
            return found, f"TORN ({name}: {error!r})"
        if data.shape != (size, COLUMNS) or not np.array_equal(data, values(found, place, size)):
            return found, f"TORN ({name})"
        total += int(data.sum(dtype="i8"))
    if names == NAMES and (digest is None or int(np.ravel(digest)[0]) != total):
        return found, "TORN (digest)"
    return found, "whole"


def of_file(file: h5py.File, names: tuple[str, ...] = NAMES) -> tuple[int, str]:
    """The verdict on an open file."""
    attrs = file.attrs
    read = verdict(attrs.get("number"), attrs.get("rows"), attrs.get("digest"), lambda name: file[name][()], names)
    return read if set(file) - {"columns", "rows", "grown"} == set(names) or "TORN" in read[1] else (read[0], "TORN")


def _fill(file: h5py.File, number: int, rows: int, names: tuple[str, ...], told: Told) -> None:
    if "u" in names:
        file.attrs["number"], file.attrs["rows"] = number, rows
    for name in names:
        place = NAMES.index(name)
        told(number, "extend")
        if name not in file:
            kinds: dict[str, Any] = {
                "c": {"chunks": CHUNKS},
                "z": {"chunks": CHUNKS, "compression": 1, "shuffle": True},
            }
            growing = {"chunks": CHUNKS, "maxshape": (None, COLUMNS)}
            how = growing if name == "g" else kinds.get(name, {})
            made = file.create_dataset(name, (0 if name == "g" else rows, COLUMNS), "i4", **how)
            for part in range(1, PARTS + 1) if name == "g" else ():
                made.resize(rows * part // PARTS, 0)
        told(number, "write")
        file[name][...] = values(number, place, rows)
    if "g" in names:
        file.attrs["digest"] = sum(int(values(number, place, rows).sum(dtype="i8")) for place in range(len(NAMES)))


def write_h5py(how: str, name: str, numbers: Iterator[tuple[int, int]], told: Told) -> None:
    """Each step is a file, or (`flush`) what a file has come to."""
    file = None
    for number, rows in numbers:
        told(number, "create")
        path = name.replace("%d", str(number))
        if how == "flush":
            file = file or h5py.File(path, "w")
            _fill(file, number, rows, NAMES, told)
            told(number, "flush")
            file.flush()
        else:
            path = f"made-{path}" if how == "rename" else path
            file = h5py.File(path, "w")
            if how == "reopen":
                _fill(file, number, rows, NAMES[:2], told)
                told(number, "rest")
                file.close()
                told(number, "reopen")
                file = h5py.File(path, "r+")
            _fill(file, number, rows, NAMES[2:] if how == "reopen" else NAMES, told)
            told(number, "close")
            file.close()
            if how == "rename":
                Path(path).rename(path.removeprefix("made-"))
            if how == "remove":
                Path(path).unlink()
        told(number, "done")
    if how == "flush" and file:
        file.close()


def write_netcdf4(how: str, name: str, numbers: Iterator[tuple[int, int]], told: Told) -> None:  # noqa: ARG001
    """Each step is a file, by netCDF."""
    import netCDF4

    for number, rows in numbers:
        told(number, "create")
        file = netCDF4.Dataset(name.replace("%d", str(number)), "w")
        file.number, file.rows = np.int32(number), np.int32(rows)
        file.createDimension("columns", COLUMNS)
        file.createDimension("rows", rows)
        file.createDimension("grown", None)
        options: dict[str, Any] = {"c": {"chunksizes": CHUNKS}, "z": {"chunksizes": CHUNKS, "zlib": True}}
        total = 0
        for place, one in enumerate(NAMES):
            told(number, "extend")
            dims = ("grown" if one == "g" else "rows", "columns")
            file.createVariable(one, "i4", dims, fill_value=False, **options.get(one, {}))
            told(number, "write")
            data = values(number, place, rows)
            file[one][:] = data
            total += int(data.sum(dtype="i8"))
        file.digest = np.int64(total)
        told(number, "close")
        file.close()
        told(number, "done")


def write_channel(how: str, name: str, numbers: Iterator[tuple[int, int]], told: Told) -> None:  # noqa: ARG001
    """Steps made in the store's own memory, or handed over in one call, by turns."""
    import wilkins.transport

    for number, rows in numbers:
        told(number, "create")
        path = name.replace("%d", str(number))
        digest = sum(int(values(number, place, rows).sum(dtype="i8")) for place in range(len(NAMES)))
        attrs = {"number": np.int64(number), "rows": np.int64(rows), "digest": np.int64(digest)}
        arrays = {name: values(number, place, rows) for place, name in enumerate(NAMES)}
        if number % 2:
            told(number, "close")
            wilkins.transport.publish(path, arrays, attrs)
        else:
            with wilkins.transport.create(path) as step:
                told(number, "write")
                step.empty("u", (rows, COLUMNS), "i4")[:] = arrays["u"]
                step["c"], step["g"] = arrays["c"], arrays["g"]
                step.file.create_dataset("z", data=arrays["z"], chunks=CHUNKS, compression=1)
                step.attrs.update(attrs)
                told(number, "close")
        told(number, "done")


def read_h5py(name: str, told: Told, mode: str = "r") -> Iterator[tuple[int, str]]:
    """The verdicts on the files of a name, until one is missing."""
    for count in range(1 << 20):
        told(count, "open")
        try:
            file = h5py.File(name.replace("%d", str(count)), mode)
        except FileNotFoundError:
            return
        told(count, "read")
        yield of_file(file)
        if mode == "r+":
            file["u"][...] = 0
            file.attrs["number"] = 1000
        told(count, "leave")
        file.close()
        told(count, "done")


def read_netcdf4(name: str, told: Told) -> Iterator[tuple[int, str]]:
    """The same, by netCDF."""
    import netCDF4

    for count in range(1 << 20):
        told(count, "open")
        try:
            file = netCDF4.Dataset(name.replace("%d", str(count)))
        except FileNotFoundError:
            return
        told(count, "read")
        file.set_auto_mask(False)
        number, size, digest = (getattr(file, word, None) for word in ("number", "rows", "digest"))
        yield verdict(number, size, digest, lambda one, file=file: file[one][:])
        told(count, "leave")
        file.close()
        told(count, "done")


def read_channel(name: str, told: Told) -> Iterator[tuple[int, str]]:
    """The same, of steps as objects; the arrays of one are kept while the next is read."""
    import wilkins.transport

    told(0, "open")
    for step in wilkins.transport.open(name.replace("%d", "*")):
        told(step.index, "read")
        number, size, digest = (step.attrs.get(word) for word in ("number", "rows", "digest"))
        arrays = {one: step[one] for one in step.names()}
        yield verdict(number, size, digest, arrays.__getitem__)
        told(step.index, "leave")
        del arrays
        step.release()
        told(step.index + 1, "open")


def of_command(first: str, steps: str, rows: str, how: str) -> Iterator[tuple[int, int]]:
    """Numbers and rows of the steps, until there are enough."""
    for number in range(int(first), int(first) + int(steps)):
        if Path("enough").exists():
            return
        time.sleep(PAUSE if number > int(first) else 0)
        yield number, int(rows) if how == "flush" else int(rows) * (2 + number % 3) // 2


def main() -> None:
    who, does, library, *rest = sys.argv[1:]
    told = Told.new(Path(f"phase-{who}-0"))
    if does == "write":
        how, name, first, steps, rows = rest
        write = {"h5py": write_h5py, "netcdf4": write_netcdf4, "channel": write_channel}[library]
        write(how, name, of_command(first, steps, rows, how), told)
        return
    if does == "update":
        read = read_h5py(rest[0], told, "r+")
    else:
        read = {"h5py": read_h5py, "netcdf4": read_netcdf4, "channel": read_channel}[library](rest[0], told)
    for number, words in read:
        os.write(1, f"got {number} {words}\n".encode())
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
