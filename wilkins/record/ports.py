"""Derives the ports of a task from what its program did with files, each key with its reason. Pure code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from wilkins.record.access import Accesses, FileAccess, folder_of
from wilkins.record.fold import fold
from wilkins.record.pairs import written_together
from wilkins.schema.patterns import is_wild

FROM_DISK = "no other task here writes it, so it is read from disk"
"""Why an in-port is not joined; a task that comes later may make it untrue (`wilkins.record.task.joined`)."""
_ADDED_TO = (
    "it opens the file again and again to add to it: each close is a step, with all that was there before; a program "
    "that opens the file once reads the first of these: if it is to read the last, publish: next"
)

_PASSED_ON = "it adds to what another task writes, and passes it on: see `wilkins help stages`"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a port, and why it is there."""

    name: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class Port:
    """Files that the program writes, or reads."""

    direction: Literal["in", "out"]
    pattern: str
    """Absolute."""
    files: tuple[FileAccess, ...]
    listed: int
    """How often their folder was listed."""
    keys: tuple[Key, ...]
    remarks: tuple[str, ...] = ()
    """Further remarks for the user."""


def ports_of(
    accesses: Accesses, is_data: Callable[[FileAccess], bool], written_as: Callable[[str], str | None] | None
) -> list[Port]:
    """The ports of a program.

    Args:
        is_data: whether a file is one that ports are for.
        written_as: the pattern under which another task of the workflow writes a file; None if none does. Left
            out: there is no workflow yet, and what a program that only reads is given will be written by a task.
    """
    files = [one for one in accesses.files.values() if is_data(one)]
    found = []
    folded = fold(one.name for one in files if one.is_written)
    written = {pattern: [accesses.files[name] for name in names] for pattern, names in folded.items()}
    together = written_together(written)
    passed_on: dict[str, list[str]] = {}
    for pattern, group in written.items():
        given = _given(group, written_as)
        if given and not any(one.closes[0].anew for one in group):
            passed_on[given] = [one.name for one in group]
            found.append(Port("out", given, tuple(group), accesses.listed(folder_of(group[0].name)), (), (_PASSED_ON,)))
            continue
        keys, remarks = _publish(group)
        remarks += (together[pattern],) if pattern in together else ()
        found.append(Port("out", pattern, tuple(group), accesses.listed(folder_of(group[0].name)), keys, remarks))
    is_alone = written_as is None and not found
    reads = [one.name for one in files if not one.is_written and one.opens]
    last_read: dict[str, int] = {}
    for name in reads:
        folder = folder_of(name)
        last_read[folder] = max(last_read.get(folder, -1), accesses.files[name].first_read)
    groups: dict[str, list[str]] = {pattern: list(names) for pattern, names in passed_on.items()}
    joined: set[str] = set(groups)
    for pattern, names in fold(reads).items():
        given = _given([accesses.files[name] for name in names], written_as)
        groups.setdefault(given or pattern, []).extend(names)
        if given:
            joined.add(given)
    for pattern, names in groups.items():
        group = [accesses.files[name] for name in names]
        folder = folder_of(names[0])
        listings = accesses.listings.get(folder, [])
        if pattern in passed_on:
            found.append(Port("in", pattern, tuple(group), len(listings), ()))
            continue
        keys = tuple(_reading(pattern, group, _reads_what_it_listed(group, listings, last_read[folder])))
        if not is_alone and pattern not in joined:
            keys = (Key("mode", "file", FROM_DISK),)
        found.append(Port("in", pattern, tuple(group), len(listings), keys))
    return found


def _given(files: Sequence[FileAccess], written_as: Callable[[str], str | None] | None) -> str | None:
    """The one pattern under which another task writes these files; None if there is none."""
    known = {written_as(one.name) if written_as else None for one in files}
    return known.pop() if len(known) == 1 else None


def _publish(files: Sequence[FileAccess]) -> tuple[tuple[Key, ...], tuple[str, ...]]:
    """When files are complete."""
    counts = {len(one.closes) for one in files}
    one = files[0]
    if counts == {1}:
        return _kept_open(one) if len(files) == 1 else ((), ())
    closes = sorted((close.at, one.name) for one in files for close in one.closes)
    names = [name for _, name in closes]
    if len(files) > 1:
        turns = 1 + sum(before != after for before, after in pairwise(names))
        often = str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
        why = f"it closes each file {often} times before it is complete"
        if turns == len(files):
            return (Key("publish", "next", f"{why}, and then begins the next one"),), ()
        if len(counts) == 1:
            return (Key("publish", str(min(counts)), f"{why}, and others in between"),), ()
        return (), (f"{why}: each close is a step; see `wilkins help appending`",)
    rounds = _rounds(one)
    if rounds == {1}:
        return (), ("it writes the file anew for each step",)
    if sum(close.anew for close in one.closes) > 1 and len(rounds) == 1:
        count = rounds.pop()
        return (Key("publish", str(count), f"it closes the file {count} times before it writes it anew"),), ()
    return (), (_ADDED_TO,)


def _kept_open(one: FileAccess) -> tuple[tuple[Key, ...], tuple[str, ...]]:
    """When a single file that is closed once is complete.

    Each flush is a step if a dataset is written again between flushes. If each dataset is written once, the file has
    all of them at its end only.
    """
    path, count = max(((path, count) for path, count in one.written.items() if path), key=_count, default=("", 0))
    if one.flushes > 1 and count > 1:
        why = f"it writes {path} {count} times, and flushes the file {one.flushes} times: each flush is a step"
        return (Key("publish", "flush", why),), ()
    if one.flushes > 1:
        return (), (f"it flushes the file {one.flushes} times: for a step at each, publish: flush",)
    if count > 1:
        return (), (f"it writes {path} {count} times: for a step at each, publish: {{write: 1, dset: {path}}}",)
    return (), ()


def _count(item: tuple[str, int]) -> int:
    return item[1]


def _rounds(one: FileAccess) -> set[int]:
    """How often a file was closed after each time it was begun anew."""
    counts = [0]
    for close in one.closes:
        if close.anew and counts[-1]:
            counts.append(0)
        counts[-1] += 1
    return set(counts)


def _reads_what_it_listed(files: Sequence[FileAccess], listings: Sequence[int], last_read: int) -> bool:
    """Whether a program lists a folder, then reads these files, and does not list again to look for more of them.

    It may list the folder for several kinds of files, before it reads or in between. A listing after which it reads no
    further file (`last_read`: when it turned to the last one of the folder) is one of a program that polls.
    """
    first, last = min(one.first_read for one in files), max(one.first_read for one in files)
    polls = bool(listings) and listings[-1] > last_read
    parted = any(first < at < last for at in listings)
    return len(files) > 1 and any(at < first for at in listings) and not parted and not polls


def _reading(pattern: str, files: Sequence[FileAccess], reads_listed: bool) -> list[Key]:
    """How files are read."""
    keys = []
    if len(files) == 1 and (count := _opens_per_step(files[0])) > 1:
        why = f"it opens the file {count} times to read it once"
        keys.append(Key("opens_per_step", str(count), why))
    one = files[0]
    if not is_wild(pattern) and one.looked_back and one.times_read > 1:
        keys.append(Key("looks", "wait", "it looks at the file again after it has read it, and reads it again"))
    if reads_listed:
        keys.append(Key("listing", "end", "it lists the folder, then reads what is there"))
    return keys


def _opens_per_step(one: FileAccess) -> int:
    """How many openings go with one that reads datasets, if that is always the same number."""
    opens = max(one.opens.values(), key=len)
    reading = [place for place, reads in enumerate(opens) if reads]
    if not reading:
        return 1
    count = reading[0] + 1
    regular = reading == list(range(count - 1, len(opens), count))
    return count if regular and len(opens) % count == 0 else 1
