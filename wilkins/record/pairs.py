"""Files of several names that a program writes in turns, one of each: they may be one step. Pure code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import PurePath

from wilkins.record.access import FileAccess


def written_together(groups: Mapping[str, Sequence[FileAccess]]) -> dict[str, str]:
    """Remarks on patterns whose files are written in turns with those of another one, by the first of them.

    Args:
        groups: absolute patterns, and the files that the program has written under each.
    """
    numbered = {pattern: numbers for pattern, files in groups.items() if (numbers := _numbers(pattern, files))}
    remarks: dict[str, str] = {}
    known: set[str] = set()
    for pattern, numbers in numbered.items():
        others = [
            other
            for other, theirs in numbered.items()
            if other != pattern and PurePath(other).parent == PurePath(pattern).parent and _in_turns(numbers, theirs)
        ]
        if others and pattern not in known:
            names = [PurePath(one).name for one in (pattern, *others)]
            remarks[pattern] = (
                f"it writes {' and '.join(names)} in turns: if those of one number belong together, list them here and "
                f"where they are read, as filename: [{', '.join(names)}]"
            )
            known |= {pattern, *others}
    return remarks


def _numbers(pattern: str, files: Sequence[FileAccess]) -> dict[tuple[str, ...], FileAccess]:
    """The files by what stands for the wildcards of their names; none if these are not `*` alone."""
    if len(files) < 2 or "[" in pattern or "*" not in PurePath(pattern).name:
        return {}
    shape = re.compile(re.escape(pattern).replace(r"\*", "(.+)"))
    return {found.groups(): one for one in files if (found := shape.fullmatch(one.name))}


def _in_turns(mine: Mapping[tuple[str, ...], FileAccess], theirs: Mapping[tuple[str, ...], FileAccess]) -> bool:
    """Whether both have the same numbers, and the program is done with one before it turns to the next."""
    if mine.keys() != theirs.keys():
        return False
    closes = sorted(
        (close.at, number) for side in (mine, theirs) for number, one in side.items() for close in one.closes
    )
    return len([number for number, _ in groupby(number for _, number in closes)]) == len(mine)
