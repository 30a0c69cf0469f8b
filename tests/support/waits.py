"""For programs of tests: go on when another task waits, or a step is there, instead of after some time.

Tasks and ports have their numbers of the whole plan, on whichever host they are. All hosts have to be this machine.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wilkins.flow.trace import read_trace
from wilkins.launch.hosts.merge import merged
from wilkins.plan import planfile
from wilkins.plan.split import host_parts
from wilkins.transport.board import Board
from wilkins.transport.removal import SHARED_MEMORY
from wilkins.transport.report_table import Report
from wilkins.values import replace

LIMIT = 60.0
_HEAD = 1 << 16
"""Bytes of a board within which the names of its records are."""


def until_waits(task: int, run: str | Path | None = None) -> None:
    """Until a rank of the task of this number waits for data, or for room.

    `run`: the run's folder in shared memory; default: that of the program which asks.

    Raises:
        TimeoutError: none did within LIMIT seconds.
    """
    _until(lambda report: report.tasks[task].waits, run, f"no rank of task {task} waits")


def until_published(port: int, steps: int, run: str | Path | None = None) -> None:
    """Until an out-port, by its number on the board, has published some steps; `run` as above.

    Raises:
        TimeoutError: it has not within LIMIT seconds.
    """
    _until(lambda report: report.ports[port].steps >= steps, run, f"port {port} has not published {steps} steps")


def _until(condition: Callable[[Report], Any], run: str | Path | None, failed: str) -> None:
    boards = _Boards(Path(run or os.environ["WILKINS_RUN"]))
    until = time.monotonic() + LIMIT
    while not condition(boards.report()):
        if time.monotonic() > until:
            raise TimeoutError(failed)
        time.sleep(0.02)


class _Boards:
    """What is known of a run, by all of its boards."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records, host = _records_of(folder)
        self._last: dict[str, Report] = {}
        """By host: what its board said last."""
        self._plan = planfile.loads((self._records / "plan.json").read_text()) if host else None

    def report(self) -> Report:
        """As if all were on one board."""
        if self._plan is None:
            return _report(self._folder)
        hosts = {self._plan.hosts[part.host].name: part for part in host_parts(self._plan)}
        over = set(hosts)
        for folder in SHARED_MEMORY.glob("wilkins-*"):
            with contextlib.suppress(OSError):  # of a run that is beginning, or over
                records, host = _records_of(folder)
                if records == self._records:
                    self._last[host] = _report(folder)
                    over.remove(host)
        whole = merged(self._plan, [(hosts[host], said) for host, said in self._last.items()])
        published = Counter(step for host in over for step in self._published(host))
        had = [max(port.steps, published[whole.tasks[port.task].name, port.pattern]) for port in whole.ports]
        outs = [
            replace(port, steps=steps) if port.direction == "out" else port
            for port, steps in zip(whole.ports, had, strict=True)
        ]
        return replace(whole, ports=tuple(outs))

    def _published(self, host: str) -> Iterator[tuple[str, str]]:
        """Task and port of each step of a host that has nothing more to do: its board is gone, its trace is whole."""
        trace = self._records / "hosts" / host / "trace.tsv"
        for event in read_trace(trace) if trace.exists() else ():
            if event.event == "publish":
                yield event.task, event.pattern


def _report(folder: Path) -> Report:
    board = Board.attach(folder)
    try:
        return board.report()
    finally:
        board.close()


def _records_of(folder: Path) -> tuple[Path, str]:
    """The directory of a board's run, and which host of it the board is for; "" if the run has one board."""
    with (folder / "board").open("rb") as file:
        found = re.search(rb"(/[^\0]*)/layer\.log\0", file.read(_HEAD))
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "this board is being made", str(folder))
    path = Path(os.fsdecode(found[1]))
    return (path.parent.parent, path.name) if path.parent.name == "hosts" else (path, "")
