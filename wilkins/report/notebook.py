"""What notebooks show of plans, graphs, timelines and runs: the pictures and tables of the terminal and of the page."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wilkins.flow.timeline import Timeline
from wilkins.names import text_of
from wilkins.plan.graph import policy_words, task_words
from wilkins.plan.plan import Plan
from wilkins.report import show
from wilkins.report.draw.gantt import draw_timelines
from wilkins.report.draw.graph import box, bundle, drawn
from wilkins.report.page.html import channels_of, paragraph, table, tasks_of
from wilkins.report.page.measured import graph_of, together
from wilkins.report.page.page import outcome_of, records_of
from wilkins.report.runs import timeline_of
from wilkins.terminal.progress import HEAD, History, cells

if TYPE_CHECKING:
    import networkx


def of_plan(plan: Plan) -> str:
    """A plan as HTML: its graph, tasks, channels and notes."""
    parts = [graph_of(plan, None, (), {}), table(*show.tasks_of(plan))]
    if plan.channels:
        parts.append(table(*show.channels_of(plan)))
    return "\n".join([*parts, *map(paragraph, plan.notes)])


def of_graph(graph: networkx.MultiDiGraph[str]) -> str | None:
    """The picture of a task graph, as `wilkins.plan.graph.build` makes them; None: it is another graph."""
    if not all({"task", "nprocs", "stage"} <= data.keys() for _, data in graph.nodes(data=True)):
        return None
    entry = {name: str(data["task"].name) for name, data in graph.nodes(data=True)}
    members: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, data in graph.nodes(data=True):
        members[entry[name]][name] = data
    boxes = {
        name: box(name, list(all_of), task_words(*(next(iter(all_of.values()))[key] for key in ("nprocs", "stage"))))
        for name, all_of in members.items()
    }
    groups: dict[tuple[str, str, int], list[tuple[str, str, dict[str, Any]]]] = defaultdict(list)
    for writer, reader, key, data in graph.edges(keys=True, data=True):
        groups[entry[writer], entry[reader], key].append((writer, reader, data))
    bundles = []
    for (writer, reader, _), edges in groups.items():
        first = edges[0][2]
        files = [together([data[side] for _, _, data in edges]) for side in ("outport", "inport", "called")]
        pairs = [(one, other) for one, other, _ in edges]
        facts = [policy_words(first["policy"], first["listing"])]
        bundles.append(bundle(boxes[writer], boxes[reader], pairs, files, facts, first["mode"]))
    return drawn(list(boxes.values()), bundles)


def of_timeline(timeline: Timeline, title: str = "") -> str:
    """The picture of a timeline."""
    return draw_timelines([(title, timeline)])


def of_run(run: Path) -> str:
    """The records of a run as HTML: how it ended, its tasks, channels and timeline.

    Raises:
        UsageError: another version of Wilkins has made them.
    """
    records = records_of(run)
    parts = [f"<div><b>{escape(text_of(records.folder.name))}</b>: {outcome_of(records)}</div>"]
    parts += [tasks_of(records.summary), channels_of(records.summary)] if records.summary else []
    if records.events:
        parts.append(of_timeline(timeline_of(records.folder, records.events)))
    return "\n".join(parts)


def of_progress(history: History) -> str:
    """How far a run is, as HTML."""
    return table(HEAD, list(cells(history)), frozenset(range(1, len(HEAD) - 1)))
