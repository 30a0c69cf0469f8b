"""The launcher's lines in a run's trace: when the programs of tasks start and end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Literal

from wilkins.flow.trace import Event, line
from wilkins.launch.decide import Exit


class TaskTrace:
    """Notes the starts and ends of one task, or of one rank of it. A trace that cannot be written disturbs no run."""

    def __init__(self, path: Path, task: str, rank: int = -1) -> None:
        self._path = path
        self._task = task
        self._rank = rank
        self._running = False

    def started(self, time_ns: int) -> None:
        """The program has been started, at this time of the monotonic clock."""
        self._running = True
        self._note(time_ns, "start", "-")

    def ended(self, code: int) -> None:
        """The program has ended with an exit code, or a negative signal; for each start the first end counts."""
        if self._running:
            self._running = False
            self._note(time.monotonic_ns(), "end", _name_of(Exit(code)))

    def done(self) -> None:
        """The task has done all it will do, and has not failed."""
        self._note(time.monotonic_ns(), "done", "-")

    def _note(self, time_ns: int, event: Literal["start", "end", "done"], name: str) -> None:
        text = line(Event(time_ns, event, self._task, self._rank, "-", name))
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, text.encode("utf-8", "surrogateescape"))
            finally:
                os.close(descriptor)


def _name_of(exit_: Exit) -> str:
    return signal.Signals(-exit_.code).name if -exit_.code in set(signal.Signals) else str(exit_.code)
