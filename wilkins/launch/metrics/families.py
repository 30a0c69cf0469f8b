"""The numbers of a run as Prometheus knows them: families of samples, made of the board's report. No I/O.

Names follow https://prometheus.io/docs/practices/naming/. Each sample has the label `run`, since files of several runs
may lie in one folder of node exporter's, which refuses samples that differ in nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from wilkins.launch.metrics.usage import Usage
from wilkins.names import text_of
from wilkins.plan.plan import Plan
from wilkins.transport.report_table import PortFacts, Report, State, TaskFacts, WaitFor
from wilkins.values import dataclass, field

Kind = Literal["counter", "gauge", "info"]
Form = Literal["openmetrics", "prometheus"]
"""OpenMetrics 1.0, or the text format of Prometheus, version 0.0.4, which is all that node exporter reads."""

Labels = tuple[tuple[str, str], ...]

_WAITS = tuple(what for what in get_args(WaitFor) if what != "nothing")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run beside its report."""

    name: str
    """Of its directory."""
    version: str
    """Of Wilkins."""
    host: str
    began: float
    """Seconds since 1970, as the next two."""
    at: float = 0.0
    """When the report was taken."""
    ended: float = 0.0
    """0: it goes on."""
    code: int | None = None
    """What it has exited with."""


class Family:
    """Samples of one name."""

    def __init__(self, name: str, kind: Kind, text: str, unit: str = "") -> None:
        """`name`: without the suffix that its kind gives it; ends with the unit, if there is one."""
        self.name, self.kind, self.text, self.unit = name, kind, text, unit
        self.samples: dict[Labels, float] = {}

    def add(self, value: float, **labels: str) -> None:
        """Add a sample. Of two with the same labels, there is one with the sum."""
        key = tuple(labels.items())
        self.samples[key] = self.samples.get(key, 0) + value

    def lines(self, form: Form, always: Labels) -> Iterator[str]:
        """The lines of the family; none if it has no samples.

        Args:
            always: labels of each sample.
        """
        if not self.samples:
            return
        sampled = self.name + {"counter": "_total", "info": "_info", "gauge": ""}[self.kind]
        if form == "openmetrics":
            named, kind = self.name, self.kind
        else:
            named, kind = sampled, "gauge" if self.kind == "info" else self.kind
        yield f"# HELP {named} {_escaped(self.text)}"
        yield f"# TYPE {named} {kind}"
        if self.unit and form == "openmetrics":
            yield f"# UNIT {named} {self.unit}"
        for labels, value in self.samples.items():
            words = ",".join(f'{name}="{_escaped(text_of(text))}"' for name, text in (*always, *labels))
            yield f"{sampled}{{{words}}} {value}"


def text(families: list[Family], form: Form, run: str) -> str:
    """All families, in a form."""
    always = (("run", run),)
    lines = [line for family in families for line in family.lines(form, always)]
    return "".join(f"{line}\n" for line in [*lines, *(["# EOF"] if form == "openmetrics" else [])])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@dataclass(frozen=True, slots=True)
class Look:
    """A look at a run."""

    plan: Plan
    run: RunFacts
    report: Report | None
    """Of the board, or of those of all hosts; None: there was none yet."""
    usages: Mapping[int, Usage] = field(default_factory=dict)
    """By task."""


def families_of(look: Look) -> list[Family]:
    """The numbers of a look."""
    found = _of_run(look)
    if look.report is not None:
        tasks = {task.index: task.name for task in look.plan.tasks if not task.is_relay}
        found += [*_of_memory(look.report), *_of_ports(look.report, tasks), *_of_channels(look.report, tasks)]
        found += [*_of_tasks(look.report, tasks), *_of_usages(look.usages, tasks)]
    return found


def _of_run(look: Look) -> list[Family]:
    run = look.run
    info = Family("wilkins_run", "info", "The run.")
    labels = {"workflow": look.plan.name, "version": run.version, "host": run.host, "launch": look.plan.launch}
    info.add(1, **labels, hosts=str(max(1, len(look.plan.hosts))))
    began = Family("wilkins_run_start_time_seconds", "gauge", "When the run began, since 1970.", "seconds")
    began.add(run.began)
    at = Family("wilkins_run_report_time_seconds", "gauge", "When these numbers were taken, since 1970.", "seconds")
    ended = Family("wilkins_run_end_time_seconds", "gauge", "When the run ended, since 1970.", "seconds")
    code = Family("wilkins_run_exit_code", "gauge", "What the run has exited with. Absent while it goes on.")
    if run.at:
        at.add(run.at)
    if run.ended:
        ended.add(run.ended)
    if run.code is not None:
        code.add(run.code)
    return [info, began, at, ended, code]


def _of_memory(report: Report) -> list[Family]:
    now = Family("wilkins_memory_bytes", "gauge", "Shared memory that steps take.", "bytes")
    peak = Family("wilkins_memory_peak_bytes", "gauge", "The most that they have taken.", "bytes")
    now.add(report.memory_bytes)
    peak.add(report.memory_peak_bytes)
    return [now, peak]


def _of_ports(report: Report, tasks: Mapping[int, str]) -> list[Family]:
    published = Family("wilkins_steps_published", "counter", "Steps published on an out-port.")
    read = Family("wilkins_steps_read", "counter", "Steps read on an in-port.")
    dropped = Family("wilkins_steps_dropped", "counter", "Steps given up on an in-port because its queue was full.")
    bytes_out = Family("wilkins_published_bytes", "counter", "Sizes of the steps published on an out-port.", "bytes")
    bytes_in = Family("wilkins_read_bytes", "counter", "Sizes of the steps read on an in-port.", "bytes")
    for port in report.ports:
        if port.task not in tasks:
            continue
        labels = {"task": tasks[port.task], "port": port.pattern}
        out = port.direction == "out"
        (published if out else read).add(port.steps, **labels)
        (bytes_out if out else bytes_in).add(port.bytes, **labels)
        if not out:
            dropped.add(port.dropped, **labels)
    return [published, read, dropped, bytes_out, bytes_in]


_FATES = (
    ("offered", "published", "Steps published for the in-port."),
    ("read", "read", "Of the steps offered, those that some rank has read."),
    ("skipped", "skipped", "Of the steps offered, those that `io_freq` or `flow` left out."),
    ("dropped", "dropped", "Of the steps offered, those given up because the queue was full."),
    ("let_go", "let_go", "Of the steps offered, those given up because the run would have stood still."),
)
"""Of a channel's steps: a word for the name, the field of the report, and what it says."""


def _of_channels(report: Report, tasks: Mapping[int, str]) -> list[Family]:
    queued = Family("wilkins_channel_queued_steps", "gauge", "Steps that wait for the consumer.")
    counts = [Family(f"wilkins_channel_steps_{word}", "counter", said) for word, _, said in _FATES]
    for channel in report.channels:
        out, into = report.ports[channel.outport], report.ports[channel.inport]
        if out.task not in tasks or into.task not in tasks:
            continue
        labels = _labels(out, into, tasks)
        queued.add(channel.queued, **labels)
        for family, (_, name, _) in zip(counts, _FATES, strict=True):
            family.add(getattr(channel, name), **labels)
    return [queued, *counts]


def _labels(out: PortFacts, into: PortFacts, tasks: Mapping[int, str]) -> dict[str, str]:
    return {
        "producer": tasks[out.task],
        "outport": out.pattern,
        "consumer": tasks[into.task],
        "inport": into.pattern,
    }


def _of_tasks(report: Report, tasks: Mapping[int, str]) -> list[Family]:
    ranks = Family("wilkins_task_ranks", "gauge", "Ranks of the task.")
    state = Family("wilkins_task_state", "gauge", "1 for the state that the task is in, 0 for others.")
    starts = Family("wilkins_task_starts", "counter", "Starts of the task's program.")
    waiting = Family(
        "wilkins_task_waiting_seconds",
        "counter",
        "Time for which the task's ranks have waited for data, room or memory, summed over them.",
        "seconds",
    )
    waits = Family("wilkins_task_waiting_ranks", "gauge", "Ranks that wait now, by what they wait for.")
    longest = Family("wilkins_task_longest_wait_seconds", "gauge", "For how long a rank has waited now.", "seconds")
    copying = Family(
        "wilkins_task_copying_seconds",
        "counter",
        "Time for which the task's ranks have copied between their memory and steps, summed over them.",
        "seconds",
    )
    moved = Family(
        "wilkins_task_moved_bytes", "counter", "Bytes that the ranks have written to steps and read.", "bytes"
    )
    for index, name in tasks.items():
        task: TaskFacts = report.tasks[index]
        ranks.add(task.nprocs, task=name)
        starts.add(task.starts, task=name)
        waiting.add(task.waiting_s, task=name)
        copying.add(task.copying_s, task=name)
        moved.add(task.moved_bytes, task=name)
        longest.add(max((wait.seconds for wait in task.waits), default=0.0), task=name)
        for one in get_args(State):
            state.add(int(task.state == one), task=name, state=one)
        for what in _WAITS:
            waits.add(len({wait.rank for wait in task.waits if wait.what == what}), task=name, what=what)
    return [ranks, state, starts, waiting, waits, longest, copying, moved]


def _of_usages(usages: Mapping[int, Usage], tasks: Mapping[int, str]) -> list[Family]:
    processes = Family("wilkins_task_processes", "gauge", "The task's program and the processes below it.")
    spent = Family(
        "wilkins_task_cpu_seconds", "counter", "Processor time of these, that of earlier ones included.", "seconds"
    )
    resident = Family("wilkins_task_resident_memory_bytes", "gauge", "Resident memory of these.", "bytes")
    for index, usage in usages.items():
        processes.add(usage.processes, task=tasks[index])
        spent.add(usage.cpu_s, task=tasks[index])
        resident.add(usage.resident_bytes, task=tasks[index])
    return [processes, spent, resident]
