"""Programs that ask again and again for a file that does not come: who is told of them, and which are ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wilkins.plan.plan import Plan

_AGAIN = 3
"""So many looks in vain are "again and again"."""

_DEAREST_LOOK_S = 0.01
"""Seconds of a core that a look may take, with the start of the program that makes it,"""

_IDLE_PART = 0.25
"""and the part of a core that all looks together may take,"""

_LOOK_S = 0.0005
"""unless each takes no more than one without a pause to the next."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Work:
    """What a process tree had done at a time."""

    at: float
    """Monotonic, in seconds."""
    cpu_s: float
    written: Mapping[int, int]
    """Bytes, by process."""
    looks: Mapping[int, int]
    """Looks in vain, and listings with nothing new, since the last step, by rank."""

    def only_looks(self, later: Work) -> bool:
        """Whether the tree did nothing but look between the two: every rank did; it wrote and computed nothing."""
        if any(later.looks[rank] < looks + _AGAIN for rank, looks in self.looks.items()):
            return False
        if any(count > self.written.get(pid, 0) for pid, count in later.written.items()):
            return False
        looks = sum(later.looks.values()) - sum(self.looks.values())
        cpu_s = later.cpu_s - self.cpu_s
        idles = cpu_s <= _IDLE_PART * (later.at - self.at) and cpu_s <= _DEAREST_LOOK_S * looks
        return idles or cpu_s <= _LOOK_S * looks


def work_of(pids: Sequence[int], looks: Mapping[int, int], now: float) -> Work:
    """What the processes of a tree have done so far, and those of them that have ended."""
    cpu, written = 0, {}
    for pid in pids:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text()
            cpu += sum(map(int, stat[stat.rindex(")") + 2 :].split()[11:15]))
            io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
            written[pid] = int(io["wchar"])
    return Work(now, cpu / _TICKS, written, looks)


class Polls:
    """Follows, from report to report, the programs of a run that look for files and find none."""

    def __init__(self, plan: Plan) -> None:
        inports: dict[int, list[float]] = {}
        for port in plan.ports:
            if port.direction == "in" and port.mode != "plain":
                inports.setdefault(port.task, []).append(port.poll_end)
        self._patience = {task: max(seconds) for task, seconds in inports.items()}
        self._writers = {port.task for port in plan.ports if port.direction == "out"}
        self._began: dict[int, Work] = {}
        self.every_s = max(0.5, min(self._patience.values(), default=10.0))
        """Seconds between the looks at the run that find them in time."""

    def told(self, report: dict[str, Any]) -> list[str]:
        """What to say of those that ask for what will not come as things stand."""
        return [
            f"task {task['name']} {_does(poll)}, and reads nothing meanwhile: {why}"
            for index, task in enumerate(report["tasks"])
            for poll in task["polls"]
            if poll["looks"] >= _AGAIN and poll["seconds"] >= self._patience.get(index, 0)
            for why in self._why(report, poll)
        ]

    def only_polls(self, report: dict[str, Any], index: int, pids: Sequence[int], now: float) -> bool:
        """Whether a task has for some time done nothing but ask for steps, of which none will come on any in-port.

        Args:
            pids: the processes of its program.
            now: monotonic time, in seconds.
        """
        task = report["tasks"][index]
        looks = {poll["rank"]: poll["looks"] for poll in task["polls"]}
        over = (
            index in self._patience
            and index not in self._writers
            and not any(
                self._may_write(report, place) for place, port in enumerate(report["ports"]) if _reads(port, index)
            )
        )
        began = self._began.get(index)
        if not over or len(looks) < task["nprocs"]:
            self._began.pop(index, None)
            return False
        here = work_of(pids, looks, now)
        if began is None or began.looks.keys() != looks.keys():
            self._began[index] = here
            return False
        if now - began.at < self._patience[index]:
            return False
        self._began[index] = here
        return began.only_looks(here)

    def _why(self, report: dict[str, Any], poll: dict[str, Any]) -> Iterator[str]:
        """Why no step comes that is asked for; nothing if one may."""
        inport = poll["port"]
        if not self._may_write(report, inport):
            yield "all who write for its in-port have ended"
            return
        writers = list(_writers(report, inport))
        if all(wait["for"] == "room" for task in writers for wait in task["waits"]) and all(
            len(task["waits"]) == task["nprocs"] for task in writers if task["state"] != "ended"
        ):
            pattern = report["ports"][inport]["pattern"]
            remedy = "give it a longer `reorder`, or `listing: end`" if poll["lists"] else "compare the names"
            yield f"all who write for its in-port {pattern!r} wait until it reads what they have written; {remedy}"

    def _may_write(self, report: dict[str, Any], inport: int) -> bool:
        return any(task["state"] != "ended" for task in _writers(report, inport))


def _does(poll: dict[str, Any]) -> str:
    if poll["lists"]:
        return f"lists the folder of {poll['name']!r} again and again"
    return f"asks again and again for {poll['name']!r}"


def _reads(port: dict[str, Any], task: int) -> bool:
    return bool(port["task"] == task and port["direction"] == "in")


def _writers(report: dict[str, Any], inport: int) -> Iterator[dict[str, Any]]:
    """The tasks that write for an in-port."""
    for channel in report["channels"]:
        if channel["inport"] == inport:
            yield report["tasks"][report["ports"][channel["outport"]]["task"]]
