"""A table of a program's accesses to data files, and the contents of HDF5 files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from wilkins.errors import count_of
from wilkins.record.ports import Port
from wilkins.record.task import own_name
from wilkins.terminal.tables import size, text_table

_HEAD = ("files", "number", "begun anew", "closed", "flushed", "read", "looked at", "folder listed")
_MOST = 20
"""Datasets that are shown of a file."""


def as_text(ports: Sequence[Port], cwd: Path) -> str:
    """A row for each port, then the datasets of the last file of each."""
    rows = [(own_name(port.pattern, cwd), *map(str, _counts(port))) for port in ports]
    blocks = [text_table(_HEAD, rows, {0})]
    blocks += [text for port in ports if (text := _datasets(port, cwd))]
    return "\n\n".join(blocks)


def _counts(port: Port) -> tuple[str, ...]:
    closes = [one.closes for one in port.files]
    return (
        str(len(port.files)),
        _each(sum(close.anew for close in each) for each in closes),
        _each(len(each) for each in closes),
        _each(one.flushes for one in port.files),
        _each(one.times_read for one in port.files),
        _each(one.looks for one in port.files),
        str(port.listed or "-"),
    )


def _each(counts: Iterable[int]) -> str:
    """How often for each file: one number, or from which to which."""
    numbers = list(counts)
    least, most = min(numbers), max(numbers)
    return ("-" if most == 0 else str(most)) if least == most else f"{least}-{most}"


def _datasets(port: Port, cwd: Path) -> str:
    """The datasets of the last file, if it still exists, with the numbers of writes or reads."""
    import h5py

    last = port.files[-1]
    rows: list[tuple[str, ...]] = []

    def add(name: str, thing: object) -> None:
        if isinstance(thing, h5py.Dataset):
            path = f"/{name}"
            shape = " x ".join(map(str, thing.shape)) if thing.shape else "scalar"
            counts = (str(counts[path] or "-") for counts in (last.written, last.read))
            rows.append((path, shape, str(thing.dtype), size(thing.nbytes), *counts))

    try:
        with h5py.File(last.name, "r") as file:
            file.visititems(add)
    except OSError:
        return ""
    if not rows:
        return ""
    more = f"\n... and {len(rows) - _MOST} more" if len(rows) > _MOST else ""
    if unnamed := last.written[""]:
        more += f"\n{count_of(unnamed, 'write')} before the dataset had its name, as of those that h5py makes"
    head = ("dataset", "shape", "type", "size", "written", "read")
    return f"{own_name(last.name, cwd)}:\n" + text_table(head, rows[:_MOST], {0, 1, 2}) + more
