"""Draws a task graph: tasks as boxes, ensembles as framed stacks, channels with their files and policies."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wilkins.errors import count_of
from wilkins.names import text_of
from wilkins.plan.graph import policy_words, task_words
from wilkins.plan.plan import Mode
from wilkins.report.draw.canvas import BLUE, INK, VERMILION, new_figure, text_width
from wilkins.report.draw.layout import LINE, Box, Bundle, Layout, Placed, arrange

if TYPE_CHECKING:
    import networkx

_NAME, _SMALL = 10.0, 8.0
"""Sizes of names, and of everything else, in points."""
_MARGIN = 14.0
_LEGEND = 26.0
_MEMBER = 22.0
"""Height of an instance of an ensemble."""
_HEAD = 17.0
"""Height of an ensemble's name."""
_MOST_MEMBERS = 8
"""Instances that are drawn one by one; more are drawn as a pile."""
_MODES: dict[Mode, tuple[str, Any, float]] = {
    "memory": ("in memory", "-", 1.1),
    "both": ("in memory and on disk", "-", 2.2),
    "file": ("on disk", (0, (4, 2.5)), 1.1),
}
"""What channels of a mode are called, and the style and width of their lines."""
_LONGEST = 46
"""Letters of a file's pattern that are shown."""


def draw_graph(graph: networkx.MultiDiGraph[str]) -> Any:
    """A figure of a task graph."""
    entries: dict[str, list[str]] = defaultdict(list)
    for name, data in graph.nodes(data=True):
        entries[data["task"].name].append(name)
    figure = new_figure(1, 1)
    boxes = {key: _box(graph, key, members) for key, members in entries.items()}
    bundles = _bundles(graph, boxes)
    layout = arrange(list(boxes.values()), bundles)
    width = max(layout.width + 2 * _MARGIN, 300.0)
    height = layout.height + 2 * _MARGIN + _LEGEND
    figure.set_size_inches(width / 72, height / 72)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(-(width - layout.width) / 2, (width + layout.width) / 2)
    ax.set_ylim(layout.height + _MARGIN + _LEGEND, -_MARGIN)
    ax.set_axis_off()
    for placed in layout.bundles:
        _draw_bundle(ax, placed)
    for box in boxes.values():
        _draw_box(ax, graph, box, layout)
    _legend(figure, layout, height)
    return figure


def _piled(box: Box) -> bool:
    return len(set(box.rows)) < len(box.members)


def _box(graph: networkx.MultiDiGraph[str], key: str, members: list[str]) -> Box:
    ranks = task_words(graph.nodes[members[0]])
    if len(members) == 1:
        width = max(text_width(key, _NAME), text_width(ranks, _SMALL)) + 24
        return Box(key, (members[0],), max(width, 62), 36.0, (18.0,))
    head = text_width(f"{key} x {len(members)}", _NAME)
    if len(members) > _MOST_MEMBERS:
        width = max(head, text_width(f"{ranks} each", _SMALL)) + 32
        return Box(key, tuple(members), width, 44.0, (22.0,) * len(members))
    inner = max(text_width(f"{name}, {ranks}", _SMALL) for name in members) + 20
    rows = tuple(_HEAD + 4 + (_MEMBER + 4) * place + _MEMBER / 2 for place in range(len(members)))
    return Box(key, tuple(members), max(head, inner) + 16, _HEAD + 4 + (_MEMBER + 4) * len(members) + 2, rows)


def _bundles(graph: networkx.MultiDiGraph[str], boxes: dict[str, Box]) -> list[Bundle]:
    """Channels that join the same two ports of the same two entries of the workflow file, under one label."""
    found: dict[tuple[str, str, tuple[str, ...], str, Mode], list[tuple[str, str]]] = defaultdict(list)
    for writer, reader, edge in graph.edges(data=True):
        writer_entry, reader_entry = graph.nodes[writer]["task"].name, graph.nodes[reader]["task"].name
        files = [
            _pattern(graph, writer, "outports", edge["outport"]),
            _pattern(graph, reader, "inports", edge["inport"]),
        ]
        if edge["called"] != edge["inport"]:
            files.append(_called(graph, reader, edge["called"]))
        names = tuple(_shortened(text) for text in dict.fromkeys(files))
        found[writer_entry, reader_entry, names, policy_words(edge), edge["mode"]].append((writer, reader))
    bundles = []
    for (writer, reader, names, policy, mode), pairs in found.items():
        lines: tuple[str, ...] = (names[0], *(f"as {name}" for name in names[1:]), policy)
        if _piled(boxes[writer]) or _piled(boxes[reader]):
            if len(pairs) > 1:
                lines = (*lines, count_of(len(pairs), "channel"))
            pairs = pairs[:1]
        width = max(text_width(line, _SMALL) for line in lines) + 6
        bundles.append(Bundle(writer, reader, tuple(pairs), lines, len(names), mode, width))
    return bundles


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"...{text[3 - _LONGEST :]}"


def _pattern(graph: networkx.MultiDiGraph[str], name: str, side: str, pattern: str) -> str:
    """A port's pattern as the workflow file has it, the same for all instances."""
    node = graph.nodes[name]
    ports = getattr(node["task"], side)
    return next((p.filename for p in ports if p.pattern(node["instance"]) == pattern), pattern)


def _called(graph: networkx.MultiDiGraph[str], name: str, called: str) -> str:
    """The `as` of an in-port as the workflow file has it, the same for all instances."""
    node = graph.nodes[name]
    return next((p.as_ for p in node["task"].inports if p.as_ and p.called(node["instance"]) == called), called)


def _draw_bundle(ax: Any, placed: Placed) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    bundle = placed.bundle
    colour = VERMILION if placed.back else INK
    _, style, thickness = _MODES[bundle.mode]
    for route in placed.routes:
        points, codes = _rounded(route) if placed.back else _curve(route)
        line = PathPatch(Path(points, codes), fill=False, edgecolor=colour, linewidth=thickness, zorder=1)
        line.set_linestyle(style)
        ax.add_patch(line)
        x, y = route[-1]
        ax.add_patch(Polygon([(x, y), (x - 7, y - 3), (x - 7, y + 3)], closed=True, facecolor=colour, linewidth=0))
    left, top = placed.label
    for number, text in enumerate(bundle.lines):
        ax.text(
            left + bundle.width / 2 if placed.back else left + 2,
            top + LINE * (number + 0.5),
            text_of(text),
            size=_SMALL,
            color=INK if number < bundle.names else BLUE,
            ha="center" if placed.back else "left",
            va="center",
            zorder=5,
        )


_Points = tuple[list[tuple[float, float]], list[Any]]


def _curve(route: list[tuple[float, float]]) -> _Points:
    """Through all points, level at each of them."""
    from matplotlib.path import Path

    points, codes = [route[0]], [Path.MOVETO]
    for (x, y), (to_x, to_y) in pairwise(route):
        if y == to_y:
            points.append((to_x, to_y))
            codes.append(Path.LINETO)
        else:
            middle = (x + to_x) / 2
            points += [(middle, y), (middle, to_y), (to_x, to_y)]
            codes += [Path.CURVE4] * 3
    return points, codes


def _rounded(route: list[tuple[float, float]], radius: float = 9.0) -> _Points:
    """Along all points, with rounded corners."""
    from matplotlib.path import Path

    points, codes = [route[0]], [Path.MOVETO]
    for before, corner, after in zip(route, route[1:], route[2:], strict=False):
        points += [_towards(corner, before, radius), corner, _towards(corner, after, radius)]
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    return [*points, route[-1]], [*codes, Path.LINETO]


def _towards(here: tuple[float, float], there: tuple[float, float], most: float) -> tuple[float, float]:
    """The point that lies so far from here on the way there, but not beyond the middle."""
    x, y = there[0] - here[0], there[1] - here[1]
    length = (x * x + y * y) ** 0.5 or 1.0
    part = min(most / length, 0.5)
    return here[0] + x * part, here[1] + y * part


def _draw_box(ax: Any, graph: networkx.MultiDiGraph[str], box: Box, layout: Layout) -> None:
    left, top = layout.boxes[box.key]
    middle = left + box.width / 2
    ranks = task_words(graph.nodes[box.members[0]])
    if len(box.members) == 1:
        _frame(ax, left, top, box.width, box.height)
        ax.text(middle, top + 13, text_of(box.key), size=_NAME, ha="center", va="center", weight="bold", zorder=5)
        ax.text(middle, top + 26, ranks, size=_SMALL, ha="center", va="center", zorder=5)
        return
    title = f"{text_of(box.key)} x {len(box.members)}"
    if _piled(box):
        for shift in (8.0, 4.0, 0.0):
            _frame(ax, left + shift, top + 8 - shift, box.width - 8, box.height - 8)
        ax.text(middle - 4, top + 20, title, size=_NAME, ha="center", va="center", weight="bold", zorder=5)
        ax.text(middle - 4, top + 34, f"{ranks} each", size=_SMALL, ha="center", va="center", zorder=5)
        return
    _frame(ax, left, top, box.width, box.height, ensemble=True)
    ax.text(middle, top + 11, title, size=_NAME, ha="center", va="center", weight="bold", zorder=5)
    for name, row in zip(box.members, box.rows, strict=True):
        _frame(ax, left + 6, top + row - _MEMBER / 2, box.width - 12, _MEMBER)
        ax.text(middle, top + row, f"{text_of(name)}, {ranks}", size=_SMALL, ha="center", va="center", zorder=5)


def _frame(ax: Any, left: float, top: float, width: float, height: float, ensemble: bool = False) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = FancyBboxPatch(
        (left, top),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=4",
        facecolor="#F4F4F4" if ensemble else "#E3F1FA",
        edgecolor="#8A8A8A" if ensemble else BLUE,
        linewidth=0.8 if ensemble else 1.1,
        zorder=2 if ensemble else 3,
    )
    ax.add_patch(shape)


def _legend(figure: Any, layout: Layout, height: float) -> None:
    from matplotlib.lines import Line2D

    found = {placed.bundle.mode for placed in layout.bundles}
    handles: list[Any] = [
        Line2D([], [], color=INK, linestyle=style, linewidth=thickness, label=name)
        for mode, (name, style, thickness) in _MODES.items()
        if mode in found
    ]
    if any(placed.back for placed in layout.bundles):
        handles.append(Line2D([], [], color=VERMILION, linewidth=1.1, label="closes a cycle"))
    if handles:
        place = (0.5, (_LEGEND / 2) / height)
        figure.legend(handles=handles, loc="center", bbox_to_anchor=place, ncols=4, fontsize=_SMALL, frameon=False)
