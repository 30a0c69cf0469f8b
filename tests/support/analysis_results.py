"""Reads what the ready-made analysis writes, and computes the same directly."""

from __future__ import annotations

import csv
import json
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def direct(values: Array) -> dict[str, float]:
    """The same as `Moments.results`, from the whole array at once, in extended precision."""
    flat = values.reshape(-1)
    finite = flat[np.isfinite(flat)]
    numbers = finite.astype(np.longdouble)
    mean = numbers.mean() if numbers.size else math.nan
    m2, m3, m4 = (((numbers - mean) ** power).mean() if numbers.size else math.nan for power in (2, 3, 4))
    return {
        "count": finite.size,
        "nans": int(np.isnan(flat).sum()),
        "infinite": int(np.isinf(flat).sum()),
        "min": finite.min() if finite.size else math.nan,
        "max": finite.max() if finite.size else math.nan,
        "mean": float(mean),
        "variance": float(m2),
        "skewness": float(m3 / m2**1.5) if m2 > 0 else math.nan,
        "kurtosis": float(m4 / m2**2 - 3) if m2 > 0 else math.nan,
    }


def read_png(data: bytes) -> Array:
    """The pixels (red, green, blue) of a PNG with a palette and without filters."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    place = 8
    while place < len(data):
        length, kind = struct.unpack_from(">I4s", data, place)
        body = data[place + 8 : place + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack_from(">I", data, place + 8 + length)[0]
        chunks[kind] = body
        place += 12 + length
    width, height, depth, colour = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    assert (depth, colour) == (8, 3)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    return palette[rows[:, 1:]]


def rows_of(path: Path) -> list[dict[str, str]]:
    """A CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def numbers_in(path: Path) -> dict[str, Any]:
    """A JSON file of numbers; null is NaN."""
    return {name: math.nan if value is None else value for name, value in json.loads(path.read_text()).items()}
