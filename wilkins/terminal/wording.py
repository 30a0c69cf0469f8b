"""How the launcher words what it says at the end of a run: lists of names, and lines that fit a terminal."""

from __future__ import annotations

from collections.abc import Iterable

_WIDTH = 80 - len("wilkins: ")
_MOST_NAMED = 3
_KEEPS = "\0"


def listed(words: Iterable[str]) -> str:
    """``a, b and c``; of many, the first and how many more there are."""
    named = list(words)
    if len(named) > _MOST_NAMED + 1:
        named = [*named[:_MOST_NAMED], f"{len(named) - _MOST_NAMED} others"]
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def paragraphs(first: str, *others: str) -> str:
    """Lines that fit a terminal of 80 columns: what is the matter, and below it what more there is to say."""
    lines = [*_lines(first, ""), *(line for other in others for line in _lines(other, "  - "))]
    return "\n".join(lines)


def _lines(text: str, begin: str) -> list[str]:
    import re
    import textwrap

    lines = textwrap.wrap(
        # A key is to be copied: it stays on one line.
        re.sub(r"`[^`]{1,40}`", lambda found: found[0].replace(" ", _KEEPS), text),
        _WIDTH,
        initial_indent=begin,
        subsequent_indent=" " * (len(begin) or 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_KEEPS, " ") for line in lines]
