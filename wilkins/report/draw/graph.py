"""Draws a task graph: tasks as boxes, ensembles as framed stacks, channels with their files and facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from wilkins.errors import count_of
from wilkins.plan.graph import Wiring, instance_name, policy_words, task_words
from wilkins.plan.plan import Mode
from wilkins.report.draw.layout import LINE, Box, Bundle, Placed, arrange
from wilkins.report.draw.svg import Anchor, picture, text, width_of
from wilkins.spec.load import Document

_NAME, _SMALL = 10.0, 8.0
"""Sizes of names, and of everything else, in points."""
_MARGIN = 14.0
_LEGEND = 26.0
_MARK = 20.0
"""Length of a line in the legend."""
_MEMBER = 22.0
"""Height of an instance of an ensemble."""
_HEAD = 17.0
"""Height of an ensemble's name."""
_MOST_MEMBERS = 8
"""Instances that are drawn one by one; more are drawn as a pile."""
_MODES: dict[Mode, tuple[str, str]] = {
    "memory": ("in memory", 'stroke-width="1.1"'),
    "both": ("in memory and on disk", 'stroke-width="2.2"'),
    "file": ("on disk", 'stroke-width="1.1" stroke-dasharray="4.4 2.8"'),
}
"""What channels of a mode are called, and how their lines are drawn."""
_LONGEST = 46
"""Letters of a file's pattern that are shown."""


def of_workflow(document: Document, wiring: Wiring) -> str:
    """The picture of a workflow file."""
    tasks = document.workflow.tasks
    stages = {reference.task for reference in wiring.passing}
    boxes = [
        box(
            str(task.name),
            [instance_name(task, instance) for instance in range(task.taskCount)],
            task_words(task.nprocs, number in stages),
        )
        for number, task in enumerate(tasks)
    ]
    bundles = []
    for link in wiring.links:
        writer, reader = boxes[link.outport.task], boxes[link.inport.task]
        outport = tasks[link.outport.task].outports[link.outport.port]
        inport = tasks[link.inport.task].inports[link.inport.port]
        pairs = [(writer.members[i], reader.members[j]) for i, j in link.pairs]
        files = (outport.filename, inport.filename, inport.as_ or inport.filename)
        facts = [policy_words(inport.policy(outport.queue), inport.listing)]
        bundles.append(bundle(writer, reader, pairs, files, facts, wiring.modes[link.outport]))
    return drawn(boxes, bundles)


def box(key: str, members: Sequence[str], words: str) -> Box:
    """The box of a task, or of an ensemble; `words`: what is said of each instance."""
    if len(members) == 1:
        width = max(width_of(key, _NAME, "name") + 18, width_of(words, _SMALL) + 18, 62)
        return Box(key, (members[0],), width, 36.0, (18.0,), words)
    head = width_of(f"{key} x {len(members)}", _NAME, "name")
    if len(members) > _MOST_MEMBERS:
        width = max(head, width_of(f"{words} each", _SMALL)) + 26
        return Box(key, tuple(members), width, 44.0, (22.0,) * len(members), words)
    inner = max(width_of(f"{name}, {words}", _SMALL) for name in members) + 18
    rows = tuple(_HEAD + 4 + (_MEMBER + 4) * place + _MEMBER / 2 for place in range(len(members)))
    height = _HEAD + 4 + (_MEMBER + 4) * len(members) + 2
    return Box(key, tuple(members), max(head, inner) + 14, height, rows, words)


def bundle(
    writer: Box,
    reader: Box,
    pairs: Sequence[tuple[str, str]],
    files: Iterable[str],
    facts: Iterable[str],
    mode: Mode,
) -> Bundle:
    """The channels between two ports, under one label.

    Args:
        pairs: names of the instances that are joined.
        files: what the writer calls them, then how the reader does.
        facts: the other lines of the label.
    """
    first, *others = dict.fromkeys(map(_shortened, files))
    names = (first, *(f"as {name}" for name in others))
    lines = (*names, *facts)
    if _is_pile(writer) or _is_pile(reader):
        lines += (count_of(len(pairs), "channel"),) if len(pairs) > 1 else ()
        pairs = pairs[:1]
    width = max(width_of(line, _SMALL) for line in lines) + 4
    return Bundle(writer.key, reader.key, tuple(pairs), lines, len(names), mode, width)


def drawn(boxes: Sequence[Box], bundles: Sequence[Bundle]) -> str:
    """The picture of boxes and of what joins them."""
    layout = arrange(boxes, bundles)
    marks = _legend(layout.bundles)
    wide = max(layout.width, sum(width for _, width in marks))
    width, height = wide + 2 * _MARGIN, layout.height + 2 * _MARGIN + _LEGEND * bool(marks)
    parts = [_bundle(placed) for placed in layout.bundles]
    parts += [_box(one, *layout.boxes[one.key]) for one in boxes]
    shifted = (
        f'<g transform="translate({_MARGIN + (wide - layout.width) / 2:.1f} {_MARGIN:.1f})">\n{"".join(parts)}</g>'
    )
    left = (width - sum(width for _, width in marks)) / 2
    legend = []
    for mark, long in marks:
        legend.append(f'<g transform="translate({left:.1f} {height - _LEGEND / 2:.1f})">{mark}</g>\n')
        left += long
    return picture(width, height, "The tasks and the files between them", [shifted, *legend])


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else f"...{name[3 - _LONGEST :]}"


def _is_pile(one: Box) -> bool:
    return len(one.members) > _MOST_MEMBERS


def _bundle(placed: Placed) -> str:
    one, back = placed.bundle, " back" * placed.back
    parts = []
    for route in placed.routes:
        way = _rounded(route) if placed.back else curve(route)
        x, y = route[-1]
        parts.append(f'<path class="edge{back}" {_MODES[one.mode][1]} d="{way}"/>\n')
        parts.append(f'<path class="{back.strip()}head" d="M{x:.1f} {y:.1f}l-7-3v6z"/>\n')
    left, top = placed.label
    x = left + one.width / 2 if placed.back else left + 2
    anchor: Anchor = "middle" if placed.back else "start"
    for number, line in enumerate(one.lines):
        kind = "" if number < one.names else "fact"
        parts.append(text(x, top + LINE * (number + 0.5), line, _SMALL, kind, anchor))
    return "".join(parts)


def curve(route: Sequence[tuple[float, float]]) -> str:
    """A path through all points, level at each of them."""
    words = [f"M{route[0][0]:.1f} {route[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in pairwise(route):
        middle = (x + to_x) / 2
        bend = "" if y == to_y else f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} "
        words.append(f"{bend or 'L'}{to_x:.1f} {to_y:.1f}")
    return "".join(words)


def _rounded(route: Sequence[tuple[float, float]], radius: float = 9.0) -> str:
    """Along all points, with rounded corners."""
    words = [f"M{route[0][0]:.1f} {route[0][1]:.1f}"]
    for before, corner, after in zip(route, route[1:], route[2:], strict=False):
        (x, y), (to_x, to_y) = _towards(corner, before, radius), _towards(corner, after, radius)
        words.append(f"L{x:.1f} {y:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {to_x:.1f} {to_y:.1f}")
    return "".join(words) + f"L{route[-1][0]:.1f} {route[-1][1]:.1f}"


def _towards(here: tuple[float, float], there: tuple[float, float], most: float) -> tuple[float, float]:
    """The point that lies so far from here on the way there, but not beyond the middle."""
    x, y = there[0] - here[0], there[1] - here[1]
    length = (x * x + y * y) ** 0.5 or 1.0
    part = min(most / length, 0.5)
    return here[0] + x * part, here[1] + y * part


def _box(one: Box, left: float, top: float) -> str:
    middle = left + one.width / 2
    if len(one.members) == 1:
        return frame(left, top, one.width, one.height) + lines_of(middle, top + 13, one.key, one.words)
    title = f"{one.key} x {len(one.members)}"
    if _is_pile(one):
        sheets = [frame(left + s, top + 8 - s, one.width - 8, one.height - 8) for s in (8.0, 4.0, 0.0)]
        return "".join(sheets) + lines_of(middle - 4, top + 20, title, f"{one.words} each")
    parts = [frame(left, top, one.width, one.height, "group"), text(middle, top + 11, title, _NAME, "name", "middle")]
    for name, row in zip(one.members, one.rows, strict=True):
        parts.append(frame(left + 6, top + row - _MEMBER / 2, one.width - 12, _MEMBER))
        parts.append(text(middle, top + row, f"{name}, {one.words}", _SMALL, "", "middle"))
    return "".join(parts)


def lines_of(middle: float, top: float, name: str, words: str) -> str:
    """The name of a box, and what is said of it."""
    return text(middle, top, name, _NAME, "name", "middle") + text(middle, top + 13, words, _SMALL, "", "middle")


def frame(left: float, top: float, width: float, height: float, kind: str = "task") -> str:
    """The frame of a box."""
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {place} rx="4"/>\n'


def _legend(found: Sequence[Placed]) -> list[tuple[str, float]]:
    """Marks of the legend, each at its place, and how wide it is."""
    modes = {placed.bundle.mode for placed in found}
    lines = [(name, "edge", style) for mode, (name, style) in _MODES.items() if mode in modes]
    if any(placed.back for placed in found):
        lines.append(("closes a cycle", "edge back", _MODES["memory"][1]))
    return [
        (
            f'<path class="{kind}" {style} d="M6 0h{_MARK:g}"/>{text(_MARK + 12, 0, name, _SMALL)}',
            _MARK + 18 + width_of(name, _SMALL),
        )
        for name, kind, style in lines
    ]
