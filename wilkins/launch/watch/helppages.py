"""The pages of `wilkins help` about the keys that the messages of a run name."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEY = r"`([a-z_]+):"
_PAGES = {
    "publish": "appending",
    "looks": "looking-at-files",
    "listing": "looking-at-files",
    "reorder": "looking-at-files",
    "opens_per_step": "looking-at-files",
    "as": "looking-at-files",
    "enough": "stuck",
    "rerun": "stuck",
}

STUCK = "more about this: `wilkins help stuck`"


def pages(messages: Iterable[str], others: Iterable[str] = ()) -> str:
    """A line that names the pages about all messages together, and `others`; empty if there is none."""
    keys = {key for message in messages for key in re.findall(_KEY, message)}
    named = dict.fromkeys([*(page for key, page in _PAGES.items() if key in keys), *others])
    return f"more about this: {', '.join(f'`wilkins help {page}`' for page in named)}" if named else ""
