"""Writes a section of a page of docs/ when all that it shows has been run, and came to what it shows.

A section lies between two comments, ``<!-- NAME: written by COMMAND -->`` and ``<!-- end of NAME -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

Run = tuple[object, int, dict[str, str]]
"""What was run, how many cases it has, and what those came to, by name, that are not as the page shows them."""


def section(path: Path, name: str) -> str:
    """The text of a section of a page.

    Raises:
        LookupError: the page has no such section.
    """
    return _parts(path, name)[1]


def write(path: Path, name: str, text: Callable[[], str], runs: Iterable[Run]) -> int:
    """Tell of each run when it is done; if nothing is wrong in any, write the section. The command's exit code."""
    wrong = 0
    for what, count, differing in runs:
        print(f"{what}: {count} cases, {len(differing)} not as the page shows", flush=True)
        for case, came_to in differing.items():
            print(f"{case}: {came_to}")
        wrong += len(differing)
    if wrong:
        return 1
    before, _, after = _parts(path, name)
    path.write_text(before + text() + after, encoding="utf-8")
    return 0


def _parts(path: Path, name: str) -> tuple[str, str, str]:
    marks = rf"(.*<!-- {name}: [^\n]*-->\n\n)(.*)(\n<!-- end of {name} -->\n.*)"
    found = re.fullmatch(marks, path.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise LookupError(f"{path} has no section {name!r} between comments")
    return found[1], found[2], found[3]
