"""Shows plans and graphs as text: tables, Mermaid, DOT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from wilkins.errors import count_of
from wilkins.flow.policy import kept_words
from wilkins.plan.graph import policy_words, task_words
from wilkins.plan.placing import crossing
from wilkins.plan.plan import ChannelPlan, Plan, PortPlan, TaskPlan, started_ready_made
from wilkins.plan.program import inspect
from wilkins.report.placed import hosts_table, job_lines, refused_in_job, ways_table
from wilkins.schema.kinds import words_of
from wilkins.spec.ensemble import braced, joins, numbers_text
from wilkins.tasks.registry import PREFIX
from wilkins.terminal.tables import binary_size, text_table
from wilkins.terminal.wording import listed
from wilkins.transport import fabric

if TYPE_CHECKING:
    import networkx

T = TypeVar("T")
_MOST_HOSTS = 16
_MOST_JOINS = 8
_WIDEST_COMMAND = 160
_MODES = {"both": "in memory and on disk", "file": "on disk"}
_ARROWS = {"memory": "-->", "both": "==>", "file": "-.->"}
_STYLES = {"memory": "", "both": ", style=bold", "file": ", style=dashed"}


def plan_table(plan: Plan, sizes: Mapping[str, int] | None = None) -> str:
    """Tasks, channels, files and memory of a plan; the instances of a task share a line.

    Args:
        sizes: bytes of a step, by entry of the workflow file, where they are known.
    """
    channels = _alike(plan)
    files = _grouped(
        [port for port in plan.ports if port.mode == "plain"], lambda port: (_base(plan, port.task), port.origin)
    )
    counts = ((len(plan.tasks), "task"), (plan.total_ranks, "rank"), (len(plan.channels), "channel"))
    parts = [f"{plan.name}: {', '.join(count_of(*count) for count in counts)}"]
    parts.append(text_table(*tasks_of(plan)))
    if channels:
        parts.append(text_table(*channels_of(plan)))
    if plan.hosts:
        parts.append(hosts_table(plan))
        if channels:
            parts.append(ways_table(plan, channels, _between, sizes or {}))
        if any(crossing(plan, channel).across for channel in plan.channels):
            parts.append(fabric.shown(fabric.wish()))
    if paths := [channel for channel in plan.channels if channel.why]:
        parts.append(text_table(("channel", "files", "path", "why"), _path_rows(plan, paths)))
    if joined := [text for group in channels if (text := _joins_text(plan, group))]:
        parts.append("\n\n".join(joined))
    if at_once := [port for port in plan.ports if port.direction == "in" and port.looks == "now"]:
        parts.append(
            "\n".join(_at_once(plan, group) for group in _grouped(at_once, lambda port: _entry(plan, port.index)))
        )
    if files:
        rows = [
            (_members(plan, [port.task for port in group]), group[0].direction, braced([p.pattern for p in group]))
            for group in files
        ]
        parts.append(text_table(("plain files of", "port", "files"), rows))
    if lines := list(_orders(plan)):
        parts.append("\n".join(lines))
    if plan.can_resume:
        parts.append(_restart_table(plan))
    if plan.notes:
        parts.append("\n".join(plan.notes))
    if plan.hosts:
        words = ",".join(f"{host.name}:{host.slots}" for host in plan.hosts)
        where = f"--hosts {words}" if len(plan.hosts) <= _MOST_HOSTS else "--hostfile HOSTS"
        lines = [f"on these hosts: wilkins run {where} {plan.shown}", *filter(None, [job_lines(plan)])]
        parts.append("\n".join(lines))
    else:
        parts.append(f"alone: wilkins run {plan.shown}\n{_one_job(plan)}")
    return "\n\n".join(parts)


def _one_job(plan: Plan) -> str:
    """How to start the plan as one MPI job, or why that cannot be."""
    starters = sorted({task.mpiexec[0] for task in plan.tasks if task.kind == "mpi" and task.mpiexec})
    if len(starters) > 1:
        return f"one job: not with these programs, whose MPIs differ (they are started by {listed(starters)})"
    if refused := [task.name for task in plan.tasks if refused_in_job(task)]:
        return (
            f"one job: not with {listed(refused)}, since a rank of a job cannot be started again, come later than "
            "others, or fail alone"
        )
    return f"one job: mpiexec -n {plan.total_ranks} wilkins run {plan.shown}"


Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The head of a table, and its rows."""


def tasks_of(plan: Plan) -> Table:
    """The table of tasks."""
    gpus = any(task.gpus is not None for task in plan.tasks)
    rows = [_task_row(group, gpus) for group in _grouped(plan.tasks, lambda task: _base(plan, task.index))]
    return ("task", "ranks", "in a job", "kind", *(["GPUs"] if gpus else []), "command"), rows


def channels_of(plan: Plan) -> Table:
    """The table of channels."""
    head = ("channel", "files", "ranks", "steps", "queue", "when full", "mode", "memory")
    return head, [_channel_row(plan, group) for group in _alike(plan)]


def _alike(plan: Plan) -> list[list[ChannelPlan]]:
    """The channels, those of instances of the same tasks together."""
    return _grouped(
        plan.channels,
        lambda channel: (_entry(plan, channel.outport), _entry(plan, channel.inport), _how(plan, channel)),
    )


def _orders(plan: Plan) -> Iterator[str]:
    """A line for each stage, for each task that starts after others, and for each policy on failures."""
    for group in _grouped(plan.tasks, lambda task: _base(plan, task.index)):
        name, task = _members(plan, [task.index for task in group]), group[0]
        if task.environment:
            python = f" ({task.executable})" if task.executable.name.startswith("python") else ""
            yield f"{name} runs in {task.environment.shown}{python}"
        if stage := [port for port in plan.ports if port.passes_on and port.task == task.index]:
            yield f"{name} is a stage: it passes on {listed([port.pattern for port in stage])}, which it reads"
        if task.after:
            before = dict.fromkeys(_base(plan, other) for other in task.after)
            yield f"{name} starts when {listed(before)} {'has' if len(before) == 1 else 'have'} ended well"
        if task.retries:
            yield f"{name} is started again up to {count_of(task.retries, 'time')} if it fails"
        if task.spares:
            yield f"{name}: {task.spares} of {len(group)} may fail"


def _at_once(plan: Plan, group: Sequence[PortPlan]) -> str:
    """Notes on in-ports whose lookups do not wait, and why."""
    who, names = _members(plan, [port.task for port in group]), braced([port.called for port in group])
    why = "the in-port closes a cycle; 'looks: wait' lets them" if group[0].closes_cycle else "by 'looks: now'"
    return f"{who} looks at {names} without waiting for it: {why}"


def _restart_table(plan: Plan) -> str:
    """From what each task would be restarted if the run were resumed."""
    rows, anew = [], []
    for group in _grouped(plan.tasks, lambda task: _base(plan, task.index)):
        name, task = _members(plan, [task.index for task in group]), group[0]
        made = started_ready_made(task)
        if task.restart:
            files = braced([one.restart.files for one in group if one.restart])
            rows.append((name, str(replace(task.restart, files=files))))
        elif made:
            rows.append((name, "its newest save that fits" if task.saves else "what it tells by itself"))
        elif task.rerun == "always" or any("{filename}" in word for word in task.args):
            rows.append((name, "the step after the last that a program of it has ended well with"))
        else:
            rows.append((name, "its beginning"))
            anew.append(name)
    table = text_table(("resumed: task", "restarted from"), rows)
    if not anew:
        return table
    return (
        f"{table}\nnote: {', '.join(anew)} would begin anew, and so would all whose steps it reads, unless it has "
        "ended; say by 'restart' what it can be restarted from (`wilkins help restarting`)"
    )


def _grouped(items: Iterable[T], key: Callable[[T], object]) -> list[list[T]]:
    groups: dict[object, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _base(plan: Plan, task: int) -> str:
    """The name of a task without the number of its instance."""
    return plan.tasks[task].name.partition("[")[0]


def _entry(plan: Plan, port: int) -> tuple[str, str]:
    return _base(plan, plan.ports[port].task), plan.ports[port].origin


def _members(plan: Plan, tasks: Sequence[int]) -> str:
    """``sim``, or ``sim[0..4]`` of instances."""
    several = "[" in plan.tasks[tasks[0]].name
    numbers = sorted({plan.tasks[task].instance for task in tasks})
    return _base(plan, tasks[0]) + (numbers_text(numbers) if several else "")


def _task_row(group: Sequence[TaskPlan], gpus: bool) -> tuple[str, ...]:
    first, last = group[0], group[-1]
    ranks = (first.first_rank, last.first_rank + last.nprocs - 1)
    commands = [_words(task) for task in group]
    return (
        first.name if len(group) == 1 else f"{first.name.partition('[')[0]}[0..{last.instance}]",
        str(first.nprocs) if len(group) == 1 else f"{len(group)} x {first.nprocs}",
        f"{ranks[0]}-{ranks[1]}" if ranks[0] != ranks[1] else str(ranks[0]),
        first.kind,
        *([braced([_gpus(task) for task in group])] if gpus else []),
        _cut(" ".join(braced([words_of([word]) for word in column]) for column in zip(*commands, strict=True))),
    )


def _words(task: TaskPlan) -> list[str]:
    """The command of a task; for a ready-made task its name, since its arguments are options as JSON."""
    launcher = [*(task.mpiexec and (*task.mpiexec, "-n", str(task.nprocs))), *task.prefix]
    if made := started_ready_made(task):
        return [*launcher, PREFIX + made]
    return [*launcher, *_started(task.executable), *task.args]


def _started(executable: Path) -> tuple[str, ...]:
    """A program, and for a script its interpreter, if known on this machine."""
    try:
        interpreter = inspect(executable).interpreter
    except ValueError:
        interpreter = None
    return (str(interpreter), str(executable)) if interpreter else (str(executable),)


def _cut(text: str) -> str:
    """A command cut to the width of the table; the run's plan.json has all of it."""
    return text if len(text) <= _WIDEST_COMMAND else text[: _WIDEST_COMMAND - 3] + "..."


def _gpus(task: TaskPlan) -> str:
    """The GPUs that a task sees; ``-`` if its environment is unchanged."""
    return "-" if task.gpus is None else " ".join(task.gpus) or "none"


def _path_rows(plan: Plan, channels: Sequence[ChannelPlan]) -> list[tuple[str, ...]]:
    """The transfer path of each channel's data, and why."""
    groups = _grouped(
        channels,
        lambda channel: (_entry(plan, channel.outport), _entry(plan, channel.inport), channel.path, channel.why),
    )
    return [(_between(plan, group), _files_of(plan, group), group[0].path, group[0].why) for group in groups]


def _how(plan: Plan, channel: ChannelPlan) -> tuple[str, ...]:
    """A channel's ranks, policy and memory."""
    outport = plan.ports[channel.outport]
    writers = plan.tasks[outport.task].nprocs
    return (
        f"{writers} -> {channel.readers}",
        kept_words(channel.every, channel.offset),
        str(channel.queue),
        channel.when_full,
        outport.mode,
        "-" if outport.mode == "file" else binary_size(outport.cap_bytes) if outport.cap_bytes else "no limit",
    )


def _channel_row(plan: Plan, group: Sequence[ChannelPlan]) -> tuple[str, ...]:
    return _between(plan, group), _files_of(plan, group), *_how(plan, group[0])


def _files_of(plan: Plan, group: Sequence[ChannelPlan]) -> str:
    written = braced([plan.ports[channel.outport].pattern for channel in group])
    read = braced([plan.ports[channel.inport].pattern for channel in group])
    called = braced([plan.ports[channel.inport].called for channel in group])
    files = written if written == read else f"{written} -> {read}"
    return files if called == read else f"{files} as {called}"


def _between(plan: Plan, group: Sequence[ChannelPlan]) -> str:
    writers = _members(plan, [plan.ports[channel.outport].task for channel in group])
    return f"{writers} -> {_members(plan, [plan.ports[channel.inport].task for channel in group])}"


def _joins_text(plan: Plan, group: Sequence[ChannelPlan]) -> str:
    """The pairs of joined instances, one a line; empty if there is only one way to join them."""
    ends = [(plan.ports[channel.outport].task, plan.ports[channel.inport].task) for channel in group]
    writer, reader = ends[0]
    found = joins((plan.tasks[i].instance, plan.tasks[j].instance) for i, j in ends)
    if len(group) == 1 or (len(found) == 1 and not found[0].each):
        return ""
    several = ["[" in plan.tasks[task].name for task in (writer, reader)]
    lines = []
    for join in found:
        sides = [
            _base(plan, task) + (numbers_text(numbers) if many else "")
            for task, numbers, many in ((writer, join.writers, several[0]), (reader, join.readers, several[1]))
        ]
        lines.append(f"  {sides[0]} -> {sides[1]}" + (", each to its own" if join.each else ""))
    if len(lines) > _MOST_JOINS:
        left_out = count_of(len(lines) - _MOST_JOINS + 1, "line")
        lines[_MOST_JOINS - 2 : -1] = [f"  ... {left_out} of the same kind ..."]
    return "\n".join([f"how {_between(plan, group)} are joined:", *lines])


def graph_text(graph: networkx.MultiDiGraph[str]) -> str:
    """One line per task, one per channel below it."""
    lines = []
    for name, data in graph.nodes(data=True):
        lines.append(f"{name} ({_node_words(data)})")
        for _, reader, edge in graph.out_edges(name, data=True):
            policy = policy_words(edge["policy"], edge["listing"])
            how = policy if edge["mode"] == "memory" else f"{policy}, {_MODES[edge['mode']]}"
            lines.append(f"  {_files(edge)} -> {reader}  [{how}]")
    return "\n".join(lines)


def graph_mermaid(graph: networkx.MultiDiGraph[str]) -> str:
    """A Mermaid flowchart."""
    numbers = {name: f"t{number}" for number, name in enumerate(graph)}
    lines = ["flowchart LR"]
    lines += [f'    {numbers[name]}["{name}<br/>{_node_words(data)}"]' for name, data in graph.nodes(data=True)]
    for writer, reader, edge in graph.edges(data=True):
        arrow = _ARROWS[edge["mode"]]
        label = _files(edge).replace('"', "#quot;")
        lines.append(f'    {numbers[writer]} {arrow}|"{label}"| {numbers[reader]}')
    return "\n".join(lines)


def graph_dot(graph: networkx.MultiDiGraph[str]) -> str:
    """A Graphviz digraph."""

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = ["digraph workflow {", "    rankdir=LR;", "    node [shape=box];"]
    lines += [
        f"    {quoted(name)} [label={quoted(f'{name}, {_node_words(data)}')}];" for name, data in graph.nodes(data=True)
    ]
    for writer, reader, edge in graph.edges(data=True):
        style = _STYLES[edge["mode"]]
        lines.append(f"    {quoted(writer)} -> {quoted(reader)} [label={quoted(_files(edge))}{style}];")
    return "\n".join([*lines, "}"])


def _node_words(data: Mapping[str, Any]) -> str:
    return task_words(data["nprocs"], data["stage"])


def _files(edge: dict[str, str]) -> str:
    return " as ".join(dict.fromkeys((edge["outport"], edge["inport"], edge["called"])))


GRAPH_FORMATS: dict[str, Callable[[networkx.MultiDiGraph[str]], str]] = {
    "text": graph_text,
    "mermaid": graph_mermaid,
    "dot": graph_dot,
}
