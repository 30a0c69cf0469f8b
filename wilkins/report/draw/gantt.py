"""Draws timelines as Gantt charts: a bar per rank, lines from each publication to the opens of the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from wilkins.flow.timeline import Activity, RankTimeline, Timeline
from wilkins.report.draw.svg import ACTIVITIES, picture, text, width_of
from wilkins.report.timetable import slices

_WIDTH = 684.0
"""Width of a picture, in points."""
_MARGIN = 14.0
_TITLE, _AXIS, _SPACE = 24.0, 32.0, 8.0
"""Heights of what is above and below the bars of a timeline, and between two of them."""
_ROW, _ROWS = 24.5, 864.0
"""Height of a rank's row, and at most of all rows of a timeline."""
_BAR = 0.62
"""Height of a bar, of a row's 1."""
_GAP = 0.5
"""Gap between segments that are wide enough to be distinct."""
_MOST_LINES = 400
"""Lines between publications and opens, beyond which they would only be a haze."""
_APART = 12.0
"""From a name to the next, at least."""
_MOST_LETTERS = 32
"""The most letters of a name beside a bar; longer names lose their middle."""
_SIZE, _SMALL = 9.0, 8.0
"""Sizes of letters."""
_MARK, _LINE = 12.0, 15.0
"""Length of a mark in the legend, and height of a line of it."""

_X = Callable[[float], float]
"""Where a time is."""


def draw_timelines(panels: Sequence[tuple[str, Timeline]]) -> str:
    """The picture of timelines below each other, with one scale of time.

    Args:
        panels: titles and timelines.
    """
    end = max((timeline.end for _, timeline in panels), default=0.0) * 1.01 or 1.0
    counts = [max(sum(len(task.ranks) for task in timeline.tasks), 1) for _, timeline in panels]
    heights = [min(_ROW, _ROWS / count) for count in counts]
    names = [list(_names(timeline, row)) for (_, timeline), row in zip(panels, heights, strict=True)]
    left = _MARGIN + 6 + max((width_of(name, _SIZE) for found in names for _, name in found), default=0.0)
    wide = _WIDTH - left - 1.5 * _MARGIN

    def x(time: float) -> float:
        return left + time / end * wide

    parts = []
    top = _SPACE
    for (title, timeline), rows, row, named in zip(panels, counts, heights, names, strict=True):
        parts.append(text(left, top + _TITLE / 2, title, 9.5))
        top += _TITLE
        parts += _axis(x, end, top, rows * row)
        parts.append(f'<g transform="translate(0 {top:.1f})">\n')
        parts += [*_bars(timeline, x, end, row), *_steps(timeline, x, row), *_ends(timeline, x, row), "</g>\n"]
        parts += [text(left - 6, top + (place + 0.5) * row, name, _SIZE, "", "end") for place, name in named]
        top += rows * row + _AXIS + _SPACE
    lines = _legend([timeline for _, timeline in panels])
    for line in lines:
        left = (_WIDTH - sum(width for _, width in line)) / 2
        for mark, width in line:
            parts.append(f'<g transform="translate({left:.1f} {top:.1f})">{mark}</g>\n')
            left += width
        top += _LINE
    return picture(_WIDTH, top, "What each rank did when", parts)


def _rows(timeline: Timeline) -> list[tuple[str, RankTimeline, int]]:
    """For each row its task, the rank, and how many the task has."""
    return [(task.name, rank, len(task.ranks)) for task in timeline.tasks for rank in task.ranks]


def _first(timeline: Timeline) -> dict[str, int]:
    """The first row of each task."""
    first: dict[str, int] = {}
    for place, (name, _, _) in enumerate(_rows(timeline)):
        first.setdefault(name, place)
    return first


def _names(timeline: Timeline, row: float) -> Iterator[tuple[int, str]]:
    """Names beside the rows: of every rank if there is room, else of tasks; none too near to the one above."""
    first, last = _first(timeline), -math.inf
    for place, (name, rank, ranks) in enumerate(_rows(timeline)):
        each = row >= _APART
        if (each or first[name] == place) and (place - last) * row >= _APART:
            shown = f"{name}:{rank.rank}" if ranks > 1 and each else name
            half = (_MOST_LETTERS - 1) // 2
            yield place, shown if len(shown) <= _MOST_LETTERS else f"{shown[:half]}…{shown[-half:]}"
            last = place


def _axis(x: _X, end: float, top: float, height: float) -> Iterator[str]:
    """A scale of about eight times below the bars, and lines up from them."""
    bottom = top + height
    power = 10.0 ** math.floor(math.log10(end / 8))
    each = next(one * power for one in (1, 2, 5, 10) if one * power >= end / 8 * 0.999)
    yield f'<path class="edge" stroke-width="0.8" d="M{x(0):.1f} {bottom:.1f}H{x(end):.1f}"/>\n'
    for number in range(int(end / each) + 1):
        at = x(number * each)
        yield f'<path class="grid" stroke-width="0.6" d="M{at:.1f} {top:.1f}V{bottom:.1f}"/>\n'
        yield text(at, bottom + 9, f"{number * each:.10g}", _SIZE, "", "middle")
    yield text((x(0) + x(end)) / 2, bottom + 22, "time, s", _SIZE, "", "middle")


def _bars(timeline: Timeline, x: _X, end: float, row: float) -> Iterator[str]:
    """A path for each activity, of what all ranks spent on it."""
    found: dict[Activity, list[str]] = {activity: [] for activity in ACTIVITIES}
    for place, (_, rank, _) in enumerate(_rows(timeline)):
        bar = row * (_BAR if row > 3 else 1.0)
        top = (place + 0.5) * row - bar / 2
        for activity, begin, ended, upper, lower in _pieces(rank, x, end):
            wide = ended - begin - _GAP * (ended - begin > 4 * _GAP)
            high = bar * (lower - upper)
            found[activity].append(f"M{begin:.2f} {top + bar * upper:.2f}h{wide:.2f}v{high:.2f}h-{wide:.2f}z")
    for number, ways in enumerate(found.values()):
        if ways:
            yield f'<path class="a{number}" d="{"".join(ways)}"/>\n'


def _pieces(rank: RankTimeline, x: _X, end: float) -> Iterator[tuple[Activity, float, float, float, float]]:
    """What is drawn of a rank: activities, from where to where, and between which parts of the bar's height.

    They are its segments; if there are more than points, those of a point share it from top to bottom.
    """
    points = round(x(end) - x(0))
    if len(rank.segments) <= points:
        for segment in rank.segments:
            yield segment.activity, x(segment.begin), x(segment.end), 0.0, 1.0
        return
    for point, shares in enumerate(slices(rank, end, points)):
        upper = 0.0
        for activity in ACTIVITIES:
            if part := shares.get(activity, 0.0):
                yield activity, x(point / points * end), x((point + 1) / points * end), upper, upper + part
                upper += part


def _steps(timeline: Timeline, x: _X, row: float) -> Iterator[str]:
    """A thin line from each publication to the nearest rank that opens it; a cross where nobody does."""
    places = {(name, rank.rank): place for place, (name, rank, _) in enumerate(_rows(timeline))}
    first = _first(timeline)
    lines, lost = [], []
    for step in timeline.steps:
        origin = places.get((step.task, step.source), first.get(step.task, 0))
        nearest: dict[str, tuple[int, float]] = {}
        for opening, rank in ((one, one.rank + more) for one in step.openings for more in range(one.ranks)):
            place = places.get((opening.task, rank))
            if place is not None and abs(place - origin) < abs(nearest.get(opening.task, (2**31, 0.0))[0] - origin):
                nearest[opening.task] = place, opening.time
        for place, time in nearest.values():
            half = math.copysign(_BAR / 2, place - origin)
            begin, ended = (origin + 0.5 + half) * row, (place + 0.5 - half) * row
            lines.append(f"M{x(step.published):.1f} {begin:.1f}L{x(time):.1f} {ended:.1f}")
        if step.dropped_for and not step.openings:
            lost.append(_cross(x(step.published), (origin + 0.5 + _BAR / 2) * row))
    if lines and len(lines) <= _MOST_LINES:
        yield f'<path class="edge" stroke-width="0.7" d="{"".join(lines)}"/>\n'
    if lost and len(lost) <= _MOST_LINES:
        yield f'<path class="back" stroke-width="1.2" d="{"".join(lost)}"/>\n'


def _cross(x: float, y: float) -> str:
    return f"M{x - 2.5:.1f} {y - 2.5:.1f}l5 5m0-5l-5 5"


def _ends(timeline: Timeline, x: _X, row: float) -> Iterator[str]:
    """A line through the ranks of each task, where the last of them ended."""
    first = _first(timeline)
    for task in timeline.tasks:
        if task.end is not None and task.ranks:
            top = (first[task.name] + 0.05) * row
            high = (len(task.ranks) - 0.1) * row
            yield f'<path class="edge" stroke-width="1.6" d="M{x(task.end):.1f} {top:.1f}v{high:.1f}"/>\n'


def _legend(timelines: Sequence[Timeline]) -> list[list[tuple[str, float]]]:
    """Marks with what they mean and how wide that is, in as many lines as they need."""
    shown = {
        segment.activity for one in timelines for task in one.tasks for rank in task.ranks for segment in rank.segments
    }
    marks: list[tuple[str, str]] = [
        (f'<rect class="a{number}" y="-4" width="{_MARK:g}" height="8"/>', activity)
        for number, activity in enumerate(ACTIVITIES)
        if activity in shown
    ]
    line = f'<path class="edge" stroke-width="{{}}" d="M0 0h{_MARK:g}"/>'
    marks.append((line.format(0.7), "published to opened"))
    if any(step.dropped_for for one in timelines for step in one.steps):
        cross = f'<path class="back" stroke-width="1.2" d="{_cross(_MARK / 2, 0)}"/>'
        marks.append((cross, "published, opened by nobody"))
    marks.append((line.format(1.6), "completion"))
    lines: list[list[tuple[str, float]]] = [[]]
    for mark, words in marks:
        wide = _MARK + 16 + width_of(words, _SMALL)
        if lines[-1] and sum(width for _, width in lines[-1]) + wide > _WIDTH - 2 * _MARGIN:
            lines.append([])
        lines[-1].append((mark + text(_MARK + 5, 0, words, _SMALL), wide))
    return lines
