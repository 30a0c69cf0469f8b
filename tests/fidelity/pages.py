"""Writes a page of docs/ when all that it shows has been run, and came to what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

Run = tuple[object, int, dict[str, str]]
"""What was run, how many cases it has, and what those came to, by name, that are not as the page shows them."""


def write(path: Path, page: Callable[[], str], runs: Iterable[Run]) -> int:
    """Tell of each run when it is done; if nothing is wrong in any, write the page. The exit code of the command."""
    wrong = 0
    for what, count, differing in runs:
        print(f"{what}: {count} cases, {len(differing)} not as the page shows", flush=True)
        for name, text in differing.items():
            print(f"{name}: {text}")
        wrong += len(differing)
    if wrong:
        return 1
    path.write_text(page(), encoding="utf-8")
    return 0
