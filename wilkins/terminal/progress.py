"""How far the tasks of a run are, as tables and sentences for people. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from wilkins.errors import count_of
from wilkins.terminal.tables import duration, size, text_table
from wilkins.values import asdict, dataclass

WATCHED = "watched"
"""In a run's directory: a file that `wilkins top` touches again and again while somebody looks."""
STATUS = "status.json"
"""In a run's directory: how far it is, about once a second while somebody looks."""

_WINDOW = 5.0
"""Seconds over which rates are taken."""
_NAMED = 6
"""Tasks that a sentence names."""
HEAD = ("task", "ranks", "steps", "steps/s", "bytes/s", "queued", "last step", "now")
LEFT = (0, 7)
"""Columns of words."""


@dataclass(frozen=True, slots=True)
class TaskNow:
    """A task instance at one time."""

    name: str
    entry: str
    """The entry of the workflow file, which the instances of an ensemble share."""
    ranks: int
    state: str
    """``pending``, ``running`` or ``ended``."""
    steps: int
    """Read, or published, on the port that has most."""
    bytes: int
    """Of the steps that it has published and read."""
    queued: int
    """Steps that wait for it."""
    pid: int
    """The process of its program or its mpiexec; 0 where another launcher has started it."""
    doing: str
    since_s: float
    """For how long it has waited; 0 if it does not."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All tasks at one time."""

    at: float
    """Monotonic time, in seconds."""
    memory: int
    """Bytes of shared memory."""
    tasks: tuple[TaskNow, ...]

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def from_json(data: dict[str, Any]) -> Snapshot:
    """A snapshot from plain data.

    Raises:
        TypeError, KeyError: it is none.
    """
    return Snapshot(data["at"], data["memory"], tuple(TaskNow(**task) for task in data["tasks"]))


class History:
    """The newest snapshots, from which rates are taken, and when each task had its last step."""

    def __init__(self) -> None:
        self._snapshots: deque[Snapshot] = deque()
        self._before: dict[str, TaskNow] = {}
        self._last: dict[str, tuple[int, float, bool]] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Take the newest one in."""
        first = not self._snapshots
        self._snapshots.append(snapshot)
        while len(self._snapshots) > 2 and self._snapshots[1].at <= snapshot.at - _WINDOW:
            self._snapshots.popleft()
        self._before = {task.name: task for task in self.before.tasks}
        for task in snapshot.tasks:
            steps = self._last.get(task.name, (0, 0.0, False))[0]
            if first or steps != task.steps:
                self._last[task.name] = (task.steps, snapshot.at, not first)

    @property
    def is_empty(self) -> bool:
        """Whether none was taken in."""
        return not self._snapshots

    @property
    def newest(self) -> Snapshot:
        """The last one."""
        return self._snapshots[-1]

    @property
    def before(self) -> Snapshot:
        """The older snapshot of the comparison."""
        return self._snapshots[0]

    def before_of(self, task: TaskNow) -> TaskNow | None:
        """The task in the older snapshot."""
        return self._before.get(task.name)

    def last_step(self, name: str) -> tuple[float, bool] | None:
        """Seconds since the last step of a task; False: at least that long. None: it had none."""
        steps, at, seen = self._last[name]
        return (self.newest.at - at, seen) if steps else None


def table(history: History) -> str:
    """One line per task; those of an ensemble share one."""
    return text_table(HEAD, list(cells(history)), LEFT)


def cells(history: History) -> Iterator[tuple[str, ...]]:
    """The rows of the table."""
    for group in _groups(history.newest.tasks):
        steps, moved = _rates(history, group)
        yield (
            _name(group),
            str(sum(task.ranks for task in group)),
            _span([task.steps for task in group]),
            f"{steps:.3g}" if steps else "-",
            size(moved) if moved else "-",
            str(sum(task.queued for task in group)),
            _last_step(history, group),
            _now(group),
        )


def sentence(history: History, seconds: float) -> str:
    """How far a run is, in one line."""
    parts = []
    groups = _groups(history.newest.tasks)
    for group in groups[:_NAMED]:
        steps, _ = _rates(history, group)
        far = f"{_name(group)}: {_span([task.steps for task in group])} steps"
        parts.append(f"{far}{f' ({steps:.3g}/s)' if steps else ''}, {_now(group)}")
    if len(groups) > _NAMED:
        parts.append(f"and {count_of(len(groups) - _NAMED, 'task')} more")
    return f"after {duration(seconds)}: {'; '.join(parts)}"


def _groups(tasks: Sequence[TaskNow]) -> list[list[TaskNow]]:
    return [list(group) for _, group in groupby(tasks, key=lambda task: task.entry)]


def _name(group: Sequence[TaskNow]) -> str:
    return group[0].name if len(group) == 1 else f"{group[0].entry} x {len(group)}"


def _rates(history: History, group: Sequence[TaskNow]) -> tuple[float, float]:
    """Steps and bytes per second."""
    before = [task for task in map(history.before_of, group) if task is not None]
    seconds = history.newest.at - history.before.at
    if seconds <= 0:
        return 0.0, 0.0
    steps = sum(task.steps for task in group) - sum(task.steps for task in before)
    moved = sum(task.bytes for task in group) - sum(task.bytes for task in before)
    return max(steps, 0) / seconds, max(moved, 0) / seconds


def _span(numbers: Sequence[int]) -> str:
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"


def _last_step(history: History, group: Sequence[TaskNow]) -> str:
    found = [last for task in group if (last := history.last_step(task.name))]
    if not found or all(task.state == "ended" for task in group):
        return "-"
    seconds, seen = min(found)
    return f"{'' if seen else '> '}{duration(round(seconds))} ago" if round(seconds) else "now"


def _now(group: Sequence[TaskNow]) -> str:
    """The activities of the tasks, with counts, and the longest wait among them."""
    if len(group) == 1:
        (task,) = group
        return f"{task.doing}: {duration(round(task.since_s))}" if round(task.since_s) else task.doing
    kinds = {task.name: _kind(task) for task in group}
    counts = {kind: list(kinds.values()).count(kind) for kind in dict.fromkeys(kinds.values())}
    words = ", ".join(f"{count} {kind}" if len(counts) > 1 else kind for kind, count in counts.items())
    longest = max(task.since_s for task in group)
    return f"{words}: {duration(round(longest))}" if round(longest) else words


def _kind(task: TaskNow) -> str:
    """The activity of a task, in words that are the same for all instances of an ensemble."""
    if not task.since_s:
        return task.doing
    return "look in vain" if "in vain" in task.doing else "wait"
