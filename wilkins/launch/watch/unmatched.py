"""Programs that poll for a name that matches no port and does not exist: perhaps they mean a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from wilkins.launch.watch.similarnames import as_next, is_one_letter_off, nearest
from wilkins.plan.plan import Plan
from wilkins.transport.report_table import Report
from wilkins.values import dataclass

AGAIN = 3
"""So many failed lookups are "again and again"."""


@dataclass(slots=True)
class _Asked:
    """The uses of a name by a task since it last read or wrote a step, or since the file existed."""

    moved: object
    since: float
    """Monotonic, in seconds."""
    before: int
    """Uses of the name until then,"""
    uses: int
    """and until now,"""
    last: float
    """when they were last seen to be more."""


class UnmatchedNames:
    """Follows, from report to report, the names that programs use and that match no port."""

    def __init__(self, plan: Plan, is_there: Callable[[Path], bool] = Path.exists) -> None:
        self._folders = [task.cwd for task in plan.tasks]
        self._is_there = is_there
        self._asked: dict[tuple[int, str], _Asked] = {}
        self._messages: dict[tuple[int, str], str] = {}

    def follow(self, report: Report, now: float) -> None:
        """Update the uses of names from a report."""
        for index, task in enumerate(report.tasks):
            moved = [(port.steps, port.bytes) for port in report.ports if port.task == index]
            for one in task.unmatched_names if task.state == "running" else ():
                self._note((index, one.name), one.uses, moved, now)

    def _note(self, key: tuple[int, str], uses: int, moved: object, now: float) -> None:
        known = self._asked.get(key)
        if known and known.moved == moved and known.uses == uses:
            return
        if known is None or known.moved != moved or self._is_there(self._folders[key[0]] / key[1]):
            self._asked[key] = _Asked(moved, now, uses, uses, now)
        else:
            known.uses, known.last = uses, now

    def polled(self, index: int, patience: float, now: float) -> Iterator[tuple[str, int, float]]:
        """Names that a task has asked for again and again for so many seconds, how often, and for how long."""
        for (task, name), one in self._asked.items():
            times, seconds = one.uses - one.before, now - one.since
            if task == index and times >= AGAIN and seconds >= patience and now - one.last <= patience / AGAIN:
                yield name, times, seconds

    def messages(self, report: Report, index: int, patience: float, now: float) -> Iterator[str]:
        """Messages about the names that a task polls for; the same for each name every time."""
        for name, times, seconds in self.polled(index, patience, now):
            if (index, name) not in self._messages and (meant := _meant(report, index, name)):
                self._messages[index, name] = (
                    f"task {report.tasks[index].name} asks again and again for {name!r} ({times} times in "
                    f"{seconds:.0f} s), which matches no port and is not there, and reads nothing meanwhile: {meant}"
                )
            if (index, name) in self._messages:
                yield self._messages[index, name]


def only_one(report: Report, index: int) -> dict[str, int]:
    """The name, with its uses so far, that a task certainly asks for by mistake if all others wait.

    The task has used no port, and asks for one name alone, which is that of a step that waits for it but for one
    letter.
    """
    task, ports = report.tasks[index], report.ports
    names = task.unmatched_names
    if len(names) != 1 or task.waits or any(port.touched for port in ports if port.task == index):
        return {}
    steps = [channel.next for channel in report.channels if ports[channel.inport].task == index]
    name, uses = names[0].name, names[0].uses
    return {name: uses} if any(is_one_letter_off(name, step) for step in steps) else {}


def others_wait(report: Report, index: int) -> bool:
    """Whether all other tasks wait or have ended, so that none of them will make a file that this one asks for."""
    others = [task for place, task in enumerate(report.tasks) if place != index and task.state != "ended"]
    return all(len({wait.rank for wait in other.waits}) == other.nprocs for other in others)


def did_you_mean(report: Report, index: int, name: str) -> str:
    """The step or in-port pattern that a name is similar to, in words; empty: none."""
    ports, steps = report.ports, list(_inward(report, index))
    for pattern, writer, step in steps:
        if nearest(step, [name]) or nearest(pattern, [name]):
            return f"did you mean {step!r}, which {writer} has published, or another file of {pattern!r}?"
    for channel in () if steps else report.channels:
        inport, outport = ports[channel.inport], ports[channel.outport]
        if inport.task == index and outport.steps and nearest(inport.pattern, [name]):
            writer = report.tasks[outport.task].name
            return f"did you mean a file of {inport.pattern!r}, of which {writer} has published {outport.steps}?"
    return ""


def _meant(report: Report, index: int, name: str) -> str:
    """The remedy for a name that may mean a step; empty if the file may have another origin."""
    if alike := did_you_mean(report, index, name):
        return f"{alike} Mend the name in the program"
    for pattern, writer, step in _inward(report, index):
        task = next(task for task in report.tasks if task.name == writer)
        if task.state == "ended" or any(wait.what == "room" for wait in task.waits):
            return (
                f"what waits for its in-port {pattern!r} begins with {step!r}, which {writer} has published; "
                f"{as_next(name, 'the in-port')}"
            )
    return ""


def _inward(report: Report, index: int) -> Iterator[tuple[str, str, str]]:
    """For each channel with steps queued for a task: the in-port's pattern, the producer, and the first step's name."""
    tasks, ports = report.tasks, report.ports
    for channel in report.channels:
        inport = ports[channel.inport]
        if inport.task == index and channel.next:
            yield inport.pattern, tasks[ports[channel.outport].task].name, channel.next
