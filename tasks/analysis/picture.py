"""Pictures of planes of numbers as PNG files (W3C, Portable Network Graphics, third edition), with a palette."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_NOTHING = (255, 0, 255, 0)
"""Red, green, blue and opacity where there is no number."""

_ANCHORS = {  # equally spaced colours, with straight lines between them
    "grey": "000000 ffffff",
    "viridis": "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c "
    "1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725",
}


def png(values: NDArray[Any], colours: str, span: tuple[float, float] | None = None) -> bytes:
    """A PNG of a plane of numbers, the first row on top; NaN is transparent.

    Args:
        values: two dimensions, neither of them empty.
        colours: ``viridis`` or ``grey``.
        span: the values of the first and last colour; None: the least and greatest there are.
    """
    return _file(shades(values, span), palette(colours))


def shades(values: NDArray[Any], span: tuple[float, float] | None) -> NDArray[np.uint8]:
    """The colour of each number: 1 to 255, and 0 for NaN."""
    numbers = values.astype(np.float64)
    known = ~np.isnan(numbers)
    if span is None:
        finite = numbers[np.isfinite(numbers)]
        span = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    low, high = span
    width = high - low or 1.0
    place = np.clip(np.where(known, numbers, low), low, high) - low
    return np.where(known, 1 + np.rint(place / width * 254), 0).astype(np.uint8)


def palette(colours: str) -> NDArray[np.uint8]:
    """Red, green and blue of the 256 colours of a name; the first is for NaN."""
    anchors = np.array([list(bytes.fromhex(anchor)) for anchor in _ANCHORS[colours].split()], float)
    places = np.linspace(0, len(anchors) - 1, 255)
    channels = [np.interp(places, range(len(anchors)), anchors[:, channel]) for channel in range(3)]
    return np.vstack([np.array(_NOTHING[:3]), np.rint(np.transpose(channels))]).astype(np.uint8)


def _file(pixels: NDArray[np.uint8], colours: NDArray[np.uint8]) -> bytes:
    height, width = pixels.shape
    unfiltered = np.hstack([np.zeros((height, 1), np.uint8), pixels])  # each row begins with the number of its filter
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", colours.tobytes()),
        (b"tRNS", bytes(_NOTHING[3:])),
        (b"IDAT", zlib.compress(unfiltered.tobytes())),
        (b"IEND", b""),
    )
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
