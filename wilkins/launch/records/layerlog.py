"""What the layer inside the tasks had to say that a user should see, out of its log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_LINE = r"^\d+\.\d+ (.*?\[-?\d+\]) ((?:hint|note|error): .*)$"
_MOST_READ = 1 << 20
_MOST_TOLD = 8
_TOLD_OTHERWISE = ("after it was published, which makes a second step", "it is published now.")
"""Hints and notes of which the summary tells with numbers."""


_GONE = r"^\d+\.\d+ .*?\[-?\d+\] task '(.*)' rank \d+: no such file '(.*)': the step of this name was "


def gone_names(log: Path) -> dict[str, str]:
    """By task: the name that it opened last of those whose steps its in-ports had dropped, skipped or let go."""
    return {match[1]: match[2] for line in _lines(log) if (match := re.match(_GONE, line))}


def useful_lines(log: Path, told: Iterable[str] = ()) -> list[str]:
    """Hints, notes and errors, each kind once, the first few of many; without what was `told` before. Empty if there is
    no log."""
    known = " ".join(" ".join(told).split())
    found: dict[str, tuple[str, int]] = {}
    for line in _lines(log):
        match = re.match(_LINE, line)
        if match is None or any(words in match[2] for words in _TOLD_OTHERWISE):
            continue
        message = match[2]
        if " ".join(message.partition(": ")[2].split()) in known:
            continue
        kind = re.sub(r"\d+", "#", message)
        first, count = found.get(kind, (message, 0))
        found[kind] = first, count + 1
    lines = [f"{message} ({count} times alike)" if count > 1 else message for message, count in found.values()]
    more = len(lines) - _MOST_TOLD
    return [
        *lines[:_MOST_TOLD],
        *([f"{more} more such {'line is' if more == 1 else 'lines are'} in {log}"] if more > 0 else []),
    ]


def _lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            return file.read(_MOST_READ).decode(errors="replace").splitlines()
    except OSError:
        return []
