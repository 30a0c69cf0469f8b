"""Draws who was derived from whom: models as boxes, and what each has taken over from its parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wilkins.report.draw.graph import box, curve, frame, lines_of
from wilkins.report.draw.layout import LINE, Bundle, Placed, arrange
from wilkins.report.draw.svg import picture, text, width_of

_SMALL = 8.0
"""Size of labels, in points."""
_MARGIN = 14.0


@dataclass(frozen=True, slots=True)
class Descendant:
    """A model in the picture."""

    name: str
    parent: str
    """The name of its parent; empty: it has none."""
    words: str
    """What is said of it."""
    taken: str
    """What it has from its parent, such as `27 of 30 layers`."""


def as_text(models: Sequence[Descendant]) -> str:
    """A line for each, below its parent and further right."""
    depth: dict[str, int] = {}
    lines = []
    for one in models:
        depth[one.name] = depth[one.parent] + 1 if one.parent in depth else 0
        taken = f"{one.taken} from its parent" if one.taken else ""
        said = ", ".join(filter(None, [one.words, taken]))
        lines.append(f"{'  ' * depth[one.name]}{one.name}{': ' if said else ''}{said}")
    return "\n".join(lines)


def of_models(models: Sequence[Descendant]) -> str:
    """The picture of models, parents left of their children."""
    boxes = [box(one.name, [one.name], one.words) for one in models]
    by_name = {one.key: one for one in boxes}
    bundles = [
        Bundle(
            one.parent, one.name, ((one.parent, one.name),), (one.taken,), 0, "memory", width_of(one.taken, _SMALL) + 4
        )
        for one in models
        if one.parent in by_name
    ]
    layout = arrange(boxes, bundles)
    parts = [_edge(placed) for placed in layout.bundles]
    for key, (left, top) in layout.boxes.items():
        one = by_name[key]
        parts += [frame(left, top, one.width, one.height), lines_of(left + one.width / 2, top + 13, key, one.words)]
    shifted = f'<g transform="translate({_MARGIN} {_MARGIN})">\n{"".join(parts)}</g>'
    size = layout.width + 2 * _MARGIN, layout.height + 2 * _MARGIN
    return picture(*size, "Models, and which were derived from which", [shifted])


def _edge(placed: Placed) -> str:
    route = placed.routes[0]
    (x, y), (left, top) = route[-1], placed.label
    label = text(left + 2, top + LINE / 2, placed.bundle.lines[0], _SMALL, "fact")
    return f'<path class="edge" d="{curve(route)}"/>\n<path class="head" d="M{x:.1f} {y:.1f}l-7-3v6z"/>\n{label}'
