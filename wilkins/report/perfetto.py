"""Timelines in the Trace Event Format, which Perfetto (ui.perfetto.dev) and ``chrome://tracing`` open.

Source: "Trace Event Format", Google,
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (read 2026-11): a JSON object with
``traceEvents``. A task is a process there, a rank a thread; arrows lead from the publication of a step to
the ranks that opened it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from wilkins.flow.timeline import StepTimeline, TaskTimeline, Timeline

Entry = dict[str, Any]
_INSTANT = 0.001
"""Microseconds."""


def perfetto(panels: Sequence[tuple[str, Timeline]]) -> str:
    """The text of a file that has the timelines, each with its title, one below the other."""
    events: list[Entry] = []
    tasks = arrows = 1
    for title, timeline in panels:
        numbers = {task.name: number for number, task in enumerate(timeline.tasks, start=tasks)}
        for task in timeline.tasks:
            events += _ranks(numbers[task.name], f"{task.name} ({title})", task)
        for step in timeline.steps:
            events += _arrows(arrows, numbers, step)
            arrows += len(step.openings)
        tasks += len(numbers)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def _ranks(process: int, name: str, task: TaskTimeline) -> Iterator[Entry]:
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
    for rank in task.ranks:
        yield {
            "ph": "M",
            "name": "thread_name",
            "pid": process,
            "tid": rank.rank,
            "args": {"name": f"rank {rank.rank}"},
        }
        for segment in rank.segments:
            entry = {
                "ph": "X",
                "name": segment.activity,
                "cat": "activity",
                "pid": process,
                "tid": rank.rank,
                "ts": _us(segment.begin),
                "dur": round(_us(segment.end) - _us(segment.begin), 3),
            }
            yield {**entry, "args": {"port": segment.what}} if segment.what else entry


def _arrows(arrow: int, numbers: dict[str, int], step: StepTimeline) -> Iterator[Entry]:
    """The publication of a step, and an arrow from it to each rank that has opened it.

    An arrow leads from a slice to a slice: publication and opening are slices of one nanosecond.
    """
    name = f"{step.pattern}, step {step.number}"
    published = {"name": name, "pid": numbers[step.task], "tid": step.source, "ts": _us(step.published)}
    yield {"ph": "X", "cat": "published", "dur": _INSTANT, **published}
    for number, opening in enumerate(step.openings, start=arrow):
        opened = {"name": name, "pid": numbers[opening.task], "tid": opening.rank, "ts": _us(opening.time)}
        yield {"ph": "X", "cat": "opened", "dur": _INSTANT, **opened, "args": {"ranks": opening.ranks}}
        yield {"ph": "s", "id": number, **published, "cat": "step"}
        yield {"ph": "f", "bp": "e", "id": number, **opened, "cat": "step"}
    for reader in step.dropped_for:
        yield {"ph": "i", "s": "t", "cat": "dropped", **published, "name": f"{name}, dropped", "args": {"for": reader}}


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
