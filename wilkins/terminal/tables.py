"""Tables for the terminal, and how numbers stand in them: sizes and times for people."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] | None = None) -> str:
    """A table in columns, aligned to the right but for those `left`; None: all are aligned to the left."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if left is None or column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def size(count: float) -> str:
    """A number of bytes for people: ``1.5 GB``. A damaged file may have any, also one that no float is as large as."""
    count = min(count, sys.float_info.max)
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 99.95 else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def binary_size(count: int) -> str:
    """Bytes for people: ``1.5 GiB``."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"


def duration(seconds: float) -> str:
    """A time for people: ``3.2 ms``, ``41 s``, ``2 h 05 min``."""
    if seconds < 0.0005:
        return "0 ms" if seconds < 0.00005 else f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 99.95:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if seconds < 3600 and minutes < 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
