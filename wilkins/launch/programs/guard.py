"""A small process that outlives a killed launcher just long enough to end what it started and free its memory."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from types import TracebackType

from wilkins.launch.programs import process
from wilkins.launch.programs.output import say
from wilkins.transport.board import sweep

VARIABLE = "WILKINS_LAUNCHER"
"""Marks the processes a launcher started, and all they started, wherever they hang now."""

_PATIENCE = 5.0
_DONE = b"done"


class Guard:
    """Watches over a run while the block lasts; acts only if the launcher dies inside it.

    The run does not depend on it: if it is killed, the launcher says so, once, and does its own part as always.
    """

    def __init__(self) -> None:
        self.token = os.urandom(8).hex()
        """Value of `VARIABLE` in every process that belongs to the launcher."""
        self._pipe = -1
        self._pid = 0

    def __enter__(self) -> Guard:
        read_end, self._pipe = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                os.close(self._pipe)
                _watch(read_end, self.token)
                status = 0
            finally:
                os._exit(status)
        os.close(read_end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            os.write(self._pipe, _DONE)
        except BrokenPipeError:
            say(
                "the process that cleans up should this launcher be killed was killed itself; the launcher cleans up "
                "at the end of the run all the same, and after a kill `wilkins clean` does"
            )
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _watch(pipe: int, token: str) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    _close_all_but(pipe)  # whoever listens to the launcher hears its end at once
    if os.read(pipe, len(_DONE)) != _DONE:
        # A child between fork and exec carries no token yet, but the launcher's lock on the run: it dies in a moment.
        for pause in (0.0, 0.1, 0.5):
            time.sleep(pause)
            end_members(token)
            sweep()


def _close_all_but(kept: int) -> None:
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor != kept:
            with contextlib.suppress(OSError):  # that of the listing itself
                os.close(descriptor)


def end_members(token: str, *, variable: str = VARIABLE, leave_within: float = 0.0) -> None:
    """Kill every process that carries the token, after so many seconds in which all may end by themselves."""
    began = time.monotonic()
    while (now := time.monotonic() - began) < _PATIENCE and (alive := process.members(variable, token)):
        if now >= leave_within:
            process.send(alive, signal.SIGKILL)
        process.reap(alive)
        time.sleep(0.02)
