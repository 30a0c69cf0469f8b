"""Where the time of a run went, in words, and what to change. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wilkins.errors import count_of
from wilkins.flow.timeline import Activity, TaskTimeline, Timeline
from wilkins.terminal.tables import duration, size
from wilkins.terminal.wording import listed

_MUCH = 0.25
"""Share of a task's time from which on it is worth advice."""
_BUSY = 0.6
"""Share of its time that a task computes which sets the pace of others."""
_MOST_ADVICE = 8


@dataclass(frozen=True, slots=True)
class Share:
    """How the ranks of a task spent their time, as shares of it; together 1."""

    name: str
    seconds: float
    of: Mapping[Activity, float]
    waits_on: str = ""
    """The pattern for which it waited longest, for data or for room."""


def shares(timeline: Timeline) -> list[Share]:
    """How each task spent its time; tasks of which the trace knows nothing are left out."""
    return [share for task in timeline.tasks if (share := _share(task))]


def _share(task: TaskTimeline) -> Share | None:
    spent: dict[Activity, float] = {}
    waits: dict[str, float] = {}
    for rank in task.ranks:
        for segment in rank.segments:
            lasted = segment.end - segment.begin
            spent[segment.activity] = spent.get(segment.activity, 0.0) + lasted
            if segment.activity in ("waiting for data", "waiting for room"):
                waits[segment.what] = waits.get(segment.what, 0.0) + lasted
    whole = sum(spent.values())
    if whole <= 0:
        return None
    parts = {activity: lasted / whole for activity, lasted in spent.items()}
    return Share(task.name, whole / len(task.ranks), parts, max(waits, key=lambda one: waits[one], default=""))


@dataclass(frozen=True, slots=True)
class Join:
    """A channel, as far as advice needs it."""

    writer: str
    reader: str
    files: str
    blocks: bool = True
    """The writer waits for the reader; else the reader leaves out what comes while it is busy."""
    parallel: bool = False
    """The reader is a program of MPI."""


def advise(found: Sequence[Share], joins: Sequence[Join], summary: Mapping[str, Any]) -> list[str]:
    """The most important findings, a sentence or two each.

    Args:
        summary: of the run, as ``summary.json`` has it; empty of one that goes on or was killed.
    """
    messages = [*_pace(found, joins), *_starts(found), *_moves(found), *_steps(joins, summary), *_failures(summary)]
    return messages[:_MOST_ADVICE] or ["No task waited for another, or for its start, for much of its time."]


def oversubscribed(ranks: Mapping[str, int], cores: int) -> list[str]:
    """The message about tasks with more ranks than there were cores, by name with their ranks."""
    return [
        f"{name} had {count} ranks on {count_of(cores, 'core')}: they took turns, and ranks of MPI spin while they "
        "wait. Give it fewer, or more hosts."
        for name, count in ranks.items()
        if count > cores
    ]


def _pace(found: Sequence[Share], joins: Sequence[Join]) -> Iterator[str]:
    """Tasks that others wait for."""
    by_name = {share.name: share for share in found}
    parallel = {one.reader for one in joins if one.parallel}
    all_ends = dict.fromkeys((one.writer, one.reader) for one in joins)
    blocking = dict.fromkeys((one.writer, one.reader) for one in joins if one.blocks)
    for share in found:
        if share.of.get("computing", 0.0) < _BUSY:
            continue
        hungry = [
            by_name[reader]
            for writer, reader in all_ends
            if writer == share.name and reader in by_name and _part(by_name[reader], "waiting for data") >= _MUCH
        ]
        held = [
            by_name[writer]
            for writer, reader in blocking
            if reader == share.name and writer in by_name and _part(by_name[writer], "waiting for room") >= _MUCH
        ]
        computed = f"{_percent(share.of['computing'])} of its time"
        if hungry:
            yield (
                f"{share.name} sets the pace: it computed {computed}, while {_who(hungry)} waited for its steps "
                f"{_percents(hungry, 'waiting for data')}. A faster {share.name} makes the run faster; longer queues "
                "do not."
            )
        if held:
            more = (
                "more ranks or instances (`nprocs`, `taskCount`)"
                if share.name in parallel
                else "instances (`taskCount`)"
            )
            yield (
                f"{share.name} holds up {_who(held)}, which waited for room {_percents(held, 'waiting for room')}, "
                f"while it computed {computed}. Make {share.name} faster, give it {more}, or fewer steps "
                "(`io_freq: n`, or `io_freq: latest`); a longer `queue` only evens out what varies."
            )


def _starts(found: Sequence[Share]) -> Iterator[str]:
    """Time before the first step; of tasks that had one."""
    slow = [share for share in found if 1 > _part(share, "starting") >= _MUCH]
    if slow:
        longest = max(slow, key=lambda share: share.of["starting"] * share.seconds)
        yield (
            f"{_who(slow)} spent {_percents(slow, 'starting')} of {'their' if len(slow) > 1 else 'its'} time before "
            f"the first step ({longest.name}: {duration(longest.of['starting'] * longest.seconds)}): in imports and "
            "input, for the most part. That weighs less in a longer run."
        )


def _moves(found: Sequence[Share]) -> Iterator[str]:
    """Time for copying."""
    for share in found:
        if _part(share, "moving") >= _MUCH:
            yield (
                f"{share.name} spent {_percent(share.of['moving'])} of its time with files open: writing, reading, and "
                "whatever the program does between the open and the close of a file. If it computes there, close "
                "files sooner; if not, it is bound by copying."
            )


def _steps(joins: Sequence[Join], summary: Mapping[str, Any]) -> Iterator[str]:
    """Steps that did not reach a reader, though its policy does not leave them out."""
    newest = {(one.writer, one.reader, one.files) for one in joins if not one.blocks}
    for channel in summary.get("channels", ()):
        by_policy = (channel["producer"], channel["consumer"], channel["files"]) in newest
        lost = [
            f"{channel[key]} {words}"
            for key, words in (
                ("dropped", "" if by_policy else "were given up, since the queue was full"),
                ("let_go", "were given up, since the run would have stood still"),
                ("unread", "were not read before it ended"),
            )
            if channel[key] and words
        ]
        if lost:
            of = (
                f"of the {count_of(channel['published'], 'step')} of {channel['files']} that {channel['producer']} made"
            )
            yield f"{channel['consumer']} missed some {of}: {listed(lost)}."


def _failures(summary: Mapping[str, Any]) -> Iterator[str]:
    for task in summary.get("tasks", ()):
        if task.get("retries"):
            yield f"{task['name']} failed and was started again {count_of(task['retries'], 'time')}."


def account(summary: Mapping[str, Any]) -> str:
    """The run in one line."""
    moved = sum(task["bytes"] for task in summary["tasks"])
    steps = sum(channel["read"] for channel in summary["channels"])
    return (
        f"{count_of(len(summary['tasks']), 'task')}, {duration(summary['wall_s'])}, {count_of(steps, 'step')} read, "
        f"{size(moved)} moved, at most {size(summary['memory_peak_bytes'])} of shared memory"
    )


def _part(share: Share, activity: Activity) -> float:
    return share.of.get(activity, 0.0)


def _who(some: Sequence[Share]) -> str:
    names = [share.name for share in some]
    return listed(names[:3] + ([f"{len(names) - 3} more"] if len(names) > 3 else []))


def _percents(some: Sequence[Share], activity: Activity) -> str:
    parts = sorted(share.of[activity] for share in some)
    low, high = _percent(parts[0]), _percent(parts[-1])
    return low if low == high else f"{low} to {high}"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"
