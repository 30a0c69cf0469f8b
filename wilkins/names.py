"""Names as this process's system calls take them. They are bytes; a text means those that it has in UTF-8."""

from __future__ import annotations

import os


def own_form(text: str) -> str:
    """A text in the form in which ``os.fsencode`` gives its bytes, whatever the locale.

    Under a locale of another encoding than UTF-8 that is not the text itself. It may be in the form of another locale
    already, as in the records of an earlier run.
    """
    return text if text.isascii() else os.fsdecode(text.encode("utf-8", "surrogateescape"))


def text_of(name: str) -> str:
    """The text of a name in its own form, to be written or drawn; what is no UTF-8 is escaped."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def printable(text: str, most: int = 200) -> str:
    """A text that was found in a file, for a terminal or a page: control characters, letters that turn the direction of
    writing, and what is no UTF-8 are escaped.

    Args:
        most: letters that are shown; what is longer ends with ``...``.
    """
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in text[:most]
    )
    return shown if len(text) <= most else f"{shown}..."
