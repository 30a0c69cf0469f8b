"""The timeline of a run as a compact value for the page's script: columns of small whole numbers.

Times are in ticks; their length is chosen so that the run has at most `_TICKS` of them. Segments of a rank touch, so
each is stored as its length. Steps have one column for each fact, in the order of publication.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from wilkins.flow.timeline import RankTimeline, Timeline
from wilkins.flow.trace import Event
from wilkins.names import text_of
from wilkins.report.draw.svg import ACTIVITIES

_TICKS = 2**40
_FINEST = 1e-6
"""Seconds."""
_MOST_ROWS = 400
"""Ranks that the chart has rows for; of a task with more, the first ones are shown."""


def packed(value: dict[str, Any]) -> str:
    """A value as letters that stand safely in a page: JSON, compressed, in base 64."""
    text = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def value_of(
    timeline: Timeline, published: Sequence[Event], everything: Sequence[tuple[str, str, str]]
) -> dict[str, Any]:
    """The part of a timeline that the script shows.

    Args:
        published: the events of its steps, in their order.
        everything: channels whose reader gets every step: writer, pattern, reader.
    """
    tick = max(_FINEST, timeline.end / _TICKS)
    patterns = _Numbers()
    of_task = {task.name: number for number, task in enumerate(timeline.tasks)}
    each = _rows_each([len(task.ranks) for task in timeline.tasks])
    tasks = [
        {
            "name": text_of(task.name),
            "ranks": len(task.ranks),
            "rows": [_row(rank, tick, patterns) for rank in task.ranks[:most]],
        }
        for task, most in zip(timeline.tasks, each, strict=True)
    ]
    steps = timeline.steps
    openings = [opening for step in steps for opening in step.openings]
    began = [step.published for step in steps for _ in step.openings]
    columns = {
        "task": [of_task[step.task] for step in steps],
        "rank": [step.source for step in steps],
        "port": [patterns.of(step.pattern) for step in steps],
        "number": [step.number for step in steps],
        "time": _differences([round(step.published / tick) for step in steps]),
        "bytes": [event.bytes for event in published],
        "name": [text_of(event.name) for event in published],
        "opens": [len(step.openings) for step in steps],
        "openTask": [of_task[opening.task] for opening in openings],
        "openRank": [opening.rank for opening in openings],
        "openAfter": [round((one.time - since) / tick) for one, since in zip(openings, began, strict=True)],
        "drops": [[of_task[name] for name in step.dropped_for] or 0 for step in steps],
    }
    return {
        "tick": tick,
        "end": round(timeline.end / tick),
        "activities": ACTIVITIES,
        "tasks": tasks,
        "waits": sorted(
            {
                (of_task[writer], patterns.of(pattern), of_task[reader])
                for writer, pattern, reader in everything
                if writer in of_task and reader in of_task
            }
        ),
        "patterns": patterns.texts(),
        "steps": columns,
    }


class _Numbers:
    """Numbers texts in the order in which they come."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self._known.setdefault(text, len(self._known))

    def texts(self) -> list[str]:
        return list(map(text_of, self._known))


def _rows_each(ranks: Sequence[int]) -> list[int]:
    """How many rows each task has: all of its ranks, as long as there are not too many, else the same for all."""
    most = max(ranks, default=0)
    while sum(min(count, most) for count in ranks) > _MOST_ROWS and most > 1:
        most = max(1, most // 2)
    return [min(count, most) for count in ranks]


def _row(rank: RankTimeline, tick: float, patterns: _Numbers) -> dict[str, Any]:
    edges = [round(segment.begin / tick) for segment in rank.segments]
    edges += [round(segment.end / tick) for segment in rank.segments[-1:]]
    return {
        "rank": rank.rank,
        "at": edges[0] if edges else 0,
        "kinds": "".join(str(ACTIVITIES.index(segment.activity)) for segment in rank.segments),
        "lengths": [after - before for before, after in pairwise(edges)],
        "ports": [patterns.of(segment.what) if segment.what else -1 for segment in rank.segments],
    }


def _differences(values: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise([0, *values])]
