"""Where a drawn task graph puts things: nothing on anything else, every edge from its writer to its reader."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from wilkins.report.draw.layout import LINE, Box, Bundle, Layout, arrange

Rectangle = tuple[float, float, float, float]


def box(key: str, members: int = 1) -> Box:
    """A task, or an ensemble of instances below each other."""
    names = tuple(f"{key}[{number}]" for number in range(members))
    return Box(key, names, 70 + 10 * members, 36.0 * members, tuple(36.0 * number + 18 for number in range(members)))


def bundle(writer: Box, reader: Box, lines: int = 2, width: float = 60) -> Bundle:
    """Channels from each writing instance to one reading instance, or the other way round."""
    longer = max(len(writer.members), len(reader.members))
    pairs = tuple(
        (writer.members[n * len(writer.members) // longer], reader.members[n * len(reader.members) // longer])
        for n in range(longer)
    )
    return Bundle(writer.key, reader.key, pairs, ("x.h5",) * lines, lines - 1, "memory", width)


def rectangles(layout: Layout, boxes: list[Box]) -> list[Rectangle]:
    """All boxes and labels."""
    found = []
    for one in boxes:
        left, top = layout.boxes[one.key]
        found.append((left, top, left + one.width, top + one.height))
    for placed in layout.bundles:
        left, top = placed.label
        found.append((left, top, left + placed.bundle.width, top + LINE * len(placed.bundle.lines)))
    return found


def assert_apart(layout: Layout, boxes: list[Box]) -> None:
    """No two rectangles meet, and all are within the picture."""
    slack = 1e-6
    for one, two in combinations(rectangles(layout, boxes), 2):
        apart = one[2] <= two[0] + slack or two[2] <= one[0] + slack
        assert apart or one[3] <= two[1] + slack or two[3] <= one[1] + slack, (one, two)
    for left, top, right, bottom in rectangles(layout, boxes):
        assert left >= -slack
        assert top >= -slack
        assert right <= layout.width + slack
        assert bottom <= layout.height + slack


def assert_joined(layout: Layout, boxes: list[Box]) -> None:
    """Each edge begins on the right side of its writer's box and ends on the left side of its reader's."""
    by_key = {one.key: one for one in boxes}
    for placed in layout.bundles:
        assert len(placed.routes) == len(placed.bundle.pairs)
        for (writer, reader), route in zip(placed.bundle.pairs, placed.routes, strict=True):
            for key, member, point, side in (
                (placed.bundle.writer, writer, route[0], 1),
                (placed.bundle.reader, reader, route[-1], 0),
            ):
                one = by_key[key]
                left, top = layout.boxes[key]
                assert abs(point[0] - (left + one.width * side)) < 1e-6
                row = top + one.rows[one.members.index(member)]
                assert abs(point[1] - row) < one.height / len(one.members) / 2 + 1e-6


def test_a_pipeline_is_straight() -> None:
    boxes = [box("a"), box("b"), box("c")]
    layout = arrange(boxes, [bundle(boxes[0], boxes[1]), bundle(boxes[1], boxes[2])])
    assert_apart(layout, boxes)
    heights = [y for placed in layout.bundles for route in placed.routes for _, y in route]
    assert max(heights) - min(heights) < 1, "less than can be seen"
    assert layout.boxes["a"][0] < layout.boxes["b"][0] < layout.boxes["c"][0]


def test_a_cycle_runs_back_below() -> None:
    boxes = [box("sim"), box("ana")]
    layout = arrange(boxes, [bundle(boxes[0], boxes[1]), bundle(boxes[1], boxes[0])])
    assert [placed.back for placed in layout.bundles] == [False, True]
    assert_apart(layout, boxes)
    assert_joined(layout, boxes)
    lowest = max(top + one.height for one in boxes for _, top in [layout.boxes[one.key]])
    assert max(y for _, y in layout.bundles[1].routes[0]) > lowest


def test_two_to_five_is_drawn_in_blocks_without_crossings() -> None:
    boxes = [box("w", 2), box("r", 5)]
    layout = arrange(boxes, [bundle(boxes[0], boxes[1])])
    routes = layout.bundles[0].routes
    for column in range(len(routes[0])):
        heights = [route[column][1] for route in routes]
        assert heights == sorted(heights)
    assert_joined(layout, boxes)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Box], list[Bundle]]:
    """Any tasks, joined in any way, also several times and in cycles."""
    boxes = [box(f"t{number}", draw(st.integers(1, 5))) for number in range(draw(st.integers(1, 7)))]
    bundles = []
    for _ in range(draw(st.integers(0, 10)) if len(boxes) > 1 else 0):
        writer, reader = draw(st.permutations(range(len(boxes))).map(lambda order: order[:2]))
        lines, width = draw(st.integers(2, 4)), draw(st.sampled_from([30.0, 90.0, 220.0]))
        bundles.append(bundle(boxes[writer], boxes[reader], lines, width))
    return boxes, bundles


@given(graphs())
def test_nothing_lies_on_anything_else(graph: tuple[list[Box], list[Bundle]]) -> None:
    boxes, bundles = graph
    layout = arrange(boxes, bundles)
    assert_apart(layout, boxes)
    assert_joined(layout, boxes)
