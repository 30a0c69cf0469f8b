"""Draws timelines as Gantt charts: a bar per rank, lines from each publication to the opens of the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from wilkins.flow.timeline import Activity, Timeline
from wilkins.names import text_of
from wilkins.report.draw.canvas import COLOURS, INK, VERMILION, new_figure

_ACTIVITIES: tuple[Activity, ...] = get_args(Activity)
_BAR = 0.62
"""Height of a bar, of a row's 1."""
_MOST_LINES = 400
"""Lines between publications and opens, beyond which they would only be a haze."""
_MOST_NAMES = 60
"""Rows that can be told apart by a name each."""
_MOST_LETTERS = 32
"""Of a name beside a bar, which needs room too; what is in the middle of a longer one is left out."""
_GAP = 0.05
"""Inches between the legend and what is above it."""


def draw_timelines(panels: Sequence[tuple[str, Timeline]], columns: int = 1) -> Any:
    """A figure of one or several timelines, with one scale of time for all in a row, or in the only column.

    Args:
        panels: titles and timelines, row by row.
        columns: panels that stand side by side.
    """
    rows = -(-len(panels) // columns)
    bars = max((sum(len(task.ranks) for task in timeline.tasks) for _, timeline in panels), default=1)
    height = rows * (0.75 + min(max(0.34 * bars, 0.5), 12)) + 0.3
    figure = new_figure(9.5 if columns == 1 else 6.5 * columns, height)
    axes = figure.subplots(rows, columns, squeeze=False)
    shown: set[Activity] = set()
    lost = False
    for (title, timeline), ax in zip(panels, axes.flat, strict=False):
        row = list(axes.flat if columns == 1 else axes[list(axes.flat).index(ax) // columns])
        beside = [one for (_, one), other in zip(panels, axes.flat, strict=False) if other in row]
        _panel(ax, title, timeline, max(one.end for one in beside))
        shown |= {segment.activity for task in timeline.tasks for rank in task.ranks for segment in rank.segments}
        lost = lost or any(step.dropped_for for step in timeline.steps)
    for ax in list(axes.flat)[len(panels) :]:
        ax.set_axis_off()
    below = _legend(figure, shown, lost)
    figure.set_figheight(height + below)
    figure.tight_layout(rect=(0, (below + _GAP) / (height + below), 1, 1))
    return figure


def _panel(ax: Any, title: str, timeline: Timeline, end: float) -> None:
    rows = [(task.name, rank, len(task.ranks)) for task in timeline.tasks for rank in task.ranks]
    places = {(name, rank.rank): place for place, (name, rank, _) in enumerate(rows)}
    first: dict[str, int] = {}
    for place, (name, _, _) in enumerate(rows):
        first.setdefault(name, place)
    for place, (_, rank, _) in enumerate(rows):
        for activity in _ACTIVITIES:
            spans = [(s.begin, s.end - s.begin) for s in rank.segments if s.activity == activity]
            ax.broken_barh(
                spans, (place - _BAR / 2, _BAR), facecolors=COLOURS[activity], edgecolor="white", linewidth=0.5
            )
    _steps(ax, timeline, places, first)
    for task in timeline.tasks:
        if task.end is not None and task.ranks:
            low, high = first[task.name] - 0.45, first[task.name] + len(task.ranks) - 0.55
            ax.plot([task.end, task.end], [low, high], color=INK, linewidth=1.6, solid_capstyle="butt", zorder=4)
    few = len(rows) <= _MOST_NAMES
    named = [
        (place, f"{name}:{rank.rank}" if ranks > 1 and few else name)
        for place, (name, rank, ranks) in enumerate(rows)
        if few or first[name] == place
    ]
    step = -(-len(named) // _MOST_NAMES)
    ax.set_yticks([place for place, _ in named[::step]], [_shortened(text_of(name)) for _, name in named[::step]])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(0, end * 1.01 or 1)
    ax.set_xlabel("time, s")
    ax.set_title(text_of(title), fontsize=9.5, loc="left")
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color="#E5E5E5", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _steps(ax: Any, timeline: Timeline, places: dict[tuple[str, int], int], first: dict[str, int]) -> None:
    """A thin line from each publication to the nearest rank that opens it; a cross where nobody does."""
    lines = []
    lost = []
    for step in timeline.steps:
        origin = places.get((step.task, step.source), first.get(step.task, 0))
        nearest: dict[str, tuple[int, float]] = {}
        for opening, rank in ((one, one.rank + more) for one in step.openings for more in range(one.ranks)):
            row = places.get((opening.task, rank))
            if row is not None and abs(row - origin) < abs(nearest.get(opening.task, (2**31, 0.0))[0] - origin):
                nearest[opening.task] = row, opening.time
        lines += [(step.published, origin, time, row) for row, time in nearest.values()]
        if step.dropped_for and not step.openings:
            lost.append((step.published, origin + _BAR / 2))
    if len(lines) <= _MOST_LINES:
        for published, origin, opened, row in lines:
            half = _BAR / 2 if row > origin else -_BAR / 2
            ax.plot((published, opened), (origin + half, row - half), color=INK, linewidth=0.7, zorder=3)
    if len(lost) <= _MOST_LINES:
        ax.scatter(
            [time for time, _ in lost], [row for _, row in lost], 25, VERMILION, marker="x", linewidth=1.2, zorder=5
        )


def _shortened(name: str) -> str:
    if len(name) <= _MOST_LETTERS:
        return name
    half = (_MOST_LETTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def _legend(figure: Any, shown: set[Activity], lost: bool) -> float:
    """Puts the legend at the bottom, in as many lines as it needs; returns its height in inches."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(color=COLOURS[activity], label=activity) for activity in _ACTIVITIES if activity in shown
    ]
    handles.append(Line2D([], [], color=INK, linewidth=0.7, label="published to opened"))
    if lost:
        handles.append(
            Line2D([], [], color=VERMILION, marker="x", markersize=5, linestyle="", label="published, opened by nobody")
        )
    handles.append(Line2D([], [], color=INK, linewidth=1.6, label="completion"))
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(
            handles=handles, loc="lower center", ncols=columns, fontsize=8, frameon=False, handlelength=1.2
        )
        box = legend.get_window_extent()
        if box.width <= 0.98 * figure.bbox.width or columns == 1:
            break
        legend.remove()
    return float(box.height / figure.dpi)
