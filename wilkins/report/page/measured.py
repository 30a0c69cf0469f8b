"""The graph of a run: the picture of its tasks and the files between them, with what went along each edge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wilkins.errors import count_of
from wilkins.flow.timeline import Activity, Timeline
from wilkins.plan.graph import policy_words, task_words
from wilkins.plan.plan import Plan
from wilkins.plan.relayrules import RelayRules
from wilkins.report.draw.graph import box, bundle, drawn
from wilkins.terminal.tables import duration, size


def graph_of(
    plan: Plan, timeline: Timeline | None, channels: Sequence[Mapping[str, Any]] | None, sizes: Mapping[str, float]
) -> str:
    """The picture.

    Args:
        timeline: of the run, if it is known: who waited at which port.
        channels: the account of the run; None: it has none, and the timeline says what was read.
        sizes: mean size of a step, by task instance and pattern with a tab between.
    """
    entry = [task.entry_name for task in plan.tasks]
    members: dict[str, list[str]] = defaultdict(list)
    for task in plan.tasks:
        members[entry[task.index]].append(task.name)
    stages = {entry[port.task] for port in plan.ports if port.passes_on}
    ranks = {entry[task.index]: task.nprocs for task in plan.tasks}
    boxes = {name: box(name, names, task_words(ranks[name], name in stages)) for name, names in members.items()}
    ends = [(plan.ports[one.outport], plan.ports[one.inport]) for one in plan.channels]
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, (out, into) in enumerate(ends):
        groups[entry[out.task], out.origin, entry[into.task], into.origin].append(number)
    account = (
        _read_by(plan, timeline)
        if channels is None
        else {(one["producer"], one["consumer"], one["files"]): one["read"] for one in channels}
    )
    waits = _waits(timeline)
    bundles = []
    for (writer, _, reader, _), numbers in groups.items():
        first, (out, into) = plan.channels[numbers[0]], ends[numbers[0]]
        both = [ends[number] for number in numbers]
        pairs = [(plan.tasks[a.task].name, plan.tasks[b.task].name) for a, b in both]
        files = [together(one) for one in zip(*((a.pattern, b.pattern, b.called) for a, b in both), strict=True)]
        joined = [(*names, a.pattern, b.pattern) for names, (a, b) in zip(pairs, both, strict=True)]
        facts = [policy_words(first.policy, into.listing), *_facts(joined, account, sizes, waits)]
        bundles.append(bundle(boxes[writer], boxes[reader], pairs, files, facts, out.mode))
    return drawn(list(boxes.values()), bundles)


def together(patterns: Sequence[str]) -> str:
    """The patterns of ports of several instances, in short."""
    different = list(dict.fromkeys(patterns))
    return different[0] if len(different) == 1 else f"{different[0]} ... ({len(different)})"


_Read = Mapping[tuple[str, str, str], int]
"""By writer, reader and the reader's pattern: how many steps were read."""


def _read_by(plan: Plan, timeline: Timeline | None) -> _Read:
    """What a timeline says of that."""
    ends = [(plan.ports[one.outport], plan.ports[one.inport]) for one in plan.channels]
    wanted: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for out, into in ends:
        wanted[plan.tasks[out.task].name, out.pattern, plan.tasks[into.task].name].append(into.pattern)
    rules = RelayRules(plan)
    counts: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for step in timeline.steps if timeline else ():
        relay = rules.of_half(step.task)
        writer = step.task if relay is None else plan.tasks[plan.ports[relay.outport].task].name
        for reader in {opening.task for opening in step.openings}:
            for pattern in wanted.get((writer, step.pattern, reader), ()):
                counts[writer, reader, pattern, step.task] += 1
    found: dict[tuple[str, str, str], int] = {}
    for (*joined, _), count in counts.items():  # ranks on several hosts read copies of the same steps
        writer, reader, pattern = joined
        found[writer, reader, pattern] = max(found.get((writer, reader, pattern), 0), count)
    return found


_Waits = dict[tuple[str, str, Activity], float]
"""By task, pattern and activity: how long the task waited at the port, in seconds, the mean over its ranks."""


def _waits(timeline: Timeline | None) -> _Waits:
    found: _Waits = defaultdict(float)
    for task in timeline.tasks if timeline else ():
        for rank in task.ranks:
            for segment in rank.segments:
                if segment.what and segment.activity.startswith("waiting"):
                    found[task.name, segment.what, segment.activity] += (segment.end - segment.begin) / len(task.ranks)
    return found


def _facts(
    channels: Sequence[tuple[str, str, str, str]],
    account: _Read,
    sizes: Mapping[str, float],
    waits: _Waits,
) -> Iterator[str]:
    """What went along channels (writer, reader, their patterns), and who waited; a port's waits are reported once."""
    read, moved = 0, 0.0
    for_data, for_room = 0.0, 0.0
    for writer, reader, written, wanted in channels:
        steps = account.get((writer, reader, wanted), 0)
        read += steps
        moved += steps * sizes.get(f"{writer}\t{written}", 0.0)
        for_data += waits.pop((reader, wanted, "waiting for data"), 0.0)
        for_room += waits.pop((writer, written, "waiting for room"), 0.0)
    if read:
        yield f"{count_of(read, 'step')} read" + (f", {size(round(moved))}" if moved else "")
    if for_data >= 0.001:
        yield f"waited for data: {duration(for_data)}"
    if for_room >= 0.001:
        yield f"waited for room: {duration(for_room)}"
