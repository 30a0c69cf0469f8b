"""The tasks of a run and the files between them as SVG, with what went along each edge. No library is needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from wilkins.errors import count_of
from wilkins.flow.timeline import Timeline
from wilkins.names import text_of
from wilkins.plan.plan import Mode, Plan
from wilkins.report.draw.layout import LINE, Box, Bundle, Placed, arrange
from wilkins.terminal.tables import duration, size

_LETTER = 6.2
"""Width of a letter of a label, in points, at most."""
_NAME = 7.6
"""The same of a name in a box."""
_MARGIN = 12.0
_LONGEST = 40
_DASHES: dict[Mode, str] = {"file": ' stroke-dasharray="5 3"'}


@dataclass(slots=True)
class _Edge:
    """All channels between the ports of two entries of the workflow file."""

    files: dict[str, None]
    mode: Mode
    channels: int = 0
    read: int = 0
    moved: int = 0
    waited_data: float = 0.0
    waited_room: float = 0.0


def graph_of(
    plan: Plan, timeline: Timeline | None, channels: Sequence[Mapping[str, Any]], sizes: Mapping[str, float]
) -> str:
    """The picture.

    Args:
        timeline: of the run, if it is known: who waited at which port.
        channels: the account of the run, if it has one.
        sizes: mean size of a step, by task instance and pattern with a tab between.
    """
    entry = {task.index: _entry(task.name, task.instance) for task in plan.tasks}
    count: dict[str, int] = defaultdict(int)
    for task in plan.tasks:
        count[entry[task.index]] += 1
    waits = _waits(timeline)
    account = {(one["producer"], one["consumer"], one["files"]): one for one in channels}
    edges: dict[tuple[str, str, str, str], _Edge] = {}
    seen: set[tuple[str, str]] = set()
    for channel in plan.channels:
        out, into = plan.ports[channel.outport], plan.ports[channel.inport]
        writer, reader = plan.tasks[out.task], plan.tasks[into.task]
        key = (
            entry[out.task],
            entry[into.task],
            _base(out.pattern, writer.instance),
            _base(into.pattern, reader.instance),
        )
        edge = edges.setdefault(key, _Edge({}, out.mode))
        edge.files.setdefault(out.pattern)
        edge.channels += 1
        told = account.get((writer.name, reader.name, into.pattern))
        if told:
            edge.read += told["read"]
            edge.moved += round(told["read"] * sizes.get(f"{writer.name}\t{out.pattern}", 0.0))
        for name, pattern, activity in (
            (reader.name, into.pattern, "waiting for data"),
            (writer.name, out.pattern, "waiting for room"),
        ):
            if (name, f"{pattern}\t{activity}") not in seen:
                seen.add((name, f"{pattern}\t{activity}"))
                lasted = waits.get((name, pattern, activity), 0.0)
                if activity == "waiting for data":
                    edge.waited_data += lasted
                else:
                    edge.waited_room += lasted
    ranks = {entry[task.index]: task.nprocs for task in plan.tasks}
    boxes = [_box(name, instances, ranks[name]) for name, instances in count.items()]
    bundles = [
        Bundle(writer, reader, ((writer, reader),), lines, 1, edge.mode, max(map(len, lines)) * _LETTER + 8)
        for (writer, reader, _, _), edge in edges.items()
        for lines in [tuple(_lines(edge))]
    ]
    layout = arrange(boxes, bundles)
    width, height = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    parts = [_edge(placed) for placed in layout.bundles]
    parts += [_drawn(box, count[box.key], ranks[box.key], *layout.boxes[box.key]) for box in boxes]
    parts += [_label(placed) for placed in layout.bundles]
    return (
        f'<svg class="graph" role="img" aria-label="The tasks and the files between them" '
        f'viewBox="{-_MARGIN:g} {-_MARGIN:g} {width:.1f} {height:.1f}" style="max-width:{1.35 * width:.0f}px">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" class="head"/></marker></defs>{"".join(parts)}</svg>'
    )


def _entry(name: str, instance: int) -> str:
    return name.removesuffix(f"[{instance}]")


def _base(pattern: str, instance: int) -> str:
    """A pattern without the number of its instance, as far as one can tell."""
    return pattern.replace(str(instance), "{}")


def _waits(timeline: Timeline | None) -> dict[tuple[str, str, str], float]:
    """How long each task waited at each of its ports, in seconds, the mean over its ranks."""
    found: dict[tuple[str, str, str], float] = defaultdict(float)
    for task in timeline.tasks if timeline else ():
        for rank in task.ranks:
            for segment in rank.segments:
                if segment.what and segment.activity.startswith("waiting"):
                    lasted = (segment.end - segment.begin) / len(task.ranks)
                    found[task.name, segment.what, segment.activity] += lasted
    return found


def _lines(edge: _Edge) -> Iterable[str]:
    names = list(edge.files)
    name = names[0] if len(names) == 1 else f"{names[0]} ... ({len(names)})"
    yield name if len(name) <= _LONGEST else f"...{name[3 - _LONGEST :]}"
    if edge.read:
        yield f"{count_of(edge.read, 'step')} read" + (f", {size(edge.moved)}" if edge.moved else "")
    if edge.waited_data >= 0.001:
        yield f"waited for data: {duration(edge.waited_data)}"
    if edge.waited_room >= 0.001:
        yield f"waited for room: {duration(edge.waited_room)}"


def _title(name: str, instances: int) -> str:
    shown = text_of(name)
    return f"{shown} x {instances}" if instances > 1 else shown


def _box(name: str, instances: int, ranks: int) -> Box:
    wide = max(len(_title(name, instances)) * _NAME, len(count_of(ranks, "rank")) * _LETTER) + 24
    return Box(name, (name,), max(wide, 70.0), 38.0, (19.0,))


def _drawn(box: Box, instances: int, ranks: int, left: float, top: float) -> str:
    sheets = "".join(_frame(box, left + shift, top - shift) for shift in ((6, 3, 0) if instances > 1 else (0,)))
    middle = left + box.width / 2
    each = " each" if instances > 1 else ""
    return (
        f'{sheets}<text class="name" x="{middle:g}" y="{top + 16:g}">{escape(_title(box.key, instances))}</text>'
        f'<text class="ranks" x="{middle:g}" y="{top + 30:g}">{count_of(ranks, "rank")}{each}</text>'
    )


def _frame(box: Box, left: float, top: float) -> str:
    return f'<rect class="task" x="{left:g}" y="{top:g}" width="{box.width:g}" height="{box.height:g}" rx="5"/>'


def _edge(placed: Placed) -> str:
    kind = "edge back" if placed.back else "edge"
    dashes = _DASHES.get(placed.bundle.mode, "")
    return "".join(
        f'<path class="{kind}" d="{_path(route)}" marker-end="url(#arrow)"{dashes}/>' for route in placed.routes
    )


def _path(route: Sequence[tuple[float, float]]) -> str:
    """Through all points, level at each of them."""
    words = [f"M{route[0][0]:g} {route[0][1]:g}"]
    for (x, y), (to_x, to_y) in pairwise(route):
        middle = (x + to_x) / 2
        straight = y == to_y or x == to_x
        words.append(f"L{to_x:g} {to_y:g}" if straight else f"C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}")
    return "".join(words)


def _label(placed: Placed) -> str:
    left, top = placed.label
    return "".join(
        f'<text class="{"files" if number == 0 else "fact"}" x="{left + 3:g}" y="{top + LINE * (number + 0.8):g}">'
        f"{escape(text_of(line))}</text>"
        for number, line in enumerate(placed.bundle.lines)
    )
