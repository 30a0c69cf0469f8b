"""What the programs of tasks take of the machine: processor time and memory, by /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from wilkins.values import dataclass

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a task's programs and all that they have started."""

    processes: int = 0
    """That live now."""
    cpu_s: float = 0.0
    """Processor time since the run began, in user and kernel mode."""
    resident_bytes: int = 0
    """Memory that is resident, that of steps included. What processes share counts for each of them."""


class Usages:
    """Follows the programs of tasks. A program that starts again adds to what its task took before."""

    def __init__(self) -> None:
        self._before: dict[int, float] = {}
        """By task: processor time of programs that have ended."""
        self._now: dict[int, tuple[int, float]] = {}
        """By task: the process of the program, and its processor time so far."""

    def take(self, pids: Mapping[int, int]) -> dict[int, Usage]:
        """Look at the programs, and return what each task takes that had one.

        Args:
            pids: by task, the process of its program.
        """
        found = {}
        for task, pid in pids.items():
            before, spent = self._now.get(task, (pid, 0.0))
            if before != pid:
                self._before[task] = self._before.get(task, 0.0) + spent
                spent = 0.0
            usage = _of_family(pid)
            # A child that nobody waits for takes its time with it.
            self._now[task] = (pid, max(spent, usage.cpu_s))
            found[task] = usage
        return {
            task: Usage(now.processes, self._before.get(task, 0.0) + spent, now.resident_bytes)
            for task, (_, spent) in self._now.items()
            for now in (found.get(task, Usage()),)
        }


def _of_family(pid: int) -> Usage:
    """Of a process and its descendants, with the time of children that have ended."""
    processes, ticks, pages = 0, 0, 0
    todo = [pid]
    while todo:
        folder = f"/proc/{todo.pop()}"
        try:
            stat = Path(folder, "stat").read_bytes()
        except OSError:
            continue
        fields = stat[stat.rindex(b")") + 2 :].split()
        processes += fields[0] != b"Z"
        ticks += sum(map(int, fields[11:15]))
        pages += int(fields[21])
        with contextlib.suppress(OSError):
            for thread in os.scandir(f"{folder}/task"):
                with contextlib.suppress(OSError):
                    todo += map(int, Path(thread.path, "children").read_bytes().split())
    return Usage(processes, ticks / _TICKS, pages * _PAGE)
