"""Finds files that ranks on several hosts wrote under one name at one time, from the traces of their hosts.

On one machine the board ends such a run at once. Between hosts nobody sees both, so it is reported at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from wilkins.errors import count_of
from wilkins.launch.hosts.clocks import Clock
from wilkins.plan.plan import Plan
from wilkins.plan.relayrules import spans
from wilkins.plan.split import HostPart

_CREATED, _PUBLISHED = b"create", b"publish"


@dataclass(frozen=True, slots=True)
class _Writing:
    """A file from its creation to its publication, by the head's clock, in nanoseconds."""

    host: int
    rank: int
    begin: int
    end: int
    within: int
    """The error of both times is no larger."""


def clashes(plan: Plan, traces: Sequence[tuple[HostPart, Path]], clocks: Mapping[int, Clock]) -> list[str]:
    """A message for each task with such files.

    Args:
        traces: the parts of hosts, and the files of their traces.
        clocks: by host; without that of a host, what it wrote is left out.
    """
    written: dict[tuple[int, str], list[_Writing]] = defaultdict(list)
    for part, path in traces:
        if part.host in clocks:
            for task, name, writing in _writings(plan, part, path, clocks[part.host]):
                written[task, name].append(writing)
    found: dict[int, list[tuple[str, _Writing, _Writing]]] = defaultdict(list)
    for (task, name), writings in written.items():
        if (pair := _at_once(writings)) is not None:
            found[task].append((name, *pair))
    return [_message(plan, task, files) for task, files in found.items()]


def _writings(plan: Plan, part: HostPart, path: Path, clock: Clock) -> Iterator[tuple[int, str, _Writing]]:
    """The files that ranks here wrote, of tasks with others on other hosts, each with the index of its task."""
    first = {
        plan.tasks[index].name.encode(): (index, part.first_ranks[place])
        for place, index in enumerate(part.tasks)
        if spans(plan.tasks[index])
    }
    ports = {
        (plan.tasks[port.task].name.encode(), port.pattern.encode())
        for port in map(plan.ports.__getitem__, part.ports)
        if port.direction == "out" and str(port.publish) == "close"
    }
    if not first or not ports or not path.exists():
        return
    begun: dict[tuple[bytes, bytes, bytes], int] = {}
    with path.open("rb") as lines:
        for line in lines:
            words = line.split(b"\t")
            if len(words) != 8 or words[1] not in (_CREATED, _PUBLISHED) or (words[2], words[4]) not in ports:
                continue
            time_ns, kind, task, rank, _, name, *_ = words
            if task not in first:
                continue
            if kind == _CREATED:
                begun[task, rank, name] = int(time_ns)
            elif (begin := begun.pop((task, rank, name), None)) is not None:
                index, offset = first[task]
                begin, end = begin - clock.ahead_ns, int(time_ns) - clock.ahead_ns
                writing = _Writing(part.host, offset + int(rank), begin, end, clock.within_ns)
                yield index, name.decode(errors="surrogateescape"), writing


def _at_once(writings: Sequence[_Writing]) -> tuple[_Writing, _Writing] | None:
    """Two of different hosts, if there are, that were surely under way at one time."""
    for one, other in combinations(writings, 2):
        together = min(one.end, other.end) - max(one.begin, other.begin)
        if one.host != other.host and together > one.within + other.within:
            return one, other
    return None


def _message(plan: Plan, task: int, files: Sequence[tuple[str, _Writing, _Writing]]) -> str:
    name, one, other = files[0]
    first, second = sorted((one, other), key=lambda writing: writing.rank)
    more = f" ({count_of(len(files) - 1, 'more file')} alike)" if len(files) > 1 else ""
    return (
        f"task {plan.tasks[task].name!r}: ranks {first.rank} (on {plan.hosts[first.host].name}) and {second.rank} (on "
        f"{plan.hosts[second.host].name}) both create {name!r}{more}; let each rank write a name of its own, or write "
        "one file together through MPI-IO"
    )
