"""Messages for the user from the log of the layer inside the tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wilkins.values import dataclass

if TYPE_CHECKING:
    from wilkins.transport.events import Logged

_MOST_READ = 4 << 20
_MAX_MESSAGES = 8


@dataclass(frozen=True, slots=True)
class Said:
    """A message for the user."""

    words: str
    page: str = ""
    """Of `wilkins help`, that says more."""


def events(log: Path) -> list[Logged]:
    """The events of the log, in order. Empty if there is no log."""
    try:
        with log.open("rb") as file:
            lines = os.fsdecode(file.read(_MOST_READ)).split("\n")
    except OSError:
        return []
    from wilkins.transport.events import read  # most runs have nothing to say

    return [logged for line in lines if (logged := read(line))]


def gone_names(found: Iterable[Logged]) -> dict[str, str]:
    """By task: the name that it opened last of those whose steps its in-ports had dropped, skipped or let go."""
    return {
        one.task: str(one.arguments["name"])
        for one in found
        if one.code == "no_such_file" and one.arguments["why"] == "passed"
    }


def useful(found: Sequence[Logged], log: Path, shown: Iterable[str] = ()) -> list[Said]:
    """Hints, notes and errors, each kind once, the first few of many; without what was `shown` before."""
    known = " ".join(" ".join(shown).split())
    kinds: dict[object, tuple[Logged, int]] = {}
    for one in found:
        if one.event.kind and not one.event.counted and " ".join(one.words.split()) not in known:
            kind = one.code, re.sub(r"\d+", "#", repr(list(one.arguments.values())))
            first, count = kinds.get(kind, (one, 0))
            kinds[kind] = first, count + 1
    said = [
        Said(f"{one.event.kind}: {one.words}" + (f" ({count} times alike)" if count > 1 else ""), one.event.page)
        for one, count in kinds.values()
    ]
    more = len(said) - _MAX_MESSAGES
    others = [Said(f"{more} more such {'line is' if more == 1 else 'lines are'} in {log}")] if more > 0 else []
    return [*said[:_MAX_MESSAGES], *others]
