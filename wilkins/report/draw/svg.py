"""What all pictures share: colours, the widths of texts, and putting a picture out as SVG or as PNG."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template
from typing import Literal, get_args

from wilkins.errors import UsageError
from wilkins.flow.timeline import Activity
from wilkins.names import text_of
from wilkins.terminal import streams

ACTIVITIES: tuple[Activity, ...] = get_args(Activity)
"""The first of them has the class and the colour ``a0``, and so on."""
_COLOURS = {
    "ink": ("#222222", "#e6e8ea"),
    "soft": ("#5b6470", "#9aa4af"),
    "paper": ("#ffffff", "#14181d"),
    "card": ("#f6f8fa", "#1d232a"),
    "line": ("#d8dee4", "#39424d"),
    "link": ("#0072b2", "#5cb6ea"),
    "back": ("#d55e00", "#f08c4a"),
    "box": ("#e3f1fa", "#1c3342"),
    "a0": ("#dedede", "#4a4f55"),
    "a1": ("#0072b2", "#3a9bd9"),
    "a2": ("#a6d8f5", "#2f566b"),
    "a3": ("#e69f00", "#e0a52a"),
    "a4": ("#009e73", "#2bb58c"),
    "a5": ("#b4b4b4", "#6a7078"),
}
"""On light and on dark paper: Okabe and Ito's palette (Color Universal Design, 2008); greys for what is no work."""
_RULES = Template(
    ".picture .paper{fill:$paper}.picture text{fill:$ink}.picture .fact{fill:$link}"
    ".picture .task{fill:$box;stroke:$link}.picture .group{fill:$card;stroke:$soft}"
    ".picture .edge{fill:none;stroke:$ink}.picture .back{stroke:$back}.picture .head{fill:$ink}"
    ".picture .backhead{fill:$back}.picture .grid{stroke:$line}"
    + "".join(f".picture .a{number}{{fill:$a{number}}}" for number in range(len(ACTIVITIES)))
)
_FONTS = "'DejaVu Sans', Verdana, 'Noto Sans', 'Liberation Sans', Arial, Helvetica, sans-serif"
_WIDTHS = {
    letter: width
    for width, letters in (
        (0.32, " ',.IJijl"),
        (0.41, "!()-/:;[\\]frt|"),
        (0.53, '"*?_`sz'),
        (0.70, "ABCKRVXZ"),
        (0.80, "&DGHNOQU"),
        (0.84, "#+<=>^w~"),
        (1.00, "%@MWm"),
    )
    for letter in letters
}
"""Widths of letters as parts of their size, in DejaVu Sans, which is wider than most fonts; others have 0.64."""
_BOLDER = 1.14
_RESOLUTION = 150
"""Dots per inch of a PNG."""

Anchor = Literal["start", "middle", "end"]


def variables() -> str:
    """The colours as variables of a page's style."""
    light, dark = (";".join(f"--{name}:{both[n]}" for name, both in _COLOURS.items()) for n in (0, 1))
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


def picture(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    """A picture, its size in points; it follows the reader's choice of light or dark.

    Args:
        label: what it shows, for those who do not see it.
    """
    light, dark = (_RULES.substitute({name: both[n] for name, both in _COLOURS.items()}) for n in (0, 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" aria-label="{escape(label)}" '
        f'width="{width:.0f}pt" height="{height:.0f}pt" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="{_FONTS}"><style>{light}@media (prefers-color-scheme: dark){{{dark}}}</style>'
        f'<rect class="paper" width="100%" height="100%"/>\n{"".join(parts)}</svg>'
    )


def text(x: float, middle: float, words: str, size: float, kind: str = "", anchor: Anchor = "start") -> str:
    """A line of text around a height; `kind`: its class, of which ``name`` is bold."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text_of(words))
    bold = ' font-weight="bold"' if kind == "name" else ""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{middle + 0.36 * size:.1f}" font-size="{size:g}" text-anchor="{anchor}"'
        f"{bold}>{escape(shown)}</text>\n"
    )


def width_of(words: str, size: float, kind: str = "") -> float:
    """How wide a text is at most, in points, or nearly so."""
    letters = text_of(words)
    whole = sum(_WIDTHS.get(letter, 0.64 if ord(letter) < 0x2000 else 1.0) for letter in letters)
    return whole * size * (_BOLDER if kind == "name" else 1.0)


def save(image: str, file_format: str, target: Path | None) -> None:
    """Write a picture to a file, or to standard output where that leads somewhere else than to a terminal.

    Args:
        file_format: svg, png or pdf.

    Raises:
        UsageError: it cannot be written there, or what makes PNG and PDF of it is not installed.
    """
    data = image.encode() if file_format == "svg" else _converted(image, "pdf" if file_format == "pdf" else "png")
    if target is None:
        if sys.stdout.isatty():
            raise UsageError(f"cannot show a picture on a terminal; name a file: -o picture.{file_format}")
        streams.show_bytes(data)
        return
    try:
        target.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{target}: cannot write it: {error.strerror}; name another file with -o") from error


def _converted(image: str, file_format: Literal["png", "pdf"]) -> bytes:
    try:
        import typst
    except ImportError:
        raise UsageError(
            f"cannot draw a {file_format.upper()}: typst is not installed; run: pip install 'wilkins[draw]' (or use "
            "--format svg)"
        ) from None
    page = b'#set page(width: auto, height: auto, margin: 0pt)\n#image(bytes(sys.inputs.picture), format: "svg")'
    done = typst.compile(page, format=file_format, ppi=_RESOLUTION, sys_inputs={"picture": image})
    return bytes(done)
