"""Draws a small field of two dimensions as a PNG, with a bar that tells its colours."""

from __future__ import annotations

import base64
import struct
import zlib
from html import escape

from wilkins.contents.summary import Preview
from wilkins.names import printable

_ANCHORS = ("440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725")
"""Viridis (Smith and van der Walt, 2015), in equal steps: of even contrast on light and dark paper, also for those who
do not tell red from green."""
_SHADES = 255
"""Colours of the palette; one more is transparent, for blocks without a value."""
_SIDE = 192
"""Pixels of the page that the longer side takes."""
_LEAST = 24
"""Pixels of the shorter side, however long the field is."""


def thumbnail(preview: Preview) -> str:
    """A figure of HTML: the field, its first row on top, with its name and the range of its values."""
    rows, columns = preview.shape
    longest = max(rows, columns)
    height, width = (max(_LEAST, round(_SIDE * length / longest)) for length in (rows, columns))
    name, units = escape(printable(preview.name, 60)), escape(printable(preview.units, 20))
    low, high = number(preview.low), number(preview.high)
    said = f"{name}, {rows} x {columns} values"
    span = f"{low} to {high} {units}".rstrip() if preview.low is not None else "no value is finite"
    bar = f'<i class="scale"></i><span>{low}</span><span>{high} {units}</span>' if preview.low is not None else span
    note = "; some of them were read" if preview.is_sampled else ""
    has_blanks = preview.low is not None and any(None in row for row in preview.rows)
    note += "; blank where none is finite" if has_blanks else ""
    data = base64.b64encode(png(preview)).decode()
    return (
        f'<figure class="field"><img src="data:image/png;base64,{data}" width="{width}" height="{height}" '
        f'alt="{said}: {span}"><figcaption><b>{name}</b><div class="range">{bar}</div>'
        f"<em>{rows} x {columns} values{note}</em></figcaption></figure>"
    )


def scale() -> str:
    """The rule of a page's style for the bar of colours."""
    return f".scale{{background:linear-gradient(90deg,{','.join(f'#{one}' for one in _ANCHORS)})}}\n"


def number(value: float | None) -> str:
    """A value of a field, with four digits."""
    return "-" if value is None else f"{value:.4g}"


def png(preview: Preview) -> bytes:
    """The field as a PNG with a palette, a pixel for each block; blocks without a value are transparent."""
    lines = b"".join(b"\0" + bytes(_shade(value, preview) for value in row) for row in preview.rows)
    size = struct.pack(">IIBBBBB", len(preview.rows[0]), len(preview.rows), 8, 3, 0, 0, 0)
    palette = b"".join(_colour(shade / (_SHADES - 1)) for shade in range(_SHADES)) + b"\0\0\0"
    clear = b"\xff" * _SHADES + b"\0"
    parts = ((b"IHDR", size), (b"PLTE", palette), (b"tRNS", clear), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def _shade(value: float | None, preview: Preview) -> int:
    if value is None or preview.low is None or preview.high is None:
        return _SHADES
    # Halves: the whole difference may be larger than any number.
    span = preview.high / 2 - preview.low / 2
    part = 0.5 if span <= 0 else (value / 2 - preview.low / 2) / span
    return round(min(1.0, max(0.0, part)) * (_SHADES - 1))


def _colour(part: float) -> bytes:
    at = part * (len(_ANCHORS) - 1)
    first = min(int(at), len(_ANCHORS) - 2)
    before, after = (bytes.fromhex(_ANCHORS[one]) for one in (first, first + 1))
    return bytes(round(a + (b - a) * (at - first)) for a, b in zip(before, after, strict=True))
