"""What all pictures share: matplotlib if it is there, colours that everybody can tell apart, and saving."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

from wilkins.errors import UsageError
from wilkins.flow.timeline import Activity
from wilkins.names import text_of
from wilkins.terminal import streams

# Okabe and Ito's palette (Color Universal Design, 2008); greys for what is no work.
BLUE, ORANGE, GREEN, SKY, VERMILION, INK, PALE, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#A6D8F5",
    "#D55E00",
    "#222222",
    "#DEDEDE",
    "#B4B4B4",
)
COLOURS: dict[Activity, str] = {
    "starting": PALE,
    "computing": BLUE,
    "waiting for data": SKY,
    "waiting for room": ORANGE,
    "moving": GREEN,
    "ending": GREY,
}
_RESOLUTION = 150
"""Dots per inch of a PNG."""


def new_figure(width: float, height: float) -> Any:
    """A figure of so many inches that belongs to no window.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "cannot draw: matplotlib is not installed; run: pip install 'wilkins[draw]' (or use --format text)"
        ) from None
    matplotlib.rcParams.update({"svg.hashsalt": "wilkins", "font.family": "DejaVu Sans", "font.size": 9})
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def text_width(text: str, size: float) -> float:
    """How wide a text is, in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    return float(TextToPath().get_text_width_height_descent(text_of(text), FontProperties(size=size), ismath=False)[0])


def image_of(figure: Any, file_format: str) -> bytes:
    """A picture as bytes, the same ones each time."""
    image = io.BytesIO()
    metadata = {"Date": None} if file_format == "svg" else None
    figure.savefig(image, format=file_format, dpi=_RESOLUTION, metadata=metadata)
    return image.getvalue()


def save(figure: Any, file_format: str, target: Path | None) -> None:
    """Write a picture to a file, or to standard output where that leads somewhere else than to a terminal.

    Raises:
        UsageError: it cannot be written there.
    """
    image = image_of(figure, file_format)
    if target is None:
        if sys.stdout.isatty():
            raise UsageError(f"cannot show a picture on a terminal; name a file: -o picture.{file_format}")
        streams.show_bytes(image)
        return
    try:
        target.write_bytes(image)
    except OSError as error:
        raise UsageError(f"{target}: cannot write it: {error.strerror}; name another file with -o") from error
