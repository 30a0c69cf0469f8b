"""Programs that poll for a file that does not come: the messages about them, and which of them are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from wilkins.launch.programs import process
from wilkins.launch.programs.output import Terminal
from wilkins.launch.watch.decide import Final
from wilkins.launch.watch.notices import Hints
from wilkins.launch.watch.taskrun import TaskRun
from wilkins.launch.watch.unmatched import AGAIN, UnmatchedNames, only_one, others_wait
from wilkins.plan.plan import Plan
from wilkins.transport.board import Board, BoardHeldError
from wilkins.transport.report_table import Poll, PortFacts, Report, TaskFacts
from wilkins.values import dataclass

_DEAREST_LOOK_S = 0.01
"""Seconds of a core that a look may take, with the start of the program that makes it,"""

_IDLE_PART = 0.25
"""and the part of a core that all looks together may take,"""

_LOOK_S = 0.0005
"""unless each takes no more than one without a pause to the next."""

_LEAST_S, _MOST_S = 0.5, 1.0
"""Seconds between reports while programs poll: a program is ended at most so much later than `poll_end`, or later by
the time that a launcher sleeps (`pause_after`), if it began to poll in a run without progress."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a process tree up to a time."""

    at: float
    """Monotonic, in seconds."""
    cpu_s: float
    written: Mapping[int, int]
    """Bytes, by process."""
    looks: Mapping[int | str, int]
    """Failed lookups, and listings with nothing new, since the last step: by rank, or by a name without a port."""
    moved: object = None
    """What must not change meanwhile."""

    def only_looks(self, later: Work) -> bool:
        """Whether every rank of the tree only looked for files between the two, and wrote and computed nothing."""
        if any(later.looks[rank] < looks + AGAIN for rank, looks in self.looks.items()):
            return False
        if any(count > self.written.get(pid, 0) for pid, count in later.written.items()):
            return False
        looks = sum(later.looks.values()) - sum(self.looks.values())
        cpu_s = later.cpu_s - self.cpu_s
        idles = cpu_s <= _IDLE_PART * (later.at - self.at) and cpu_s <= _DEAREST_LOOK_S * looks
        return idles or cpu_s <= _LOOK_S * looks


def work_of(pids: Sequence[int], looks: Mapping[int | str, int], now: float, moved: object = None) -> Work:
    """The work of the processes of a tree so far, those that have ended included."""
    cpu, written = 0, {}
    for pid in pids:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text()
            cpu += sum(map(int, stat[stat.rindex(")") + 2 :].split()[11:15]))
            io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
            written[pid] = int(io["wchar"])
    return Work(now, cpu / _TICKS, written, looks, moved)


@dataclass(frozen=True, slots=True)
class Respawn:
    """Processes of a task, one started after the other, that all open the same missing file."""

    since: float
    """Monotonic, in seconds."""
    process: int
    """The newest of them."""
    changes: int
    """How many reports since then had a newer one."""
    moved: object
    """What must not change meanwhile."""


class Polls:
    """Follows, from report to report, the programs of a run that poll for files that do not come."""

    def __init__(
        self,
        plan: Plan,
        others_wait: Callable[[Report, int], bool] = others_wait,
        spared: Collection[int] = (),
    ) -> None:
        """`others_wait`: whether all other tasks wait for this one. `spared`: tasks that are never ended."""
        self._others_wait = others_wait
        self._spared = spared
        inports: dict[int, list[float]] = {}
        for port in plan.ports:
            if port.direction == "in" and port.mode != "plain":
                inports.setdefault(port.task, []).append(port.poll_end)
        self._patience = {task: max(seconds) for task, seconds in inports.items()}
        self._writers = {port.task for port in plan.ports if port.direction == "out"}
        self._began: dict[int, Work] = {}
        self._respawns: dict[int, Respawn] = {}
        self._unmatched = UnmatchedNames(plan)
        self.message_every_s = max(_LEAST_S, min(self._patience.values(), default=float("inf")))
        """Seconds between reports, so that messages come in time,"""
        self.every_s = min(_MOST_S, self.message_every_s)
        """and so that programs are ended in time."""

    def messages(self, report: Report, now: float) -> list[str]:
        """Messages about programs that poll for what will not come. `now`: monotonic time, in seconds."""
        self._unmatched.follow(report, now)
        unmatched = [
            words
            for index, patience in self._patience.items()
            for words in self._unmatched.messages(report, index, patience, now)
        ]
        return unmatched + [
            f"task {task.name} {_does(poll)}, and reads nothing meanwhile: {why}"
            for index, task in enumerate(report.tasks)
            for poll in task.polls
            if poll.looks >= AGAIN and poll.seconds >= self._patience.get(index, 0)
            for why in self._why(report, poll)
        ]

    def forget(self) -> None:
        """No task polls for a missing file now."""
        self._began.clear()
        self._respawns.clear()

    def only_polls(self, report: Report, index: int, family: Callable[[], Sequence[int]], now: float) -> Final | None:
        """The outcome of a task that is to be ended, since it has only polled for what will not come for some time.

        Args:
            family: finds the processes of its program, in the list of all; called only for a task that polls.
            now: monotonic time, in seconds.

        Returns:
            "untouched", if it asks for a name that matches no port; None if it is not to be ended.
        """
        looks, moved = self._looks(report, index, family)
        if not looks:
            self._began.pop(index, None)
            return None
        began = self._began.get(index)
        here = work_of(family(), looks, now, moved)
        if began is None or began.looks.keys() != looks.keys() or began.moved != moved:
            self._began[index] = here
            return None
        if now - began.at < self._patience[index]:
            return None
        self._began[index] = here
        if not began.only_looks(here):
            return None
        return "ended while polling" if moved is None else "untouched"

    def respawns_missing(self, report: Report, index: int, now: float) -> str | None:
        """The missing file that one new process of a task after another opens, while the task reads nothing: its pool
        replaces each worker that fails. None if it is not to be ended."""
        task = report.tasks[index]
        vain = task.failed_open
        if vain is None or vain.went_on != "no" or index not in self._patience or index in self._spared:
            self._respawns.pop(index, None)
            return None
        if vain.sought in ("next name", "next step") or task.nprocs > 1:
            return None
        moved = [port.steps for port in report.ports if port.task == index]
        before = self._respawns.get(index)
        if before is None or before.moved != moved or before.process > vain.process:
            self._respawns[index] = Respawn(now, vain.process, 0, moved)
            return None
        changes = before.changes + (vain.process > before.process)
        self._respawns[index] = Respawn(before.since, vain.process, changes, moved)
        lasts = now - before.since >= self._patience[index]
        return vain.name if lasts and changes >= AGAIN else None

    def _looks(
        self, report: Report, index: int, family: Callable[[], Sequence[int]]
    ) -> tuple[Mapping[int | str, int], object]:
        """The missing files that a task polls for, and the state that must not change meanwhile."""
        task = report.tasks[index]
        if index not in self._patience or index in self._writers or index in self._spared:
            return {}, None
        looks: dict[int | str, int] = {poll.rank: poll.looks for poll in task.polls}
        if len(looks) == task.nprocs and not any(
            self._may_write(report, place) for place, port in enumerate(report.ports) if _reads(port, index)
        ):
            return looks, None
        if task.nprocs > 1:  # uses of names that match no port are counted by task
            return {}, None
        for name, uses in only_one(report, index).items() if self._others_wait(report, index) else ():
            if not any(Path(f"/proc/{pid}/cwd", name).exists() for pid in family()):
                return {name: uses}, [(port.steps, port.bytes) for port in report.ports]
        return {}, None

    def _why(self, report: Report, poll: Poll) -> Iterator[str]:
        """Why the step that is polled for does not come; nothing if it may."""
        inport = poll.port
        if not self._may_write(report, inport):
            yield "all who write for its in-port have ended"
            return
        writers = list(_writers(report, inport))
        if all(wait.what == "room" for task in writers for wait in task.waits) and all(
            len({wait.rank for wait in task.waits}) == task.nprocs for task in writers if task.state != "ended"
        ):
            pattern = report.ports[inport].pattern
            there = sum(channel.queued for channel in report.channels if channel.inport == inport)
            more = (
                f"if it wants more than the {there} files that are there, give it `reorder:` with as many, or, if all, "
            )
            remedy = f"{more}`listing: end`" if poll.lists else "compare the names"
            yield f"all who write for its in-port {pattern!r} wait until it reads what they have written; {remedy}"

    def _may_write(self, report: Report, inport: int) -> bool:
        return any(task.state != "ended" for task in _writers(report, inport))


class Pollers:
    """Ends the programs of a crew that do nothing but poll for missing files."""

    def __init__(self, crew: Sequence[TaskRun], board: Board, terminal: Terminal, polls: Polls, hints: Hints) -> None:
        self._crew = crew
        self._board = board
        self._terminal = terminal
        self._polls = polls
        self._hints = hints
        self._next = time.monotonic() + polls.every_s
        self.poll_missing = False
        """Some program did at the last check."""

    def turn(self, now: float) -> None:
        """End those that have polled for long enough."""
        if now < self._next:
            return
        self._next = now + self._polls.every_s
        try:
            self.poll_missing = self._board.has_polls()
            report = self._board.report() if self.poll_missing else None
        except BoardHeldError:
            return  # the next turn reads it, and `StuckRuns` prints who holds it
        if report is None:
            self._polls.forget()
            return
        for run in self._crew:
            if run.program is None:
                continue
            pid = run.program.pid
            if end := self._polls.only_polls(report, run.plan.index, partial(process.family, pid), now):
                self._hints.show(report)
                _end(run, pid, end)
            elif name := self._polls.respawns_missing(report, run.plan.index, now):
                if not run.polling_end:
                    self._terminal.say(
                        f"{run.name}: one new process after another opens {name!r}, which does not come; it is ended"
                    )
                _end(run, pid, "failed")


def _end(run: TaskRun, pid: int, end: Final) -> None:
    """End a program that polls for what will not come, and with it its task."""
    process.send([pid], signal.SIGKILL if run.polling_end else signal.SIGTERM, group=True)
    run.polling_end = end


def _does(poll: Poll) -> str:
    if poll.lists:
        return f"lists the folder of {poll.name!r} again and again"
    return f"asks again and again for {poll.name!r}"


def _reads(port: PortFacts, task: int) -> bool:
    return port.task == task and port.direction == "in"


def _writers(report: Report, inport: int) -> Iterator[TaskFacts]:
    """The tasks that write for an in-port."""
    for channel in report.channels:
        if channel.inport == inport:
            yield report.tasks[report.ports[channel.outport].task]
