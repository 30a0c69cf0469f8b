"""Lays out a task graph: boxes in layers from left to right, labels in the gaps, back edges below. Units are points.

Layered drawing after Sugiyama, Tagawa and Toda (1981): edges that close a cycle are taken out; a layer is the longest
path from a task that reads nothing; order within a layer and within a gap is by the mean place of the neighbours.
Labels take part as boxes of their own in the gaps, so that nothing lies on anything else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from wilkins.plan.plan import Mode

LINE = 11.0
"""Height of a line of a label."""
_WIRE = 7.0
"""Distance between the edges of a bundle where they pass its label."""
_SPACE = 16.0
"""Vertical space between boxes of a layer."""
_LABEL_SPACE = 8.0
_LANE = 6.0
"""Distance of edges that run down or up beside the boxes of a column."""
_LEAD = 26.0
"""Distance of a box from the labels beside it."""


@dataclass(frozen=True, slots=True)
class Box:
    """A group of instances, or one task, to be placed."""

    key: str
    members: tuple[str, ...]
    """Node names, from top to bottom."""
    width: float
    height: float
    rows: tuple[float, ...]
    """Middle of each member, from the top of the box."""
    words: str = ""
    """The text of each member."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Edges that share their label: all channels between two ports."""

    writer: str
    reader: str
    """Keys of boxes."""
    pairs: tuple[tuple[str, str], ...]
    """Node names of the edges."""
    lines: tuple[str, ...]
    """The label."""
    names: int
    """Lines of the label that are names of files; they come first."""
    mode: Mode
    width: float
    """Width of the label."""


@dataclass(slots=True)
class Placed:
    """A bundle's place: where its label stands and where its edges pass."""

    bundle: Bundle
    back: bool
    label: tuple[float, float] = (0.0, 0.0)
    """Left and top."""
    routes: list[list[tuple[float, float]]] = field(default_factory=list)
    """For each edge, the points that it passes through."""


@dataclass(slots=True)
class Layout:
    """Everything placed; y grows downwards."""

    width: float
    height: float
    boxes: dict[str, tuple[float, float]]
    """Left and top of each box."""
    bundles: list[Placed]


@dataclass(slots=True)
class _Item:
    """Something that takes a place in a column: a box, the label of a bundle, or a bundle that passes a layer."""

    height: float
    space: float
    box: Box | None = None
    bundle: int = -1
    middle: float = 0.0
    """Middle of its height."""
    hook: float = 0.0
    """How far below its middle its edges meet it."""
    beside: list[_Item] = field(default_factory=list)
    """The nodes that it is joined to in the columns on both sides."""


def arrange(boxes: Sequence[Box], bundles: Sequence[Bundle]) -> Layout:
    """Places boxes and bundles."""
    layer, back = _layers([box.key for box in boxes], [(bundle.writer, bundle.reader) for bundle in bundles])
    depth = max(layer.values(), default=0) + 1
    columns: list[list[_Item]] = [[] for _ in range(2 * depth - 1)]
    item_of = {}
    for box in boxes:
        item_of[box.key] = _Item(box.height, _SPACE, box)
        columns[2 * layer[box.key]].append(item_of[box.key])
    placed = [Placed(bundle, number in back) for number, bundle in enumerate(bundles)]
    stations: dict[int, list[tuple[int, _Item]]] = {}
    for number, bundle in enumerate(bundles):
        if number in back:
            continue
        wires = _WIRE * (len(bundle.pairs) - 1) + 4
        last = 2 * layer[bundle.reader] - 1
        before = item_of[bundle.writer]
        stations[number] = []
        for column in range(2 * layer[bundle.writer] + 1, last + 1):
            labelled = column == last
            text = LINE * len(bundle.lines) * labelled
            item = _Item(wires + text, _LABEL_SPACE, bundle=number, hook=text / 2)
            columns[column].append(item)
            stations[number].append((column, item))
            _join(before, item)
            before = item
        _join(before, item_of[bundle.reader])
    _order(columns)
    lefts, rights = _columns(columns, bundles, stations, len(back))
    ports = _ports(bundles, placed, item_of, stations)
    for number, items in stations.items():
        _route(placed[number], items, ports, lefts, rights, item_of, layer)
    tops = [item.middle - item.height / 2 for column in columns for item in column]
    bottom = max((item.middle + item.height / 2 for column in columns for item in column), default=0.0)
    bottom, left, right = _route_back(placed, item_of, lefts, rights, layer, bottom)
    top = min(tops, default=0.0)
    found = {key: (lefts[2 * layer[key]], item.middle - item.height / 2) for key, item in item_of.items()}
    return _shifted(Layout(right - left, bottom - top, found, placed), -left, -top)


def _layers(keys: Sequence[str], edges: Sequence[tuple[str, str]]) -> tuple[dict[str, int], set[int]]:
    """The layer of each box, and which edges run backwards."""
    outgoing: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, (writer, reader) in enumerate(edges):
        outgoing[writer].append((number, reader))
    back: set[int] = set()
    state: dict[str, int] = {}
    finished: list[str] = []
    read = {reader for _, reader in edges}
    for start in sorted(keys, key=lambda key: key in read):
        if start in state:
            continue
        state[start] = 1
        stack = [(start, iter(outgoing[start]))]
        while stack:
            key, rest = stack[-1]
            for number, reader in rest:
                if state.get(reader) == 1:
                    back.add(number)
                elif reader not in state:
                    state[reader] = 1
                    stack.append((reader, iter(outgoing[reader])))
                    break
            else:
                state[key] = 2
                finished.append(key)
                stack.pop()
    layer = dict.fromkeys(keys, 0)
    for key in reversed(finished):
        for number, reader in outgoing[key]:
            if number not in back:
                layer[reader] = max(layer[reader], layer[key] + 1)
    return layer, back


def _join(left: _Item, right: _Item) -> None:
    left.beside.append(right)
    right.beside.append(left)


def _order(columns: Sequence[list[_Item]]) -> None:
    """Sort each column by its neighbours' places, to and fro, and pull everything towards them."""
    for column in columns:
        _stack(column)
    for sweep in range(12):
        for column in columns if sweep % 2 == 0 else columns[::-1]:
            wish = {id(item): _wish(item) for item in column}
            column.sort(key=lambda item: wish[id(item)])
            _stack(column, [wish[id(item)] for item in column])


def _wish(item: _Item) -> float:
    """Where an item's edges would be straight, on the average."""
    return fmean(one.middle + one.hook for one in item.beside) - item.hook if item.beside else item.middle


def _stack(column: Sequence[_Item], wishes: Sequence[float] | None = None) -> None:
    """Put items below each other in their order, each as near to where it wishes to be as the others leave room.

    Runs of items that would overlap are put around the mean of what they wish (pool adjacent violators).
    """
    runs: list[tuple[list[_Item], float, float]] = []  # items, their height, the top they wish for
    for number, item in enumerate(column):
        height = item.height + item.space
        run = ([item], height, (wishes[number] if wishes else 0.0) - height / 2)
        while runs and runs[-1][2] + runs[-1][1] > run[2]:
            items, tall, top = runs.pop()
            weight = len(items) / (len(items) + len(run[0]))
            top = weight * top + (1 - weight) * (run[2] - tall)
            run = (items + run[0], tall + run[1], top)
        runs.append(run)
    for items, _, top in runs:
        for item in items:
            item.middle = top + (item.height + item.space) / 2
            top += item.height + item.space


def _columns(
    columns: Sequence[list[_Item]],
    bundles: Sequence[Bundle],
    stations: dict[int, list[tuple[int, _Item]]],
    lanes: int,
) -> tuple[list[float], list[float]]:
    """The left and right edge of each column. Between high columns there is more room, so that edges are not steep."""
    widths = [max((item.box.width for item in column if item.box), default=0.0) for column in columns]
    for number, items in stations.items():
        widths[items[-1][0]] = max(widths[items[-1][0]], bundles[number].width)
    lefts, rights, x = [], [], 0.0
    for column, width in enumerate(widths):
        lefts.append(x)
        rights.append(x + width)
        beside = columns[column : column + 2]
        tall = max(sum(item.height + item.space for item in items) for items in beside)
        x += width + _LEAD + _LANE * lanes + min(tall, 500) / 12
    return lefts, rights


_Ports = dict[tuple[int, int], tuple[float, float]]
"""For each bundle and edge in it: the heights at which it leaves and enters."""


def _ports(
    bundles: Sequence[Bundle],
    placed: Sequence[Placed],
    item_of: dict[str, _Item],
    stations: dict[int, list[tuple[int, _Item]]],
) -> _Ports:
    """Where edges leave and enter: spread over each member's side in the order of where they go."""
    leaving: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    entering: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for number, bundle in enumerate(bundles):
        for edge, (writer, reader) in enumerate(bundle.pairs):
            if placed[number].back:
                leaving[writer].append((1e9 - number, number, edge))
                entering[reader].append((1e9 - number, number, edge))
            else:
                leaving[writer].append((stations[number][0][1].middle + edge * 1e-3, number, edge))
                entering[reader].append((stations[number][-1][1].middle + edge * 1e-3, number, edge))
    heights: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for side, found in enumerate((leaving, entering)):
        for item in item_of.values():
            assert item.box
            room = item.height / len(item.box.members) * 0.7
            for member, row in zip(item.box.members, item.box.rows, strict=True):
                ends = sorted(found[member])
                step = min(room / max(len(ends), 1), 18.0)
                for place, (_, number, edge) in enumerate(ends):
                    offset = (place - (len(ends) - 1) / 2) * step
                    heights[number, edge][side] = item.middle - item.height / 2 + row + offset
    return {key: (out, into) for key, (out, into) in heights.items()}


def _route(
    placed: Placed,
    items: Sequence[tuple[int, _Item]],
    ports: _Ports,
    lefts: Sequence[float],
    rights: Sequence[float],
    item_of: dict[str, _Item],
    layer: dict[str, int],
) -> None:
    """Edges of a bundle that runs forward: from box to box, below their label."""
    bundle = placed.bundle
    writer, reader = item_of[bundle.writer].box, item_of[bundle.reader].box
    assert writer and reader
    number = items[0][1].bundle
    start, end = lefts[2 * layer[bundle.writer]] + writer.width, lefts[2 * layer[bundle.reader]]
    column, labelled = items[-1]
    text = LINE * len(bundle.lines)
    top = labelled.middle - labelled.height / 2
    placed.label = (lefts[column], top)
    for edge in range(len(bundle.pairs)):
        leave, enter = ports[number, edge]
        points = [(start, leave)]
        for between, item in items[:-1]:
            height = item.middle - item.height / 2 + 2 + edge * _WIRE
            points += [(lefts[between], height), (rights[between], height)]
        height = top + text + 2 + edge * _WIRE
        points += [(lefts[column], height), (rights[column], height), (end, enter)]
        placed.routes.append(points)


def _route_back(
    placed: Iterable[Placed],
    item_of: dict[str, _Item],
    lefts: Sequence[float],
    rights: Sequence[float],
    layer: dict[str, int],
    bottom: float,
) -> tuple[float, float, float]:
    """Edges that close cycles: out of the writer to the right, below everything, into the reader from the left.

    Returns the lowest, leftmost and rightmost point.
    """
    left, right = 0.0, rights[-1]
    for lane, one in enumerate(one for one in placed if one.back):
        bundle = one.bundle
        writer, reader = item_of[bundle.writer], item_of[bundle.reader]
        assert writer.box and reader.box
        out = rights[2 * layer[bundle.writer]] + 12 + _LANE * lane
        into = lefts[2 * layer[bundle.reader]] - 14 - _LANE * lane
        start = lefts[2 * layer[bundle.writer]] + writer.box.width
        end = lefts[2 * layer[bundle.reader]]
        top = bottom + _SPACE
        one.label = ((out + into - bundle.width) / 2, top)
        bottom = top + LINE * len(bundle.lines) + 4 + _WIRE * (len(bundle.pairs) - 1)
        for edge, (source, sink) in enumerate(bundle.pairs):
            low = top + LINE * len(bundle.lines) + 2 + _WIRE * edge
            leave = writer.middle - writer.height / 2 + writer.box.rows[writer.box.members.index(source)]
            enter = reader.middle - reader.height / 2 + reader.box.rows[reader.box.members.index(sink)]
            leave += min(13.0, writer.height / len(writer.box.members) / 3)
            enter += min(13.0, reader.height / len(reader.box.members) / 3)
            one.routes.append([(start, leave), (out, leave), (out, low), (into, low), (into, enter), (end, enter)])
        left, right = min(left, into - 4), max(right, out + 4)
    return bottom, left, right


def _shifted(layout: Layout, x: float, y: float) -> Layout:
    def move(point: tuple[float, float]) -> tuple[float, float]:
        return point[0] + x, point[1] + y

    layout.boxes = {key: move(place) for key, place in layout.boxes.items()}
    for placed in layout.bundles:
        placed.label = move(placed.label)
        placed.routes = [[move(point) for point in route] for route in placed.routes]
    return layout
