"""A table of a program's accesses to data files, and of what files hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from wilkins.contents.apart import look_apart
from wilkins.contents.formats import ZARR_METADATA
from wilkins.contents.summary import Contents
from wilkins.contents.words import shape_words
from wilkins.errors import count_of
from wilkins.names import printable
from wilkins.record.access import FileAccess
from wilkins.record.ports import Port
from wilkins.record.task import own_name
from wilkins.terminal.tables import size, text_table

_HEAD = ("files", "number", "begun anew", "closed", "flushed", "read", "looked at", "folder listed")
_COUNTED = ("HDF5", "netCDF-4")
"""Formats whose datasets have counts of writes and reads: those that HDF5 writes."""
_TO_THE_LEFT = ("dataset", "shape", "type", "units", "stored")
_WIDE = 40
"""Letters of a name that are shown."""


def as_text(ports: Sequence[Port], cwd: Path) -> str:
    """A row for each port, then what the last file of each holds."""
    rows = [(own_name(port.pattern, cwd), *map(str, _counts(port))) for port in ports]
    blocks = [text_table(_HEAD, rows, {0})]
    lasts = {path: port for port in ports if (path := _last(port)) is not None}
    for seen, (path, port) in zip(look_apart([*map(_step_of, lasts)]), lasts.items(), strict=True):
        accesses = next(one for one in port.files if one.name == str(path))
        blocks.append(_held(printable(own_name(seen.path, cwd)), seen, accesses))
    return "\n\n".join(dict.fromkeys(blocks))


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


def _last(port: Port) -> Path | None:
    """The newest file of a port that still exists."""
    there = (one for one in reversed(_by_age(port)) if Path(one.name).is_file())
    return next((Path(one.name) for one in there), None)


def _by_age(port: Port) -> list[FileAccess]:
    """Files in the order in which the program was done with them; those that it only reads, in which it began to."""
    return sorted(port.files, key=lambda one: one.closes[-1].at if one.closes else one.first_read)


def _step_of(path: Path) -> Path:
    """The folder of Zarr that a file belongs to; of others, the file itself."""
    folder = path
    while any((folder.parent / name).is_file() for name in ZARR_METADATA):
        folder = folder.parent
    return folder


def _held(name: str, seen: Contents, accesses: FileAccess) -> str:
    """What a file holds: its datasets with the numbers of writes and reads, or its format alone."""
    title = f"{name} ({', '.join([*([seen.format] if seen.format else []), size(seen.size)])})"
    if seen.problem:
        return f"{title}: {printable(seen.problem)}" + (f"\n{_table(seen, accesses)}" if seen.datasets else "")
    if not seen.is_read:
        return f"{title}: what it holds is not shown"
    return f"{title}:\n{_table(seen, accesses)}" if seen.datasets else f"{title}: it has no datasets"


def _table(seen: Contents, accesses: FileAccess) -> str:
    is_counted = seen.format in _COUNTED
    columns = {
        "dataset": [printable(one.name, _WIDE) for one in seen.datasets],
        "shape": [shape_words(one.shape) for one in seen.datasets],
        "type": [printable(one.dtype, _WIDE) for one in seen.datasets],
        "units": [printable(one.units, _WIDE) for one in seen.datasets],
        "stored": [printable(one.stored, _WIDE) for one in seen.datasets],
        "size": [size(one.nbytes) if one.shape is not None else "" for one in seen.datasets],
        "written": [str(accesses.written[one.name] or "-") for one in seen.datasets] if is_counted else [],
        "read": [str(accesses.read[one.name] or "-") for one in seen.datasets] if is_counted else [],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    left = {place for place, name in enumerate(columns) if name in _TO_THE_LEFT}
    lines = [text_table([*columns], [*zip(*columns.values(), strict=True)], left)]
    if seen.others:
        lines.append(seen.others)
    if unnamed := accesses.written[""]:
        lines.append(f"{count_of(unnamed, 'write')} before the dataset had its name, as of those that h5py makes")
    if (field := seen.preview) is not None and field.low is not None:
        units = f" {printable(field.units, _WIDE)}" if field.units else ""
        some = ", by some of its values" if field.is_sampled else ""
        lines.append(f"{printable(field.name, _WIDE)}: from {field.low:.4g} to {field.high:.4g}{units}{some}")
    return "\n".join(lines)
