"""Shows plans and graphs as text: tables, Mermaid, DOT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wilkins.kinds import words_of
from wilkins.plan import Plan

if TYPE_CHECKING:
    import networkx

_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def plan_table(plan: Plan) -> str:
    """Tasks, channels, files and memory of a plan."""
    tasks = [
        (
            task.name,
            str(task.nprocs),
            f"{task.first_rank}-{task.first_rank + task.nprocs - 1}" if task.nprocs > 1 else str(task.first_rank),
            task.kind,
            words_of(
                [
                    *(task.mpiexec and (*task.mpiexec, "-n", str(task.nprocs))),
                    *task.prefix,
                    str(task.executable),
                    *task.args,
                ]
            ),
        )
        for task in plan.tasks
    ]
    channels = []
    for channel in plan.channels:
        outport, inport = plan.ports[channel.outport], plan.ports[channel.inport]
        writer, reader = plan.tasks[outport.task], plan.tasks[inport.task]
        kept = "all" if channel.every == 1 else f"every {channel.every}"
        channels.append(
            (
                f"{writer.name} -> {reader.name}",
                outport.pattern if outport.pattern == inport.pattern else f"{outport.pattern} -> {inport.pattern}",
                f"{writer.nprocs} -> {channel.readers}",
                kept,
                str(channel.queue),
                channel.when_full,
                size_text(outport.cap_bytes) if outport.cap_bytes else "no limit",
            )
        )
    files = [(plan.tasks[port.task].name, port.direction, port.pattern) for port in plan.ports if port.mode == "plain"]
    counts = ((len(plan.tasks), "task"), (plan.total_ranks, "rank"), (len(plan.channels), "channel"))
    parts = [f"{plan.name}: {', '.join(count_of(*count) for count in counts)} in memory"]
    parts.append(_table(("task", "ranks", "in a job", "kind", "command"), tasks))
    if channels:
        parts.append(_table(("channel", "files", "ranks", "steps", "queue", "when full", "memory"), channels))
    if files:
        parts.append(_table(("real files of", "port", "files"), files))
    if plan.notes:
        parts.append("\n".join(plan.notes))
    parts.append(
        f"alone: wilkins run {plan.source.name}\none job: mpiexec -n {plan.total_ranks} wilkins run {plan.source.name}"
    )
    return "\n\n".join(parts)


def count_of(count: int, noun: str) -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def size_text(count: int) -> str:
    """Bytes for people: ``1.5 GiB``."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def graph_text(graph: networkx.MultiDiGraph[str]) -> str:
    """One line per task, one per channel below it."""
    lines = []
    for name, data in graph.nodes(data=True):
        lines.append(f"{name} ({count_of(data['nprocs'], 'rank')})")
        for _, reader, edge in graph.out_edges(name, data=True):
            how = str(edge["policy"]) if edge["place"] == "memory" else "real file"
            lines.append(f"  {_files(edge)} -> {reader}  [{how}]")
    return "\n".join(lines)


def graph_mermaid(graph: networkx.MultiDiGraph[str]) -> str:
    """A Mermaid flowchart."""
    numbers = {name: f"t{number}" for number, name in enumerate(graph)}
    lines = ["flowchart LR"]
    lines += [
        f'    {numbers[name]}["{name}<br/>{count_of(data["nprocs"], "rank")}"]' for name, data in graph.nodes(data=True)
    ]
    for writer, reader, edge in graph.edges(data=True):
        arrow = "-->" if edge["place"] == "memory" else "-.->"
        label = _files(edge).replace('"', "#quot;")
        lines.append(f'    {numbers[writer]} {arrow}|"{label}"| {numbers[reader]}')
    return "\n".join(lines)


def graph_dot(graph: networkx.MultiDiGraph[str]) -> str:
    """A Graphviz digraph."""

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = ["digraph workflow {", "    rankdir=LR;", "    node [shape=box];"]
    lines += [
        f"    {quoted(name)} [label={quoted(name + ' x' + str(data['nprocs']))}];"
        for name, data in graph.nodes(data=True)
    ]
    for writer, reader, edge in graph.edges(data=True):
        style = "" if edge["place"] == "memory" else ", style=dashed"
        lines.append(f"    {quoted(writer)} -> {quoted(reader)} [label={quoted(_files(edge))}{style}];")
    return "\n".join([*lines, "}"])


def _files(edge: dict[str, str]) -> str:
    return edge["outport"] if edge["outport"] == edge["inport"] else f"{edge['outport']} as {edge['inport']}"


GRAPH_FORMATS: dict[str, Callable[[networkx.MultiDiGraph[str]], str]] = {
    "text": graph_text,
    "mermaid": graph_mermaid,
    "dot": graph_dot,
}
