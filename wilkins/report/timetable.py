"""Shows timelines as text: a table of what each task did, and a Gantt chart of its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from wilkins.errors import count_of
from wilkins.flow.timeline import Activity, RankTimeline, Timeline
from wilkins.terminal.tables import duration, text_table

_ACTIVITIES: tuple[Activity, ...] = get_args(Activity)
_BLOCKS: dict[Activity, str] = {
    "starting": "░",
    "computing": "█",
    "waiting for data": "·",
    "waiting for room": "─",
    "moving": "▒",
    "ending": "▁",
}
_LETTERS: dict[Activity, str] = {
    "starting": ":",
    "computing": "#",
    "waiting for data": ".",
    "waiting for room": "x",
    "moving": "=",
    "ending": "_",
}
_MOST_ROWS = 40
_LEAST_WIDTH = 20


def table(timeline: Timeline) -> str:
    """One line per task, of very many the first ones. Times are means over its ranks."""
    shown = [
        activity
        for activity in _ACTIVITIES
        if activity not in ("starting", "ending") or any(task.mean(activity) for task in timeline.tasks)
    ]
    counts = timeline.counts()
    rows = []
    for task in timeline.tasks[:_MOST_ROWS]:
        count = counts[task.name]
        rows.append(
            [
                task.name,
                str(len(task.ranks)),
                "never" if task.end is None else duration(task.end),
                *(duration(task.mean(activity)) for activity in shown),
                *(str(number) if number else "-" for number in (count.produced, count.consumed, count.dropped)),
            ]
        )
    head = ["task", "ranks", "completion", *shown, "produced", "consumed", "dropped"]
    lines = text_table(head, rows, left={0})
    if len(timeline.tasks) > _MOST_ROWS:
        lines += f"\n... and {count_of(len(timeline.tasks) - _MOST_ROWS, 'more task')}"
    return f"{lines}\nthe workflow: {'never' if timeline.stuck else duration(timeline.end)}"


def comparison(predicted: Timeline, happened: Timeline) -> str:
    """Completion as predicted and as it happened, in one table."""

    def row(name: str, model: float | None, real: float | None) -> list[str]:
        difference = f"{100 * (real - model) / model:+.1f} %" if model and real is not None else "-"
        return [name, *("never" if end is None else duration(end) for end in (model, real)), difference]

    real = {task.name: task.end for task in happened.tasks}
    rows = [row(task.name, task.end, real[task.name]) for task in predicted.tasks if task.name in real]
    rows.append(row("the workflow", None if predicted.stuck else predicted.end, happened.end))
    return text_table(["completion", "model", "run", "difference"], rows, left={0})


def gantt(timeline: Timeline, width: int = 100, plain: bool = False) -> str:
    """One line per rank, a column for each slice of time showing its main activity.

    Args:
        plain: only ASCII characters.
    """
    marks = _LETTERS if plain else _BLOCKS
    rows = [
        (f"{task.name}:{rank.rank}" if len(task.ranks) > 1 else task.name, rank)
        for task in timeline.tasks
        for rank in task.ranks
    ]
    left = rows[_MOST_ROWS:]
    rows = rows[:_MOST_ROWS]
    margin = max((len(name) for name, _ in rows), default=0) + 2
    columns = max(width - margin, _LEAST_WIDTH)
    lines = []
    for name, rank in rows:
        shown = "".join(_most(slot, marks) for slot in slices(rank, timeline.end, columns))
        lines.append(f"{name:<{margin}}{shown}".rstrip())
    if left:
        lines.append(f"{'':<{margin}}... and {len(left)} more ranks")
    begin, end = "0 s", duration(timeline.end)
    lines.append(f"{'':<{margin}}{begin}{end:>{columns - len(begin)}}")
    found = {segment.activity for _, rank in rows for segment in rank.segments}
    lines.append("  ".join(f"{marks[activity]} {activity}" for activity in _ACTIVITIES if activity in found))
    return "\n".join(lines)


def slices(rank: RankTimeline, end: float, columns: int) -> list[dict[Activity, float]]:
    """How much of each slice of its time a rank spent on what, as parts of the slice."""
    if not end:
        return []
    slots: list[dict[Activity, float]] = [{} for _ in range(columns)]
    for segment in rank.segments:
        first, last = segment.begin / end * columns, min(segment.end / end * columns, columns)
        for column in range(int(first), min(int(last), columns - 1) + 1):
            share = min(last, column + 1) - max(first, column)
            slots[column][segment.activity] = slots[column].get(segment.activity, 0.0) + share
    return slots


def _most(slot: dict[Activity, float], marks: dict[Activity, str]) -> str:
    """The mark of a slice's main activity; a blank if less than half of the slice is covered."""
    if sum(slot.values()) < 0.5:
        return " "
    return marks[max(slot, key=slot.__getitem__)]


def report(parts: Sequence[tuple[str, Timeline]], width: int, plain: bool) -> str:
    """Tables and charts of several timelines, each under its title."""
    blocks = []
    for title, timeline in parts:
        heading = f"{title}\n{'=' * len(title)}\n" if len(parts) > 1 else ""
        blocks.append(f"{heading}{table(timeline)}\n\n{gantt(timeline, width, plain)}")
    if len(parts) == 2:
        blocks.append(comparison(parts[0][1], parts[1][1]))
    return "\n\n".join(blocks)
